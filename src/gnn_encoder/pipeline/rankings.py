"""Systems that need no training, made of artifacts where they lie; dev queries choose their settings."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.base.tables import count_rows
from gnn_encoder.baselines import hybrid, logged_neighbours
from gnn_encoder.baselines.bonus import prior, unit
from gnn_encoder.baselines.choice import Choice, Setting, plainest_first, write_choice
from gnn_encoder.baselines.dev import Candidates, DevQueries
from gnn_encoder.baselines.hybrid import Fusion
from gnn_encoder.baselines.logged_neighbours import LABELLED, LabelledQueries, with_neighbours
from gnn_encoder.baselines.rankings import Ranking, labelled_rows, read_ranking
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import judgements
from gnn_encoder.pipeline.opening import embed_rows, load_encoder
from gnn_encoder.pipeline.params import Baselines, Encoder, Params
from gnn_encoder.pipeline.project import HYBRID, LEXICAL
from gnn_encoder.text.encoder import DualEncoder


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Queries by a system's encoder, embedded once for all that need them.

    Attributes:
        labels: columns query, the place of a labelled training query, and passage.
        labelled: the labelled training queries. *Shape:* (n, d).
        splits: split -> its queries. *Shape:* (queries of the split, d) each.
    """

    base: str
    encoder: DualEncoder
    labels: pl.DataFrame
    labelled: Matrix
    splits: Mapping[str, Matrix]

    @classmethod
    def of(cls, base: str, section: Encoder) -> Self:
        """Embed the queries."""
        encoder = load_encoder(project.encoder(base), section)
        rows, labels = labelled_rows(relevant_pairs(*project.tables("train")))
        return cls(
            base=base,
            encoder=encoder,
            labels=labels,
            labelled=embed_rows(encoder, project.queries("train"), section, rows),
            splits={split: embed_rows(encoder, project.queries(split), section) for split in project.JUDGED},
        )


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to rank: split -> candidates, the settings to try, and what else to tell of the choice."""

    candidates: Mapping[str, Candidates]
    tried: list[Setting]
    facts: Setting = field(default_factory=dict)


def dev_queries(params: Params) -> DevQueries:
    """The dev queries that choose the baselines' settings."""
    return DevQueries.sample(
        judgements("dev", params.evaluate),
        measure=params.evaluate.significance,
        size=params.baselines.dev_queries,
        depth=params.retrieve.depth,
        seed=params.seed,
    )


def read_ranked(runs: Path, split: str) -> Ranking:
    """A run in a system's folder of runs. *Shape:* (queries of the split, longest ranking) both."""
    return read_ranking(runs / project.run_file("", split).name, project.queries(split), project.PASSAGES)


def write_best(folder: Path, system: str, way: Way, dev: DevQueries, params: Params) -> None:
    """Write what is best on dev of a way to rank, and its runs, into an unfinished artifact."""
    depth = params.retrieve.depth
    choice, rankings = dev.rank(system, way.candidates, way.tried, depth=depth, facts=way.facts)
    write_choice(folder, choice)
    for split, ranking in rankings.items():
        target = folder / project.run_file(system, split).name
        write_ranking(target, ranking, project.queries(split), project.PASSAGES, system)


def favour(runs: Path, params: Params) -> Way:
    """What a system found, where passages that are labelled for a training query get a constant."""
    labelled = np.zeros(count_rows(project.PASSAGES), dtype=bool)
    labelled[relevant_pairs(*project.tables("train"))["passage"].to_numpy()] = True
    found = {split: read_ranked(runs, split) for split in project.JUDGED}
    scale = unit(*found["dev"])
    return Way(
        candidates={split: prior(of, labelled, scale) for split, of in found.items()},
        tried=[{"weight": weight} for weight in plainest_first(params.baselines.label_prior)],
        facts={"unit": scale, "labelled_passages": int(labelled.sum())},
    )


def neighbours(queries: Encoded, runs: Path, folder: Path, section: Baselines) -> Way:
    """What a system found, where passages get the shares of near training queries, which are written too."""
    known = LabelledQueries.of(queries.labels, queries.labelled)
    known.save(folder / LABELLED)
    found = {split: read_ranked(runs, split) for split in project.JUDGED}
    scale, candidates = unit(*found["dev"]), {}
    for split, of in found.items():
        given = known.look_up(queries.splits[split], max(section.neighbours))
        own = Identical.read(project.IDENTICAL, split).is_own(given.passages)
        given = replace(given, passages=np.where(own, -1, given.passages))
        candidates[split] = with_neighbours(of, given, unit=scale)
    return Way(
        candidates=candidates,
        tried=logged_neighbours.settings(section),
        facts={"unit": scale, "logged_queries": len(known.vectors)},
    )


def fuse(dense: Mapping[str, Ranking], params: Params) -> Way:
    """What a dense system found in each split, fused with what BM25 found."""
    lexical = project.runs(LEXICAL)
    found = {split: Fusion.of(of, read_ranked(lexical, split)) for split, of in dense.items()}
    return Way(candidates=found, tried=hybrid.settings(params.baselines))


def write_hybrid(
    folder: Path,
    dense: Mapping[str, Path],
    bases: Iterable[str],
    encoded: Callable[[str], Encoded],
    dev: DevQueries,
    params: Params,
) -> None:
    """Write the hybrid of three sources: words, meaning and the log.

    Meaning is the dense system that is best on dev; with it, or with one of `bases`, whichever is better, the log is
    asked as in `logged_neighbours`; what comes out is fused with what BM25 found. Each step may leave a source out, so
    that on dev the hybrid is not below any of these.

    Args:
        dense: systems with their folders of runs; of equally good ones the first is taken.
        bases: those of the systems that ask the log.
        encoded: gives the queries by a system's encoder.
    """
    systems = list[Setting]({"system": system} for system in dense)
    side = dev.choose(systems, (read_ranked(runs, "dev")[0][dev.rows, : dev.depth] for runs in dense.values()))
    best, asked = str(side.setting["system"]), dict[str, tuple[Choice, dict[str, Ranking]]]()
    for name in dict.fromkeys([best, *bases]):
        way = neighbours(encoded(name), dense[name], folder / name, params.baselines)
        tell = f"{HYBRID}, log beside {name}"
        asked[name] = dev.rank(tell, way.candidates, way.tried, depth=params.retrieve.depth, facts=way.facts)
    best = max(asked, key=lambda name: asked[name][0].chosen.value)
    choice, rankings = asked[best]
    facts: Setting = {"dense": best, "depth": params.retrieve.depth}
    facts |= {f"dev_{tried.setting['system']}": tried.value for tried in side.tried}
    if choice.setting["weight"]:
        (folder / best / LABELLED).rename(folder / LABELLED)
        facts |= {f"log_{name}": value for name, value in choice.setting.items()} | {"log_unit": choice.facts["unit"]}
    for name in asked:
        shutil.rmtree(folder / name)
    write_best(folder, HYBRID, replace(fuse(rankings, params), facts=facts), dev, params)
