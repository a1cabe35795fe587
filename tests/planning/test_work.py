"""The cost model against sums by hand; tokens take 1 ms forward, 3 ms in training, 5 ms with nothing frozen."""

from dataclasses import replace

import pytest

from gnn_encoder.planning import work
from gnn_encoder.planning.machine import Machine, Rate
from gnn_encoder.planning.tokens import Tokens
from gnn_encoder.training.params import Contrastive

from .conftest import make_machine

QUERIES, PASSAGES = Tokens.of([8] * 4), Tokens.of([16, 16, 32, 32])


def section(**values: float) -> Contrastive:
    other = {"epochs": 2, "batch_size": 4, "negatives": 1, "learning_rate": 0.1, "warmup": 0.1, "chunk_size": 8}
    return Contrastive.model_validate(other | values)


@pytest.fixture
def flat() -> Machine:
    rates = {name: Rate(short=s, long=s) for name, s in (("read", 0.001), ("train", 0.003), ("train_all", 0.005))}
    return replace(make_machine(), step=0.5, step_all=0.7, **rates)


def test_a_rate_is_on_the_line_through_both_lengths() -> None:
    rate = Rate(short=0.001, long=0.002)
    assert rate(32) == pytest.approx(0.001) and rate(256) == pytest.approx(0.002)
    assert rate(144) == pytest.approx(0.0015)
    assert Rate(short=0.002, long=0.001)(500) == 0.002  # noise: longer texts are no cheaper


def test_encoding(flat: Machine) -> None:
    assert work.encoding(10, PASSAGES, 256, flat) == pytest.approx(10 * 24 * 0.001)
    assert work.encoding(10, PASSAGES, 16, flat) == pytest.approx(10 * 16 * 0.001)


def test_a_training_step_is_queries_passages_and_the_optimiser(flat: Machine) -> None:
    shape = work.schedule(10, section())
    assert (shape.steps, shape.queries, shape.passages) == (4, 5, 10)  # 10 / 4 is 2 batches, twice
    whole = work.steps(shape, QUERIES, PASSAGES, (32, 256), 10, flat)
    assert whole == pytest.approx(4 * (5 * 8 * 0.003 + 10 * 24 * 0.003 + 0.5))


def test_gradient_caching_reads_the_passages_once_more(flat: Machine) -> None:
    shape = work.schedule(10, section())
    whole = work.steps(shape, QUERIES, PASSAGES, (32, 256), 10, flat)
    cached = work.steps(shape, QUERIES, PASSAGES, (32, 256), 8, flat)
    assert cached - whole == pytest.approx(4 * 10 * 24 * 0.001)


def test_a_cross_encoder_trains_all_its_layers(flat: Machine) -> None:
    found = work.pair_steps(20, 3, 10, 1, PASSAGES, 24, flat)
    assert found == pytest.approx(3 * 2 * (20 * 20 * 0.005 + 0.7))


def test_memory_grows_with_the_chunk(flat: Machine) -> None:
    none, one, two = (work.training_memory(texts, 32, flat, 3) for texts in (0, 8, 16))
    assert none == work.PROCESS + 16 * flat.model.parameters  # weights, gradients, two moments, 4 bytes each
    assert one - none == 8 * 32 * 3 * (17 * 384 * 4 + 2.5 * 12 * 32 * 4)
    assert two - none == 2 * (one - none)
