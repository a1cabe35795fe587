"""The sections of params.yaml, in its order, and what their values may be."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

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
Steps = Annotated[int, Field(ge=0)]  # of the optimiser; 0: nothing is trained
Beta = Annotated[float, Field(gt=0, le=0.5)]  # share of the queries masked in a round: there are two rounds or more
Gate = Literal["learned"] | Share  # Eq. 9, or a constant in its place


class Names(Section):
    """Each split's data set in ir_datasets."""

    train: str
    dev: str | None = None
    test: str


class Data(Section):
    """Where passages, queries and judgements come from."""

    source: Literal["insuranceqa", "beir", "log", "msmarco", "dpr", "ir_datasets"]
    path: str | None  # folder of the source's files; null for a source that is a package
    train_queries: Count | None  # how many training queries are used, drawn at random; null: all
    passages: Annotated[int, Field(ge=2)] | None = None  # a random sample that holds every judged one; null: all
    dev_fraction: Fraction  # share of train that becomes dev where the source has no dev split
    name: str | None = None  # dpr: nq, trivia, ...; ir_datasets: a data set that has parts train and test
    names: Names | None = None  # ir_datasets: the data set of each split, instead of `name`
    test: Literal["dev", "trec_dl_2019", "trec_dl_2020"] = "dev"  # msmarco: which queries are the test split
    min_count: Count = 1  # log: a query and a passage that were logged together less often are no positive pair
    test_fraction: Fraction = 0.1  # log: share of the queries that becomes test
    unlabelled: str | None = None  # file of queries without labels: text, one a line, or Parquet with a column text

    @model_validator(mode="after")
    def _nothing_in_vain(self) -> Self:
        readers = {"path": ("beir", "log", "msmarco", "dpr"), "name": ("dpr", "ir_datasets"), "names": ("ir_datasets",)}
        readers |= {"test": ("msmarco",), "min_count": ("log",), "test_fraction": ("log",)}
        for key, sources in readers.items():
            unset = None if key == "path" else type(self).model_fields[key].default
            if getattr(self, key) != unset and self.source not in sources:
                cure = "set it to null" if key == "path" else "remove it"
                raise ValueError(f"data.{key} is set, which source {self.source} does not read; {cure}")
        return self


class Encoder(Section):
    """The dual-encoder: what it starts from and how a text becomes a vector."""

    model: str  # hub name, folder, or package:NAME/FOLDER
    revision: str | None
    trust_remote_code: bool = False  # whether code of the model's folder is run
    # Of these four, null is what the model's own files state: text/pretrained.py.
    pooling: Literal["cls", "mean", "max", "lasttoken"] | None
    similarity: Literal["dot", "cosine"] | None
    query_prefix: str | None = None  # put before every query that a dual-encoder reads; counts towards its length
    passage_prefix: str | None = None  # put before every passage, before its title
    temperature: Annotated[float, Field(gt=0)] | None  # scores are divided by it; null: 0.05 with cosine, 1 with dot
    shared: bool  # one set of weights for queries and passages
    query_length: Tokens
    passage_length: Tokens
    dropout: Annotated[float, Field(ge=0, lt=1)]
    frozen_layers: Number  # embeddings and this many lower layers are not trained
    precision: Literal["auto", "bf16", "fp32"]
    batch_tokens: Count  # padded tokens of one inference batch
    chunk_size: Count  # passages, or queries of as many tokens, encoded at a time with gradients: GradCache


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

    depth: Depth  # candidates a training query
    stop_words: StopWords | None  # the language whose stop words are left out
    stemmer: Stemmer | None  # the language of the Snowball stemmer


class Dev(Section):
    """The dev score of every training of an encoder, by which it keeps its best weights."""

    queries: Count  # dev queries, a fixed random sample
    evaluations: Count  # in each training, evenly spread, the end included; its start is always scored


class Contrastive(Section):
    """Training a dual-encoder by Eq. 2."""

    steps: Steps
    batch_size: Several  # queries, over all devices
    negatives: Number = 0  # hard negatives a query
    learning_rate: Rate


class MineCandidates(Section):
    """How many passages of the first retriever M_ce may see for each query."""

    depth: Depth


class TrainCrossEncoder(Section):
    """Training M_ce: labelled positives against candidates of the first retriever."""

    model: str | None  # null: encoder.model
    max_length: Annotated[int, Field(ge=8)]  # tokens of a pair
    steps: Count
    batch_size: Several  # queries
    negatives: Count  # candidates a query
    range_min: Number = 0  # first rank of the mined candidates that negatives come from
    learning_rate: Rate


class Denoise(Section):
    """Which candidates M_ce calls positives and negatives."""

    # Training queries whose candidates are scored, a random sample, which M_de trains on. The others have no hard
    # negatives. null: all.
    queries: Count | None = None
    range_max: Count  # so many of the mined candidates are considered, the best first
    candidates: Count  # so many of these are scored for each query, most of them from the top
    positive_threshold: Fraction
    negative_threshold: Fraction

    @property
    def thresholds(self) -> dict[str, float]:
        """Both thresholds by name."""
        return {"positive_threshold": self.positive_threshold, "negative_threshold": self.negative_threshold}


class PairStage(Contrastive):
    """One of the two training stages of PAIR."""

    alpha: Share  # weight of the passage-centric loss (PAIR Eq. 6)


class Pair(Section):
    """PAIR: passage-centric similarity, pseudo-labels by M_ce, two stages (PAIR, section 3)."""

    teacher: TrainCrossEncoder | None  # the M_ce that gives pseudo-labels; null: that of train_cross_encoder
    pseudo_labels: bool  # false: both stages on labelled data alone (the paper's w/o KD)
    pretrain: PairStage
    finetune: PairStage


class Generator(Section):
    """The query generation model P_QG(q|d) (Dual-Cross-Encoder, section 3.4)."""

    model: str | None  # a seq2seq model, used as it is; null: an encoder-decoder from encoder.model, trained here
    file: str | None = None  # of queries that were generated already: data/queries.py; null: a model generates them
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
    generated: Annotated[int, Field(ge=1, le=127)]  # queries that are generated a passage
    views: Annotated[int, Field(ge=1, le=127)]  # of these, the ones that are nearest to it are kept
    # What a passage's score is, of its views' scores. max is the paper: Eq. 11, and E_P trains with the query that is
    # asked beside each passage (Eq. 8). With mean the passage read alone is a view too, the first, and E_P trains as it
    # reads in search: most passages alone, the others beside a generated query.
    pool: Literal["max", "mean"]
    queries: Count | None  # how many generated queries, drawn at random, are used for pre-training; null: all
    max_length: Annotated[int, Field(ge=8)]  # tokens of a query and its passage
    # Labelled queries with their hard negatives: those that M_de trains on, or BM25's (section 3.5).
    examples: Literal["denoised", "bm25"] = "denoised"
    pretrain: Contrastive  # on generated queries
    finetune: Contrastive  # on `examples`

    @property
    def vectors(self) -> int:
        """Views of a passage, the plain one included."""
        return self.views + self.has_plain_view

    @property
    def has_plain_view(self) -> bool:
        """Whether the passage read alone is a view too, the first."""
        return self.pool == "mean"


class CachePassages(Section):
    """Passage embeddings on disk."""

    dtype: Literal["float16", "float32"]


class BuildGraph(Section):
    """The query-passage graph (section 3.2)."""

    unlabelled: Number | None  # how many queries without labels, at random, become nodes; null: all
    k: Depth  # passages a query


class Alone(Section):
    """Phase one: the GNN alone on cached embeddings."""

    steps: Steps
    batch_size: Several  # queries, at most a fold
    learning_rate: Rate


class Joint(Section):
    """Phase two: encoder and GNN together, as in the paper."""

    steps: Steps
    batch_size: Several  # queries, at most a fold
    gnn_learning_rate: Rate
    encoder_learning_rate: Rate


class PhaseOne(Section):
    """The GNN (section 3.3) and what trains it alone."""

    # A query's labelled passages are among its k, first; attention and gate tell these edges apart, and Eq. 10 also
    # sums up a passage's labelled queries, scaled by their number.
    labels: bool
    layers: Literal[1, 2]
    gate: Gate
    edge_features: Literal["cross_encoder", "none"]
    masking: Literal["mgt", "drop_labelled"]
    beta: Beta
    negatives: Number
    softmax: Literal["batch", "corpus"]  # of the loss: over the batch's passages (Eq. 12), or all
    alone: Alone


class MGT(PhaseOne):
    """Masked Graph Training (section 3.4, Algorithm 1)."""

    joint: Joint


class Index(Section):
    """The FAISS index that is searched online."""

    factory: str  # FAISS factory string; Flat is the exact IndexFlatIP


class Retrieve(Section):
    """Depth of the runs."""

    depth: Count


class Evaluate(Section):
    """Measures in ir-measures' names."""

    measures: Annotated[list[str], Field(min_length=1)]
    significance: str  # the measure of the paired test
    answers: Literal["string", "regex"]  # how the answers of a split that is judged by answers are written


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
        ):
            below, above = self.value(low), self.value(high)
            if below > above:
                raise ValueError(f"{low} is {below}: must be at most {high}, {above}")
        for name in ("train_cross_encoder", *(("pair.teacher",) if self.pair.teacher else ())):  # each an M_ce
            if (first := self.value(name).range_min) >= (depth := self.mine_candidates.depth):
                raise ValueError(f"{name}.range_min is {first}: must be below mine_candidates.depth, {depth}")
        for measure in (*self.evaluate.measures, self.evaluate.significance):  # runs end at the depth
            if (found := re.search(r"@(\d+)$", measure)) and int(found[1]) > self.retrieve.depth:
                raise ValueError(f"retrieve.depth is {self.retrieve.depth}: must be at least {found[1]}, for {measure}")
        return self


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check an experiment."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root, or `git checkout {path}`")
    return Params.parsed(path.read_bytes(), path)
