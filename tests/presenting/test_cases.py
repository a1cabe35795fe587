from gnn_encoder.presenting.cases import cases_table

CASE = {"query": "how?", "rank_of_dual_encoder": None, "depth": 100, "gate": 0.125, "passage": "so\nit is"}


def test_cases_table() -> None:
    heard = [{"query": f"q{place}", "attention": 0.5 - place / 10, "labelled": place == 1} for place in range(4)]
    alone = CASE | {"rank_of_dual_encoder": 3, "informed_by": [], "gate": None}
    assert cases_table([CASE | {"informed_by": heard}, alone]).rows == [
        ["how?", "> 100", "q0 (0.50); q1 (0.40, labelled); q2 (0.30)", "0.125", "so it is"],
        ["how?", "3", "–", "–", "so it is"],
    ]
