"""Eq. 6-10 against plain loops on a small literal graph, and the checkpoint."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnn_encoder.base.errors import UserError
from gnn_encoder.gnn.network import Informed, QueryPassageGNN

from .oracle import assert_same, informed, network, random

D, D_E = 4, 3
PASSAGES = [[0, 2], [2, 1], [3, 2]]  # of queries 0, 1, 2; nobody retrieved passage 4
N, M = 3, 5
EDGES = [(q, p) for p in range(M) for q in range(N) if p in PASSAGES[q]]  # by passage
PAPER: dict[str, Any] = {"edge_features": "cross_encoder", "edge_dimension": D_E, "labels": False}
LABELS = PAPER | {"labels": True}
CONFIGS = {
    "paper": PAPER,
    "no_features": PAPER | {"edge_features": "none", "edge_dimension": None},
    "one_layer": PAPER | {"layers": 1},
    "constant_gate": PAPER | {"gate": 0.2},
    "cosine": PAPER | {"similarity": "cosine"},
    "labels": LABELS,
    "labels_constant_gate": LABELS | {"gate": 0.2},
    "labels_no_features_cosine": LABELS | {"similarity": "cosine", "edge_features": "none"},
    "labels_one_layer_cosine": LABELS | {"layers": 1, "similarity": "cosine"},
}
LABELLED = {(0, 2), (1, 1)}  # passage 2 has other edges besides; passages 0 and 3 have none that is labelled
SUMMED = [(0, 2), (1, 1), (2, 2)]  # labels that are summed up, whether they are edges or not


def shaken(**config: Any) -> QueryPassageGNN:
    gnn = network(**config).double()
    with torch.no_grad():
        for seed, tensor in enumerate([*gnn.parameters(), *gnn.buffers()]):
            tensor.copy_(random(*tensor.shape, seed=100 + seed))
    return gnn


def inputs() -> dict[str, Tensor]:
    """Cached passages (Eq. 6) and recomputed ones (Eq. 7-10) differ. Features by query row and passage row."""
    return {
        "h_q": random(N, D, seed=1),
        "h_p": random(M, D, seed=2),
        "cached": random(M, D, seed=3),
        "pairs": random(N, M, D_E, seed=4),
        "query_loops": random(N, D_E, seed=5),
        "passage_loops": random(M, D_E, seed=6),
    }


def ours(gnn: QueryPassageGNN, x: dict[str, Tensor]) -> Informed:
    passages, c = torch.tensor(PASSAGES), gnn.config
    queries, edges = torch.tensor(EDGES).T
    of_queries, of_passages = None, None
    if c.edge_features == "cross_encoder":
        by_query = x["pairs"][torch.arange(N).unsqueeze(1), passages]
        of_queries, of_passages = (by_query, x["query_loops"]), (x["pairs"][queries, edges], x["passage_loops"])
    h_q_prime = x["h_q"] if c.layers == 1 else gnn.interactive_queries(x["h_q"], x["cached"][passages], of_queries)
    types = torch.tensor([float(edge in LABELLED) for edge in EDGES], dtype=torch.float64) if c.labels else None
    asking, asked = torch.tensor(SUMMED).T
    nodes, of_edges = (x["h_p"], x["h_q"], h_q_prime), (queries, edges, of_passages, types)
    return gnn.interactive_passages(*nodes, *of_edges, labels=(asking, asked))


@pytest.mark.parametrize("name", CONFIGS)
def test_equations_6_to_10(name: str) -> None:
    gnn, x = shaken(**CONFIGS[name]), inputs()
    heard = [[q for q in range(N) if p in PASSAGES[q]] for p in range(M)]
    expected = informed(gnn, x, PASSAGES, heard, labelled=LABELLED, summed=SUMMED)
    assert_same(ours(gnn, x).embeddings, expected, [*gnn.parameters(), *x.values()])


def test_it_starts_near_the_passage() -> None:
    """A passage without queries: h' = sigmoid(-2) h + h."""
    x = inputs()
    result = ours(network(**PAPER).double(), x).embeddings
    torch.testing.assert_close(result[4], 1.1192029220221176 * x["h_p"][4], rtol=0, atol=1e-12)
    assert (result - x["h_p"]).norm() > 0.01


@pytest.mark.parametrize("name", ["paper", "labels_no_features_cosine", "one_layer"])
def test_checkpoint_round_trip(name: str, tmp_path: Path) -> None:
    gnn, x = shaken(**CONFIGS[name]), inputs()
    gnn.save(tmp_path / "gnn")
    assert sorted(path.name for path in (tmp_path / "gnn").iterdir()) == ["gnn.json", "gnn.safetensors"]
    loaded = QueryPassageGNN.load(tmp_path / "gnn")
    assert loaded.config == gnn.config
    assert torch.equal(ours(loaded, x).embeddings, ours(gnn, x).embeddings)
    gnn.save(tmp_path / "gnn")  # over what is there


def config(**changes: object) -> Callable[[Path], object]:
    name = "gnn.json"
    return lambda folder: (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | changes))


def weights(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        change(held := load_file(folder / "gnn.safetensors"))
        save_file(held, folder / "gnn.safetensors")

    return spoil


SPOILT: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: (folder / "gnn.json").unlink(), "gnn.json: no such file"),
    (lambda folder: (folder / "gnn.safetensors").unlink(), "gnn.safetensors: no such file"),
    (lambda folder: os.truncate(folder / "gnn.safetensors", 100), "gnn.safetensors: not what train_mgt writes"),
    (weights(lambda held: held.pop("gate.bias")), 'Missing key(s) in state_dict: "gate.bias"'),
    (weights(lambda held: held.update(extra=torch.zeros(1))), 'Unexpected key(s) in state_dict: "extra"'),
    (config(edge_dimension=5), "size mismatch for query_attention.W_e"),
    (config(dropout=0.1), "dropout is not a parameter"),
    (config(edge_dimension=None), "edge_dimension is None: must be a whole number above 0"),
    (config(heads=3), "heads is 3: must be a divisor of the embeddings' 4 columns"),
    (lambda folder: (folder / "gnn.json").write_text("{"), "gnn.json: not what train_mgt writes"),
]


@pytest.mark.parametrize(("spoil", "told"), SPOILT)
def test_a_checkpoint_that_does_not_fit(tmp_path: Path, spoil: Callable[[Path], object], told: str) -> None:
    shaken(**PAPER).save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(UserError) as error:
        QueryPassageGNN.load(tmp_path)
    assert told in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["paper", "labels_constant_gate"])
def test_attention_and_gate_make_the_result(name: str) -> None:
    """One head, W_s = I and one layer: attention weighs h_q and h_p themselves, and Eq. 10 leads back to the gate."""
    gnn, x = shaken(**CONFIGS[name] | {"heads": 1, "layers": 1}), inputs()
    with torch.no_grad():
        torch.nn.init.eye_(gnn.passage_attention.W_s)
        if gnn.config.labels:  # Eq. 10 as in the paper
            gnn.W_p.copy_(torch.eye(D))
            gnn.W_l.zero_()
    found = ours(gnn, x)
    weights = torch.zeros(M, N + M, dtype=torch.float64)
    (queries, passages), every = torch.tensor(EDGES).T, torch.arange(M)
    weights[passages, queries], weights[every, N + every] = found.attention[: len(EDGES), 0], found.attention[-M:, 0]
    gathered = weights @ torch.cat([x["h_q"], x["h_p"]])
    torch.testing.assert_close(found.gate.expand(M, D), (found.embeddings - x["h_p"]) / gathered)


def test_some_weights_learn_faster_or_slower() -> None:
    gnn, paper = network(**LABELS), shaken(**PAPER)
    groups = {round(group["lr"] * 1e3, 3): group["params"] for group in gnn.groups(1e-3)}
    own = {50.0: [gnn.passage_attention.b_l, gnn.w_l], 0.3: [gnn.W_p], 10.0: [gnn.exponent]}
    assert {rate: {*map(id, groups.pop(rate))} for rate in own} == {rate: {*map(id, own[rate])} for rate in own}
    assert {rate: len(weights) for rate, weights in groups.items()} == {1.0: len(list(paper.parameters())) + 1}
    (only,) = paper.groups(1e-3)
    assert only["lr"] == 1e-3 and len(only["params"]) == len(list(paper.parameters()))
