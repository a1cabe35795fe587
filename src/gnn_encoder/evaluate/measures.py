"""Measures of runs by ir-measures, a value for every judged query; their means, and whether two systems differ.

Measured values of several systems are a table with columns system, split, qid, measure, value. Systems are compared on
the same queries by the paired t-test, with a correction for several comparisons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, TypeVar

import ir_measures
import numpy as np
import polars as pl
from ir_measures.providers import FallbackProvider
from numpy.typing import NDArray
from scipy import stats

from gnn_encoder.base.errors import UserError

Means = dict[str, dict[str, float]]  # system -> measure -> value in 0..1
VALUES = pl.Schema({"qid": pl.String(), "measure": pl.String(), "value": pl.Float64()})
QUERIES_AT_A_TIME = 1000  # ir-measures takes Python objects, 100 bytes a line of the run: too many for a whole run
BY_ANSWERS = ("Success", "RR", "P")  # measures that need no passages but the retrieved ones
EXAMPLES = "take one such as RR@10, nDCG@10, R@100 or Success@20"

# Most others call programs that may not be installed. `runtime` has what `ir_measures.define_byquery` defines.
PROVIDERS = {name: ir_measures.providers.registry[name] for name in ("pytrec_eval", "msmarco", "runtime")}
PROVIDER: Any = FallbackProvider(list(PROVIDERS.values()))  # type: ignore[no-untyped-call]


def parse(names: Sequence[str], parameter: str = "evaluate.measures") -> dict[str, Any]:
    """ir-measures' objects by the names that it gives them (`RR@10` for `MRR@10`), in the order given, each once."""
    measures = {}
    for name in names:
        try:
            measure = ir_measures.parse_measure(name)
            fault = _fault(measure)
        except (NameError, ValueError):
            fault = "no measure of ir-measures"
        if fault:
            raise UserError(f"{parameter} has {name!r}: {fault}; {EXAMPLES}")
        measures[str(measure)] = measure
    return measures


def _fault(measure: Any) -> str:
    cutoff = measure.params.get("cutoff", 1)
    if not isinstance(cutoff, int) or cutoff < 1:  # where trec_eval ends the whole process
        return "the cutoff after @ must be a whole number from 1"
    if measure.params.get("rel", 1) < 1:  # trec_eval would stop, or call passages relevant that nobody judged
        return "rel, the least grade of a relevant passage, must be at least 1"
    try:
        return "" if PROVIDER.supports(measure) else f"none of {', '.join(PROVIDERS)} computes it"
    except AssertionError:  # ir-measures' own check of what a measure needs
        return "a cutoff is missing or a setting is wrong"


def per_query(
    run: pl.DataFrame, qrels: pl.DataFrame, names: Sequence[str], queries: pl.Series | None = None
) -> pl.DataFrame:
    """Measure every judged query by the run's ranks, not by its scores: no tool can then break ties in its own way.

    A passage is relevant if its grade is above 0; for a measure with `rel`, such as `R(rel=2)@1000`, if it is at least
    `rel`. A query without a grade above 0 is left out, unless it is among `queries`, where those without a judgement
    have value 0; one whose grades are all below `rel` has value 0, as in trec_eval, and so has one missing in the run.

    The values are a `VALUES` table: queries in the order of `queries` or of `qrels`, measures in the order given.
    """
    measures = parse(names)
    judged = qrels.filter((pl.col("grade") > 0).any().over("qid"))
    qids = judged["qid"].unique(maintain_order=True) if queries is None else queries
    if qids.is_empty():
        raise UserError("qrels: no query has a passage with a grade above 0; there is nothing to measure")
    # Without `queries` no value is set beforehand: if a tool leaves out a query, the lookup below fails.
    values = {} if queries is None else {(qid, name): 0.0 for qid in qids for name in measures}
    for first in range(0, len(qids), QUERIES_AT_A_TIME):
        part = pl.col("qid").is_in(qids.slice(first, QUERIES_AT_A_TIME).implode())
        known, found = _nested(judged.filter(part), pl.col("grade")), run.filter(part)
        evaluator = PROVIDER.evaluator(list(measures.values()), known)
        for metric in evaluator.iter_calc(_nested(found, -pl.col("rank").cast(pl.Float64))):
            values[metric.query_id, str(metric.measure)] = float(metric.value)
    rows = [(qid, name, values[qid, name]) for qid in qids for name in measures]
    return pl.DataFrame(rows, schema=VALUES, orient="row")


def answer_depth(names: Sequence[str], parameter: str) -> int | None:
    """How many passages of each query have to be judged where answers judge the split; None: all in the run."""
    measures = parse(names, parameter)
    for name, measure in measures.items():
        if measure.NAME not in BY_ANSWERS or measure.params.get("rel", 1) != 1 or measure.params.get("judged_only"):
            rule = "the queries are judged by answers, so that nobody knows all passages that are relevant"
            raise UserError(f"{parameter} has {name!r}: {rule}; take Success@k (the papers' R@k there) or RR@k")
    cutoffs = [measure.params.get("cutoff") for measure in measures.values()]
    return None if None in cutoffs else max(cutoffs)


def cutoff(name: str) -> int | None:
    """How many passages of each query decide a measure; None: all that were retrieved."""
    (measure,) = parse([name]).values()
    return None if measure.params.get("judged_only") else measure.params.get("cutoff")


def mean(values: pl.DataFrame) -> dict[str, float]:
    """Mean of each measure over the judged queries, summed exactly: threads' rounding could decide between equals."""
    return {name: fsum(of["value"]) / len(of) for name, of in parts_by("measure", values).items()}


def parts_by(column: str, table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Value of a column, such as a split -> its rows, in the table's order."""
    return {str(value): rows for (value,), rows in table.group_by(column, maintain_order=True)}


def means_by_system(values: pl.DataFrame, measures: Sequence[str]) -> dict[str, Means]:
    """Split -> system -> measure -> mean, of these measures."""
    return {
        split: {system: mean(of) for system, of in parts_by("system", rows).items()}
        for split, rows in parts_by("split", values.filter(pl.col("measure").is_in(list(measures)))).items()
    }


def _nested(table: pl.DataFrame, value: pl.Expr) -> dict[str, dict[str, Any]]:
    """{qid: {pid: value}}, the form that ir-measures' providers take without copying."""
    grouped = table.group_by("qid", maintain_order=True).agg("pid", value.alias("value"))
    return {qid: dict(zip(pids, values, strict=True)) for qid, pids, values in grouped.iter_rows()}


Floats = NDArray[np.float64]
Key = TypeVar("Key")
LEVEL = 0.95  # of intervals


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system minus the baseline: mean difference, its 95% interval, two-sided p, number of queries."""

    baseline: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float  # after Holm's correction for all comparisons made together
    queries: int


Comparisons = dict[str, Comparison]  # system -> its comparison with its baseline


def compare(system: Floats, baseline: Floats, name: str = "") -> Comparison:
    """Paired t-test of two systems' values on the same queries, in the same order; `name` is the baseline's.

    Where the difference is the same for every query, both ends of the interval are that difference, and p is 1 for a
    difference of 0, else 0. A single query proves nothing: p is 1, the interval [-1, 1]. *Shape:* (queries,) each.
    """
    differences = system - baseline
    mean = float(differences.mean())
    low, high, p = mean, mean, float(mean == 0)
    if len(differences) == 1:
        low, high, p = -1.0, 1.0, 1.0
    elif np.ptp(differences) > 0:
        (low, high), p = interval(differences), float(stats.ttest_1samp(differences, 0).pvalue)
    return Comparison(baseline=name, difference=mean, low=low, high=high, p=p, p_holm=p, queries=len(differences))


def corrected(found: dict[Key, Comparison]) -> dict[Key, Comparison]:
    """Holm's step-down correction for all of the comparisons: the i-th smallest p times n - i + 1, ascending, <= 1."""
    result, p_holm = dict(found), 0.0
    for smaller, (key, one) in enumerate(sorted(found.items(), key=lambda item: item[1].p)):
        p_holm = min(1.0, max(p_holm, one.p * (len(found) - smaller)))
        result[key] = replace(one, p_holm=p_holm)
    return result


def compare_with(values: pl.DataFrame, measure: str, baselines: dict[str, str]) -> dict[str, Comparisons]:
    """Split -> each system of `baselines` against its own there, with Holm's correction over all of the split."""
    found = {}
    for split, rows in parts_by("split", values.filter(measure=measure)).items():
        wide = rows.pivot("system", index="qid", values="value", maintain_order=True)
        of = {name: wide[name].to_numpy() for name in {*baselines, *baselines.values()}}
        found[split] = corrected({name: compare(of[name], of[other], other) for name, other in baselines.items()})
    return found


def interval(values: Floats) -> tuple[float, float]:
    """95% interval of a mean (t distribution); of one value, or equal ones, the mean twice. *Shape:* (queries,)."""
    mean = float(values.mean())
    if len(values) < 2 or np.ptp(values) == 0:
        return mean, mean
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=stats.sem(values))
    return float(low), float(high)
