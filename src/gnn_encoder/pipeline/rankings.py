"""Systems that need no training, made of artifacts where they lie; dev queries choose their settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gnn_encoder.baselines import hybrid, logged_neighbours
from gnn_encoder.baselines.bonus import prior, unit
from gnn_encoder.baselines.choice import Limits, Setting, plainest_first, write_choice
from gnn_encoder.baselines.dev import Candidates, DevQueries, choose_mean
from gnn_encoder.baselines.hybrid import Fusion
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.logged_neighbours import LABELLED, LabelledQueries, scorer, with_neighbours
from gnn_encoder.baselines.rankings import Ranking, labelled_rows, read_ranking, write_ranking
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.arrays import Origin, open_matrix
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import transform_corpus
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import judgements
from gnn_encoder.pipeline.opening import embed_rows, load_encoder
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import LEXICAL


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to rank: split -> candidates, the settings to try, where they end, and what else to tell of the choice."""

    candidates: Mapping[str, Candidates]
    tried: list[Setting]
    limits: Limits = field(default_factory=dict)
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
    choice, rankings = dev.rank(system, way.candidates, way.tried, depth=depth, facts=way.facts, limits=way.limits)
    write_choice(folder, choice)
    for split, ranking in rankings.items():
        target = folder / project.run_file(system, split).name
        write_ranking(target, ranking, project.queries(split), project.PASSAGES, system)


def write_query_mean(system: str, base: str, folder: Path, dev: DevQueries, params: Params) -> None:
    """Write the matrix of `base` with its labelled passages moved towards their queries, by the weight best on dev."""
    embeddings, dtype = project.embeddings(base), params.cache_passages.dtype
    matrix, (rows, labels) = open_matrix(embeddings), labelled_rows(relevant_pairs(*project.tables("train")))
    encoder = load_encoder(project.encoder(base), params.encoder)
    asked = Asked.of(matrix, labels, embed_rows(encoder, project.queries("train"), params.encoder, rows))
    others = Others(matrix, asked, embed_rows(encoder, project.queries("dev"), params.encoder, dev.rows), dev.depth)
    unit_length = encoder.settings.similarity == "cosine"
    weights = plainest_first(params.baselines.query_mean)
    choice, moved = choose_mean(asked, others, dev, weights, dtype=dtype, unit_length=unit_length)
    choice.tell(system)
    made_from = fingerprint(embeddings, *project.tables("train")[:2], weight=float(choice.setting["weight"]))
    origin = Origin(model_fingerprint=DualEncoder.fingerprint(project.encoder(base)), input_fingerprint=made_from)
    transform_corpus(
        embeddings, folder, dtype=dtype, origin=origin, transform=lambda first, block: asked.place(first, block, moved)
    )
    write_choice(folder, choice)


def favour(runs: Path, params: Params) -> Way:
    """What a system found, where passages that are labelled for a training query get a constant."""
    labelled = np.zeros(count_rows(project.PASSAGES), dtype=bool)
    labelled[relevant_pairs(*project.tables("train"))["passage"].to_numpy()] = True
    found = {split: read_ranked(runs, split) for split in project.JUDGED}
    scale = unit(*found["dev"])
    return Way(
        candidates={split: prior(of, labelled, scale) for split, of in found.items()},
        tried=[{"weight": weight} for weight in plainest_first(params.baselines.label_prior)],
        facts={"labelled_passages": int(labelled.sum())},
    )


def neighbours(base: str, folder: Path, params: Params) -> Way:
    """What `base` found, where passages get the similarity of near training queries, which are written too."""
    section, matrix = params.baselines, open_matrix(project.embeddings(base))
    rows, labels = labelled_rows(relevant_pairs(*project.tables("train")))
    encoder = load_encoder(project.encoder(base), params.encoder)
    known = LabelledQueries.of(labels, embed_rows(encoder, project.queries("train"), params.encoder, rows))
    known.save(folder / LABELLED)
    runs = {split: read_ranked(project.runs(base), split) for split in project.JUDGED}
    scale, counts, candidates = unit(*runs["dev"]), sorted(set(section.neighbours)), {}
    for split, of in runs.items():
        queries = embed_rows(encoder, project.queries(split), params.encoder)
        given, score = known.look_up(queries, counts[-1]), scorer(matrix, queries)
        candidates[split] = with_neighbours(of, given, counts, score, corpus=len(matrix), unit=scale)
    return Way(
        candidates=candidates,
        tried=logged_neighbours.settings(section),
        limits=logged_neighbours.limits(section),
        facts={"logged_queries": len(known.vectors)},
    )


def fuse(runs: Path, params: Params) -> Way:
    """What a dense system found, fused with what BM25 found."""
    folders = runs, project.runs(LEXICAL)
    found = {split: Fusion.of(*(read_ranked(of, split) for of in folders)) for split in project.JUDGED}
    return Way(candidates=found, tried=hybrid.settings(params.baselines), limits=hybrid.LIMITS)


def fuse_best(dense: Mapping[str, Path], dev: DevQueries, params: Params) -> Way:
    """BM25 with the best of some dense systems, whose folders of runs are given."""
    systems = list[Setting]({"system": system} for system in dense)
    side = dev.choose(systems, (read_ranked(runs, "dev")[0][dev.rows, : dev.depth] for runs in dense.values()))
    best = str(side.setting["system"])
    facts: Setting = {"dense": best, "depth": params.retrieve.depth}
    facts |= {f"dev_{tried.setting['system']}": tried.value for tried in side.tried}
    return replace(fuse(dense[best], params), facts=facts)
