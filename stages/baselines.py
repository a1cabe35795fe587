"""baselines: systems that need no training, each of which chooses its settings on the dev queries.

Closed forms move M_de's passages towards their labelled queries; label_prior and logged_neighbours rank what M_de finds
anew by what the labels say; hybrid ranks together what BM25, the best dense system and the log say.
"""

from functools import cache, partial

from gnn_encoder.baselines.shifting import METHODS
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.closed_forms import Labelled
from gnn_encoder.pipeline.project import HYBRID, registry
from gnn_encoder.pipeline.rankings import Encoded, dev_queries, favour, neighbours, write_best, write_hybrid
from gnn_encoder.pipeline.runs import write_runs
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import build


def main(stage: Stage) -> None:
    """Make every system of the kinds `reordered`, `shifted` and `fused`, the last of what the others find."""
    params, known, dev = stage.params, registry(), dev_queries(stage.params)
    encoded = cache(partial(Encoded.of, section=params.encoder))
    for system, shifted in known.of_kind("shifted").items():
        labelled, forms = Labelled.of(encoded(shifted.base), dev, params.retrieve.depth), []
        for name, one in known.of_kind("reordered").items():
            if one.by in METHODS and one.base == shifted.base:
                forms.append(labelled.write_best(name, one.by, stage.unfinished(project.runs(name)), params))
        best, moved = max(forms, key=lambda form: form[0].chosen.value)
        places = (project.embeddings(system), project.index(system), project.runs(system))
        matrix, index, runs = map(stage.unfinished, places)
        labelled.write_matrix(matrix, best, moved, params)
        build(matrix, index, factory=params.index.factory, pids=project.PASSAGES, system=system, seed=params.seed)
        write_runs(labelled.queries.encoder, index, runs, params)
    for system, one in known.of_kind("reordered").items():
        folder, runs = stage.unfinished(project.runs(system)), project.runs(one.base)
        if one.by == "prior":
            write_best(folder, system, favour(runs, params), dev, params)
        if one.by == "logged":
            write_best(folder, system, neighbours(encoded(one.base), runs, folder, params.baselines), dev, params)
    found = {name: project.runs(name) for name in known.dense if project.runs(name) in stage.inputs}
    found |= {name: stage.unfinished(project.runs(name)) for name in known.of_kind("shifted")}
    dense = {name: found[name] for name in known.dense if name in found}  # of equally good ones the first is taken
    bases = [one.base for one in known.of_kind("reordered").values() if one.by == "logged"]
    write_hybrid(stage.unfinished(project.runs(HYBRID)), dense, bases, encoded, dev, params)


if __name__ == "__main__":
    run(main)
