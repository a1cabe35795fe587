"""The nearest training query, against all cosines at once; thirds of literal similarities."""

import numpy as np
import pytest

from gnn_encoder.evaluation import properties
from gnn_encoder.evaluation.properties import THIRDS, nearest_similarity, thirds


@pytest.mark.parametrize("products", [1, 17, 2**22])
def test_nearest_is_the_best_of_all_cosines(monkeypatch: pytest.MonkeyPatch, products: int) -> None:
    monkeypatch.setattr(properties, "PRODUCTS", products)
    generator = np.random.default_rng(0)
    queries, training = (generator.normal(size=(n, 5)).astype(np.float32) for n in (11, 23))
    training[7] = 3 * queries[2]
    cosines = [
        max(np.dot(q, t) / np.sqrt(np.dot(q, q) * np.dot(t, t)) for t in training.astype(float))
        for q in queries.astype(float)
    ]
    found = nearest_similarity(queries, iter([training[:4], training[4:20], training[20:]]))
    assert found.tolist() == [round(cosine, 3) for cosine in cosines]
    assert found[2] == 1.0


@pytest.mark.parametrize(
    ("similarities", "expected", "bounds"),
    [
        ([0.9, 0.1, 0.5, 0.2, 0.6, 0.8], "ulmlmu", (0.5, 0.8)),
        ([0.1, 0.2, 0.3, 0.4], "llmu", (0.3, 0.4)),  # a third begins above at least a third of the queries
        ([0.1, 0.5, 0.5, 0.5, 0.5, 0.9], "luuuuu", (0.5, 0.5)),  # equal ones stay together
        ([1.0, 0.2, 1.0, 0.3, 1.0, 1.0], "ululuu", (1.0, 1.0)),
        ([0.4, 0.4, 0.4], "uuu", (0.4, 0.4)),
        ([0.4], "u", (0.4, 0.4)),
        ([0.4, 0.3], "ul", (0.4, 0.4)),
    ],
)
def test_thirds(similarities: list[float], expected: str, bounds: tuple[float, float]) -> None:
    found, ends = thirds(np.array(similarities))
    assert "".join(name[0] for name in found) == expected and set(found) <= set(THIRDS)
    assert ends == bounds
