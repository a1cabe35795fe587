"""The corpus by a trained GNN-encoder, from artifacts to the matrix of query-interactive embeddings h'_p."""

from pathlib import Path

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.core.project import GNNSystem
from gnn_encoder.core.storage.arrays import check_shape
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoders.corpus import embed_questions
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_queries
from gnn_encoder.graph.artifacts import open_neighbourhood
from gnn_encoder.graph.corpus import CorpusGNN
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.graph.nodes import QUESTIONS, read_nodes
from gnn_encoder.matrix import write_matrix


def load_encoder(model: Path, params: Params) -> DualEncoder:
    """The jointly trained dual-encoder of a GNN-encoder's folder."""
    return DualEncoder.load(model / "encoder", precision=params.encoder.precision).for_inference()


def open_informer(system: GNNSystem, model: Path, encoder: DualEncoder, params: Params) -> CorpusGNN:
    """The trained GNN over the whole graph: Eq. 6 and 7 are done, Eq. 8-10 await passages.

    Args:
        system: whose graph and M_de it is.
        model: folder of the GNN.
        encoder: the jointly trained one.

    Raises:
        UserError: M_de's matrix is not of these passages, or of another dimension.
    """
    gnn = QueryPassageGNN.load(model)
    check_shape(project.embeddings(system.base), (count_rows(project.PASSAGES), gnn.config.dimension))
    near = open_neighbourhood(
        system,
        read_nodes(system.nodes),
        edge_features=gnn.config.edge_features,
        labelled_edges=params.encode_corpus.labelled_edges,
        max_neighbours=params.mgt.max_neighbours,
        self_loops_only=gnn.config.graph == "self_loops",
    )
    questions = embed_questions(encoder, open_queries(system.nodes / QUESTIONS, encoder), params.encoder.batch_tokens)
    return CorpusGNN(gnn.to(near.device), near, questions)


def inform_corpus(system: GNNSystem, model: Path, folder: Path, params: Params, manifest: dict[str, str]) -> None:
    """Encode all passages with the jointly trained encoder, inform them, and write the matrix that is searched.

    Args:
        folder: scratch folder of the matrix; windows that an interrupted run finished there are kept.
        manifest: `model_fingerprint` and `input_fingerprint`.
    """
    inform = open_informer(system, model, load_encoder(model, params), params)
    write_matrix(model / "encoder", folder, params, base=system.base, transform=inform, manifest=manifest)
