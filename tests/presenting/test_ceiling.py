from gnn_encoder.evaluation.ceiling import Ceiling, Share
from gnn_encoder.presenting.ceiling import ceiling_table
from gnn_encoder.presenting.tables import markdown


def test_table() -> None:
    systems = {"gnn_encoder": Share(mean=0.5, share=0.254, low=-0.1, high=None)}
    found = ceiling_table(Ceiling(measure="RR@10", queries=9, base=0.4, ceiling=0.8, systems=systems), "dev")
    assert (found.title, found.note) == ("Dev queries: the way to M_de, reranked, points of 100", "9 queries")
    assert markdown(found).splitlines() == [
        "| System         | RR@10 | share of the way |     95% interval |",
        "| -------------- | ----: | ---------------: | ---------------: |",
        "| M_de           |  40.0 |                  |                  |",
        "| GNN-encoder    |  50.0 |              25% | -10% to no bound |",
        "| M_de, reranked |  80.0 |                  |                  |",
    ]


def test_undefined_without_a_ceiling_above() -> None:
    systems = {"gnn_encoder": Share(mean=0.5, share=None, low=None, high=None)}
    found = ceiling_table(Ceiling(measure="RR@10", queries=9, base=0.4, ceiling=0.4, systems=systems), "test")
    assert found.rows[1] == ["GNN-encoder", "50.0", "undefined", ""]
    assert found.note.startswith("9 queries; the ceiling does not exceed M_de here")
