"""GNN-encoder for anybody's vectors, with the conventions of scikit-learn; it trains as phase one of `train_mgt`."""

import json
import logging
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, Self, get_type_hints

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, ValidationError, create_model
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import replacing, write_json
from gnn_encoder.base.judgements import AGAIN, share_asked_again
from gnn_encoder.base.matrix import Matrix, Rows, array_blocks, of_length_1
from gnn_encoder.gnn.graph import Graph, Labels, labelled_first
from gnn_encoder.gnn.masking import Supervision
from gnn_encoder.gnn.neighbourhood import CorpusGNN, Neighbourhood
from gnn_encoder.gnn.network import CONFIG, WEIGHTS, QueryPassageGNN
from gnn_encoder.gnn.tasks import CachedEmbeddings
from gnn_encoder.gnn.train import CACHED_PASSAGES, CACHED_QUERIES, draw_dev, new_factor, new_gnn, train_on_embeddings
from gnn_encoder.pipeline.params import Alone, Beta, Count, Gate, Number, PhaseOne, Rate, Several
from gnn_encoder.pipeline.section import Section, described
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.batches import WINDOW
from gnn_encoder.text.device import device
from gnn_encoder.text.pretrained import TEMPERATURES, fork_rng
from gnn_encoder.train.dev import retrieved_pairs
from gnn_encoder.train.examples import examples_from_candidates, to_examples
from gnn_encoder.train.loop import History
from gnn_encoder.vectors import PAIR, TrainingData, check_rows, check_type, check_vectors

log = logging.getLogger(__name__)
PARAMS, ARRAYS = "estimator.json", "graph.safetensors"
FILES = {PARAMS, ARRAYS, CONFIG, WEIGHTS}
SAME = 0.02  # of both lengths, by which a passage's score may be off that in `fit`: float16 and bfloat16 change less


@dataclass(kw_only=True)
class GNNEncoder:
    """Passage vectors that know the queries which retrieve them, from the vectors of any encoder.

    Each query is linked to its `k` best passages; two GAT layers inform each passage by its queries, and learn how from
    labelled queries by Masked Graph Training (Liu et al. 2022, section 3). Queries keep their vectors.

    >>> import numpy as np
    >>> from gnn_encoder import GNNEncoder
    >>> rng = np.random.default_rng(0)
    >>> def unit(rows):
    ...     return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    >>> meaning = rng.normal(size=(200, 16))
    >>> passages = unit(meaning + 1.5 * rng.normal(size=(200, 16)))
    >>> asked = rng.integers(200, size=1000)  # the passage that each query is labelled with
    >>> queries = unit(meaning[asked] + rng.normal(size=(1000, 16)))
    >>> labels = np.stack([np.arange(800), asked[:800]], axis=1)
    >>> dev_labels = np.stack([np.arange(200), asked[800:]], axis=1)
    >>> gnn = GNNEncoder(k=5, seed=13).fit(passages, queries[:800], labels, dev=(queries[800:], dev_labels))
    >>> informed = gnn.transform(passages)  # (m, d): index these; queries stay as they are
    >>> def right(vectors):
    ...     return (np.argmax(queries[800:] @ vectors.T, axis=1) == asked[800:]).mean()
    >>> bool(right(informed) > right(passages) + 0.2)
    True

    The defaults add two things to the paper, a softmax over the corpus and, for queries that ask for labelled passages
    again, labelled edges with sums of labelled queries: `mgt.softmax` and `mgt.labels` of the pipeline.

    Args:
        k: passages of a query.
        labels: whether a query's labelled passages come first among these, on edges that the network tells apart, and a
            passage's labelled queries are also summed up, scaled by their number (`QueryPassageGNN`); None: if most dev
            queries ask for a passage that a training query is labelled with.
        layers: 2, or 1 to leave out Eq. 6 and 7.
        heads: of the attention; a divisor of d.
        gate: "learned" (Eq. 9), or a constant in 0..1 that takes the place of f_p.
        beta: share of the queries that trains at a time, and is then out of the graph; at least 1 / beta are labelled.
        steps: of the optimiser; 0: the network stays as it starts.
        batch_size: queries.
        softmax: of the loss, over the passages of the "batch" (Eq. 12), or of the "corpus".
        negatives: hard negatives of a query, of its k best passages, besides the batch's; only with softmax "batch".
        learning_rate: of AdamW.
        similarity: "cosine", for vectors of length 1, or "dot".
        temperature: the loss divides scores by it; None: 0.05 with "cosine", 1 with "dot".
        seed: the same seed, the same bytes on one machine.

    Attributes:
        gnn_: the network.
        graph_: the graph of the queries and the passages of `fit`; rows of `passages` are its passages.
        queries_: the queries that are nodes, those without labels last. *Shape:* (n, d) float32.
        labelled_: which edges are labelled. *Shape:* (n * k,).
        history_: one row a step or dev score: phase, step, loss, dev_rr10. Not saved.
        n_features_in_: d.
    """

    k: Count = 6
    labels: bool | None = None
    layers: Literal[1, 2] = 2
    heads: Count = 4
    gate: Gate = "learned"
    beta: Beta = 0.05
    steps: Number = 40
    batch_size: Several = 1_024
    softmax: Literal["batch", "corpus"] = "corpus"
    negatives: Number = 1
    learning_rate: Rate = 1e-3
    similarity: Literal["cosine", "dot"] = "cosine"
    temperature: Annotated[float, Field(gt=0)] | None = None
    seed: Number = 13

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def fit(
        self,
        passages: NDArray[Any],
        queries: NDArray[Any],
        relevant: Any,
        *,
        dev: tuple[NDArray[Any], Any],
        unlabelled: NDArray[Any] | None = None,
    ) -> Self:
        """Build the graph and train the network on it; passages may be mapped, and are read in blocks.

        Args:
            relevant: pairs of a query's row and that of a passage which is relevant for it. *Shape:* (pairs, 2).
            dev: other queries and what is relevant for them. By a sample's RR@10 the best weights are kept.
            unlabelled: queries that nobody has labelled, which become nodes too.

        *Shape:* passages (m, d), queries (n, d), unlabelled (u, d).
        """
        self._section()
        given = TrainingData.check(passages, queries, relevant, dev, unlabelled, similarity=self.similarity)
        return self.fit_checked(given)

    def fit_checked(self, data: TrainingData) -> Self:
        """The same of data that are checked. After an error, halfway too, the estimator is as it was."""
        mgt, (m, d) = self._section(data), data.passages.shape
        data.check_sizes(self.k, self.beta)
        with fork_rng():
            gnn = new_gnn(mgt, (d, None), self.similarity, seed=self.seed, heads=self.heads)  # refuses heads
        training, asked = of_length_1(data.nodes[: data.training]), of_length_1(data.dev_queries)
        if again := int((array_top_k(training, asked, 1)[1] > 0.99999).sum()):
            told = "warning: %d of %d dev queries have the vector of a training query: take others, or dev flatters"
            log.warning(told, again, len(asked))
        if again := len(training) - len(np.unique(training, axis=0)):
            told = "warning: %d training queries repeat another, which shows its label while they are masked: %s"
            log.warning(told, again, "give them one row")
        found, scores = array_top_k(data.passages, data.nodes, self.k)
        candidates = retrieved_pairs(np.arange(len(found)), found)  # hard negatives, but for what is labelled
        examples = to_examples(examples_from_candidates(data.pairs, candidates), m)
        if mgt.labels:
            found, scores = labelled_first(found, scores, data.pairs, data.nodes, data.passages)
        graph = Graph(passages=found, score=scores, n_passages=m)  # section 3.2
        near = Neighbourhood(graph, data.passages, None, Labels(data.pairs, m), sums=mgt.labels)
        sizes: dict[str, Any] = {"size": CACHED_QUERIES, "whole": CACHED_PASSAGES}
        dev = draw_dev(data.dev_pairs, data.dev_queries.__getitem__, data.passages, seed=self.seed, **sizes)
        supervision = Supervision(examples, dev, mgt, mgt.alone, self.seed)
        cached = CachedEmbeddings(data.nodes, data.dev_queries[dev.queries])
        factor = new_factor(1 / (self.temperature or TEMPERATURES[self.similarity]))
        with fork_rng(), TemporaryDirectory(prefix="gnn-encoder-") as folder:
            how: dict[str, Any] = {"factor": factor, "mgt": mgt, "folder": Path(folder)}
            history = train_on_embeddings(gnn, (near, near), supervision, cached, **how)  # section 3.4
        self._set(gnn, graph, data.nodes, data.pairs, CorpusGNN(gnn, near, data.nodes).interactive)
        self.history_: History = history
        return self

    def transform(
        self, passages: NDArray[Any], *, rows: Any | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Query-interactive vectors h'_p (Eq. 8-10), to be indexed in place of the passages'.

        A passage that was there in `fit` has the edges that it got there. A new passage is linked to the queries that
        would retrieve it: those for which it scores higher than the last of their k passages. The queries' own passages
        stay those of `fit`, so that old passages do not change with new ones.

        Args:
            rows: the row of each in the passages of `fit`, -1 for a new one; None: all of them, in the same order.
            out: where the result is written, such as a mapped file; None: a new array of float32.

        *Shape:* passages (b, d), rows (b,) -> (b, d).
        """
        self._check_fitted()
        passages = check_vectors("passages", passages, columns=self.n_features_in_, similarity=self.similarity)
        rows = check_rows(rows, len(passages), self.graph_.m)
        result = np.empty(passages.shape, dtype=np.float32) if out is None else out
        check_type("out", result.dtype)
        if result.shape != passages.shape:
            raise UserError(f"out: shape {result.shape}; must be {passages.shape}, that of the passages")
        with tqdm(total=len(passages), desc="inform", unit=" passages") as bar:
            for first, block in array_blocks(passages, WINDOW):
                part, window = rows[first : first + len(block)], result[first : first + len(block)]
                known, new = np.flatnonzero(part >= 0), np.flatnonzero(part < 0)
                if len(known):
                    self._check_known(first + known, part[known], block[known])
                    window[known] = self._corpus.inform(self._corpus.near.around(part[known]), block[known])
                if len(new):
                    asking = self._corpus.near.around_new(self.queries_, block[new])
                    window[new] = self._corpus.inform(asking, block[new])
                bar.update(len(block))
        return result

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator as a folder of safetensors and JSON, which takes its place whole."""
        self._check_fitted()
        folder = Path(folder).resolve()
        if folder.exists() and not (folder.is_dir() and {path.name for path in folder.iterdir()} <= FILES):
            raise UserError(f"{folder}: holds what GNNEncoder.save has not written; name a new folder, or remove it")
        arrays = {
            "queries": self.queries_,
            "interactive_queries": self._corpus.interactive,
            "passages": self.graph_.passages,
            "score": self.graph_.score,
            "labels": self._corpus.near.labels.pairs.sort("query", "passage").to_numpy(),
            "n_passages": np.array([self.graph_.m]),
        }
        with replacing(folder, own=True) as beside:
            self.gnn_.save(beside)
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, beside / ARRAYS)
            write_json(beside / PARAMS, self.get_params())

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote."""
        folder = Path(folder)
        for path in (folder / name for name in sorted(FILES)):
            if not path.is_file():
                raise UserError(f"{path}: no such file; GNNEncoder.save writes it")
        try:
            found = cls(**json.loads((folder / PARAMS).read_text(encoding="utf-8")))
            arrays = load_file(folder / ARRAYS)
            edges, m = {name: arrays[name] for name in ("passages", "score")}, int(arrays["n_passages"][0])
            graph, pairs = Graph(**edges, n_passages=m), pl.DataFrame(arrays["labels"], schema=PAIR)
            queries, informed = arrays["queries"], arrays["interactive_queries"]
        except (KeyError, ValueError, TypeError, SafetensorError) as error:
            raise UserError(f"{folder}: not what GNNEncoder.save writes ({error}); fit and save it again") from error
        found._set(QueryPassageGNN.load(folder).to(device()), graph, queries, pairs, informed)
        return found

    def _section(self, data: TrainingData | None = None) -> PhaseOne:
        """The parameters, checked, as section `mgt`, as far as phase one reads it; `data` may decide on `labels`."""
        try:
            values = PARAMETERS.model_validate(self.get_params()).model_dump()
        except ValidationError as error:
            raise UserError(described(error)) from error
        if values["labels"] is None:
            values["labels"] = data is not None and share_asked_again(data.pairs, data.dev_pairs) > AGAIN
        shared, alone = ({name: values[name] for name in of.model_fields if name in values} for of in (PhaseOne, Alone))
        return PhaseOne(**shared, edge_features="none", masking="mgt", alone=Alone(**alone))

    def _set(self, gnn: QueryPassageGNN, graph: Graph, queries: Matrix, pairs: pl.DataFrame, h_q: Matrix) -> None:
        """Make ready to inform passages, without those of `fit`; `h_q`: the queries' h'_q. *Shape:* (n, d)."""
        none = np.empty((0, queries.shape[1]), dtype=np.float32)
        near = Neighbourhood(graph, none, None, Labels(pairs, graph.m), sums=gnn.config.labels)
        self._corpus = CorpusGNN(gnn, near, queries, h_q)
        self.gnn_, self.graph_, self.queries_, self.n_features_in_ = gnn, graph, queries, queries.shape[1]
        self.labelled_ = near.labelled if gnn.config.labels else np.zeros(len(graph.score), dtype=bool)

    def _check_known(self, places: Rows, rows: Rows, block: Matrix) -> None:
        """Refuse a passage with another score than in `fit` for its nearest query. *Shape:* (b,), (b,), (b, d)."""
        graph = self.graph_
        asked = np.flatnonzero(graph.indptr[rows] < graph.indptr[rows + 1])
        edge = graph.edges[graph.indptr[rows[asked]]]
        queries, passages = self.queries_[edge // graph.k], block[asked]
        off = np.abs(np.einsum("ij,ij->i", queries, passages) - graph.score[edge])
        wrong = off > SAME * np.linalg.norm(queries, axis=1) * np.linalg.norm(passages, axis=1)
        if wrong.any():
            at, cure = asked[np.argmax(wrong)], "give each one's row as `rows`, -1: new"
            raise UserError(f"passages: {places[at]} is not what fit had in row {rows[at]}; {cure}")

    def _check_fitted(self) -> None:
        if not hasattr(self, "_corpus"):
            raise UserError("this GNNEncoder is not fitted; call fit or GNNEncoder.load first")


PARAMETERS: type[Section] = create_model(  # type: ignore[call-overload]
    "Parameters",
    __base__=Section,
    **{name: (kind, ...) for name, kind in get_type_hints(GNNEncoder, include_extras=True).items()},
)
