"""The teacher's numbers: against scikit-free maximum likelihood on drawn labels, and where labels say little."""

import numpy as np
import polars as pl
import pytest
from scipy.optimize import check_grad
from scipy.special import expit

from gnn_encoder.train import teacher as module
from gnn_encoder.train.teacher import Teacher, fit_teacher

TRUE = Teacher(cross_encoder=0.8, retriever=6.0, standardised=True, scale=2.0, shift=-2.5)


def drawn(queries: int = 3000, candidates: int = 8, seed: int = 0) -> pl.DataFrame:
    """Lists whose labels are drawn with the probabilities of TRUE."""
    random = np.random.default_rng(seed)
    n = queries * candidates
    logit, retrieved = random.normal(2, 3, n).astype(np.float32), random.normal(0.5, 0.3, n).astype(np.float32)
    query = np.repeat(np.arange(queries, dtype=np.int32), candidates)
    lists = pl.DataFrame({"query": query, "logit": logit, "retrieved": retrieved, "listed": True})
    relevant = random.random(n) < TRUE.score(lists)["score"].to_numpy()
    return lists.with_columns(relevant=relevant)


def test_scores_by_hand() -> None:
    logits, retrieved = np.array([0.0, 2.0, -4.0, 5.0]), np.array([1.0, 0.5, 0.0, 0.25])
    listed = [True, True, True, False]  # the last one is labelled, and was not retrieved
    lists = pl.DataFrame({"query": 3, "logit": logits, "retrieved": retrieved, "listed": listed})
    combined = 0.8 * logits + 6 * retrieved
    z = (combined - combined[:3].mean()) / combined[:3].std()
    found = TRUE.score(lists)
    np.testing.assert_allclose(found["combined"], combined, rtol=1e-6)
    np.testing.assert_allclose(found["score"], expit(2 * z - 2.5), rtol=1e-6)
    plain = Teacher().score(lists.with_columns(retrieved=None))
    np.testing.assert_allclose(plain["combined"], logits, rtol=1e-6)
    np.testing.assert_allclose(plain["score"], expit(logits), rtol=1e-6)


def test_each_query_is_standardised_by_itself() -> None:
    lists = drawn(20)
    shifted = lists.with_columns(logit=pl.col("logit") * (1 + pl.col("query") % 3) + pl.col("query"), retrieved=0.0)
    alike = lists.with_columns(retrieved=0.0)
    np.testing.assert_allclose(TRUE.score(shifted)["score"], TRUE.score(alike)["score"], rtol=1e-3)


@pytest.mark.parametrize("logits", [[2.0, 2.0, 2.0], [2.0]])
def test_candidates_that_cannot_be_told_apart_are_average(logits: list[float]) -> None:
    lists = pl.DataFrame({"query": 0, "logit": logits, "retrieved": 0.0, "listed": True})
    np.testing.assert_allclose(TRUE.score(lists)["score"], expit(-2.5), rtol=1e-6)


def test_it_finds_the_numbers_that_labels_were_drawn_with() -> None:
    found = fit_teacher(drawn(), title="t")
    # Labels do not depend on the size of both weights, since the sum is standardised.
    assert found.cross_encoder / found.retriever == pytest.approx(TRUE.cross_encoder / TRUE.retriever, rel=0.1)
    assert found.scale == pytest.approx(TRUE.scale, rel=0.1)
    assert found.shift == pytest.approx(TRUE.shift, rel=0.1)


def test_a_score_that_misleads_counts_for_nothing() -> None:
    lists = drawn(400).with_columns(logit=-pl.col("logit"))
    assert fit_teacher(lists, title="t").cross_encoder == 0


def test_labels_without_error_leave_the_numbers_finite() -> None:
    lists = drawn(50).with_columns(relevant=pl.col("logit") > 2)
    found = fit_teacher(lists, title="t")
    assert np.isfinite([found.cross_encoder, found.retriever, found.shift]).all()


def test_nothing_to_learn_from(caplog: pytest.LogCaptureFixture) -> None:
    assert fit_teacher(drawn(20).with_columns(relevant=True), title="t") == Teacher()
    told = "warning: t: no dev query has a relevant and another candidate; M_ce's score stands as it is"
    assert caplog.messages == [told]


def test_gradients() -> None:
    lists = drawn(30).sort("query", ~pl.col("relevant"))
    mixed = lists.filter(pl.col("relevant").any().over("query") & (~pl.col("relevant")).any().over("query"))
    of_lists = module._of_lists(mixed, np.array([2.0, 0.5]))
    of_labels = module._of_labels(lists["logit"].to_numpy().astype(np.float64), lists["relevant"].to_numpy())
    for loss in (of_lists, of_labels):
        for at in ([0.0, 0.0], [0.3, 1.2], [-1.0, 0.5]):
            assert check_grad(lambda x, f=loss: f(x)[0], lambda x, f=loss: f(x)[1], np.array(at)) < 1e-5
