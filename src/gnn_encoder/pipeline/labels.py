"""Labels of the judged queries, by which they are sliced."""

from gnn_encoder.answers.pairs import judged_by_answers
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.evaluation.properties import label_splits
from gnn_encoder.evaluation.slices import Labels
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import load_encoder, open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import REFERENCE


def judged_labels(params: Params) -> Labels:
    """Compare the judged queries of each split with the training queries, by M_de, and label them.

    Of queries that answers judge, the relevant passages are those of stage `bm25`, which knows the dev queries alone.
    """
    encoder, test = load_encoder(project.encoder(REFERENCE), params.encoder), project.queries("test")
    relevant = {"dev": project.POSITIVES, "test": None if judged_by_answers(test) else project.qrels("test")}
    tables = {split: project.queries(split) for split in project.JUDGED}
    splits = {split: (open_queries(table, encoder), table, relevant[split]) for split, table in tables.items()}
    training, passages = open_queries(project.queries("train"), encoder), (open_passages(encoder), project.PASSAGES)
    known = {"labelled": relevant_pairs(*project.tables("train"))["passage"].unique().to_numpy()}
    size = params.encoder.batch_tokens
    return label_splits(encoder, training, splits, passages, **known, batch_tokens=size)
