from gnn_encoder.presenting.tables import Table, markdown, titled

TABLE = Table(title="Times", columns=["system", "ms"], rows=[["M_de", "2.5"], ["a|b", "10.0\np = 0.5"]], note="a note")


def test_markdown() -> None:
    assert markdown(TABLE).splitlines() == [
        "| system |            ms |",
        "| ------ | ------------: |",
        "| M_de   |           2.5 |",
        "| a/b    | 10.0, p = 0.5 |",
    ]


def test_title_and_note_stand_around_it() -> None:
    assert titled(TABLE) == f"Times\n\n{markdown(TABLE)}\n\na note"
    assert titled(Table(title="", columns=["x"], rows=[["1"]])) == "| x   |\n| --- |\n| 1   |"
