from gnn_encoder.presenting.tables import LARGEST, Table, markdown, tables_of, titled

TABLE = Table(title="Times", columns=["system", "ms"], rows=[["M_de", "2.5"], ["a|b", "10.0\np = 0.5"]], note="a note")


def test_markdown() -> None:
    assert markdown(TABLE).splitlines() == [
        "| system |            ms |",
        "| ------ | ------------: |",
        "| M_de   |           2.5 |",
        "| a/b    | 10.0, p = 0.5 |",
    ]
    assert titled(TABLE) == f"Times\n\n{markdown(TABLE)}\n\na note"
    assert titled(Table(title="", columns=["x"], rows=[["1"]])) == "| x   |\n| --- |\n| 1   |"


def test_plain_values_of_json() -> None:
    found = tables_of({"pairs": 12, "share": 0.123456, "best": [0.5, 1.0], "done": True, "none": None}, "quality")
    rows = [["pairs", "12"], ["share", "0.1235"], ["best", "0.5, 1"], ["done", "yes"], ["none", "–"]]
    assert found == [Table(title="quality", columns=["", ""], rows=rows)]
    (listed,) = tables_of({"weights": list(range(100))}, "")
    assert listed.rows == [["weights", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (100 values)"]]


def test_records_of_json_have_a_row_each() -> None:
    (found,) = tables_of([{"k": 10, "RR@10": 0.5}, {"k": 25, "low": 0.25}], "")
    assert (found.columns, found.rows) == (["k", "RR@10", "low"], [["10", "0.5", "–"], ["25", "–", "0.25"]])
    (found,) = tables_of({"full": {"R@5": 0.5}, "w/o GNN": {"R@5": 0.25}}, "")
    assert (found.columns, found.rows) == (["", "R@5"], [["full", "0.5"], ["w/o GNN", "0.25"]])
    (found,) = tables_of([{"x": number} for number in range(LARGEST + 5)], "")
    assert len(found.rows) == LARGEST and found.note == "5 more rows are not shown"


def test_deeper_json_gets_tables_of_its_own() -> None:
    value = {"unlabelled": {"queries": 3, "quality": [{"s_pos": 0.9}, {"s_pos": 0.8}]}, "labelled": {"queries": 4}}
    assert [(table.title, table.rows) for table in tables_of(value, "labels")] == [
        ("labels, unlabelled", [["queries", "3"]]),
        ("labels, unlabelled, quality", [["0.9"], ["0.8"]]),
        ("labels, labelled", [["queries", "4"]]),
    ]
