"""baselines: systems that need no training, each of which chooses its settings on the dev queries.

query_mean moves M_de's passages towards their labelled queries; label_prior and logged_neighbours rank what M_de finds
anew by what the labels say; hybrid ranks BM25 and the best dense system together.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from gnn_encoder.baselines import hybrid, logged_neighbours
from gnn_encoder.baselines.bonus import prior, unit
from gnn_encoder.baselines.choice import Setting, plainest_first, write_choice
from gnn_encoder.baselines.dev import Candidates, DevQueries
from gnn_encoder.baselines.hybrid import Fusion
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.logged_neighbours import LABELLED, LabelledQueries, scorer, with_neighbours
from gnn_encoder.baselines.rankings import labelled_rows
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.core.storage.arrays import Origin, open_matrix
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import embed_queries, transform_corpus
from gnn_encoder.index.build import build
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import dev_queries, read_ranked, write_rankings
from gnn_encoder.pipeline.opening import load_encoder, open_queries
from gnn_encoder.pipeline.runs import write_runs
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL, registry


def main(stage: Stage) -> None:
    """Make every system of the groups `shifted`, `reordered` and `fused`, the last of what the others find."""
    params, known, dev = stage.params, registry(), dev_queries(stage.params)
    for system, shifted in known.shifted.items():
        places = (project.embeddings(system), project.index(system), project.runs(system))
        matrix, index, runs = map(stage.unfinished, places)
        query_mean(stage, system, shifted.base, dev, matrix)
        build(matrix, index, factory=params.index.factory, pids=project.PASSAGES, system=system, seed=params.seed)
        write_runs(load_encoder(project.encoder(system), params.encoder), index, runs, params)
    for system, reordered in known.reordered.items():
        {"label_prior": label_prior, "logged_neighbours": neighbours}[system](stage, system, reordered.base, dev)
    found = {name: project.runs(name) for name in known.dense if project.runs(name) in stage.inputs}
    found |= {name: stage.unfinished(project.runs(name)) for name in known.shifted}
    dense = {name: found[name] for name in known.dense if name in found}  # of equally good ones the first is taken
    fuse(stage, dense, dev)


def query_mean(stage: Stage, system: str, base: str, dev: DevQueries, folder: Path) -> None:
    """Choose the weight of the mean of a passage's labelled queries, and write the matrix."""
    params, model, embeddings = stage.params, project.encoder(base), project.embeddings(base)
    encoder, dtype = load_encoder(project.encoder(base), params.encoder), params.cache_passages.dtype
    rows, labels = labelled_rows(relevant_pairs(*project.tables("train")))
    matrix, unit_length = open_matrix(embeddings), encoder.settings.similarity == "cosine"
    asked = Asked.of(matrix, labels, embed(encoder, stage, "train", rows))
    others = Others(matrix, asked, embed(encoder, stage, "dev", dev.rows), dev.depth)

    def moved(weight: float) -> Matrix:
        """Rounded as on disk, so that what is judged is what is written."""
        return asked.plus_mean(weight, unit_length=unit_length).astype(dtype).astype(np.float32)

    weights = plainest_first(params.baselines.query_mean)
    choice = dev.choose([{"weight": weight} for weight in weights], (others.rank(moved(one)) for one in weights))
    choice = replace(choice, facts={"labelled_passages": len(asked.passages)})
    choice.tell(system)
    weight = float(choice.setting["weight"])
    chosen = moved(weight)
    origin = Origin(
        model_fingerprint=DualEncoder.fingerprint(model),
        input_fingerprint=fingerprint(embeddings, *project.tables("train")[:2], weight=weight),
    )
    transform_corpus(
        embeddings, folder, dtype=dtype, origin=origin, transform=lambda first, block: asked.place(first, block, chosen)
    )
    write_choice(folder, choice)


def label_prior(stage: Stage, system: str, base: str, dev: DevQueries) -> None:
    """Passages that are labelled for a training query get a constant."""
    labelled = np.zeros(count_rows(project.PASSAGES), dtype=bool)
    labelled[relevant_pairs(*project.tables("train"))["passage"].to_numpy()] = True
    runs = {split: read_ranked(project.runs(base), split) for split in project.JUDGED}
    candidates = {split: prior(of, labelled, unit(*runs["dev"])) for split, of in runs.items()}
    tried: list[Setting] = [{"weight": weight} for weight in plainest_first(stage.params.baselines.label_prior)]
    facts: Setting = {"labelled_passages": int(labelled.sum())}
    choice, rankings = dev.rank(system, candidates, tried, depth=stage.params.retrieve.depth, facts=facts)
    write_rankings(stage.unfinished(project.runs(system)), system, choice, rankings)


def neighbours(stage: Stage, system: str, base: str, dev: DevQueries) -> None:
    """Passages get what they are labelled with: the similarity of near training queries, which are written too."""
    params, section, folder = stage.params, stage.params.baselines, stage.unfinished(project.runs(system))
    encoder, matrix = load_encoder(project.encoder(base), params.encoder), open_matrix(project.embeddings(base))
    rows, labels = labelled_rows(relevant_pairs(*project.tables("train")))
    known, counts = LabelledQueries.of(labels, embed(encoder, stage, "train", rows)), sorted(set(section.neighbours))
    known.save(folder / LABELLED)
    runs = {split: read_ranked(project.runs(base), split) for split in project.JUDGED}
    scale, candidates = unit(*runs["dev"]), dict[str, Candidates]()
    for split, of in runs.items():
        queries = embed(encoder, stage, split)
        given, score = known.look_up(queries, counts[-1]), scorer(matrix, queries)
        candidates[split] = with_neighbours(of, given, counts, score, corpus=len(matrix), unit=scale)
    tried, limits = logged_neighbours.settings(section), logged_neighbours.limits(section)
    facts: Setting = {"logged_queries": len(known.vectors)}
    depth = params.retrieve.depth
    write_rankings(folder, system, *dev.rank(system, candidates, tried, depth=depth, facts=facts, limits=limits))


def fuse(stage: Stage, dense: dict[str, Path], dev: DevQueries) -> None:
    """BM25 with the best of the dense systems, whose folders of runs are given."""
    depth, systems = stage.params.retrieve.depth, list[Setting]({"system": system} for system in dense)
    side = dev.choose(systems, (read_ranked(runs, "dev")[0][dev.rows, : dev.depth] for runs in dense.values()))
    best = str(side.setting["system"])
    facts: Setting = {"dense": best, "depth": depth}
    facts |= {f"dev_{tried.setting['system']}": tried.value for tried in side.tried}
    lexical = project.runs(LEXICAL)
    both = {split: Fusion.of(read_ranked(dense[best], split), read_ranked(lexical, split)) for split in project.JUDGED}
    tried = hybrid.settings(stage.params.baselines)
    found = dev.rank(HYBRID, both, tried, depth=depth, facts=facts, limits=hybrid.LIMITS)
    write_rankings(stage.unfinished(project.runs(HYBRID)), HYBRID, *found)


def embed(encoder: DualEncoder, stage: Stage, split: str, rows: Rows | None = None) -> Matrix:
    """E_Q of some rows of a split's queries; None: of all. *Shape:* (n, d)."""
    return embed_queries(
        encoder, open_queries(project.queries(split), encoder), stage.params.encoder.batch_tokens, rows
    )


if __name__ == "__main__":
    run(main)
