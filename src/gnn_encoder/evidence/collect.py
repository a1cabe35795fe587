"""The evidence from artifacts: values of the trials, two models' attention side by side, the cases with their texts."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from gnn_encoder.core.judgements import contains, pair_keys, relevant_pairs
from gnn_encoder.core.records import ATTENTION, PASSAGES, QUERIES, open_parquet, open_table
from gnn_encoder.core.runs import read_run
from gnn_encoder.core.storage.tables import count_rows, read_column
from gnn_encoder.encoding.pairs import Pairs, score_pairs
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evidence.attention import around_labelled, beside, with_kinds
from gnn_encoder.evidence.cases import Found, find_cases, informed_by
from gnn_encoder.evidence.trials import ABLATIONS, BETA, FULL, NO_MGT, K, trials_of
from gnn_encoder.index.search import TableRows
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import MAIN, REFERENCE

GRAPH = GraphArtifacts(name=MAIN)
COMPARED = (MAIN, REFERENCE)  # the cases are queries that the first system answers at rank 1 and the second does not


def baselines(kind: str, params: Params) -> list[str]:
    """The systems that the others of a kind are compared with; in a sweep, the one with the main system's k or beta."""
    return {ABLATIONS: [FULL, "no_gnn"], K: [str(params.build_graph.k)], BETA: [str(params.mgt.beta)]}[kind]


def read_trials(kind: str, params: Params) -> pl.DataFrame:
    """Columns system, seed, split, qid, measure, value, the baselines first.

    A sweep's baseline is the main system: the trial `full`, unless the sweep has a trial with the same number.
    """
    folders = trials_of(kind, params)
    first = baselines(kind, params)[0]
    ordered = {first: folders.get(first, project.trial(FULL)), **folders}
    frames = (
        pl.DataFrame(open_parquet(folder / project.VALUES).read()).select(pl.lit(name).alias("system"), pl.all())
        for name, folder in ordered.items()
    )
    return pl.concat(list(frames))


def compare_attention(params: Params, scratch: Path) -> pl.DataFrame:
    """Attention with and without MGT around the passages that a labelled query retrieved; see `evidence.attention`.

    Args:
        scratch: folder for M_ce's scores of these edges, from which an interrupted call is resumed.
    """
    pairs = _labelled_pairs()
    rows, without = (around_labelled(_attention(name), pairs) for name in (FULL, NO_MGT))
    asked = rows.filter(pl.col("query") >= 0)
    scores = _scores(asked["query"].to_numpy(), asked["passage"].to_numpy(), params, scratch)
    return beside(with_kinds(rows, scores), without)


def texts_of(queries: pl.Series) -> list[str]:
    """Texts of queries of the graph. The entries -1, which stand for a passage itself, are left out."""
    nodes = TableRows(GRAPH.queries, QUERIES)
    return [row["text"] for row in nodes.take(queries.filter(queries >= 0).cast(pl.Int64).to_numpy())]


def describe_cases(params: Params) -> tuple[Found, list[dict[str, Any]]]:
    """The dev queries won at rank 1, and everything that is shown of the first `evidence.cases` of them."""
    ours, theirs = (read_run(project.run_file(system, "dev")) for system in COMPARED)
    found = find_cases(ours, theirs, lambda run: measure_split(run, "dev", ["P@1"], params.evaluate))
    shown = found.won.head(params.evidence.cases)
    pids = pl.DataFrame({"pid": pl.Series(read_column(project.PASSAGES, "pid"))}).with_row_index("row")
    rows = dict(pids.join(shown.select("pid"), on="pid", how="semi").select("pid", "row").rows())
    asked = pl.read_parquet(project.queries("dev"), columns=["qid", "text"])
    queries = dict(asked.join(shown, on="qid", how="semi").rows())
    heard = informed_by(_attention(FULL), sorted(rows.values()))
    passages = TableRows(project.PASSAGES, PASSAGES)
    depth = int(theirs["rank"].max() or 0)  # type: ignore[arg-type]
    labelled = pair_keys(_labelled_pairs(), count_rows(project.PASSAGES))
    cases = []
    for case in shown.iter_rows(named=True):
        row = rows[case["pid"]]
        (passage,) = passages.take(np.array([row]))
        told = {"query": queries[case["qid"]], "passage": f"{passage['title']} {passage['text']}".strip()}
        ranks = {"rank_of_dual_encoder": case["rank"], "depth": depth, "dual_encoder_first": case["other"]}
        cases.append(case | told | ranks | _informed(heard[row], row, labelled))
    return found, cases


def _informed(rows: pl.DataFrame, passage: int, labelled: NDArray[np.integer[Any]]) -> dict[str, Any]:
    """The training queries of a passage, most attention first, its attention to itself, and its gate."""
    asked = rows.filter(pl.col("query") >= 0)
    known = contains(labelled, asked["query"].to_numpy().astype(np.int64) * count_rows(project.PASSAGES) + passage)
    columns = zip(texts_of(asked["query"]), asked["attention"], known.tolist(), strict=True)
    return {
        "informed_by": [{"query": text, "attention": value, "labelled": own} for text, value, own in columns],
        "attention_to_itself": rows.filter(query=-1)["attention"].to_list()[0] if len(rows) else 1.0,
        "gate": rows["gate"][0] if len(rows) else None,
    }


def _attention(ablation: str) -> pl.LazyFrame:
    """The `ATTENTION` table of an ablation."""
    path = project.trial(ablation) / "attention.parquet"
    open_table(path, ATTENTION)  # tells in one line if the file is damaged
    return pl.scan_parquet(path)


def _labelled_pairs() -> pl.DataFrame:
    """The labelled pairs of queries and passages: columns query (a node of the graph), passage."""
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    return GRAPH.nodes().labelled_pairs(pairs)


def _scores(queries: NDArray[Any], passages: NDArray[Any], params: Params, scratch: Path) -> NDArray[np.float32]:
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    pairs = Pairs(
        first=open_queries(GRAPH.queries, model), first_rows=queries, second=open_passages(model), second_rows=passages
    )
    limits = {"max_length": params.train_cross_encoder.max_length, "batch_tokens": params.encoder.batch_tokens}
    found: NDArray[np.float32] = expit(score_pairs(model, pairs, scratch, **limits))
    return found
