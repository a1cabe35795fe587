"""Labels of the judged queries, by which they are sliced."""

import numpy as np

from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.data.answers import judged_by_answers
from gnn_encoder.evaluation.properties import label_queries, nearest_similarity
from gnn_encoder.evaluation.slices import Labels
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import REFERENCE
from gnn_encoder.text.corpus import iterate_queries, passage_inputs
from gnn_encoder.text.opening import embed_rows, load_encoder, open_passages, open_queries


def judged_labels(params: Params) -> Labels:
    """Compare the judged queries of each split with the training queries, by M_de, and label them.

    Of queries that answers judge, the relevant passages are those of `untrained`, which knows the dev queries alone.
    """
    section, train, test = params.encoder, project.queries("train"), project.queries("test")
    encoder = load_encoder(project.encoder(REFERENCE), section)
    relevant = {"dev": project.POSITIVES, "test": None if judged_by_answers(test) else project.qrels("test")}
    asked = [embed_rows(encoder, project.queries(split), section) for split in project.JUDGED]
    logged = iterate_queries(encoder, open_queries(train, encoder), section.batch_tokens)
    nearest = np.split(nearest_similarity(np.concatenate(asked), logged), np.cumsum([len(one) for one in asked])[:-1])
    labelled = relevant_pairs(*project.tables("train"))["passage"].unique().to_numpy()
    read, found = passage_inputs(encoder, open_passages(encoder)), {}
    for split, similarities in zip(project.JUDGED, nearest, strict=True):
        found[split] = label_queries(
            project.queries(split),
            relevant[split],
            project.PASSAGES,
            labelled=labelled,
            similarities=similarities,
            is_cut=read.is_cut,
            passage_length=read.single_length,
        )
    return found
