"""slices: labels of the judged queries, by which `evaluate` slices them."""

import numpy as np

from gnn_encoder.encoding.corpus import alone, embed_queries, iterate_queries
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.evaluation.labels import write_about
from gnn_encoder.evaluation.properties import label_queries
from gnn_encoder.evaluation.similarity import nearest_similarity
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import REFERENCE


def main(stage: Stage) -> None:
    """Compare the judged queries with the training queries, by M_de, and write a table of labels for each split."""
    precision, batch_tokens = stage.params.encoder.precision, stage.params.encoder.batch_tokens
    encoder = DualEncoder.load(project.encoder(REFERENCE), precision=precision).for_inference()
    judged = [embed_queries(encoder, open_queries(project.queries(s), encoder), batch_tokens) for s in project.JUDGED]
    training = iterate_queries(encoder, open_queries(project.queries("train"), encoder), batch_tokens)
    nearest = nearest_similarity(np.concatenate(judged), training)
    passages = alone(encoder, open_passages(encoder))
    about = {}
    for split, similarities in zip(project.JUDGED, np.split(nearest, [len(judged[0])]), strict=True):
        labels, about[split] = label_queries(split, similarities, passages.is_cut, passages.max_length)
        labels.write_parquet(stage.scratch / project.slices(split).name)
    write_about(stage.scratch, about)


if __name__ == "__main__":
    run(main)
