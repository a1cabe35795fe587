from gnn_encoder.serving.marks import matched, spans, words_of


def test_words_leave_stop_words_out_and_plurals_count_as_one() -> None:
    assert words_of("Does Medicare cover the hearing Aids of 2 people?") == {
        *("medicare", "cover", "hearing", "aid", "people")
    }
    assert words_of("loss, gas and a bus") == {"loss", "gas", "bus"}


def test_spans_count_code_points() -> None:
    text = "🦻 Hearing AID, aids; aided"
    assert [text[first:last] for first, last in spans(words_of("hearing aids"), text)] == ["Hearing", "AID", "aids"]
    assert spans(words_of("hearing"), text) == [(2, 9)]
    assert spans(words_of("how does it"), text) == []


def test_matched_words_in_the_texts_order_once() -> None:
    assert matched(words_of("an aid for hearing"), ["Aids", "Hearing aids and AIDS"]) == ["aids", "hearing"]
