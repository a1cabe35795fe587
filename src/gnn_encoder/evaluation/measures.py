"""Measures of a run by ir-measures, a value for every judged question."""

import difflib
from collections.abc import Sequence
from typing import Any

import ir_measures
import polars as pl
from ir_measures.providers import FallbackProvider

from gnn_encoder.errors import UserError

VALUES = pl.Schema({"qid": pl.String(), "measure": pl.String(), "value": pl.Float64()})
QUESTIONS_AT_A_TIME = 1000  # runs go to ir-measures as Python objects, 100 bytes a line: not all at once
EXAMPLES = "take one such as RR@10, nDCG@10, R@100 or Success@20"

# The providers that compute inside this process; others call programs that may not be there.
PROVIDER: Any = FallbackProvider(  # type: ignore[no-untyped-call]
    [ir_measures.providers.registry[name] for name in ("pytrec_eval", "msmarco")]
)


def parse(names: Sequence[str], parameter: str = "evaluate.measures") -> dict[str, Any]:
    """ir-measures' objects by their own names (`MRR@10` is `RR@10`), in the order given, each once.

    Raises:
        UserError: a name is no measure, its cutoff is not a whole number from 1, or nothing here computes it.
    """
    measures = [_parse_one(name, parameter) for name in names]
    return {str(measure): measure for measure in measures}


def per_query(run: pl.DataFrame, qrels: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Measure every judged question, by the run's ranks: scores that tie cannot be broken another way by a tool.

    Args:
        run: Columns qid, pid, rank, as `read_run` gives them.
        qrels: Columns qid, pid, grade. A passage with a grade above 0 is relevant; a question without one has nothing
            to be found and is left out.
        names: Measures by ir-measures' names.

    Returns:
        Columns qid, measure, value, as `VALUES`: questions in the order of `qrels`, measures in the order given. A
        judged question that is missing from the run has value 0.

    Raises:
        UserError: a measure is unknown, or no question is judged.
    """
    measures = parse(names)
    relevant = qrels.filter(pl.col("grade") > 0)
    if relevant.is_empty():
        raise UserError("qrels: no question has a passage with a grade above 0; there is nothing to measure")
    qids = relevant["qid"].unique(maintain_order=True)
    values: dict[tuple[str, str], float] = {}
    for first in range(0, len(qids), QUESTIONS_AT_A_TIME):
        part = pl.col("qid").is_in(qids.slice(first, QUESTIONS_AT_A_TIME).implode())
        evaluator = PROVIDER.evaluator(list(measures.values()), _nested(relevant.filter(part), pl.col("grade")))
        for metric in evaluator.iter_calc(_nested(run.filter(part), -pl.col("rank").cast(pl.Float64))):
            values[metric.query_id, str(metric.measure)] = float(metric.value)
    rows = [(qid, name, values[qid, name]) for qid in qids for name in measures]
    return pl.DataFrame(rows, schema=VALUES, orient="row")


def mean(values: pl.DataFrame) -> dict[str, float]:
    """Mean of each measure over the judged questions, in the table's order of measures."""
    means = values.group_by("measure", maintain_order=True).agg(pl.col("value").mean())
    return dict(means.iter_rows())


def _nested(table: pl.DataFrame, value: pl.Expr) -> dict[str, dict[str, Any]]:
    """{qid: {pid: value}}, the form that ir-measures' providers take without copying."""
    grouped = table.group_by("qid", maintain_order=True).agg("pid", value.alias("value"))
    return {qid: dict(zip(pids, values, strict=True)) for qid, pids, values in grouped.iter_rows()}


def _parse_one(name: str, parameter: str) -> Any:
    try:
        measure = ir_measures.parse_measure(name)
    except (NameError, ValueError) as error:
        raise UserError(f"{parameter} has {name!r}: no measure of ir-measures; {_suggestion(name)}") from error
    cutoff = measure.params.get("cutoff", 1)
    # trec_eval ends the whole process on a cutoff below 1.
    if not isinstance(cutoff, int) or cutoff < 1:
        raise UserError(f"{parameter} has {name!r}: the cutoff after @ must be a whole number from 1; {EXAMPLES}")
    try:
        supported = PROVIDER.supports(measure)
    except AssertionError as error:  # ir-measures' own check of what a measure needs
        raise UserError(f"{parameter} has {name!r}: a cutoff is missing or a setting is wrong; {EXAMPLES}") from error
    if not supported:
        raise UserError(f"{parameter} has {name!r}: neither pytrec_eval nor MS MARCO's measure has it; {EXAMPLES}")
    return measure


def _suggestion(name: str) -> str:
    stem, _, cutoff = name.partition("@")
    known = {known.lower(): known for known in ir_measures.measures.registry}
    close = difflib.get_close_matches(stem.strip().lower(), known, n=1)
    if not close or (cutoff and not cutoff.isdigit()):
        return EXAMPLES
    return f"did you mean {known[close[0]]}{'@' + cutoff if cutoff else ''}?"
