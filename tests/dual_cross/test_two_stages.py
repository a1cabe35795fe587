"""What the two stages of Dual-Cross-Encoder's training learn from, on the tiny corpus."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
import yaml

from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.tables import DEV_CANDIDATES, EXAMPLES, write_table
from gnn_encoder.dual_cross.views import generated_examples
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train import dual_encoder as contrastive
from gnn_encoder.train.dev import candidates_of, sample_queries
from gnn_encoder.train.examples import Examples, TrainingBatch, examples_from_candidates

from ..project import ROOT, call_stage, declare
from ..texts import write_queries

ASKED = ["how long should bread dough rise", "why?"]
Change = Callable[[Params], Params]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_params: Params) -> Path:
    """A project with prepared tables, two generated queries a passage, and training examples."""
    folder = tmp_path_factory.mktemp("project")
    values = tiny_params.model_dump()
    values["data"]["path"], values["encoder"]["model"] = (str(ROOT / "tests/tiny" / name) for name in ("beir", "model"))
    values["dual_cross"] |= {"views": 2, "pool": "mean"}
    declare(folder)
    (folder / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call_stage("prepare")
        texts = pl.read_parquet(project.PASSAGES)["text"].to_list()
        asked = [" ".join(text.split()[first : first + 5]) for text in texts for first in (0, 3)]
        write_queries(project.GENERATED / "queries.parquet", asked)
        pairs, dev = (relevant_pairs(*project.tables(split)) for split in ("train", "dev"))

        def moved(of: pl.DataFrame, step: int) -> pl.DataFrame:
            return of.with_columns(passage=(pl.col("passage") + step) % len(texts))

        # The hard negative of a query stands 17 rows after its positive, or 23 where it is BM25's.
        for file, step in ((project.EXAMPLES, 17), (project.BM25_EXAMPLES, 23)):
            write_table(file, EXAMPLES, [examples_from_candidates(pairs, moved(pairs, step)).to_arrow()])
        others = pl.concat([moved(dev, step) for step in (5, 29, 61)])
        candidates = candidates_of(sample_queries(dev, 10, 0), dev, others)
        write_table(project.DEV_CANDIDATES, DEV_CANDIDATES, [candidates.to_arrow()])
    return folder


@pytest.fixture
def params(made: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(made)
    return load_params()


def change(params: Params, stages: dict[str, Any] | None = None, **values: object) -> Params:
    """Other values in `dual_cross`; `stages` in both of its stages."""
    section = params.dual_cross
    both = {name: getattr(section, name).model_copy(update=stages or {}) for name in ("pretrain", "finetune")}
    return params.model_copy(update={"dual_cross": section.model_copy(update={**both, **values})})


def stage(name: str) -> dict[str, Any]:
    """The functions of a stage's script."""
    return runpy.run_path(str(ROOT / "stages" / f"{name}.py"))


def pretrain(params: Params, folder: Path, *, paired: bool) -> list[TrainingBatch]:
    """What it trains on, step by step."""
    seen: list[TrainingBatch] = []

    def step(texts: object, batch: TrainingBatch, *rest: object, **more: object) -> float:
        return seen.append(batch) or 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrastive, "contrastive_step", step)
        stage("train_dual_cross")["pretrain"](params, folder, paired=paired, title="a model")
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


@pytest.mark.parametrize(("kind", "step"), [("denoised", 17), ("bm25", 23)])
def test_hard_negatives(params: Params, tmp_path: Path, kind: str, step: int) -> None:
    main, seen = stage("train_dual_cross")["main"], list[Examples]()
    main.__globals__.update({"DualEncoder": Mock(), "read_texts": lambda *rest, **more: (None, None)})
    main.__globals__["train_dual_encoder"] = lambda texts, examples, *rest, **more: seen.append(examples)
    main(Mock(params=change(params, examples=kind), key="dual_cross", item="paired"))
    (first, *_), (negative, *_) = seen[0].positives.values, seen[0].negatives.values
    assert len(seen[0].queries) and negative == (first + step) % 120


@pytest.mark.parametrize(("paired", "length", "shared"), [(True, 48, False), (False, None, True)])
def test_a_stage_of_no_steps_leaves_the_base_model(
    params: Params, tmp_path: Path, paired: bool, length: int | None, shared: bool
) -> None:
    params = change(params, {"steps": 0})
    params = params.model_copy(update={"encoder": params.encoder.model_copy(update={"shared": shared})})
    pretrain(params, tmp_path, paired=paired)
    found = DualEncoder.load(tmp_path, precision="fp32").for_inference()
    assert (found.settings.pair_length, found.settings.shared) == (length, shared)
    assert (found.query is found.passage) == shared and (tmp_path / "passage").is_dir() != shared
    base = DualEncoder.from_pretrained(params.encoder).for_inference()
    np.testing.assert_array_equal(found.embed_queries(ASKED), base.embed_queries(ASKED))
