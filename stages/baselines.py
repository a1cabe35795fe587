"""baselines: systems that need no training, each of which chooses its settings on the dev queries.

query_mean moves M_de's passages towards their labelled queries; label_prior and logged_neighbours rank what M_de finds
anew by what the labels say; hybrid ranks BM25 and the best dense system together.
"""

from gnn_encoder.index.build import build
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import load_encoder
from gnn_encoder.pipeline.rankings import dev_queries, favour, fuse_best, neighbours, write_best, write_query_mean
from gnn_encoder.pipeline.runs import write_runs
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import HYBRID, registry


def main(stage: Stage) -> None:
    """Make every system of the groups `shifted`, `reordered` and `fused`, the last of what the others find."""
    params, known, dev = stage.params, registry(), dev_queries(stage.params)
    for system, shifted in known.of_kind("shifted").items():
        places = (project.embeddings(system), project.index(system), project.runs(system))
        matrix, index, runs = map(stage.unfinished, places)
        write_query_mean(system, shifted.base, matrix, dev, params)
        build(matrix, index, factory=params.index.factory, pids=project.PASSAGES, system=system, seed=params.seed)
        write_runs(load_encoder(project.encoder(system), params.encoder), index, runs, params)
    for system, reordered in known.of_kind("reordered").items():
        folder = stage.unfinished(project.runs(system))
        if reordered.one_vector:
            way = favour(project.runs(reordered.base), params)
        else:
            way = neighbours(reordered.base, folder, params)
        write_best(folder, system, way, dev, params)
    found = {name: project.runs(name) for name in known.dense if project.runs(name) in stage.inputs}
    found |= {name: stage.unfinished(project.runs(name)) for name in known.of_kind("shifted")}
    dense = {name: found[name] for name in known.dense if name in found}  # of equally good ones the first is taken
    write_best(stage.unfinished(project.runs(HYBRID)), HYBRID, fuse_best(dense, dev, params), dev, params)


if __name__ == "__main__":
    run(main)
