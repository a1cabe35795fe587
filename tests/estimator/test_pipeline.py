"""The estimator is what the pipeline runs: the same vectors and labels give the same graph, weights and embeddings."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_encoder import GNNEncoder
from gnn_encoder.base.files import seal
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import EXAMPLES, write_table
from gnn_encoder.gnn.graph import open_graph
from gnn_encoder.gnn.network import QueryPassageGNN
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.corpus import embed_queries, load_encoder
from gnn_encoder.train.dev import retrieved_pairs
from gnn_encoder.train.examples import examples_from_candidates

from ..built import BASE, SYSTEM
from ..project import call_stage, set_params


@pytest.mark.parametrize(("labels", "softmax"), [(False, "batch"), (True, "corpus")])
def test_against_train_mgt_and_encode_corpus(built_copy: Path, labels: bool, softmax: str) -> None:
    """As in the paper, and with what the estimator adds by default."""
    set_params(built_copy, mgt__labels=labels, mgt__softmax=softmax, mgt__joint__steps=0)
    call_stage("build_graph")
    params, mgt = load_params(), load_params().mgt
    passages = open_matrix(project.embeddings(BASE))
    encoder = load_encoder(project.encoder(BASE), params.encoder)
    limit = params.encoder.batch_tokens
    queries = {split: embed_queries(encoder, project.queries(split), limit) for split in ("train", "dev")}
    pairs = {split: relevant_pairs(*project.tables(split)) for split in queries}
    shared = mgt.alone.model_dump() | {"beta": mgt.beta, "negatives": mgt.negatives}
    gnn = GNNEncoder(k=params.build_graph.k, labels=labels, softmax=softmax, seed=params.seed, **shared)
    gnn.fit(passages, queries["train"], pairs["train"].to_numpy(), dev=(queries["dev"], pairs["dev"].to_numpy()))
    np.testing.assert_array_equal(gnn.graph_.passages, open_graph().passages)

    # Both draw hard negatives from the passages that M_de retrieves.
    found, _ = array_top_k(passages, queries["train"], gnn.k)
    candidates = retrieved_pairs(np.arange(len(found)), found)
    examples = examples_from_candidates(pairs["train"], candidates).to_arrow().cast(EXAMPLES)
    write_table(project.EXAMPLES, EXAMPLES, [examples])
    seal(project.EXAMPLES.parent)
    project.POSITIVES.parent.mkdir(exist_ok=True)
    shutil.copy(project.qrels("dev"), project.POSITIVES)
    call_stage("train_mgt")
    trained = QueryPassageGNN.load(project.GNN)
    assert trained.config == gnn.gnn_.config
    for name, weight in gnn.gnn_.state_dict().items():
        assert torch.equal(trained.state_dict()[name], weight), name
    call_stage("encode_corpus")
    informed = gnn.transform(passages).astype(params.cache_passages.dtype)
    np.testing.assert_array_equal(informed, open_matrix(project.embeddings(SYSTEM)))
