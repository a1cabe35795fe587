"""What is trained: the GNN on cached embeddings, or together with the encoder."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gnn_encoder.base.matrix import Matrix, Rows, gather_rows
from gnn_encoder.gnn.masking import CorpusSample, Supervision, check_no_leak, positives_of, propagation_mask
from gnn_encoder.gnn.neighbourhood import Neighbourhood, Subgraph
from gnn_encoder.gnn.network import QueryPassageGNN
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.batches import WINDOW
from gnn_encoder.text.corpus import embed_passages, embed_queries
from gnn_encoder.text.device import device, on_device
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import DevSample, no_grad_eval, reciprocal_ranks, shared_rows
from gnn_encoder.train.dual_encoder import Fixed, Representations, Texts, backward, batch_loss
from gnn_encoder.train.examples import Examples, local_part, local_share
from gnn_encoder.train.loop import parameter_group

RETRIEVED = 25  # passages of each query that the control's samples certainly have: the default's k, whatever k is
SCALE_RATE = 10.0  # of the learning rate of the scores' factor, in the GNN's
FACTORS = tuple(2.0**step for step in range(-5, 6))  # of the encoder's 1 / temperature


def corpus_loss(
    queries: Tensor,
    passages: Tensor,
    sample: CorpusSample,
    items: Rows,
    examples: Examples,
    scale: Tensor | float,
    *,
    of: int,
) -> Tensor:
    r"""The part of the mean loss over a batch of `of` items that some of them, this rank's, have.

    .. math::
        L(q) = -\frac{1}{|P_q^+|} \sum_{p^+ \in P_q^+} \log \frac{e^{s(q, p^+)}}{\sum_p e^{s(q, p)}}

    The sum below goes over the corpus, where Eq. 12 has the batch's passages. Above some size it is estimated: the
    passages that the batch's queries retrieve or are labelled with count as they are, a random sample for the others.

    Positives count by their weights where they have some, and alike where not. The sample holds all of the items'.

    *Shape:* queries of the items (b, d), passages of the sample (c, d), items (b,).
    """

    def beside(*arrays: NDArray[Any]) -> tuple[Tensor, ...]:
        return tuple(torch.from_numpy(array).to(passages.device) for array in arrays)

    logits = scale * queries @ passages.T + beside(sample.stands_for)[0]
    copies, item = examples.spared_unlabelled(examples.queries[items])  # are no negatives, but copies of relevant ones
    column = np.searchsorted(sample.passages, copies).clip(max=len(sample.passages) - 1)
    inside = sample.passages[column] == copies
    if inside.any():
        logits = logits.index_put(beside(item[inside], column[inside]), logits.new_tensor(-torch.inf))
    query, passage, weight = positives_of(examples, items)
    row, place, share = beside(query, np.searchsorted(sample.passages, passage), weight)
    return -(logits.log_softmax(dim=1)[row, place] * share).sum() / of


def subgraph_of(neighbourhood: Neighbourhood, wanted: Rows, masked: Rows) -> tuple[Subgraph, Rows]:
    """The subgraph of some passages without the masked queries, and the place of each of these passages in it."""
    passages, position = np.unique(wanted, return_inverse=True)
    subgraph = neighbourhood.around(passages, propagation_mask(neighbourhood.graph.n, masked))
    check_no_leak(masked, subgraph.queries)
    return subgraph, position


Nodes = tuple[Representations | Fixed, Representations | Fixed]  # h_p and h_q of a subgraph: (b, d), (u, d)


class CachedEmbeddings:
    """Those of M_de, which stay: E_P of the graph's cache, and E_Q of its `queries` and of the sampled dev queries.

    *Shape:* queries (n, d), of_dev (q, d).
    """

    def __init__(self, queries: Matrix, of_dev: Matrix) -> None:
        self.modules: dict[str, nn.Module] = {}
        self.queries, self.of_dev = queries, of_dev

    def asked(self, rows: Rows) -> Fixed:
        """E_Q of some queries of the graph. *Shape:* (b,) -> (b, d)."""
        return Fixed(on_device(self.queries[rows]))

    def nodes(self, near: Neighbourhood, subgraph: Subgraph) -> Nodes:
        """h_p and h_q of a subgraph."""
        return Fixed(near.passage_embeddings(subgraph.passages)), self.asked(subgraph.queries)

    def dev_queries(self, sample: DevSample) -> Tensor:
        """E_Q of the sampled dev queries. *Shape:* (q, d)."""
        return on_device(self.of_dev)


class LearntEmbeddings:
    """Those of the encoder of `texts`, which is being trained, with gradient where they are recorded; methods as above.

    `texts` are the graph's queries, of which the training queries are the first, and the passages. In the paper the
    graph's nodes learn too. With `cached` they stay as they are there, E_P with them: a step of the softmax over the
    corpus reads all passages, which only M_de's cache can give.
    """

    def __init__(self, texts: Texts, dev_texts: TextTokens, cached: CachedEmbeddings | None = None) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": texts.encoder}
        self._texts, self._dev_texts, self._cached = texts, dev_texts, cached
        texts.encoder.train()

    def asked(self, rows: Rows) -> Representations:
        """E_Q, which learns."""
        return self._texts.represent_queries(rows)

    def nodes(self, near: Neighbourhood, subgraph: Subgraph) -> Nodes:
        """E_P and E_Q, which learn in a step, or the cached ones."""
        if self._cached is not None:
            return self._cached.nodes(near, subgraph)
        encoder, texts, limit = self._texts.encoder, self._texts, self._texts.batch_tokens
        if not torch.is_grad_enabled():
            h_p = embed_passages(encoder, texts.passage_tokens, limit, subgraph.passages)
            h_q = embed_queries(encoder, texts.query_tokens, limit, subgraph.queries)
            return Fixed(on_device(h_p)), Fixed(on_device(h_q))
        nobody, learnt = Fixed(torch.empty((0, encoder.dimension), device=device())), subgraph.queries
        return texts.represent_passages(subgraph.passages), self.asked(learnt) if len(learnt) else nobody

    def dev_queries(self, sample: DevSample) -> Tensor:
        """E_Q by the present weights."""
        texts = self._texts
        return on_device(embed_queries(texts.encoder, self._dev_texts, texts.batch_tokens, sample.queries))


class GNNTask:
    """The GNN learns by Masked Graph Training, with the encoder if embeddings come from it.

    Eq. 6 reads the passages of M_de's cache in any case. In phase one all else is cached too. In phase two, as in the
    paper, queries and nodes are embedded by the encoder that is being trained, with gradient; over the corpus only the
    queries that are asked.

    Of the two graphs one trains, and the other, which will inform the corpus, scores the dev sample. `scale` is
    1 / temperature.
    """

    def __init__(
        self,
        gnn: QueryPassageGNN,
        graphs: tuple[Neighbourhood, Neighbourhood],
        supervision: Supervision,
        embeddings: CachedEmbeddings | LearntEmbeddings,
        *,
        scale: float,
    ) -> None:
        self.modules: dict[str, nn.Module] = {**embeddings.modules, "gnn": gnn}
        self.steps = supervision.steps
        self._gnn, self._supervision, self._embeddings = gnn, supervision, embeddings
        self._neighbourhood, self._deployed = graphs
        self._scale = scale

    def step(self, number: int) -> float:
        """Forward and backward of one batch by Algorithm 1, lines 7-11 (Eq. 6-12)."""
        batch, masked = self._supervision.batch(number)
        asked, places = local_part(batch)
        subgraph, position = subgraph_of(self._neighbourhood, batch.passages[places], masked)
        queries = self._embeddings.asked(batch.queries[asked])
        informed, nodes = self._informed(self._neighbourhood, subgraph)
        loss = batch_loss(queries.value, informed[position], batch, self._supervision.examples, self._scale)
        return backward(loss, queries, *nodes)

    def calibrate(self) -> None:
        """Nothing: the factor of the scores is the encoder's."""

    def groups(self, rate: float) -> list[dict[str, Any]]:
        """Parameter groups of AdamW, but for the encoder's."""
        return self._gnn.groups(rate)

    def evaluate(self) -> float:
        """Dev RR@10 with all queries in the graph."""
        return float(self.reciprocal_ranks().mean())

    def reciprocal_ranks(self) -> NDArray[np.float64]:
        """RR@10 of each sampled dev query, with all queries in the graph. *Shape:* (q,)."""
        dev, near = self._supervision.dev, self._deployed

        def informed(rows: Rows) -> Tensor:
            return self._informed(near, near.around(rows))[0]

        with no_grad_eval(nn.ModuleDict(self.modules)):
            queries = self._embeddings.dev_queries(dev)
            passages = shared_rows(dev.pool, WINDOW, queries.shape[1], informed)
        return reciprocal_ranks(queries, passages, dev.relevant, own=dev.own)

    def _informed(self, near: Neighbourhood, subgraph: Subgraph) -> tuple[Tensor, Nodes]:
        """h'_p of a subgraph's passages (Eq. 6-10), and the h_p and h_q that made them."""
        h_p, h_q = self._embeddings.nodes(near, subgraph)
        h_q_prime = near.interactive_queries(self._gnn, subgraph.queries, h_q.value)
        informed = near.interactive_passages(self._gnn, subgraph, h_p.value, h_q.value, h_q_prime)
        return informed.embeddings, (h_p, h_q)


class CorpusTask(GNNTask):
    """The same with a softmax over the corpus, or a sample of it.

    The scores' `factor`, the logarithm of 1 / temperature, learns too: h'_p may have any length.
    """

    def __init__(self, *learning: Any, factor: nn.Parameter) -> None:
        super().__init__(*learning, scale=1.0)
        self._factor = factor
        self.modules["scale"] = nn.ParameterDict({"log": factor})

    def step(self, number: int) -> float:
        """Forward and backward of one batch by Eq. 6-11 and `corpus_loss`."""
        everybody, masked = self._supervision.items(number)
        items = local_share(everybody)
        queries = self._embeddings.asked(self._supervision.examples.queries[items])
        informed, nodes, sample = self._scored(number, masked)
        how = sample, items, self._supervision.examples, self._factor.exp()
        loss = corpus_loss(queries.value, informed, *how, of=len(everybody))
        return backward(loss, queries, *nodes)

    def groups(self, rate: float) -> list[dict[str, Any]]:
        """As of `GNNTask`, and the scores' factor."""
        return [*super().groups(rate), parameter_group(self.modules["scale"], SCALE_RATE * rate)]

    @torch.no_grad()
    def calibrate(self) -> None:
        """Let the factor start where the loss of the first batch is least, on cached embeddings."""
        (items, masked), start = self._supervision.items(0), self._factor.exp().item()
        queries = self._embeddings.asked(self._supervision.examples.queries[items]).value
        informed, _, sample = self._scored(0, masked)
        how = sample, items, self._supervision.examples
        losses = {by: corpus_loss(queries, informed, *how, start * by, of=len(items)).item() for by in FACTORS}
        self._factor.fill_(math.log(start * min(losses, key=losses.__getitem__)))

    def _scored(self, number: int, masked: Rows) -> tuple[Tensor, Nodes, CorpusSample]:
        """h'_p of the passages that a step scores, what made them, and which they are."""
        near, asked = self._neighbourhood, self._supervision.examples.queries
        sample = self._supervision.scored(number, lambda items: near.graph.passages[asked[items]].reshape(-1))
        return *self._informed(near, subgraph_of(near, sample.passages, masked)[0]), sample


class ControlTask:
    """Phase two over the corpus without a graph: E_Q alone learns, against M_de's passages as they are, (m, d)."""

    def __init__(self, texts: Texts, dev_texts: TextTokens, supervision: Supervision, passages: NDArray[Any]) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": texts.encoder}
        self._queries, self._supervision, self._passages = LearntEmbeddings(texts, dev_texts), supervision, passages
        self.steps, self._scale = supervision.steps, texts.encoder.scale
        if supervision.draws_passages:  # which have what M_de retrieves, as GNN-encoder's have the ends of edges
            batches = [supervision.items(number)[0] for number in range(self.steps)]
            self._items = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *batches]))
            asked = supervision.examples.queries[self._items]
            with no_grad_eval(texts.encoder):
                asked_by = embed_queries(texts.encoder, texts.query_tokens, texts.batch_tokens, asked)
            self._retrieved, _ = array_top_k(passages, asked_by, RETRIEVED)

    def step(self, number: int) -> float:
        """Forward and backward of one batch by `corpus_loss`, in which h_p stands for h'_p."""
        (everybody, _), examples = self._supervision.items(number), self._supervision.examples
        items = local_share(everybody)
        sample = self._supervision.scored(number, lambda of: self._retrieved[np.searchsorted(self._items, of)].ravel())
        queries, passages = self._queries.asked(examples.queries[items]), self._rows(sample.passages)
        loss = corpus_loss(queries.value, passages, sample, items, examples, self._scale, of=len(everybody))
        return backward(loss, queries)

    def evaluate(self) -> float:
        """Dev RR@10."""
        dev = self._supervision.dev
        with no_grad_eval(self.modules["encoder"]):
            queries = self._queries.dev_queries(dev)
        return float(reciprocal_ranks(queries, self._rows(dev.pool), dev.relevant, own=dev.own).mean())

    def _rows(self, rows: Rows) -> Tensor:
        return on_device(gather_rows(self._passages, rows).astype(np.float32))
