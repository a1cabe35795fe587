"""Data sets and machines with literal sizes and speeds."""

import numpy as np
import pytest

from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine, Model, Rate
from gnn_encoder.planning.tokens import Tokens


def make_machine(speed: float = 1.0, memory: int = 16 * 2**30) -> Machine:
    """Two cores that read 10,000 tokens a second, times `speed`."""

    def rate(tokens: float) -> Rate:
        return Rate(short=1 / (speed * tokens), long=1.25 / (speed * tokens))

    return Machine(
        name="two cores",
        model=Model(parameters=22_700_000, layers=6, dimension=384, heads=12, tokens=256),
        read=rate(10_000),
        train=rate(4_000),
        train_all=rate(2_500),
        step=0.02 / speed,
        step_all=0.06 / speed,
        gnn_edge=4e-6 / speed,
        multiply=2e-11 / speed,
        start=1.0 / speed,
        start_model=3.0 / speed,
        load=0.5 / speed,
        memory=memory,
    )


def make_facts(*, passages: int = 27_413, queries: int = 12_889, tokens: int = 100) -> Facts:
    """Passages of `tokens` / 2 to `tokens` * 3 / 2 tokens, evenly, and queries of 6 to 14."""
    return Facts(
        passages=passages,
        train=queries,
        available=queries,
        dev=max(1, queries // 6),
        test=max(1, queries // 6),
        labels=2 * queries,
        labelled_queries=queries,
        labelled_passages=min(passages, queries),
        passage_tokens=Tokens.of(np.arange(tokens // 2, tokens * 3 // 2 + 1)),
        query_tokens=Tokens.of(np.arange(6, 15)),
        passage_bytes=5.0 * tokens,
    )


@pytest.fixture
def machine() -> Machine:
    """Two cores."""
    return make_machine()


@pytest.fixture
def facts() -> Facts:
    """A corpus like InsuranceQA."""
    return make_facts()
