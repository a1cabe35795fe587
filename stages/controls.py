"""controls: what the same labels give without a graph; each chooses its settings on the dev queries.

Closed forms move passages towards their labelled queries; logged_neighbours ranks what is found anew by what the labels
say. Both start from M_de trained on without a graph. hybrid ranks together what BM25, the best dense system and the log
say.
"""

from functools import cache, partial

from gnn_encoder.controls import write as controls
from gnn_encoder.controls.closed_form import METHODS
from gnn_encoder.controls.hybrid import LABELLED
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import HYBRID, registry
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system


def main(stage: Stage) -> None:
    """Make every system of the kinds `reordered`, `shifted` and `fused`, the last of what the others find."""
    params, known, dev = stage.params, registry(), controls.dev_queries(stage.params)
    encoded, reordered = cache(partial(controls.Encoded.of, section=params.encoder)), known.of_kind("reordered")
    folders = {name: stage.unfinished(project.runs(name)) for name in known.of_kind("reordered", "shifted", "fused")}
    for system, base in ((name, one.base) for name, one in known.of_kind("shifted").items()):
        queries = encoded(base, project.runs(base))
        methods = {
            name: (of.by, folders[name]) for name, of in reordered.items() if of.base == base and of.by in METHODS
        }
        matrix, index = stage.unfinished(project.embeddings(system)), stage.unfinished(project.index(system))
        controls.write_closed_forms(queries, methods, matrix, dev, params)
        index_system(queries.splits, system, matrix, index, folders[system], params)
    logged = dict[str, controls.WithLog]()
    for system, base in ((name, one.base) for name, one in reordered.items() if one.by == "logged"):
        logged[base] = controls.rank_with_log(encoded(base, project.runs(base)), dev, params)
        logged[base].known.save(folders[system] / LABELLED)
        controls.write_control(folders[system], system, logged[base].choice, logged[base].rankings)
    runs = {name: folders.get(name, project.runs(name)) for name in known.dense}  # of equally good ones the first
    dense = {name: of for name, of in runs.items() if name in folders or of in stage.inputs}
    controls.write_hybrid(folders[HYBRID], dense, logged, dev, params)


if __name__ == "__main__":
    run(main)
