"""`gnn-encoder init --data SOURCE`: the data are read and checked once, and params.yaml gets values that fit them."""

import shlex
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from gnn_encoder.base.files import SCRATCH, read_json
from gnn_encoder.base.judgements import AGAIN, share_asked_again
from gnn_encoder.base.tables import SPLITS, UNLABELLED, count_rows
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.evaluate.measures import parse
from gnn_encoder.gnn.masking import fold_count
from gnn_encoder.pipeline import experiment
from gnn_encoder.pipeline.params import Encoder, Params, load_params
from gnn_encoder.search.faiss_index import new_index
from gnn_encoder.text.batches import padded, single_batch
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import own_folder, read_stated
from gnn_encoder.text.tokens import TextTokens, titled

KILLED = "init-"  # of folders that are left where an init was killed
SAMPLE = 10_000  # most texts whose tokens are counted
WHOLE_PASSAGES, WHOLE_QUERIES = 0.95, 0.99  # shares that are read whole
PAIR_TOKENS, SHORT_QUERY = 256, 16  # most tokens of a pair, and fewest to which queries are cut
CHUNK_TOKENS = 16_384  # encoded with gradient at a time on a CPU; no result depends on it
GPU_TOKENS = "encoder.batch_tokens=65536"  # what a GPU takes; no result depends on it
K, FEWEST_K, EDGES = 25, 5, 100_000  # passages per query (the paper's), and most edges without a GPU
FOLD, MOST_FOLDS = 24, 30  # fewest queries of a fold; more folds than 30 only make a pass longer
JOINT_BATCH = 100  # queries of a joint step of params.yaml; rates grow with the root of a batch
FEW = 2_000  # training queries, below which batches are smaller, and the GNN learns more slowly
# Trainings read as many queries as the default's, but few queries not more often: further passes learn them by heart.
MOST_PASSES = 10
READ_TWICE = 5_000  # most training queries that M_ce scores and M_de reads, twice as the default's; more take long
UNKNOWN, CUT, FEW_QUERIES, FEW_DEV = 0.01, 0.05, 300, 50  # from where on there is a warning


class Sample(NamedTuple):
    """Some texts."""

    texts: list[str]
    tokens: NDArray[np.int64]  # of each text, special ones included; *Shape:* (n,)
    unknown: float  # share of the tokens that stand for what the model does not know

    @classmethod
    def of(cls, texts: list[str], encoder: DualEncoder) -> "Sample":
        """Tokenise texts."""
        found, special = TextTokens.of(texts, encoder.tokenizer), encoder.tokenizer.num_special_tokens_to_add()
        unknown = float((found.ids == encoder.tokenizer.unk_token_id).mean())
        return cls(texts, np.diff(found.offsets) + special, unknown)

    def length(self, share: float) -> int:
        """The tokens within which this share of the texts is read whole, as batches are padded."""
        return int(padded(int(np.quantile(self.tokens, share, method="inverted_cdf"))))

    def cut(self, limit: int) -> float:
        """Share of the texts that are longer."""
        return float((self.tokens > limit).mean())

    def mean(self, limit: int) -> float:
        """Mean tokens of a text in batches of similar lengths."""
        return float(np.minimum(padded(self.tokens), limit).mean())


class Contents(NamedTuple):
    """What a source holds."""

    counts: dict[str, dict[str, int]]  # statistics.json of stage `prepare`: a table -> what -> how many
    unlabelled: int  # queries that are in no split, since nothing is judged relevant for them
    trained: int  # queries
    again: float  # share of the dev queries that ask for a passage which a training query is labelled with
    passages: Sample
    queries: Sample  # of those that train


def read_contents(params: Params, encoder: DualEncoder) -> Contents:
    """Read and check a source, as stage `prepare` does."""
    source, used = open_source(params.data), encoder.settings
    SCRATCH.mkdir(exist_ok=True)
    for left in SCRATCH.glob(f"{KILLED}*"):
        shutil.rmtree(left)
    with TemporaryDirectory(prefix=KILLED, dir=SCRATCH) as place:
        folder, whole = Path(place), params.data.model_copy(update={"train_queries": None, "passages": None})
        prepare(whole, source, folder, seed=params.seed)
        passages, queries = (
            pl.scan_parquet(table).gather_every(-(-count_rows(table) // SAMPLE)).collect()
            for table in (folder / "passages.parquet", folder / "queries" / "train.parquet")
        )
        counts = read_json(folder / "statistics.json", dict[str, dict[str, int]])
        judged = (pl.read_parquet(folder / "qrels" / f"{split}.parquet") for split in ("train", "dev"))
        again = share_asked_again(*(of.filter(pl.col("grade") > 0).select(query="qid", passage="pid") for of in judged))
        files = [folder / "queries" / f"{split}.parquet" for split in SPLITS]
        labelled = pl.concat(pl.read_parquet(file, columns=["qid"]) for file in files)
    texts = titled(passages["title"], passages["text"], encoder.tokenizer)
    readers, there = dict.fromkeys(source.queries.values()), counts["train"]["queries"]
    read = sum(sum(1 for _ in reader()) for reader in readers)  # ids of one file may be in two splits
    return Contents(
        counts=counts,
        unlabelled=read - (labelled.n_unique() if len(readers) == 1 else len(labelled)),
        trained=min(there, params.data.train_queries or there),
        again=again,
        passages=Sample.of([used.passage_prefix + text for text in texts], encoder),
        queries=Sample.of([used.query_prefix + text for text in queries["text"]], encoder),
    )


def fit_params(source: str, path: Path | None, arguments: Sequence[str]) -> Iterator[str]:
    """Write a params.yaml that fits a source, and yield what was found. After an error params.yaml is as it was.

    Values that arguments (`KEY=VALUE`) give are kept, and others follow from them.
    """
    load_params()  # says what to do where there is none
    experiment.refuse_second()
    settings, by = ["data.train_queries=null", "data.passages=null", f"data.source={source}"], ["--data", source]
    if device().type == "cuda":
        settings.append(GPU_TOKENS)
    if path is not None:
        settings, by = [*settings, f"data.path={experiment.as_yaml(str(path))}"], [*by, "--path", str(path)]
    settings += arguments
    params = experiment.preview(settings, named=shlex.join([*by, *arguments]))
    encoder = DualEncoder.from_pretrained(params.encoder)
    found, model = read_contents(params, encoder), cast(PreTrainedModel, encoder.query)
    stated = read_stated(params.encoder.model)
    longest = stated.readable(model) or int(found.passages.tokens.max())
    model_is = longest, model.config.num_hidden_layers, bool(stated.use)
    chosen = _values(params, experiment.given(arguments), found, *model_is)
    encoder.freeze_lower(chosen["encoder.frozen_layers"])
    new_index(params.index.factory, encoder.dimension)
    parse([*params.evaluate.measures, params.evaluate.significance])
    experiment.lay_over(settings, chosen=chosen, by=shlex.join([*by, *arguments]))
    params = load_params()
    yield from _found(params, found)
    yield f"{stated.description(params.encoder)}; it reads {longest} tokens"
    yield _time(params, encoder.eval(), found)
    yield from (f"warning: {line}" for line in _warnings(params, found, longest))
    yield "params.yaml is written: `git diff params.yaml` shows it, `bash scripts/reproduce.sh` runs it"


def describe_base_model(params: Encoder) -> str:
    """How a base model is used, which must be one that can be trained; one of a hub is fetched by the run."""
    if not own_folder(params):
        return f"{params.model} is no folder here: it will be taken from the hub"
    DualEncoder.from_pretrained(params).freeze_lower(params.frozen_layers)
    return read_stated(params.model).description(params)


# --- values -----------------------------------------------------------------------------------------------------------


def _values(
    base: Params, own: Collection[str], found: Contents, longest: int, layers: int, retrieves: bool
) -> dict[str, Any]:
    """Values by their dotted names: the user's `own` as `base` has them, and those that are chosen to go with them.

    `retrieves`: whether the base model's files say how it makes embeddings. If not, the first retriever is trained.
    """
    chosen = {name: base.value(name) for name in own}
    choose, n, passages = chosen.setdefault, found.trained, found.counts["passages"]["passages"]
    asked = choose("encoder.query_length", min(longest, max(SHORT_QUERY, found.queries.length(WHOLE_QUERIES))))
    read = choose("encoder.passage_length", min(longest, found.passages.length(WHOLE_PASSAGES)))
    pair = choose("train_cross_encoder.max_length", min(longest, PAIR_TOKENS, asked + read))
    # PAIR and Dual-Cross-Encoder read as many tokens.
    choose("dual_cross.max_length", pair)
    choose("dual_cross.generator.query_length", asked)
    chunk = (4 if device().type == "cuda" else 1) * CHUNK_TOKENS // read
    choose("encoder.chunk_size", 2 ** int(np.log2(max(1, chunk))))
    choose("encoder.frozen_layers", min(base.encoder.frozen_layers, layers // 2))
    batch = 64 if n >= FEW else max(2, min(32, n // 4))  # so that a pass over few queries has steps enough
    few = max(2, min(base.train_cross_encoder.batch_size, n // 2))
    sizes = dict.fromkeys(("train_retriever", "train_dual_encoder"), batch)
    for training, most in (sizes | {"train_cross_encoder": few}).items():
        usual = base.value("train_dual_encoder" if training == "train_retriever" and not retrieves else training)
        size = choose(f"{training}.batch_size", most)
        twice = 2 * min(n, READ_TWICE) if usual is base.train_dual_encoder else 0
        choose(f"{training}.steps", ceil(min(max(usual.steps * usual.batch_size, twice), MOST_PASSES * n) / size))
    choose("denoise.queries", READ_TWICE if READ_TWICE < n else None)
    depth = choose("mine_candidates.depth", max(2, min(base.mine_candidates.depth, passages // 2)))
    last = max(2, min(base.denoise.range_max, depth))
    choose("bm25.depth", min(base.bm25.depth, passages))
    choose("train_cross_encoder.range_min", min(base.train_cross_encoder.range_min, depth - 1))
    choose("denoise.range_max", last)
    choose("denoise.candidates", min(base.denoise.candidates, last))
    choose("mgt.labels", found.again > AGAIN)
    _choose_graph(choose, base, n, passages)
    return chosen


def _choose_graph(choose: Callable[[str, Any], Any], base: Params, n: int, passages: int) -> None:
    """Edges, folds, and the batches and rates of Masked Graph Training, for n training queries."""
    choose("build_graph.k", min(passages, K, K if device().type == "cuda" else max(FEWEST_K, EDGES // n)))
    rounds = fold_count(choose("mgt.beta", round(1 / max(2, min(MOST_FOLDS, n // FOLD)), 3)))
    choose("mgt.alone.learning_rate", base.mgt.alone.learning_rate * (0.5 if n < FEW else 1))
    for phase in ("alone", "joint"):
        size = choose(f"mgt.{phase}.batch_size", min(base.value(f"mgt.{phase}.batch_size"), max(2, n // rounds)))
    for side in ("gnn", "encoder"):  # those of params.yaml are for its fold
        usual = base.value(f"mgt.joint.{side}_learning_rate")
        choose(f"mgt.joint.{side}_learning_rate", float(f"{usual * (size / JOINT_BATCH) ** 0.5:.1e}"))


# --- what is told -----------------------------------------------------------------------------------------------------


def _found(params: Params, found: Contents) -> Iterator[str]:
    """What the source holds, and how much of it is read."""
    counts, encoder = found.counts, params.encoder
    copies = counts["passages"].get("copies_of_another", 0)
    yield f"passages: {counts['passages']['passages']:,}" + (
        f", {copies:,} of them copies of another" if copies else ""
    )
    numbers = {
        f"to train with ({counts['train'].get('judgements', 0):,} judgements)": found.trained,
        **{split: counts[split]["queries"] for split in ("dev", "test")},
        "without a label, which are left out": found.unlabelled,
        "of data.unlabelled": counts.get(UNLABELLED, {}).get("queries", 0),
        "are passages themselves": sum(of.get("queries_that_are_passages", 0) for of in counts.values()),
    }
    yield "queries: " + ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    if dropped := counts.get("left_out_or_replaced"):
        yield "left out or replaced: " + ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in dropped.items())
    verdict = "labels are edges" if params.mgt.labels else "labels are no edges"
    yield f"{found.again:.0%} of the dev queries ask for a passage that a training query is labelled with: {verdict}"
    read, asked = encoder.passage_length, encoder.query_length
    cut = f"{found.passages.cut(read):.1%} of the passages are cut after {read} tokens"
    yield f"{cut}, {found.queries.cut(asked):.1%} of the queries after {asked}"


@torch.inference_mode()
def _time(params: Params, encoder: DualEncoder, found: Contents) -> str:
    """How long M_de's reading of all passages, and M_ce's of candidates and edges, take here, by a batch of M_de."""
    passages, length = found.passages, params.encoder.passage_length
    tokens = TextTokens.of(passages.texts[: max(1, params.encoder.batch_tokens // length)], encoder.tokenizer)
    batch = single_batch(tokens, np.arange(len(tokens)), encoder.template, length)
    # The processor's time of this thread, which takes part in all that is computed, is that of a quiet machine.
    clock = time.perf_counter if device().type == "cuda" else time.thread_time
    for _ in range(2):  # in the first call torch prepares what later ones reuse
        began = clock()
        encoder.encode_passages(batch).cpu()
    seconds = (clock() - began) / batch.input_ids.numel()  # a token

    def took(texts: int, tokens: float) -> str:
        told = seconds * texts * tokens
        return f"{ceil(told)} s" if told < 120 else f"{told / 60:.0f} min"

    candidates = (params.denoise.queries or found.trained) * params.denoise.candidates
    edges = found.trained * params.build_graph.k if params.mgt.edge_features == "cross_encoder" else 0
    pair = params.train_cross_encoder.max_length
    encoding = took(found.counts["passages"]["passages"], passages.mean(length))
    scoring = took(candidates + edges, min(pair, passages.mean(pair) + found.queries.mean(pair)))
    both = f"{candidates:,} candidates" + (f" and {edges:,} edges" if edges else "")
    told = f"M_de encodes all passages in {encoding}, and the cross-encoder reads {both} in {scoring}"
    return f"by the speed of a batch here, {told}; the whole run takes 2 to 3 times as long, on little data more"


def _warnings(params: Params, found: Contents, longest: int) -> Iterator[str]:
    """A sentence for each thing that will hurt, with its cure."""
    encoder, dev = params.encoder, found.counts["dev"]["queries"]
    limits = {"passages": (found.passages, encoder.passage_length), "queries": (found.queries, encoder.query_length)}
    for kind, (sample, limit) in limits.items():
        if sample.unknown > UNKNOWN:
            rule = f"{sample.unknown:.0%} of the {kind}' tokens are unknown to it: it cannot read this language"
            yield f"{encoder.model}: {rule}; set encoder.model to a multilingual one, such as XLM-R or multilingual E5"
        if (cut := sample.cut(limit)) > CUT:
            cure = "docs/data.md says how to cut them" if limit == longest else "raise that length in section encoder"
            yield f"{cut:.0%} of the {kind} are longer than is read, and what is not read is not found: {cure}"
    if found.trained < FEW_QUERIES:
        yield f"{found.trained:,} training queries are few: training and graph gain little with less than some hundred"
    if dev < FEW_DEV:
        cure = "add dev queries; where the source has none, raise data.dev_fraction"
        yield f"{dev:,} dev queries are few: what is chosen by their score is chosen by chance; {cure}"
