"""baselines: systems that need no training, each of which chooses its settings on the dev queries.

query_mean moves M_de's passages towards their labelled queries; label_prior and logged_neighbours rank what M_de finds
anew by what the labels say; hybrid ranks BM25 and the best dense system together.
"""

from gnn_encoder.baselines.hybrid import write_hybrid
from gnn_encoder.baselines.label_prior import write_label_prior
from gnn_encoder.baselines.logged_neighbours import write_logged_neighbours
from gnn_encoder.baselines.shifting import write_query_mean
from gnn_encoder.index.build import build
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.runs import write_runs
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import HYBRID, registry

WRITE = {"label_prior": write_label_prior, "logged_neighbours": write_logged_neighbours}


def main(stage: Stage) -> None:
    """Make every system of the groups `shifted`, `reordered` and `fused`, the last of what the others find."""
    params, known = stage.params, registry()
    for system, shifted in known.shifted.items():
        places = (project.embeddings(system), project.index(system), project.runs(system))
        matrix, index, runs = map(stage.unfinished, places)
        write_query_mean(system, shifted.base, params, matrix)
        build(matrix, index, factory=params.index.factory, pids=project.PASSAGES, system=system, seed=params.seed)
        encoder = DualEncoder.load(project.encoder(system), precision=params.encoder.precision).for_inference()
        write_runs(encoder, index, runs, params)
    for system, reordered in known.reordered.items():
        WRITE[system](system, reordered.base, params, stage.unfinished(project.runs(system)))
    found = {name: project.runs(name) for name in known.dense if project.runs(name) in stage.inputs}
    found |= {name: stage.unfinished(project.runs(name)) for name in known.shifted}
    dense = {name: found[name] for name in known.dense if name in found}  # of equally good ones the first is taken
    write_hybrid(HYBRID, dense, params, stage.unfinished(project.runs(HYBRID)))


if __name__ == "__main__":
    run(main)
