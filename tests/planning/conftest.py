"""Data sets and machines with literal sizes and speeds."""

import numpy as np
import pytest

from gnn_encoder.inspection.lengths import Lengths
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import KINDS, Machine


def make_machine(speed: float = 1.0, memory: int = 16 * 2**30) -> Machine:
    """Two cores that read 10,000 tokens a second, times `speed`."""
    seconds = {
        "start": 1.5,
        "read": 1e-4,
        "train": 2.5e-4,
        "train_pair": 4e-4,
        "gnn": 4e-6,
        "search": 8e-9,
    }
    assert seconds.keys() == KINDS.keys()
    return Machine(
        name="two cores",
        main_memory=memory,
        memory=memory,
        tokens=256,
        layers=6,
        dimension=384,
        weights=22_000_000,
        heads=12,
        speeds={kind: each / speed for kind, each in seconds.items()},
    )


def make_facts(*, passages: int = 27_413, queries: int = 12_889, tokens: int = 100) -> Facts:
    """Passages of `tokens` / 2 to `tokens` * 3 / 2 tokens, evenly, and queries of 6 to 14."""
    return Facts(
        passages=passages,
        train=queries,
        available=queries,
        dev=max(1, queries // 6),
        test=max(1, queries // 6),
        labels_a_query=2.0,
        passage_tokens=Lengths.of(np.arange(tokens // 2, tokens * 3 // 2 + 1)),
        query_tokens=Lengths.of(np.arange(6, 15)),
    )


@pytest.fixture
def machine() -> Machine:
    """Two cores."""
    return make_machine()


@pytest.fixture
def facts() -> Facts:
    """A corpus like InsuranceQA."""
    return make_facts()
