"""The experiment, `params.yaml`: its sections and what must hold between them.

The model of a section stands in the package that it steers, so that a new parameter reruns what reads that package.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from gnn_encoder.baselines.params import Baselines
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.section import Section, described
from gnn_encoder.data.params import Data
from gnn_encoder.dual_cross.params import DualCross
from gnn_encoder.evaluation.params import Evaluate, Rerank
from gnn_encoder.graph.params import BuildGraph, EncodeCorpus
from gnn_encoder.index.params import BM25, Index, Retrieve
from gnn_encoder.mgt.params import MGT, TrainNoGNN
from gnn_encoder.models.params import CachePassages, Encoder, Untouched
from gnn_encoder.pair.params import Pair
from gnn_encoder.training.params import (
    Contrastive,
    Denoise,
    Dev,
    Distil,
    MineCandidates,
    TeacherScore,
    TrainCrossEncoder,
    TrainDualEncoder,
)


class Params(Section):
    """The whole experiment."""

    seed: Annotated[int, Field(ge=0, lt=2**32)]
    data: Data
    encoder: Encoder
    untouched: Untouched
    bm25: BM25
    dev: Dev
    train_retriever: Contrastive
    mine_candidates: MineCandidates
    train_cross_encoder: TrainCrossEncoder
    teacher: TeacherScore
    denoise: Denoise
    train_dual_encoder: TrainDualEncoder
    distil: Distil
    pair: Pair
    dual_cross: DualCross
    cache_passages: CachePassages
    build_graph: BuildGraph
    mgt: MGT
    train_no_gnn: TrainNoGNN
    encode_corpus: EncodeCorpus
    baselines: Baselines
    index: Index
    retrieve: Retrieve
    rerank: Rerank
    evaluate: Evaluate

    @model_validator(mode="after")
    def _documents_are_cut(self) -> Self:
        if self.evaluate.by == "document" and self.data.passages is None:
            raise ValueError(
                "evaluate.by is 'document', but data.passages is null: each passage is a document; set one of the two"
            )
        return self

    @model_validator(mode="after")
    def _values_fit_together(self) -> Self:
        teacher = [] if self.pair.teacher is None else ["pair.teacher.range_min"]
        for low, high, may_be_equal in (
            ("denoise.range_min", "denoise.range_max", False),
            ("denoise.range_max", "mine_candidates.depth", True),
            ("pair.depth", "mine_candidates.depth", True),
            *((name, "mine_candidates.depth", False) for name in ("train_cross_encoder.range_min", *teacher)),
            ("denoise.negative_threshold", "denoise.positive_threshold", True),  # or one passage is both labels
            ("pair.s_neg", "pair.s_pos", True),
        ):
            below, above = self.value(low), self.value(high)
            if below > above or (below == above and not may_be_equal):
                rule = "at most" if may_be_equal else "below"
                raise ValueError(f"{low} is {below}: must be {rule} {high}, {above}")
        return self


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check an experiment."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root, or `git checkout {path}`")
    try:
        return Params.model_validate(parse_yaml(path.read_bytes(), path))
    except ValidationError as error:
        raise UserError(f"{path}: {described(error)}") from error


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.1, and the numbers of YAML 1.2 that have an exponent and no point: `dvc exp run -S` writes 2e-05.

    A key stands once in its section: DVC, which reads the same file, refuses more in words of its own.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first = dict[str, int]()
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in first:
                raise yaml.YAMLError(f"key {name} stands in lines {first[name]} and {line}; keep one of them")
            first[name] = line
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parse_yaml(content: bytes, source: str | Path) -> Any:
    """Parse YAML, as every stage reads it."""
    try:
        return yaml.load(content.decode("utf-8"), _Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, a number of thousands of digits, an odd date
        raise UserError(f"{source}: not valid YAML in UTF-8: {' '.join(str(error).split())}") from error
