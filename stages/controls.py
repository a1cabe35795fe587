"""controls: what the same labels give without a graph; each chooses its settings on the dev queries.

Closed forms move passages towards their labelled queries; logged_neighbours ranks what is found anew by what the labels
say. Both start from M_de trained on without a graph. hybrid joins BM25, the best dense system and the log.
"""

from gnn_encoder.controls import write as controls
from gnn_encoder.controls.closed_form import METHODS
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import CONTROL, HYBRID, LOGGED, registry
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system


def main(stage: Stage) -> None:
    """Make every system of the kinds `reordered`, `shifted` and `fused`, the last of what the others find."""
    params, known, dev = stage.params, registry(), controls.dev_queries(stage.params)
    folders = {name: stage.unfinished(project.runs(name)) for name in known.of_kind("reordered", "shifted", "fused")}
    queries = controls.Encoded.of(CONTROL, project.runs(CONTROL), params.encoder)
    methods = {name: (one.by, folders[name]) for name, one in known.of_kind("reordered").items() if one.by in METHODS}
    (shifted,) = known.of_kind("shifted")
    matrix, index = stage.unfinished(project.embeddings(shifted)), stage.unfinished(project.index(shifted))
    controls.write_closed_forms(queries, methods, matrix, dev, params)
    index_system(queries.splits, shifted, project.encoder(shifted), matrix, index, folders[shifted], params)
    logged = controls.rank_with_log(queries, dev, params)
    controls.write_control(folders[LOGGED], LOGGED, logged.choice, logged.rankings)
    runs = {name: folders.get(name, project.runs(name)) for name in known.dense}  # of equally good ones the first
    dense = {name: of for name, of in runs.items() if name in folders or of in stage.inputs}
    controls.write_hybrid(folders[HYBRID], dense, logged, dev, params)


if __name__ == "__main__":
    run(main)
