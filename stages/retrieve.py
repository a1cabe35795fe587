"""retrieve SYSTEM: the system's runs of the dev and test queries."""

from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.texts import open_queries
from gnn_encoder.index.runs import search_split
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Encode the queries with the system's encoder and search its index."""
    params = stage.params
    encoder = DualEncoder.load(project.encoder(stage.key), precision=params.encoder.precision).for_inference()
    index = PassageIndex.open(project.index(stage.key))
    for split in project.JUDGED:
        queries = embed_queries(encoder, open_queries(project.queries(split), encoder), params.encoder.batch_tokens)
        target = stage.scratch / project.run_file(stage.key, split).name
        search_split(queries, index, split, params.retrieve.depth, target)


if __name__ == "__main__":
    run(main)
