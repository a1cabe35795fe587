"""controls: what the same labels give without a graph, and beside it; each chooses its settings on the dev queries.

Closed forms move passages towards their labelled queries, and lower what many queries find, labelled or not: those of
M_de trained on without a graph, and GNN-encoder's. logged_neighbours ranks what the former finds anew by what the
labels say. hybrid joins BM25, the best dense system and the log.
"""

from gnn_encoder.controls import write as controls
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import CONTROL, HYBRID, LOGGED, registry
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system


def main(stage: Stage) -> None:
    """Make every system of the kinds `reordered`, `shifted` and `fused`, the last of what the others find."""
    params, known, dev = stage.params, registry(), controls.dev_queries(stage.params)
    folders = {name: stage.unfinished(project.runs(name)) for name in known.of_kind("reordered", "shifted", "fused")}
    reordered = {name: (one.by, folders[name]) for name, one in known.of_kind("reordered").items() if name != LOGGED}
    encoded = dict[str, controls.Encoded]()
    for name, one in known.of_kind("shifted").items():
        encoded[one.base] = queries = controls.Encoded.of(one.base, project.runs(one.base), params)
        matrix, index = stage.unfinished(project.embeddings(name)), stage.unfinished(project.index(name))
        forms = reordered if one.base == CONTROL else {}
        controls.write_closed_forms(queries, forms, folders[name], matrix, dev, params)
        index_system(queries.splits, name, project.encoder(name), matrix, index, folders[name], params)
    logged = controls.rank_with_log(encoded[CONTROL], dev, params)
    controls.write_control(folders[LOGGED], LOGGED, logged.choice, logged.rankings)
    runs = {name: folders.get(name, project.runs(name)) for name in known.dense}  # of equally good ones the first
    dense = {name: of for name, of in runs.items() if name in folders or of in stage.inputs}
    controls.write_hybrid(folders[HYBRID], dense, encoded, logged, dev, params)


if __name__ == "__main__":
    run(main)
