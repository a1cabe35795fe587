from gnn_encoder.presenting.tables import Table, markdown, table_of, titled

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


def test_a_row_per_value_of_json() -> None:
    found = table_of({"pairs": 12, "share": 0.123456, "done": True, "none": None}, "quality")
    rows = [["pairs", "12"], ["share", "0.1235"], ["done", "yes"], ["none", "–"]]
    assert found == Table(title="quality", columns=["", ""], rows=rows)


def test_deeper_json_is_named_by_its_keys() -> None:
    value = {"unlabelled": {"queries": 3, "quality": [{"s_pos": 0.9, "n": 1}, {"s_pos": 0.8}]}, "pair": {"queries": 4}}
    assert table_of(value, "labels").rows == [
        ["unlabelled, queries", "3"],
        ["unlabelled, quality, 1", "s pos 0.9, n 1"],
        ["unlabelled, quality, 2", "s pos 0.8"],
        ["PAIR", "queries 4"],
    ]
