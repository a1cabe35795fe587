"""Where graphs and GNN-encoders lie, and what stands there, opened as values."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gnn_encoder.base.judgements import Identical, pair_counts, relevant_pairs
from gnn_encoder.base.matrix import check_shape, open_matrix
from gnn_encoder.base.tables import count_rows, read_candidates
from gnn_encoder.data.answers import answered, judged_by_answers
from gnn_encoder.graph.corpus import CorpusGNN
from gnn_encoder.graph.features import EdgeFeatures, open_features
from gnn_encoder.graph.neighbourhood import GraphData, Neighbourhood
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.nodes import NODES
from gnn_encoder.graph.structure import Graph
from gnn_encoder.mgt.given import Given
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.text.corpus import same_encoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.opening import embed_rows, load_encoder, open_passages, open_queries
from gnn_encoder.train.examples import read_examples


@dataclass(frozen=True, kw_only=True)
class GraphArtifacts:
    """A graph that the stage build_graph wrote.

    Attributes:
        name: a system of kind `graph` in systems.yaml.
    """

    name: str

    @property
    def base(self) -> str:
        """The system that serves as M_de."""
        return registry().systems[self.name].base

    @property
    def queries(self) -> Path:
        """Table of the queries that are nodes."""
        return project.graph(self.name) / NODES

    @property
    def edges(self) -> Path:
        """Table of the edges."""
        return project.graph(self.name) / "edges.parquet"

    def open(self) -> Graph:
        """The graph in memory."""
        edges = read_candidates(self.edges)
        counts = (count_rows(table) for table in (self.queries, project.PASSAGES, project.queries("train")))
        return Graph.from_edges(edges, *counts)

    def open_features(self) -> EdgeFeatures:
        """M_ce's features of the edges."""
        counts = (count_rows(table) for table in (self.edges, self.queries, project.PASSAGES))
        return open_features(project.edge_features(self.name), *counts)

    def data(self, edge_features: str) -> GraphData:
        """The graph with what the layers read; `edge_features` is that of section `mgt`."""
        return GraphData(
            graph=self.open(),
            judged=relevant_pairs(*project.tables("train")),
            cached=open_matrix(project.embeddings(self.base)),
            features=self.open_features() if edge_features == "cross_encoder" else None,
        )


def open_given(base: str, params: Params) -> Given:
    """What GNN-encoder and its control start from: M_de, which is the system `base`, and the training data."""
    mgt, n_passages, dev = params.mgt, count_rows(project.PASSAGES), project.queries("dev")
    encoder = DualEncoder.load(project.encoder(base), precision=params.encoder.precision, dropout=mgt.joint.dropout)
    check_shape(project.embeddings(base), (n_passages, encoder.dimension))
    counts = pair_counts(project.queries("train"), project.COUNTS, project.PASSAGES)
    examples = read_examples(project.EXAMPLES, n_passages, Identical.read(project.IDENTICAL, "train"))
    hits = partial(answered, queries=dev, passages=project.PASSAGES, kind=params.evaluate.answers)
    return Given(
        encoder=encoder,
        examples=examples.weighed(counts),
        queries=open_queries(project.queries("train"), encoder),
        passages=open_passages(encoder),
        cached=open_matrix(project.embeddings(base)),
        dev_queries=open_queries(dev, encoder),
        dev_pairs=relevant_pairs(dev, project.POSITIVES, project.PASSAGES),
        answered=hits if judged_by_answers(dev) else None,
        dev_own=Identical.read(project.IDENTICAL, "dev").own,
        dev=params.dev,
        mgt=mgt,
        seed=params.seed,
        frozen_layers=params.encoder.frozen_layers,
        batch_tokens=params.encoder.batch_tokens,
        chunk_size=params.encoder.chunk_size,
    )


def graph_encoder(source: GraphArtifacts, model: Path, params: Params) -> tuple[DualEncoder, Path | None]:
    """The encoder of a graph's nodes and passages, and M_de's matrix if that holds these passages; else None.

    It is the one that was trained together with the GNN; where its passages are still M_de's, it is M_de, since the
    graph stayed as it was.

    Args:
        source: the graph and its M_de.
        model: folder of the GNN and of the encoder that was trained together with it.
    """
    encoded = same_encoder(model / "encoder", project.embeddings(source.base))
    folder = model / "encoder" if encoded is None else project.encoder(source.base)
    return load_encoder(folder, params.encoder), encoded


def open_informer(source: GraphArtifacts, model: Path, encoder: DualEncoder, params: Params) -> CorpusGNN:
    """The trained GNN over the whole graph, with Eq. 6 and 7 already computed.

    Args:
        source: the graph and its M_de.
        model: folder of the GNN.
        encoder: that of `graph_encoder`.
    """
    gnn = QueryPassageGNN.load(model)
    check_shape(project.embeddings(source.base), (count_rows(project.PASSAGES), gnn.config.dimension))
    near = deployed_neighbourhood(source, gnn.config, params)
    return CorpusGNN(gnn.to(near.device), near, embed_rows(encoder, source.queries, params.encoder))


def deployed_neighbourhood(source: GraphArtifacts, config: GNNConfig, params: Params) -> Neighbourhood:
    """The graph that informs the corpus, as a trained network of this `config` reads it."""
    return source.data(config.edge_features).neighbourhood(config, max_neighbours=params.mgt.max_neighbours)
