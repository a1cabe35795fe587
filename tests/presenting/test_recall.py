from gnn_encoder.presenting.recall import recalls


def test_recalls() -> None:
    assert recalls(["R@100", "RR@10", "R(rel=2)@5", "R@20", "nDCG@10", "Success@5"]) == [("R", 20), ("R", 100)]
    assert recalls(["Success@20", "RR@10", "Success@5"]) == [("Success", 5), ("Success", 20)]
