"""The measured systems as one table, their means and comparisons, and the files of metrics/ that hold these."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import polars as pl

from gnn_encoder.core.records import open_parquet
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.ceiling import Ceiling, measure_ceiling
from gnn_encoder.evaluation.measures import mean, parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.evaluation.significance import Comparison, compare_pairs
from gnn_encoder.pipeline import project

Means = dict[str, dict[str, float]]  # system -> measure -> value in 0..1
Comparisons = dict[str, Comparison]  # system -> its comparison with its baseline


def read_values(systems: Iterable[str]) -> pl.DataFrame:
    """What stage `evaluate` measured: columns system, split, qid, measure, value; in the order of `systems`."""
    files = (project.measured(system) / project.VALUES for system in systems)
    return pl.concat([pl.DataFrame(open_parquet(file).read()) for file in files])


def means_by_system(values: pl.DataFrame, section: Evaluate) -> dict[str, Means]:
    """Split -> system -> measure -> mean, of the measures that are reported."""
    reported = values.filter(pl.col("measure").is_in(list(parse(section.measures))))
    return {
        split: {name: mean(part) for (name,), part in rows.group_by("system", maintain_order=True)}
        for (split,), rows in reported.group_by("split", maintain_order=True)
    }


def compare_with(values: pl.DataFrame, section: Evaluate, baselines: dict[str, str]) -> dict[str, Comparisons]:
    """Split -> system -> its comparison with its baseline, with Holm's correction over a split's comparisons.

    Args:
        baselines: system -> the system that it is compared with; systems without a baseline are not compared.
    """
    (tested,) = parse([section.significance])
    chosen = values.filter(pl.col("measure") == tested)
    return {split: compare_pairs(rows, baselines) for (split,), rows in chosen.group_by("split", maintain_order=True)}


def write_metrics(folder: Path, means: dict[str, Means], comparisons: dict[str, Comparisons]) -> None:
    """Write the means into SPLIT.json and the comparisons into significance.json."""
    for split, systems in means.items():
        write_json(folder / f"{split}.json", systems)
    write_comparisons(folder / "significance.json", comparisons)


def write_comparisons(path: Path, comparisons: dict[str, Comparisons]) -> None:
    """Write comparisons as JSON: split -> system -> the fields of its comparison."""
    write_json(path, {split: {name: asdict(c) for name, c in rows.items()} for split, rows in comparisons.items()})


def write_ceiling(folder: Path, values: pl.DataFrame, section: Evaluate, seed: int) -> dict[str, Ceiling]:
    """Write ceiling.json: for each split, how far each system of `values` comes from M_de towards the ceiling."""
    (tested,) = parse([section.significance])
    found = measure_ceiling(values, tested, seed)
    write_json(folder / "ceiling.json", {split: asdict(one) for split, one in found.items()})
    return found
