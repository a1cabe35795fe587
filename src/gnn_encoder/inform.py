"""`gnn-encoder inform`: passages' vectors informed by queries, beside what the same labels give more cheaply."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.files import check_room
from gnn_encoder.base.judgements import contains, pair_keys
from gnn_encoder.base.matrix import Matrix, Rows, array_blocks
from gnn_encoder.controls.choose import DevQueries, best_on_dev, shown
from gnn_encoder.controls.closed_form import DEPTH, FAMILY, NUDGE_N, LabelledPassages, Unmoved, settings_of
from gnn_encoder.controls.query_bank import QueryBank, best_weight, drawn
from gnn_encoder.estimator import GNNEncoder
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.pretrained import TEMPERATURES
from gnn_encoder.train.dev import of_hits
from gnn_encoder.vectors import UNIT, check_target, not_of_length, read_training_data, writing

METHODS = {NUDGE_N: "NUDGE-N", FAMILY: "closed form"}


def reciprocal_ranks(ranking: Rows, pairs: pl.DataFrame, m: int) -> NDArray[np.float64]:
    """RR@10 of each query that has a relevant one of `m` passages, by pairs. *Shape:* (q, at most 10) -> (judged,)."""
    keys = np.arange(len(ranking))[:, None] * m + ranking
    hits = contains(pair_keys(pairs, m), keys) & (ranking >= 0)
    judged = pairs["query"].unique().sort().to_numpy()
    return of_hits(hits[judged])


def that_choose(queries: Matrix, pairs: pl.DataFrame, m: int) -> DevQueries:
    """Dev queries that choose by RR@10; `pairs` says which of `m` passages are relevant. *Shape:* queries (q, d)."""

    def values(rankings: Iterable[Rows]) -> list[float]:
        return [float(reciprocal_ranks(ranking, pairs, m).mean()) for ranking in rankings]

    return DevQueries(rows=np.arange(len(queries)), measure="RR@10", depth=DEPTH, values=values)


def labels_alone(
    passages: NDArray[Any], labelled: LabelledPassages, queries: Matrix, pairs: pl.DataFrame, *, unit_length: bool
) -> Iterator[tuple[str, float, str, Matrix]]:
    """What the labels give without a graph: name, RR@10, what dev chose, and new vectors of the labelled passages.

    *Shape:* passages (m, d), dev queries (q, d), of which `pairs` says what is relevant; new vectors (l, d).
    """
    dev, unmoved = that_choose(queries, pairs, len(passages)), Unmoved(passages, labelled, queries, DEPTH)
    yield "as they came", dev.values([unmoved.rank(labelled.vectors)[0]])[0], "", labelled.vectors
    for method, name in METHODS.items():
        if method != NUDGE_N or unit_length:  # it is about vectors of length 1
            settings, moved = settings_of(method, labelled, unmoved, pairs, unit_length=unit_length)
            rankings = (unmoved.rank(moved(setting))[0] for setting in settings)
            choice = best_on_dev(settings, rankings, dev)
            yield name, choice.chosen.value, shown(choice.setting), moved(choice.setting)


def less_bank(
    passages: NDArray[Any], nodes: Matrix, queries: Matrix, pairs: pl.DataFrame, scale: float, seed: int
) -> tuple[float, float, QueryBank]:
    """The query bank of the `nodes` that informed the passages: RR@10 on dev with the best weight, this, and the bank.

    *Shape:* passages (m, d), nodes (n, d), dev queries (q, d), of which `pairs` says what is relevant.
    """
    m = len(passages)
    bank = QueryBank.of(lambda: array_blocks(passages), m, nodes[drawn(len(nodes), seed)], scale)

    def ranked(weight: float) -> Rows:
        return array_top_k(passages, queries, min(DEPTH, m), change=partial(bank.lower, weight=weight))[0]

    choice = best_weight(ranked, that_choose(queries, pairs, m))
    return choice.chosen.value, float(choice.setting["weight"]), bank


def inform(
    passages: Path,
    queries: Path,
    qrels: Path,
    dev_queries: Path,
    dev_qrels: Path,
    out: Path,
    unlabelled: Path | None = None,
    **params: Any,
) -> Iterator[str]:
    """Write the vectors of the method that is best on dev, and give the lines of a table of what each method has there.

    `params` are those of `GNNEncoder`, whose similarity is "dot" unless all vectors have length 1.
    """
    check_target(out, (passages, queries, qrels, dev_queries, dev_qrels, unlabelled))
    files, data = read_training_data(passages, queries, qrels, dev_queries, dev_qrels, unlabelled)
    odd = next(filter(None, (not_of_length(one.matrix, *UNIT, name=str(one.path)) for one in files)), None)
    gnn = GNNEncoder(**(params if odd is None else {"similarity": "dot"} | params))
    data.check_sizes(gnn.k, gnn.beta)
    matrix, m, rows = data.passages, len(data.passages), list[tuple[str, float, str, Matrix]]()
    check_room(next(filter(Path.is_dir, out.absolute().parents)), 2 * 4 * matrix.size, "name another disk with --out")
    if odd is not None:
        yield f"warning: {odd}, not 1: scores are inner products, and NUDGE-N is left out"
    yield f"{m} passages, {data.pairs['query'].n_unique()} labelled queries; similarity {gnn.similarity}; k {gnn.k}"
    yield f"{'':30} {'RR@10 on dev':>12}  chosen on dev"
    labelled = LabelledPassages.of(matrix, data.pairs, data.nodes)
    for row in labels_alone(matrix, labelled, data.dev_queries, data.dev_pairs, unit_length=odd is None):
        rows.append(row)
        yield line(*row[:3])
    best, plain, _, moved = max(rows, key=lambda row: row[1])
    gnn.fit_checked(data)
    with writing(out, files[0]) as informed:
        gnn.transform(matrix, out=informed)
        ranking = array_top_k(informed, data.dev_queries, min(DEPTH, m))[0]
        value = float(reciprocal_ranks(ranking, data.dev_pairs, m).mean())
        yield line("GNN-encoder", value, _trained(gnn))
        if plain >= value:  # of equally good ones the plainer one
            for first, block in array_blocks(matrix):
                informed[first : first + len(block)] = labelled.place(first, block, moved)
        else:
            best, plain = "GNN-encoder", value
        scale = 1 / (gnn.temperature or TEMPERATURES[gnn.similarity])
        value, weight, bank = less_bank(informed, data.nodes, data.dev_queries, data.dev_pairs, scale, gnn.seed)
        yield line("the best of these + query bank", value, f"weight {weight:.3g}")
        if weight:
            best += " + query bank"
            for first, block in array_blocks(informed):
                informed[first : first + len(block)] = bank.lower(first, block, weight)
    yield f"{out}: {best}, the best on dev"
    yield "Index these as they are, for inner products: where lengths differ, normalising loses the gain. Queries stay."


def _trained(gnn: GNNEncoder) -> str:
    """Which weights the training kept."""
    scores = {row["step"]: row["dev_rr10"] for row in gnn.history_ if row["dev_rr10"] is not None}
    step = max(scores, key=scores.__getitem__, default=0)
    return f"step {step} of training" if step else "its start: training gained nothing on dev"


def line(name: str, value: float, setting: str) -> str:
    """A row of the table."""
    return f"{name:30} {100 * value:12.1f}  {setting}".rstrip()
