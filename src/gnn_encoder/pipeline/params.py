"""The sections of params.yaml, in its order, and what their values may be.

What a parameter is says params.yaml, and this file where that leaves it out.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.section import Section

Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
Several = Annotated[int, Field(ge=2)]
Tokens = Annotated[int, Field(ge=4)]  # of a text, special ones included
Depth = Annotated[int, Field(ge=1, le=32_767)]  # ranks are int16
Beta = Annotated[float, Field(gt=0, le=0.5)]  # share of the queries masked in a round: there are two rounds or more
Gate = Literal["learned"] | Share  # Eq. 9, or a constant in its place
File = Annotated[str, AfterValidator(os.path.expanduser)]  # or a folder; ~ is the user's


class Names(Section):
    """Each split's data set in ir_datasets."""

    train: str
    dev: str | None = None
    test: str


class Data(Section):
    """Where passages, queries and judgements come from."""

    source: Literal["insuranceqa", "beir", "log", "msmarco", "dpr", "ir_datasets"]
    path: File | None
    train_queries: Count | None
    passages: Annotated[int, Field(ge=2)] | None = None
    dev_fraction: Fraction
    name: str | None = None  # dpr: nq, trivia, ...; ir_datasets: a data set that has parts train and test
    names: Names | None = None  # ir_datasets: the data set of each split, instead of `name`
    test: Literal["dev", "trec_dl_2019", "trec_dl_2020"] = "dev"  # msmarco: which queries are the test split
    min_count: Count = 1  # log: a query and a passage that were logged together less often are no positive pair
    test_fraction: Fraction = 0.1  # log: share of the queries that becomes test
    unlabelled: File | None = None

    @model_validator(mode="after")
    def _nothing_in_vain(self) -> Self:
        readers = {"path": ("beir", "log", "msmarco", "dpr"), "name": ("dpr", "ir_datasets"), "names": ("ir_datasets",)}
        readers |= {"test": ("msmarco",), "min_count": ("log",), "test_fraction": ("log",)}
        for key, sources in readers.items():
            unset = None if key == "path" else type(self).model_fields[key].default
            if getattr(self, key) != unset and self.source not in sources:
                cure = "set it to null" if key == "path" else "remove it"
                raise ValueError(f"data.{key} is set, which source {self.source} does not read; {cure}")
        if self.name and self.names:
            raise ValueError("data.name is set, which is not read beside data.names; set it to null")
        return self


class Encoder(Section):
    """The dual-encoder: what it starts from and how a text becomes a vector."""

    model: str
    # Of these four, null is what the model's own files state: text/pretrained.py.
    pooling: Literal["cls", "mean", "max", "lasttoken"] | None
    similarity: Literal["dot", "cosine"] | None
    query_prefix: str | None = None  # put before every query that a dual-encoder reads; counts towards its length
    passage_prefix: str | None = None  # put before every passage, before its title
    temperature: Annotated[float, Field(gt=0)] | None
    shared: bool
    query_length: Tokens
    passage_length: Tokens
    dropout: Annotated[float, Field(ge=0, lt=1)]
    frozen_layers: Number
    precision: Literal["auto", "bf16", "fp32"]
    batch_tokens: Count
    chunk_size: Count


StopWords = Literal[
    "english", "danish", "dutch", "french", "german", "italian", "norwegian", "portuguese", "russian", "spanish",
    "swedish", "turkish",
]  # fmt: skip
Stemmer = Literal[
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "hungarian", "italian", "norwegian",
    "portuguese", "romanian", "russian", "spanish", "swedish",
]  # fmt: skip


class BM25(Section):
    """Lexical retrieval (bm25s, Lucene's formula)."""

    depth: Depth
    stop_words: StopWords | None
    stemmer: Stemmer | None


class Dev(Section):
    """The dev score of every training of an encoder, by which it keeps its best weights."""

    queries: Count
    evaluations: Count


class Contrastive(Section):
    """Training a dual-encoder by Eq. 2."""

    steps: Number
    batch_size: Several
    negatives: Number = 0
    learning_rate: Rate


class MineCandidates(Section):
    """How many passages of the first retriever M_ce may see for each query."""

    depth: Depth


class TrainCrossEncoder(Section):
    """Training M_ce: labelled positives against candidates of the first retriever."""

    model: str | None
    max_length: Annotated[int, Field(ge=8)]
    steps: Count
    batch_size: Several
    negatives: Count
    range_min: Number = 0
    learning_rate: Rate


class Thresholds(Section):
    """Above which score of M_ce, 0..1, a candidate is a positive, and below which a hard negative."""

    positive_threshold: Fraction
    negative_threshold: Fraction


class Denoise(Thresholds):
    """Which candidates M_ce calls positives and negatives."""

    queries: Count | None = None
    range_max: Count
    candidates: Count


class PairStage(Contrastive):
    """One of the two training stages of PAIR."""

    alpha: Share


class Pair(Thresholds):
    """PAIR: passage-centric similarity, pseudo-labels by M_ce, two stages (PAIR, section 3)."""

    pseudo_labels: bool
    pretrain: PairStage
    finetune: PairStage


class Generator(Section):
    """The query generation model P_QG(q|d) (Dual-Cross-Encoder, section 3.4)."""

    model: str | None
    file: File | None = None
    steps: Count
    learning_rate: Rate
    query_length: Tokens

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.file and self.model:
            told = f"dual_cross.generator.file is {self.file!r} and dual_cross.generator.model {self.model!r}"
            raise ValueError(f"{told}: one of them must be null")
        return self


class DualCross(Section):
    """Dual-Cross-Encoder: passages encoded together with generated queries, several views a passage."""

    generator: Generator
    generated: Annotated[int, Field(ge=1, le=127)]
    views: Annotated[int, Field(ge=1, le=127)]
    queries: Count | None
    max_length: Annotated[int, Field(ge=8)]
    examples: Literal["denoised", "bm25"] = "denoised"
    pretrain: Contrastive
    finetune: Contrastive


class CachePassages(Section):
    """Passage embeddings on disk."""

    dtype: Literal["float16", "float32"]


class BuildGraph(Section):
    """The query-passage graph (section 3.2)."""

    unlabelled: Number | None
    k: Depth


class Alone(Section):
    """Phase one: the GNN alone on cached embeddings."""

    steps: Number
    batch_size: Several
    learning_rate: Rate


class Joint(Section):
    """Phase two: encoder and GNN together, as in the paper."""

    steps: Number
    batch_size: Several
    gnn_learning_rate: Rate
    encoder_learning_rate: Rate


class PhaseOne(Section):
    """The GNN (section 3.3) and what trains it alone."""

    labels: bool
    layers: Literal[1, 2]
    gate: Gate
    edge_features: Literal["cross_encoder", "none"]
    masking: Literal["mgt", "drop_labelled"]
    beta: Beta
    negatives: Number
    softmax: Literal["batch", "corpus"]
    alone: Alone


class MGT(PhaseOne):
    """Masked Graph Training (section 3.4, Algorithm 1)."""

    joint: Joint


class Index(Section):
    """The FAISS index that is searched online."""

    factory: str


class Retrieve(Section):
    """Depth of the runs."""

    depth: Count


class Evaluate(Section):
    """Measures in ir-measures' names."""

    measures: Annotated[list[str], Field(min_length=1)]
    significance: str


class Params(Section):
    """The whole experiment."""

    seed: Annotated[int, Field(ge=0, lt=2**32)]
    data: Data
    encoder: Encoder
    bm25: BM25
    dev: Dev
    train_retriever: Contrastive
    mine_candidates: MineCandidates
    train_cross_encoder: TrainCrossEncoder
    denoise: Denoise
    train_dual_encoder: Contrastive
    pair: Pair
    dual_cross: DualCross
    cache_passages: CachePassages
    build_graph: BuildGraph
    mgt: MGT
    index: Index
    retrieve: Retrieve
    evaluate: Evaluate

    @model_validator(mode="after")
    def _values_fit_together(self) -> Self:
        for low, high in (
            ("denoise.range_max", "mine_candidates.depth"),
            ("dual_cross.views", "dual_cross.generated"),
            ("denoise.negative_threshold", "denoise.positive_threshold"),  # or one passage is both labels
            ("pair.negative_threshold", "pair.positive_threshold"),
        ):
            below, above = self.value(low), self.value(high)
            if below > above:
                raise ValueError(f"{low} is {below}: must be at most {high}, {above}")
        if (first := self.train_cross_encoder.range_min) >= (depth := self.mine_candidates.depth):
            raise ValueError(f"train_cross_encoder.range_min is {first}: must be below mine_candidates.depth, {depth}")
        for measure in (*self.evaluate.measures, self.evaluate.significance):  # runs end at the depth
            if (found := re.search(r"@(\d+)$", measure)) and int(found[1]) > self.retrieve.depth:
                raise ValueError(f"retrieve.depth is {self.retrieve.depth}: must be at least {found[1]}, for {measure}")
        return self


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check an experiment."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root, or `git checkout {path}`")
    return Params.parsed(path.read_bytes(), path)
