from gnn_encoder.presenting.attention import shares_table


def test_shares_table() -> None:
    share = {"passages": 3, "mean": 0.25, "low": 0.2, "high": 0.3}
    found = {
        "labelled": {"without": share, "with": share | {"mean": 0.5}, "difference": {"difference": 0.25, "p": 0.0}}
    }
    assert shares_table(found).rows == [
        ["labelled", "3", "0.250 [0.200, 0.300]", "0.500 [0.200, 0.300]", "+0.250", "< 1e-300"]
    ]
