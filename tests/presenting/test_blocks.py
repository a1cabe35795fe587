from gnn_encoder.presenting.blocks import ROWS, blocks
from gnn_encoder.presenting.tables import Table


def test_object_of_plain_values() -> None:
    found = blocks({"pairs": 12, "share": 0.123456, "best": [0.5, 1.0], "done": True, "none": None}, "quality")
    rows = [["pairs", "12"], ["share", "0.1235"], ["best", "0.5, 1"], ["done", "yes"], ["none", "–"]]
    assert found == [Table(title="quality", columns=["", ""], rows=rows)]


def test_list_of_objects_has_a_row_each() -> None:
    (found,) = blocks([{"k": 10, "RR@10": 0.5}, {"k": 25, "low": 0.25}])
    assert (found.columns, found.rows) == (["k", "RR@10", "low"], [["10", "0.5", "–"], ["25", "–", "0.25"]])


def test_object_of_like_objects_has_a_row_a_key() -> None:
    (found,) = blocks({"full": {"R@5": 0.5}, "w/o GNN": {"R@5": 0.25}})
    assert (found.columns, found.rows) == (["", "R@5"], [["full", "0.5"], ["w/o GNN", "0.25"]])


def test_deeper_ones_get_tables_of_their_own() -> None:
    value = {"unlabelled": {"queries": 3, "quality": [{"s_pos": 0.9}, {"s_pos": 0.8}]}, "labelled": {"queries": 4}}
    assert [(block.title, block.rows) for block in blocks(value, "labels")] == [
        ("labels, unlabelled", [["queries", "3"]]),
        ("labels, unlabelled, quality", [["0.9"], ["0.8"]]),
        ("labels, labelled", [["queries", "4"]]),
    ]


def test_what_is_long_is_cut_and_says_so() -> None:
    (found,) = blocks([{"x": number} for number in range(ROWS + 5)])
    assert len(found.rows) == ROWS and found.left_out == 5
    (listed,) = blocks({"weights": list(range(100))})
    assert listed.rows == [["weights", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (100 values)"]]
