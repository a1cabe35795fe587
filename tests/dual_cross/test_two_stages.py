"""What the two stages of Dual-Cross-Encoder's training learn from, in the tiny experiment."""

import runpy
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from gnn_encoder.base.tables import EXAMPLES, read_table
from gnn_encoder.dual_cross.views import generated_examples
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.train import dual_encoder as contrastive
from gnn_encoder.train.examples import Examples, TrainingBatch

from ..pipelines import ROOT, Project


@pytest.fixture
def params(stages: Project, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(stages.folder)
    return load_params()


def change(params: Params, **values: object) -> Params:
    """Other values in `dual_cross`."""
    return params.model_copy(update={"dual_cross": params.dual_cross.model_copy(update=values)})


def functions() -> dict[str, Any]:
    """Those of the stage's script."""
    return runpy.run_path(str(ROOT / "stages" / "train_dual_cross.py"))


def pretrain(params: Params, folder: Path, *, paired: bool) -> list[TrainingBatch]:
    """What it trains on, step by step."""
    seen: list[TrainingBatch] = []

    def step(texts: object, batch: TrainingBatch, *rest: object, **more: object) -> float:
        return seen.append(batch) or 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrastive, "contrastive_step", step)
        functions()["pretrain"](params, folder, paired=paired, title="a model")
    return seen


def test_generated_examples_by_hand() -> None:
    examples = generated_examples(4, 3, None, 0)
    assert examples.queries.tolist() == list(range(12))
    assert examples.positives.values.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    # Queries 3, 4 and 5 are of passage 1: whichever of them is asked, that passage is no negative.
    known = examples.is_spared(np.array([[3, 4, 5, 6]]).T, np.array([1, 2]))
    assert known.tolist() == [[True, False], [True, False], [True, False], [False, True]]
    assert np.diff(examples.negatives.offsets).tolist() == [0] * 12


def test_both_systems_see_the_same_batches(params: Params, tmp_path: Path) -> None:
    changed = change(params, queries=50)
    found = [pretrain(changed, tmp_path / str(paired), paired=paired) for paired in (False, True)]
    assert len(found[0]) == len(found[1]) == params.dual_cross.pretrain.steps
    for one, other in zip(*found, strict=True):
        assert one.queries.tolist() == other.queries.tolist() and one.passages.tolist() == other.passages.tolist()
        assert one.passages.tolist() == (one.queries // 2).tolist()  # the query's own passage, and no hard negative
    assert len({row for batch in found[0] for row in batch.queries.tolist()}) == 50


def test_hard_negatives(params: Params) -> None:
    main, seen = functions()["main"], list[Examples]()
    main.__globals__.update({"DualEncoder": Mock(), "read_texts": lambda *rest, **more: (None, None)})
    main.__globals__["train_dual_encoder"] = lambda texts, examples, *rest, **more: seen.append(examples)
    for kind, file in (("denoised", project.EXAMPLES), ("bm25", project.BM25_EXAMPLES)):
        main(Mock(params=change(params, examples=kind), key="dual_cross", item="paired"))
        table = read_table(file, EXAMPLES).drop_nulls("negatives")
        assert seen[-1].negatives.values.tolist() == table["negatives"].explode(empty_as_null=False).to_list()
    assert len(seen[0].negatives.values) != len(seen[1].negatives.values)
