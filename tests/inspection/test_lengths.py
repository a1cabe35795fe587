"""A sample is uniform and bounded; lengths are those that the encoder would read."""

from collections import Counter
from pathlib import Path

import pytest

from gnn_encoder.inspection.lengths import Lengths, Sample, measure
from gnn_encoder.text.pretrained import Source, load_tokenizer

FIVE = Lengths.of([50, 10, 20, 40, 30])


def test_sample_is_uniform() -> None:
    """Each of 20 texts is among 5 in a quarter of 2,000 draws; a deviation of 0.06 is six standard errors."""
    found: Counter[str] = Counter()
    for seed in range(2000):
        sample = Sample(5, seed)
        for start in range(0, 20, 7):
            sample.add([str(i) for i in range(start, min(start + 7, 20))])
        assert len(set(sample.texts)) == 5 and sample.seen == 20
        found.update(sample.texts)
    assert len(found) == 20
    assert all(count / 2000 == pytest.approx(0.25, abs=0.06) for count in found.values())


def test_lengths_are_those_that_the_encoder_reads(tiny_model: Path) -> None:
    tokenizer = load_tokenizer(Source(str(tiny_model)))
    found = measure(["a", "a b", "a b c d e f g h"], tokenizer)
    assert found is not None and found.counts.tolist() == [3, 4, 10]  # [CLS] and [SEP] are two tokens more
    assert measure([], tokenizer) is None
    assert found.unknown == 0
    unknown = measure(["a b \u6f22 c"], tokenizer)  # of [CLS] a b [UNK] c [SEP]
    assert unknown is not None and unknown.unknown == pytest.approx(1 / 6)


def test_whole_is_the_shortest_length_that_reads_a_share_whole() -> None:
    assert [FIVE.whole(share) for share in (0.2, 0.21, 0.8, 0.95, 1.0)] == [10, 20, 40, 50, 50]


def test_what_a_length_cuts_off() -> None:
    assert FIVE.longer(30) == pytest.approx(2 / 5)
    assert FIVE.unread(30) == pytest.approx((10 / 40 + 20 / 50) / 5) and FIVE.unread(50) == 0


def test_the_longest_texts_that_hold_half_of_all_tokens() -> None:
    assert FIVE.half() == 2  # 50 and 40 of 150
    assert Lengths.of([200, 10, 20, 40, 30]).half() == 1


def test_batches_are_padded_to_eight() -> None:
    assert FIVE.mean(256) == pytest.approx((16 + 24 + 32 + 40 + 56) / 5)
    assert FIVE.mean(20) == pytest.approx((16 + 20 + 20 + 20 + 20) / 5)
