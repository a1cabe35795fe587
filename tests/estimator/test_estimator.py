"""The estimator: what it learns, what it takes and gives back, what it keeps, and what it refuses."""

import doctest
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from gnn_encoder import GNNEncoder, estimator
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Matrix, of_length_1

from .data import DATA, SMALL, D, M, N


@pytest.fixture(scope="module")
def fitted() -> GNNEncoder:
    return DATA.fit()


def test_the_example_runs() -> None:
    found = doctest.testmod(estimator)
    assert found.attempted > 0 and found.failed == 0


def test_it_learns_the_same_with_the_same_seed_and_leaves_no_trace_outside(fitted: GNNEncoder) -> None:
    informed = fitted.transform(DATA.passages)
    assert DATA.right(informed) > DATA.right(DATA.passages) + 0.15 and informed.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(informed, axis=1), 1, atol=1e-5)
    assert (fitted.graph_.passages[:, 0] == DATA.labels[:, 1]).all(), "labelled passages come first"
    scores = [row["dev_rr10"] for row in fitted.history_ if row["dev_rr10"] is not None]
    assert len(scores) > 1 and max(scores) > 0
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    again = DATA.fit()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert again.transform(DATA.passages).tobytes() == informed.tobytes()
    assert not np.array_equal(DATA.fit(seed=4).transform(DATA.passages), informed)


def test_a_start_that_is_kept_is_the_best_of_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was better than where training began, but not clearly, and training did not come so far."""
    monkeypatch.setattr("gnn_encoder.gnn.start.ERRORS", 1e9)
    history = DATA.fit(learning_rate=1e-9).history_
    assert history[-1]["step"] == 0 and history[-1]["dev_rr10"] > max(row["dev_rr10"] or 0 for row in history[:-1])


@pytest.mark.parametrize(("similarity", "temperature"), [("cosine", 0.05), ("dot", 1.0)])
def test_the_temperature_is_that_of_the_similarity(similarity: str, temperature: float) -> None:
    usual, given, other = (
        DATA.fit(similarity=similarity, softmax="batch", steps=2, **more).transform(DATA.passages)
        for more in ({}, {"temperature": temperature}, {"temperature": 0.3})
    )
    assert usual.tobytes() == given.tobytes() != other.tobytes()


def test_mapped_vectors_of_another_type(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", DATA.passages.astype(np.float16))
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    found, expected = (replace(DATA, passages=passages).fit() for passages in (mapped, np.asarray(mapped)))
    out = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=np.float32, shape=(M, D))
    assert found.transform(mapped, out=out) is out
    np.testing.assert_array_equal(out, expected.transform(np.asarray(mapped)))


def test_a_fit_that_fails_halfway_leaves_what_was_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its training, or at its end."""
    gnn = DATA.fit(steps=0)
    kept, informed = dict(vars(gnn)), gnn.transform(DATA.passages)
    more = of_length_1(DATA.passages[:5] + 0.1)
    for name in ("train_on_embeddings", "CorpusGNN"):
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(estimator, name, lambda *arguments, **named: 1 / 0)
            DATA.into(gnn, unlabelled=more)
        assert [*vars(gnn)] == [*kept] and all(vars(gnn)[name] is value for name, value in kept.items())
        assert gnn.transform(DATA.passages).tobytes() == informed.tobytes()
    assert len(DATA.into(gnn, unlabelled=more).queries_) == N + 5


def test_queries_without_labels_inform_too(fitted: GNNEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "CACHED_PASSAGES", 10)  # a corpus too large to rank whole
    more = of_length_1(DATA.passages[:5] + 0.1)
    found = DATA.into(GNNEncoder(**SMALL), unlabelled=more)
    assert found.graph_.n == N + 5 and not found.labelled_[N * 4 :].any()
    informed = found.transform(DATA.passages)
    assert not np.array_equal(informed, fitted.transform(DATA.passages))
    assert DATA.right(informed) > DATA.right(DATA.passages)


@pytest.mark.parametrize("labels", [False, True])
def test_saved_and_loaded(fitted: GNNEncoder, tmp_path: Path, labels: bool) -> None:
    fitted = fitted if labels else DATA.fit(labels=False, softmax="batch")
    fitted.save(tmp_path / "gnn")
    fitted.save(tmp_path / "gnn")  # over what is there
    found = GNNEncoder.load(tmp_path / "gnn")
    assert found.get_params() == fitted.get_params()
    mixed, rows = np.concatenate([DATA.passages, of_length_1(DATA.passages[:9] + 0.2)]), [*range(M), *[-1] * 9]
    np.testing.assert_array_equal(found.transform(mixed, rows=rows), fitted.transform(mixed, rows=rows))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gnn"]
    file, config = tmp_path / "gnn" / estimator.ARRAYS, tmp_path / "gnn" / "gnn.json"
    arrays = {name: array for name, array in load_file(file).items() if name != "labels"}
    for damage, message in (
        (partial(save_file, arrays, file), r"not what GNNEncoder.save writes \('labels'\)"),
        (partial(file.write_bytes, b"x"), "not what GNNEncoder.save writes"),
        (config.unlink, r"gnn.json: no such file; GNNEncoder.save writes it"),
    ):
        damage()
        with pytest.raises(UserError, match=message):
            GNNEncoder.load(tmp_path / "gnn")


@pytest.mark.parametrize("again", [0.6, 0.4])
def test_labels_are_edges_if_most_dev_queries_ask_for_labelled_passages(again: float) -> None:
    """By a count of their own; the last ten passages have no label."""
    rows = np.where(np.arange(len(DATA.dev)) < again * len(DATA.dev), DATA.labels[0, 1], M - 1)
    data = replace(DATA, dev_labels=np.stack([np.arange(len(rows)), rows], axis=1))
    gnn = data.fit(steps=0)
    assert gnn.labels is None and gnn.gnn_.config.labels == (again > 0.5) == bool(gnn.labelled_.any())


def test_saving_removes_nothing_of_others(fitted: GNNEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "other").mkdir(parents=True)
    (tmp_path / "file").touch()
    for name in ("models", "file"):
        with pytest.raises(UserError, match=f"{name}: holds what GNNEncoder.save has not written; name a new folder"):
            fitted.save(tmp_path / name)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["file", "models", "models/other"]
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    fitted.save(".")
    assert GNNEncoder.load(tmp_path / "empty").k == fitted.k


def test_rows_say_which_passages_they_are(fitted: GNNEncoder) -> None:
    """In another order, in parts and beside new ones, they get what they got."""
    informed, order = fitted.transform(DATA.passages), np.random.default_rng(1).permutation(M)
    new = of_length_1(np.random.default_rng(2).normal(size=(7, D)))
    mixed = np.concatenate([new, DATA.passages[order]])
    found = fitted.transform(mixed, rows=np.concatenate([np.full(7, -1), order]))
    np.testing.assert_allclose(found[7:], informed[order], atol=1e-6)
    np.testing.assert_allclose(found[:7], fitted.transform(new, rows=[-1] * 7), atol=1e-6)
    later = fitted.transform(DATA.passages[30:].astype(np.float16), rows=np.arange(30, M))
    np.testing.assert_allclose(later, informed[30:], atol=2e-3)


@pytest.mark.parametrize("labels", [True, False])
def test_a_new_passage_is_informed_by_the_queries_that_would_retrieve_it(labels: bool) -> None:
    full = np.stack([np.zeros(4, int), np.arange(4)], axis=1)  # query 0 has no place for new passages
    gnn = replace(DATA, labels=np.concatenate([full, DATA.labels[1:]])).fit(labels=labels, steps=0)
    new = of_length_1(np.stack([DATA.queries[0] + 0.05, DATA.passages[0] + 0.3, np.eye(D)[0]]))
    least = gnn.graph_.score.reshape(N, 4)[:, -1].copy()
    least[0] = np.inf if labels else least[0]
    asking = [np.flatnonzero(row > least).tolist() for row in new @ DATA.queries.T]
    query, passage = torch.tensor([(q, place) for place, some in enumerate(asking) for q in some]).T
    assert (0 in asking[0]) != labels
    with torch.no_grad():
        h_q, neighbours = (torch.from_numpy(vectors) for vectors in (gnn.queries_, DATA.passages[gnn.graph_.passages]))
        edges = (torch.from_numpy(new), h_q, gnn.gnn_.interactive_queries(h_q, neighbours), query, passage)
        types = torch.zeros(len(query)) if labels else None
        expected = gnn.gnn_.interactive_passages(*edges, labelled=types, labels=(query[:0], query[:0])).embeddings
    np.testing.assert_allclose(gnn.transform(new, rows=[-1, -1, -1]), expected.numpy(), atol=1e-6)


NAN = np.where(np.arange(M * D).reshape(M, D) == 19, np.float32("nan"), DATA.passages)
LONG = 1e30 * DATA.passages


def test_training_queries_that_repeat_are_told(caplog: pytest.LogCaptureFixture) -> None:
    queries = DATA.queries.copy()
    queries[5:7] = queries[4]
    replace(DATA, queries=queries).fit(steps=0)
    assert "2 training queries repeat another" in caplog.text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"passages": DATA.passages[0]}, r"passages: shape \(8,\); must be \(rows, columns\)"),
        ({"passages": np.ones((9, 3), int)}, "passages: type int64; must be float16, float32 or float64"),
        ({"passages": DATA.passages.astype(">f4")}, "passages: type >f4; .* float64, in this machine's byte order"),
        ({"dev": DATA.dev[:0]}, r"dev queries: shape \(0, 8\)"),
        ({"passages": NAN}, "passages: row 2 holds NaN or an infinite value"),
        ({"similarity": "dot", "passages": LONG}, "row 0 has length inf; it must be at most 10,000: divide"),
        ({"passages": 2 * DATA.passages}, "passages: row 0 has length 2; with similarity 'cosine' it must be 1"),
        ({"queries": DATA.queries[:, :5]}, "queries: 5 columns, the passages have 8"),
        ({"labels": []}, "relevant: no pair; at least one query must have a relevant passage"),
        ({"dev_labels": np.empty((0, 2), int)}, "dev relevant: no pair"),
        ({"labels": [[0, 1, 2]]}, r"relevant: shape \(1, 3\) of int64; must be whole numbers, the row of"),
        ({"labels": [[0, 1], [3, M]]}, "relevant: pair 1 has passage 80; must be a row from 0 to 79"),
        ({"labels": [[N, 1]]}, "relevant: pair 0 has query 320; must be a row from 0 to 319"),
        ({"k": M + 1}, "k is 81: must be from 1 to the number of passages, 80"),
        ({"k": 5.0}, "k is 5.0: input should be a valid integer"),
        ({"temperature": float("nan")}, "temperature is nan: input should be a finite number"),
        ({"beta": 0.7}, "beta is 0.7: input should be less than or equal to 0.5"),
        ({"heads": 3}, "heads is 3: must be a divisor of the embeddings' 8 columns"),
        ({"labels": [[0, 1], [0, 2], [1, 0], [2, 0]]}, "labels 3 queries; must be at least 4 .1 / beta, 0.25"),
    ],
)
def test_what_fit_refuses(changes: dict[str, Any], message: str) -> None:
    """Data, or a parameter."""
    data = {name: value for name, value in changes.items() if name in vars(DATA)}
    with pytest.raises(UserError, match=message) as told:
        replace(DATA, **data).fit(**{name: value for name, value in changes.items() if name not in data})
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("passages", "more", "message"),
    [
        (DATA.passages[:, :5], {}, "passages: 5 columns, the passages have 8"),
        (DATA.passages, {"out": np.empty((3, 8), np.float32)}, r"out: shape \(3, 8\); must be \(80, 8\)"),
        (DATA.passages, {"out": np.empty((M, D), int)}, "out: type int64; must be float16"),
        (DATA.passages[:3], {}, "passages: 3, of which fit had 80; give the row of each in fit as `rows`, -1: new"),
        (DATA.passages, {"rows": [1, 2]}, r"rows: shape \(2,\) of int64; must be 80 whole numbers, one a passage"),
        (DATA.passages[:2], {"rows": [0, M]}, "rows: 0 to 80; must be from 0 to 79, or -1 for a new passage"),
        (DATA.passages[::-1], {}, "passages: 0 is not what fit had in row 0; give each one's row as `rows`, -1: new"),
    ],
)
def test_transform_is_checked(fitted: GNNEncoder, passages: Matrix, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fitted.transform(passages, **more)
    with pytest.raises(UserError, match="not fitted; call fit or GNNEncoder.load first"):
        GNNEncoder().transform(DATA.passages)
