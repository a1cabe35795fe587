"""What is trained: phase one, the GNN on cached embeddings; phase two, encoder and GNN; the control, the encoder."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gnn_encoder.base.matrix import Rows
from gnn_encoder.gnn.corpus_softmax import SAMPLE, WHOLE, CorpusSample, corpus_loss, positives_of
from gnn_encoder.gnn.graph import Graph
from gnn_encoder.gnn.masking import MaskedSchedule, check_no_leak, propagation_mask
from gnn_encoder.gnn.neighbourhood import Neighbourhood, Subgraph
from gnn_encoder.gnn.network import QueryPassageGNN
from gnn_encoder.text.batches import WINDOW
from gnn_encoder.text.corpus import embed_passages, embed_queries, passage_inputs
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import DevSample, Views, no_grad_eval, reciprocal_ranks, retrieval_score, shared_rows
from gnn_encoder.train.dual_encoder import (
    Texts,
    batch_loss,
    contrastive_step,
    local_part,
    local_share,
    represent_passages,
    represent_queries,
)
from gnn_encoder.train.examples import Examples, TrainingBatch, draw_batch

FACTORS = tuple(2.0**step for step in range(-5, 6))  # of the encoder's 1 / temperature


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """What both phases and the control train on: the same queries, the same drawn passages, the same dev sample."""

    examples: Examples
    schedule: MaskedSchedule
    negatives: int
    seed: int
    dev: DevSample

    def __len__(self) -> int:
        return len(self.schedule)

    def batch(self, number: int) -> tuple[TrainingBatch, Rows]:
        """The batch of step `number`, of all ranks, and the queries of its fold Q_t, which are masked."""
        items, masked = self.items(number)
        return draw_batch(self.examples, items, self.negatives, self._generator(number)), masked

    def items(self, number: int) -> tuple[Rows, Rows]:
        """The items of step `number`, and the masked queries."""
        step = self.schedule[number]
        return step.items, self.examples.queries[step.fold]

    def scored(self, number: int, graph: Graph) -> CorpusSample:
        """The passages that step `number` scores."""
        items = self.schedule[number].items
        _, positives, _ = positives_of(self.examples, items)
        retrieved = graph.passages[self.examples.queries[items]]
        certain = np.concatenate([positives, retrieved.reshape(-1)])
        return CorpusSample.draw(graph.m, certain, WHOLE, SAMPLE, self._generator(number))

    def _generator(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.schedule.before + number])


def subgraph_of(neighbourhood: Neighbourhood, wanted: Rows, masked: Rows) -> tuple[Subgraph, Rows]:
    """The subgraph of some passages without the masked queries, and the place of each of these passages in it.

    Raises:
        RuntimeError: a masked query is in the subgraph.
    """
    passages, position = np.unique(wanted, return_inverse=True)
    subgraph = neighbourhood.around(passages, propagation_mask(neighbourhood.graph.n, masked))
    check_no_leak(masked, subgraph.queries)
    return subgraph, position


class GNNTask:
    """Phase one: only the GNN learns. E_Q and E_P stay those of M_de, so that all embeddings come from a cache.

    Args:
        graphs: the one that trains, and the one that will inform the corpus, by which the dev sample is scored.
        queries: E_Q of all queries of the graph. *Shape:* (n, d).
        dev_queries: E_Q of the sampled dev queries. *Shape:* (q, d).
        scale: 1 / temperature.
    """

    def __init__(
        self,
        gnn: QueryPassageGNN,
        graphs: tuple[Neighbourhood, Neighbourhood],
        supervision: Supervision,
        queries: Tensor,
        dev_queries: Tensor,
        *,
        scale: float,
    ) -> None:
        self.modules: dict[str, nn.Module] = {"gnn": gnn}
        self._gnn, self._supervision, self._scale = gnn, supervision, scale
        self._neighbourhood, self._deployed = graphs
        self._queries, self._dev_queries = queries, dev_queries

    def __len__(self) -> int:
        return len(self._supervision)

    def step(self, number: int) -> float:
        """Forward and backward of one batch by Eq. 6-12, on cached embeddings."""
        batch, masked = self._supervision.batch(number)
        asked, places = local_part(batch)
        subgraph, position = subgraph_of(self._neighbourhood, batch.passages[places], masked)
        informed = self._informed(self._neighbourhood, subgraph)
        queries = self._queries[torch.from_numpy(batch.queries[asked])].to(informed.device)
        loss = batch_loss(queries, informed[position], batch, self._supervision.examples, self._scale)
        loss.backward()
        return loss.item()

    def evaluate(self) -> float:
        """Dev RR@10 with all queries in the graph."""
        return float(self.reciprocal_ranks().mean())

    def reciprocal_ranks(self) -> NDArray[np.float64]:
        """RR@10 of each sampled dev query, with all queries in the graph. *Shape:* (q,)."""
        dev = self._supervision.dev
        with no_grad_eval(self._gnn):
            near, columns = self._deployed, self._dev_queries.shape[1]
            passages = shared_rows(dev.pool, WINDOW, columns, lambda rows: self._informed(near, near.around(rows)))
        return reciprocal_ranks(self._dev_queries.to(passages.device), passages, dev.relevant, own=dev.own)

    def _informed(self, near: Neighbourhood, subgraph: Subgraph) -> Tensor:
        h_q = self._queries[torch.from_numpy(subgraph.queries)].to(near.device)
        return near.passages_informed(self._gnn, subgraph, near.passage_embeddings(subgraph.passages), h_q)


class Scale(nn.Module):
    """The factor of the scores in the softmax, 1 / temperature, which learns."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(scale), device=device()))

    def forward(self) -> Tensor:
        """The factor."""
        return self.log.exp()


class CorpusTask(GNNTask):
    """Phase one with a softmax over the corpus, or a large sample of it, instead of the batch's passages.

    The scores' factor learns too: where h'_p has any length, that of the encoder need not fit.
    """

    def __init__(self, *learning: Any, scale: float) -> None:
        super().__init__(*learning, scale=scale)
        self.scale = Scale(scale)
        self.modules["scale"] = self.scale

    def step(self, number: int) -> float:
        """Forward and backward of one batch by Eq. 6-11 and `corpus_loss`, on cached embeddings."""
        everybody, masked = self._supervision.items(number)
        return self._learn(number, everybody, masked, self._cached(local_share(everybody)))

    @torch.no_grad()
    def calibrate(self) -> None:
        """Let the factor start where the loss of the first batch is least."""
        (items, masked), start = self._supervision.items(0), self.scale().item()
        scored = self._cached(items), *self._scored(0, masked), items, len(items)
        self.scale.log.fill_(
            math.log(min((start * by for by in FACTORS), key=lambda by: self._loss(*scored, by).item()))
        )

    def _learn(self, number: int, everybody: Rows, masked: Rows, queries: Tensor) -> float:
        """Forward and backward of a step; `queries` are E_Q of this rank's share of everybody's items."""
        items, scored = local_share(everybody), self._scored(number, masked)
        loss = self._loss(queries, *scored, items, len(everybody), self.scale())
        loss.backward()
        return loss.item()

    def _cached(self, items: Rows) -> Tensor:
        return self._queries[torch.from_numpy(self._supervision.examples.queries[items])].to(device())

    def _scored(self, number: int, masked: Rows) -> tuple[Tensor, CorpusSample]:
        """The h'_p and the passages that a step scores."""
        sample = self._supervision.scored(number, self._neighbourhood.graph)
        subgraph, _ = subgraph_of(self._neighbourhood, sample.passages, masked)
        return self._informed(self._neighbourhood, subgraph), sample

    def _loss(
        self, queries: Tensor, informed: Tensor, sample: CorpusSample, items: Rows, of: int, scale: Tensor | float
    ) -> Tensor:
        return corpus_loss(queries, informed, sample, items, self._supervision.examples, scale, of=of)


class QueryTask(CorpusTask):
    """Phase two with a softmax over the corpus: E_Q and the GNN learn together.

    The graph keeps M_de's embeddings, of its passages and of the queries that are its nodes, so that a step encodes
    its queries alone.

    Args:
        texts, dev_texts: as in `JointTask`.
        embeddings: those of phase one: of the graph's queries, and of the dev queries.
    """

    def __init__(
        self,
        encoder: DualEncoder,
        texts: Texts,
        dev_texts: TextTokens,
        gnn: QueryPassageGNN,
        graphs: tuple[Neighbourhood, Neighbourhood],
        supervision: Supervision,
        *embeddings: Tensor,
    ) -> None:
        super().__init__(gnn, graphs, supervision, *embeddings, scale=encoder.scale)
        self.modules["encoder"] = encoder
        self._encoder, self._texts, self._dev_texts = encoder, texts, dev_texts
        encoder.fix_passages()
        encoder.train()

    def step(self, number: int) -> float:
        """Forward and backward of one batch by Eq. 6-11 and `corpus_loss`, the queries through GradCache."""
        everybody, masked = self._supervision.items(number)
        rows = self._supervision.examples.queries[local_share(everybody)]
        asked = represent_queries(self._encoder, self._texts, rows)
        loss = self._learn(number, everybody, masked, asked.value)
        asked.backward()
        return loss

    def reciprocal_ranks(self) -> NDArray[np.float64]:
        """As in phase one, with the dev queries embedded anew."""
        with no_grad_eval(self._encoder):
            asked = self._encoder, self._dev_texts, self._texts.batch_tokens, self._supervision.dev.queries
            self._dev_queries = torch.from_numpy(embed_queries(*asked))
            return super().reciprocal_ranks()


class JointTask:
    """Phase two, as in the paper: encoder and GNN learn together.

    The embeddings in Eq. 7-11 are computed by the encoder that is being trained, with gradient. Only the passages of
    Eq. 6 still come from M_de's cache.

    Args:
        texts: the graph's queries, of which the training queries are the first, and the passages.
        dev_texts: all dev queries.
        graphs: as in phase one.
    """

    def __init__(
        self,
        encoder: DualEncoder,
        texts: Texts,
        dev_texts: TextTokens,
        gnn: QueryPassageGNN,
        graphs: tuple[Neighbourhood, Neighbourhood],
        supervision: Supervision,
    ) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": encoder, "gnn": gnn}
        self._encoder, self._texts, self._dev_texts = encoder, texts, dev_texts
        self._gnn, self._supervision, (self._neighbourhood, self._deployed) = gnn, supervision, graphs
        encoder.train()

    def __len__(self) -> int:
        return len(self._supervision)

    def step(self, number: int) -> float:
        """Forward and backward of one batch by Algorithm 1, lines 7-11."""
        batch, masked = self._supervision.batch(number)
        asked, places = local_part(batch)
        subgraph, position = subgraph_of(self._neighbourhood, batch.passages[places], masked)
        encoder, texts = self._encoder, self._texts
        queries = represent_queries(encoder, texts, batch.queries[asked])
        passages = represent_passages(encoder, texts, subgraph.passages)
        sides = [queries, passages]
        h_q = torch.empty(0, encoder.dimension, device=passages.value.device)
        if len(subgraph.queries):
            neighbours = represent_queries(encoder, texts, subgraph.queries)
            sides.append(neighbours)
            h_q = neighbours.value
        informed = self._neighbourhood.passages_informed(self._gnn, subgraph, passages.value, h_q)
        loss = batch_loss(queries.value, informed[position], batch, self._supervision.examples, encoder.scale)
        loss.backward()
        for side in sides:
            side.backward()
        return loss.item()

    def evaluate(self) -> float:
        """Dev RR@10 with all queries in the graph, by the encoder being trained, except for Eq. 6's cached passages."""
        dev, encoder, texts = self._supervision.dev, self._encoder, self._texts

        def informed(rows: Rows) -> Tensor:
            subgraph = self._deployed.around(rows)
            h_q = embed_queries(encoder, texts.query_tokens, texts.batch_tokens, subgraph.queries)
            h_p = embed_passages(encoder, texts.passage_tokens, texts.batch_tokens, rows)
            sides = (torch.from_numpy(side).to(device()) for side in (h_p, h_q))
            return self._deployed.passages_informed(self._gnn, subgraph, *sides)

        with no_grad_eval(encoder):
            queries = embed_queries(encoder, self._dev_texts, texts.batch_tokens, dev.queries)
            passages = shared_rows(dev.pool, WINDOW, encoder.dimension, informed)
        ranks = reciprocal_ranks(torch.from_numpy(queries).to(device()), passages, dev.relevant, own=dev.own)
        return float(ranks.mean())


class NoGNNTask:
    """The control: the dual-encoder alone learns by Eq. 1 and 2, on the same queries and dev sample."""

    def __init__(self, encoder: DualEncoder, texts: Texts, dev_texts: TextTokens, supervision: Supervision) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": encoder}
        self._encoder, self._texts, self._supervision = encoder, texts, supervision
        read = Views(inputs=passage_inputs(encoder, texts.passage_tokens))
        # Dev RR@10 of the dual-encoder's own embeddings.
        self.evaluate = partial(retrieval_score, encoder, supervision.dev, dev_texts, read, texts.batch_tokens)
        encoder.train()

    def __len__(self) -> int:
        return len(self._supervision)

    def step(self, number: int) -> float:
        """Forward and backward of one batch, through GradCache."""
        batch, _ = self._supervision.batch(number)
        return contrastive_step(self._encoder, self._texts, batch, self._supervision.examples)
