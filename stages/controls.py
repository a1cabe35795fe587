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
    folders = {name: stage.unfinished(project.runs(name)) for name in reordered}
    for system, shifted in known.of_kind("shifted").items():
        base, places = shifted.base, (project.embeddings(system), project.index(system), project.runs(system))
        matrix, index, runs = map(stage.unfinished, places)
        forms = {name: one.by for name, one in reordered.items() if one.by in METHODS and one.base == base}
        methods = {folders[name]: (name, method) for name, method in forms.items()}
        queries = encoded(base, project.runs(base))
        controls.write_closed_forms(queries, methods, matrix, dev, params)
        index_system(queries.splits, system, matrix, index, runs, params)
    logged = dict[str, controls.WithLog]()
    for system, base in ((name, one.base) for name, one in reordered.items() if one.by == "logged"):
        of_base = project.runs(base)
        logged[base] = controls.rank_with_log(encoded(base, of_base), of_base, dev, params)
        logged[base].known.save(folders[system] / LABELLED)
        controls.write_control(folders[system], system, logged[base].choice, logged[base].rankings)
    found = {name: project.runs(name) for name in known.dense if project.runs(name) in stage.inputs}
    found |= {name: stage.unfinished(project.runs(name)) for name in known.of_kind("shifted")}
    dense = {name: found[name] for name in known.dense if name in found}  # of equally good ones the first is taken
    controls.write_hybrid(stage.unfinished(project.runs(HYBRID)), dense, logged, encoded, dev, params)


if __name__ == "__main__":
    run(main)
