"""The models that check `params.yaml`: one for each section, which states the type and the bounds of every value."""

import re
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gnn_encoder.core.errors import UserError

Fraction = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Epochs = Annotated[float, Field(gt=0)]  # passes over the queries; 0.5: a random half of them, once
Depth = Annotated[int, Field(ge=1, le=32_767)]  # ranks are int16
Share = Annotated[float, Field(ge=0, le=1)]
Weights = Annotated[list[float], Field(min_length=1)]
PoolKind = Literal["max", "mean", "softmax"]  # how the scores of a passage's views make its score: core/view_pool.py
Gate = Literal["learned"] | Annotated[float, Field(ge=0, le=1)]  # Eq. 9, or a constant in its place


class Section(BaseModel):
    """A section of the experiment. It is immutable, and an unknown key in it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def only(self, names: Iterable[str]) -> Self:
        """A copy that holds only the parameters of these dotted names: reading any other is an AttributeError.

        The values are not checked again.
        """
        asked: dict[str, list[str]] = {}
        for name in names:
            head, _, rest = name.partition(".")
            asked.setdefault(head, []).append(rest)
        values = {head: getattr(self, head) for head in asked}
        parts = {
            head: value.only(asked[head])
            for head, value in values.items()
            if isinstance(value, Section) and "" not in asked[head]
        }
        return self.model_construct(**values | parts)

    def value(self, name: str) -> Any:
        """A parameter by its dotted name."""
        return reduce(lambda of, part: of[part] if isinstance(of, dict) else getattr(of, part), name.split("."), self)


class Names(Section):
    """Each split's data set in ir_datasets."""

    train: str
    dev: str | None = None
    test: str


class Cutting(Section):
    """How texts are cut into passages."""

    words: Count  # most words of a passage
    overlap: Annotated[int, Field(ge=0)]  # most words that a passage repeats of the one before

    @model_validator(mode="after")
    def _passages_go_on(self) -> Self:
        if self.overlap >= self.words:
            raise ValueError(
                f"data.passages.overlap is {self.overlap}: must be below data.passages.words, {self.words}"
            )
        return self


class Data(Section):
    """Where passages, queries and judgements come from."""

    source: Literal["insuranceqa", "beir", "log", "squad", "msmarco", "dpr", "ir_datasets"]
    path: str | None  # folder of the source's files; null for a source that is a package
    passages: Cutting | None = None  # long texts are cut into passages; null: each text is a passage
    train_queries: Count | None  # how many training queries are used, drawn at random; null: all
    dev_fraction: Fraction  # share of train that becomes dev where the source has no dev split
    name: str | None = None  # dpr: nq, trivia, ...; ir_datasets: a data set that has parts train and test
    names: Names | None = None  # ir_datasets: the data set of each split, instead of `name`
    test: Literal["dev", "trec_dl_2019", "trec_dl_2020"] = "dev"  # msmarco: which queries are the test split
    min_count: Count = 1  # log: a query and a passage that were logged together less often are no positive pair
    split: Literal["hash", "time"] = "hash"  # log: what decides which split a query belongs to
    test_fraction: Fraction = 0.1  # log, squad: share of the queries that becomes test, if the source has no test split
    unlabelled: str | None = None  # file of queries without labels: text, one a line, or Parquet with a column text

    @model_validator(mode="after")
    def _nothing_in_vain(self) -> Self:
        readers = {
            "path": ("beir", "log", "squad", "msmarco", "dpr"),
            "name": ("dpr", "ir_datasets"),
            "names": ("ir_datasets",),
            "test": ("msmarco",),
            "min_count": ("log",),
            "split": ("log",),
            "test_fraction": ("log", "squad"),
        }
        for key, sources in readers.items():
            field = type(self).model_fields[key]
            unset = None if field.is_required() else field.default
            if getattr(self, key) != unset and self.source not in sources:
                cure = f"set it to null, or data.source to {' or '.join(sources)}" if key == "path" else "remove it"
                raise ValueError(f"data.{key} is set, which source {self.source} does not read; {cure}")
        return self


class Encoder(Section):
    """The dual-encoder: what it starts from and how a text becomes a vector."""

    model: str  # hub name, folder, or package:NAME/FOLDER
    revision: str | None
    trust_remote_code: bool
    pooling: Literal["cls", "mean"]
    similarity: Literal["dot", "cosine"]
    temperature: Annotated[float, Field(gt=0)]  # scores are divided by it; 1 with dot
    shared: bool  # one set of weights for queries and passages
    query_length: Annotated[int, Field(ge=4)]  # tokens, special ones included
    passage_length: Annotated[int, Field(ge=4)]
    query_prefix: str = ""  # put before every query that a dual-encoder reads; counts towards its length
    passage_prefix: str = ""  # put before every passage, before its title
    dropout: Annotated[float, Field(ge=0, lt=1)]
    frozen_layers: Annotated[int, Field(ge=0)]  # embeddings and this many lower layers are not trained
    precision: Literal["auto", "bf16", "fp32"]
    batch_tokens: Count  # padded tokens of one inference batch


class Untouched(Section):
    """The base model as it comes: the most tokens that it reads, special ones included; null: all it can."""

    query_length: Annotated[int, Field(ge=4)] | None
    passage_length: Annotated[int, Field(ge=4)] | None


class BM25(Section):
    """Lexical retrieval (bm25s, Lucene's formula)."""

    k1: Rate
    b: Annotated[float, Field(ge=0, le=1)]
    depth: Depth  # candidates a training query


class Dev(Section):
    """The dev score of every training of an encoder, by which it keeps its best weights."""

    queries: Count  # dev queries, a fixed random sample
    depth: Depth  # passages that each of them adds to the pool; the systems that make it share them
    passages: Annotated[int, Field(ge=0)]  # a corpus of at most so many is ranked whole
    cached_passages: Annotated[int, Field(ge=0)]  # the same where embeddings are read from a cache: MGT's phase one
    cached_queries: Count  # dev queries that rank such a corpus there
    evaluations: Annotated[int, Field(ge=2)]  # spread evenly over a training, start and end included


class Contrastive(Section):
    """Training a dual-encoder by Eq. 2."""

    epochs: Annotated[float, Field(ge=0)]  # 0: it stays as it is
    batch_size: Annotated[int, Field(ge=2)]  # queries, over all devices
    negatives: Annotated[int, Field(ge=0)]  # hard negatives a query
    learning_rate: Rate
    warmup: Annotated[float, Field(ge=0, le=1)]  # share of the steps in which the learning rate rises
    chunk_size: Count  # texts encoded at a time with gradients; GradCache is used where a batch has more


class Taught(Contrastive):
    """Training by Eq. 2, or by the teacher's soft targets as well."""

    targets: Literal["labels", "teacher"] = "labels"
    teacher_weight: Annotated[float, Field(gt=0, le=1)] = 0.7  # of the loss that soft targets give, if there are any


class TrainDualEncoder(Taught):
    """Training M_de; it starts from the base model as in RocketQA, or from the first retriever."""

    init: Literal["base", "retriever"]


class MineCandidates(Section):
    """How many passages of the first retriever M_ce may see for each query."""

    depth: Depth


class TrainCrossEncoder(Section):
    """Training M_ce: labelled positives against candidates of the first retriever."""

    model: str | None  # null: encoder.model
    max_length: Annotated[int, Field(ge=8)]  # tokens of a pair
    epochs: Epochs
    batch_size: Annotated[int, Field(ge=2)]  # queries
    negatives: Count  # candidates a query
    learning_rate: Rate
    warmup: Annotated[float, Field(ge=0, le=1)]
    pooling: Literal["cls", "mean"] = "cls"  # what the head reads: the [CLS] state, or the mean of all states
    loss: Literal["pointwise", "listwise"] = "pointwise"  # each pair by itself, or a query's passages together
    range_min: Annotated[int, Field(ge=0)] = 0  # first rank of the mined candidates that negatives come from
    range_max: Count | None = None  # the rank after the last one; null: all that were mined

    @model_validator(mode="after")
    def _negatives_come_from_somewhere(self) -> Self:
        if self.range_max is not None and self.range_min >= self.range_max:
            raise ValueError(f"range_min is {self.range_min}: must be below range_max, {self.range_max}")
        return self


class TeacherScore(Section):
    """What the score is that denoising, pseudo-labels and reranking go by."""

    # M_ce's as it was trained; the same as a probability, fitted on dev; that of M_ce and the retriever together.
    score: Literal["cross_encoder", "calibrated", "sum"]


class Denoise(Section):
    """Which candidates M_ce calls positives and negatives."""

    range_min: Annotated[int, Field(ge=0)]  # first rank of the mined candidates that are considered; 0 is the best
    range_max: Count  # the rank after the last one that is considered
    candidates: Count  # candidates that are scored for each query, most of them from the first of these ranks
    positive_threshold: Fraction
    negative_threshold: Fraction
    # Negatives score below this share of what their query's best labelled passage scores, and not above
    # positive_threshold; null: below negative_threshold.
    relative: Annotated[float, Field(gt=0, le=1)] | None = None


class PairStage(Taught):
    """One of the two training stages of PAIR."""

    alpha: Annotated[float, Field(ge=0, le=1)]  # weight of the passage-centric loss (PAIR Eq. 6)
    # What that loss keeps a positive away from: the batch's other passages (PAIR Eq. 5), or its other queries and hard
    # negatives, as in the authors' code.
    passage_centric_negatives: Literal["passages", "queries"] = "passages"


class Pair(Section):
    """PAIR: passage-centric similarity, pseudo-labels by M_ce, two stages (PAIR, section 3)."""

    teacher: TrainCrossEncoder | None  # the M_ce that gives pseudo-labels; null: that of train_cross_encoder
    # Of the queries that data.train_queries leaves out, so many have their labels hidden, as a share of all.
    unlabelled_fraction: Annotated[float, Field(ge=0, lt=1)]
    depth: Depth  # candidates a query from the first retriever
    candidates: Count  # how many of these the teacher scores, most of them from the top
    s_pos: Fraction  # pseudo-positives score above
    s_neg: Fraction  # hard negatives score below
    pseudo_labels: bool  # false: both stages on labelled data alone (the paper's w/o KD)
    shared: bool  # one set of weights for queries and passages
    pretrain: PairStage
    finetune: PairStage

    @model_validator(mode="after")
    def _soft_targets_have_a_teacher(self) -> Self:
        for name in ("pretrain", "finetune"):
            if getattr(self, name).targets == "teacher" and not self.pseudo_labels:
                raise ValueError(
                    f"pair.{name}.targets is 'teacher', but pair.pseudo_labels is false: the teacher scores nothing; "
                    "set one of the two"
                )
        return self


class Generator(Section):
    """The query generation model P_QG(q|d) (Dual-Cross-Encoder, section 3.4)."""

    model: str | None  # a seq2seq model, used as it is; null: an encoder-decoder from encoder.model, trained here
    revision: str | None
    epochs: Epochs
    batch_size: Annotated[int, Field(ge=2)]  # pairs of a passage and its query
    learning_rate: Rate
    warmup: Annotated[float, Field(ge=0, le=1)]
    passage_length: Annotated[int, Field(ge=4)]  # tokens, special ones included
    query_length: Annotated[int, Field(ge=4)]


class DualCrossStage(Contrastive):
    """One of the two training stages of Dual-Cross-Encoder and of its DPR baseline."""

    # Of the passages that Dual-Cross-Encoder reads in training, so many are read alone, the others beside a query.
    plain_share: Share


class DualCross(Section):
    """Dual-Cross-Encoder: passages encoded together with generated queries, several views a passage."""

    generator: Generator
    generated: Annotated[int, Field(ge=1, le=127)]  # queries that are generated a passage
    views: Annotated[int, Field(ge=1, le=127)]  # of these, the ones that are nearest to it are kept
    plain_view: bool  # the passage read alone is a view too, the first
    pool: PoolKind  # what a passage's score is, of its views' scores
    pool_temperature: Annotated[float, Field(gt=0)]  # of the softmax
    plain_weight: Fraction | None  # of the plain view in the mean; null: as that of any other
    queries: Count | None  # how many generated queries, drawn at random, are used for pre-training; null: all
    top_k: Count  # tokens that sampling chooses from
    max_length: Annotated[int, Field(ge=8)]  # tokens of a query and its passage
    # The query that a passage is encoded with in training: the one of the example (Eq. 8), or one generated for the
    # passage, as in the index.
    beside: Literal["asked", "generated"]
    shared: bool  # one set of weights for queries and passages ("tied")
    pretrain: DualCrossStage  # on generated queries
    finetune: DualCrossStage  # on labelled ones

    @model_validator(mode="after")
    def _kept_of_generated(self) -> Self:
        if self.views > self.generated:
            raise ValueError(
                f"dual_cross.views is {self.views}: must be at most dual_cross.generated, {self.generated}"
            )
        return self

    @property
    def vectors(self) -> int:
        """Views of a passage, the plain one included."""
        return self.views + self.plain_view


class CachePassages(Section):
    """Passage embeddings on disk."""

    dtype: Literal["float16", "float32"]


class BuildGraph(Section):
    """The query-passage graph (section 3.2)."""

    unlabelled: (
        Annotated[int, Field(ge=0)] | None
    )  # how many queries without labels, at random, become nodes; null: all
    generated: Count | None  # how many generated queries, drawn at random, become nodes, if any do; null: all
    k: Depth  # passages a query
    labelled: bool  # a training query's labelled passages are among its k, first; attention tells their edges apart
    factory: str  # FAISS index that finds these passages; Flat is exact and streams


class MGT(Section):
    """The GNN (section 3.3) and Masked Graph Training (section 3.4, Algorithm 1)."""

    layers: Literal[1, 2]
    heads: Count
    gate: Gate
    edge_features: Literal["cross_encoder", "product", "none"]
    masking: Literal["mgt", "drop_labelled"]
    graph: Literal["full", "self_loops"]
    beta: Annotated[float, Field(gt=0, le=0.5)]  # share of the queries masked in a round: there are two rounds or more
    max_neighbours: Count | None  # most queries a passage keeps, those with the best retrieval scores; null: all
    gnn_epochs: Annotated[int, Field(ge=0)]  # phase one: the GNN alone on cached embeddings
    epochs: Annotated[int, Field(ge=0)]  # phase two: encoder and GNN together
    targets: Literal["labels", "teacher"] = "labels"  # of both phases, and of the control
    teacher_weight: Annotated[float, Field(gt=0, le=1)] = 0.7  # as in section distil
    batch_size: Annotated[int, Field(ge=2)]
    negatives: Annotated[int, Field(ge=0)]
    gnn_learning_rate: Rate  # phase one
    joint_gnn_learning_rate: Rate  # phase two
    encoder_learning_rate: Rate  # phase two
    dropout: Annotated[float, Field(ge=0, lt=1)]  # of the encoder, in phase two and in the control
    warmup: Annotated[float, Field(ge=0, le=1)]
    chunk_size: Count
    evaluate_every: Count  # steps
    patience: Count  # evaluations without a better score before training stops


class TrainNoGNN(Section):
    """The control: M_de trained on with GNN-encoder's batches, without the graph."""

    learning_rate: Rate


class EncodeCorpus(Section):
    """Query-interactive passage embeddings of the whole corpus."""

    labelled_edges: bool  # false: a query does not inform the passages it is labelled with


class Baselines(Section):
    """What the query log and BM25 are worth without training. Of each list the value that is best on dev is taken."""

    dev_queries: Count  # most judged dev queries that choose, a fixed random sample
    query_mean: Weights  # lambda of h_p + lambda * mean of the passage's labelled training queries
    label_prior: Weights  # added to labelled passages, in standard deviations of M_de's scores of a query's passages
    neighbours: Annotated[list[Count], Field(min_length=1)]  # logged queries that are looked up for a query
    neighbour_weights: Weights  # of what their labelled passages get, in the same unit
    bm25_weights: Annotated[list[Share], Field(min_length=1)]  # BM25's share of the hybrid's score
    reciprocal_ranks: list[Count]  # constants k of 1 / (k + rank), which is tried instead of scores

    @model_validator(mode="after")
    def _doing_nothing_can_win(self) -> Self:
        for name in ("query_mean", "label_prior", "neighbour_weights"):
            if 0 not in getattr(self, name):
                raise ValueError(
                    f"baselines.{name} is {getattr(self, name)}: must hold 0, which leaves M_de as it is; add it"
                )
        return self


class Index(Section):
    """The FAISS index that is searched online."""

    factory: str  # FAISS factory string; Flat is the exact IndexFlatIP


class Retrieve(Section):
    """Depth of the runs."""

    depth: Count


class Rerank(Section):
    """The ceiling: M_de's top passages reordered by a cross-encoder."""

    model: Literal["cross_encoder", "pair_teacher"]
    depth: Count  # passages of M_de's run that are reordered; those below keep their order
    queries: Count | None  # a random sample of each split; null: all


class Evaluate(Section):
    """Measures in ir-measures' names."""

    measures: Annotated[list[str], Field(min_length=1)]
    significance: str  # the measure of the paired test
    answers: Literal["string", "regex"]  # how the answers of a split that is judged by answers are written
    by: Literal["passage", "document"] = "passage"  # what is ranked and judged, where texts are cut into passages


DEFAULTS = "`git show HEAD:params.yaml` shows the default"


class Trial(Section):
    """A system of the evidence: GNN-encoder with a change."""

    table: Literal["ablations", "k", "beta"]  # where it is shown: Table 3, Figure 3 or Figure 4
    graph: Literal["gnn_encoder", "widest"]
    k: Depth | None = None  # the graph is cut to so many passages a query; null: all that it has
    mgt: dict[str, Any] = {}  # values that replace those of section `mgt`
    control: bool = False  # trained as train_no_gnn, without a graph


class Evidence(Section):
    """GNN-encoder's ablations and sweeps (sections 4.5, 4.6), each system trained and measured with several seeds."""

    seeds: Count  # runs of each trial, with `seed`, `seed` + 1, ...
    measures: Annotated[list[str], Field(min_length=1)]
    k: Depth  # passages a query in the widest graph; the graphs of table k's trials are cut from it
    trials: dict[str, Trial]
    cases: Count  # dev queries that are shown as examples
    resamples: Annotated[int, Field(ge=100)]  # bootstrap samples of the queries, for intervals


class Report(Section):
    """How much the report's view of single queries shows."""

    queries: Annotated[int, Field(ge=1, le=50)]  # of two systems: so many that gain most, so many that lose most
    passages: Annotated[int, Field(ge=1, le=20)]  # shown for each system, best first


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
    distil: Taught
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
    evidence: Evidence
    report: Report

    def of_trial(self, trial: Trial) -> Self:
        """This experiment with the trial's changes of `mgt`."""
        return self.model_copy(update={"mgt": MGT.model_validate(self.mgt.model_dump() | trial.mgt)})

    @model_validator(mode="after")
    def _documents_are_cut(self) -> Self:
        if self.evaluate.by == "document" and self.data.passages is None:
            raise ValueError(
                "evaluate.by is 'document', but data.passages is null: each passage is a document; set one of the two"
            )
        return self

    @model_validator(mode="after")
    def _candidates_were_mined(self) -> Self:
        first, last, depth = self.denoise.range_min, self.denoise.range_max, self.mine_candidates.depth
        if first >= last:
            raise ValueError(f"denoise.range_min is {first}: must be below denoise.range_max, {last}")
        if last > depth:
            raise ValueError(f"denoise.range_max is {last}: must be at most mine_candidates.depth, {depth}")
        if self.pair.depth > depth:
            raise ValueError(f"pair.depth is {self.pair.depth}: must be at most mine_candidates.depth, {depth}")
        teachers = {"train_cross_encoder": self.train_cross_encoder, "pair.teacher": self.pair.teacher}
        for section, teacher in teachers.items():
            if teacher is not None and teacher.range_min >= depth:
                raise ValueError(
                    f"{section}.range_min is {teacher.range_min}: must be below mine_candidates.depth, {depth}"
                )
        return self

    @model_validator(mode="after")
    def _positives_score_above_negatives(self) -> Self:
        d, p = self.denoise, self.pair
        for low, below, high, above in (
            ("denoise.negative_threshold", d.negative_threshold, "denoise.positive_threshold", d.positive_threshold),
            ("pair.s_neg", p.s_neg, "pair.s_pos", p.s_pos),
        ):
            if below > above:
                raise ValueError(f"{low} is {below}: must be at most {high}, {above}, or one passage is both labels")
        return self

    @model_validator(mode="after")
    def _trials_are_experiments(self) -> Self:
        trials = self.evidence.trials
        main = {"table": "ablations", "graph": "gnn_encoder"}
        for name, wanted in (("full", main), ("no_gnn", main | {"control": True})):
            if name not in trials or trials[name] != Trial.model_validate(wanted):
                raise ValueError(f"evidence.trials.{name} must be {wanted!r}: every other trial is compared with it")
        if "no_mgt" not in trials:
            raise ValueError(
                f"evidence.trials.no_mgt is missing: its attention is shown beside that of full; {DEFAULTS}"
            )
        numbers: dict[tuple[str, float | None], str] = {}
        for name, trial in trials.items():
            try:
                self.of_trial(trial)
            except ValidationError as error:
                told = "; ".join(describe(e) for e in error.errors())
                raise ValueError(f"evidence.trials.{name}: {told}") from error
            graph = "evidence" if trial.graph == "widest" else "build_graph"
            if trial.k is not None and trial.k > (most := self.value(f"{graph}.k")):
                raise ValueError(f"evidence.trials.{name}.k is {trial.k}: must be at most {graph}.k, {most}")
            if (trial.table == "k") != (trial.k is not None) or (trial.table == "beta" and "beta" not in trial.mgt):
                raise ValueError(f"evidence.trials.{name}: a trial of table k has a k, one of table beta has mgt.beta")
            if trial.table != "ablations":
                number = (trial.table, trial.k if trial.table == "k" else float(trial.mgt["beta"]))
                if number in numbers:
                    raise ValueError(
                        f"evidence.trials.{name} has the {trial.table} of {numbers[number]}, {number[1]}: a sweep "
                        "shows one trial of each; change it, or show it in table ablations"
                    )
                numbers[number] = name
        return self


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check an experiment.

    Raises:
        UserError: the file is missing or is not YAML, or a parameter is unknown, missing, mistyped or out of bounds.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root, or `git checkout {path}`")
    try:
        return Params.model_validate(parse_yaml(path.read_bytes(), path))
    except ValidationError as error:
        raise UserError(f"{path}: " + "; ".join(describe(e) for e in error.errors())) from error


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.1, and the numbers of YAML 1.2 that have an exponent and no point: `dvc exp run -S` writes 2e-05."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parse_yaml(content: bytes, source: str | Path) -> Any:
    """Parse YAML, as every stage reads it.

    Raises:
        UserError: the content is not YAML in UTF-8.
    """
    try:
        return yaml.load(content.decode("utf-8"), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{source}: not valid YAML in UTF-8: {' '.join(str(error).split())}") from error


def describe(error: Any) -> str:
    """One of pydantic's errors in words: the parameter, the value, the rule and, where it is not obvious, the cure."""
    # For a union, pydantic also names the member that failed (literal['learned'], constrained-float): leave that out.
    name = ".".join(str(part) for part in error["loc"] if str(part).isidentifier() or isinstance(part, int))
    kind = error["type"]
    if kind == "value_error":  # raised by one of our validators, whose message names the parameters
        return str(error["ctx"]["error"])
    if kind == "extra_forbidden":
        return f"{name} is not a parameter (value {error['input']!r}); remove it or correct its name"
    if kind == "missing":
        return f"{name} is missing; {DEFAULTS}"
    if kind == "model_type":
        return f"{name or 'the file'} is {error['input']!r}: must be lines of `key: value`; {DEFAULTS}"
    if kind == "float_type" and isinstance(error["input"], str):
        return f"{name} is the text {error['input']!r}: must be a number such as 5e-5, without quotes"
    if kind == "string_type" and isinstance(error["input"], dict):  # YAML reads a text with a colon as a mapping
        return f"{name} is {error['input']!r}: must be a text; in a shell '{name}=\"TEXT\"', in both kinds of quotes"
    return f"{name} is {error['input']!r}: {error['msg'][0].lower() + error['msg'][1:]}"
