"""A sample is uniform and bounded; lengths are those that the encoder would read."""

from collections import Counter
from pathlib import Path

import pytest

from gnn_encoder.inspection.lengths import Sample, measure
from gnn_encoder.models.pretrained import Source, load_tokenizer


def test_few_texts_are_all_taken() -> None:
    sample = Sample(5, seed=0)
    sample.add(["a", "b"])
    sample.add(["c"])
    assert (sample.texts, sample.seen) == (["a", "b", "c"], 3)


def test_sample_is_uniform() -> None:
    """Each of 20 texts is among 5 in a quarter of 2,000 draws; a deviation of 0.06 is six standard errors."""
    found: Counter[str] = Counter()
    for seed in range(2000):
        sample = Sample(5, seed)
        for start in range(0, 20, 7):
            sample.add([str(i) for i in range(start, min(start + 7, 20))])
        assert len(set(sample.texts)) == 5 and sample.seen == 20
        found.update(sample.texts)
    assert len(found) == 20
    assert all(count / 2000 == pytest.approx(0.25, abs=0.06) for count in found.values())


def test_lengths(tiny_model: Path) -> None:
    tokenizer = load_tokenizer(Source(str(tiny_model)))
    sample = Sample(10, seed=0)
    sample.add(["a", "a b", "a b c d e f g h"])
    found = measure(sample, tokenizer, limit=4)
    assert found is not None
    # [CLS] and [SEP] are two tokens more.
    assert (found.texts, found.of, found.median, found.longest, found.most) == (3, 3, 4, 10, 10)
    assert found.mean == pytest.approx(17 / 3) and found.cut == pytest.approx(1 / 3)
    assert measure(Sample(10, seed=0), tokenizer, limit=4) is None
