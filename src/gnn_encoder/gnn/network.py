"""The GNN on the query-passage graph (section 3.3, Eq. 6-10 of the GNN-encoder paper)."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import publish, write_json
from gnn_encoder.gnn.attention import Features, GraphAttention
from gnn_encoder.gnn.segment import segment_weighted_sum
from gnn_encoder.pipeline.params import Count, Gate
from gnn_encoder.pipeline.section import Section, described

WEIGHTS = "gnn.safetensors"
CONFIG = "gnn.json"
GATE_BIAS = -2.0  # the learned gate starts at sigmoid(-2), about 0.12, so that training starts near h_p
# The rates of some weights, in those of the others. Some hundred steps at these would move a logit by a tenth.
RATES = {"b_l": 50.0, "w_l": 50.0, "W_p": 0.3, "exponent": 10.0}


class GNNConfig(Section):
    """The architecture of a GNN. An ablation of the paper's architecture changes one field."""

    dimension: Count  # d, columns of the embeddings
    edge_dimension: Count | None  # d_e, columns of the cross-encoder's features; only read with "cross_encoder"
    layers: Literal[1, 2]  # 1 leaves out Eq. 6 and 7
    heads: Count  # a divisor of d
    gate: Gate  # "learned" (Eq. 9), or a constant that takes the place of f_p
    edge_features: Literal["cross_encoder", "none"]
    # Not in the paper: the second layer tells labelled edges from others, by b_l in the logits of Eq. 3 and w_l in the
    # gate of passages that have one (Eq. 9), and a passage's labelled queries are summed up: see `QueryPassageGNN`.
    labels: bool
    similarity: Literal["dot", "cosine"]  # the encoder's; with "cosine", h'_p has length 1 like its embeddings,
    unit_length: bool = True  # unless this is False: a sum of any length says how often a passage was asked for
    # Whether the graph's queries are always embedded by M_de; in the paper by the encoder that trains with the GNN.
    cached_nodes: bool = False

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UserError(described(error)) from error

    @model_validator(mode="after")
    def _dimensions_fit(self) -> Self:
        if self.dimension % self.heads != 0:
            told = f"must be a divisor of the embeddings' {self.dimension} columns; correct it"
            raise ValueError(f"heads is {self.heads}: {told}")
        if self.edge_features == "cross_encoder" and self.edge_dimension is None:
            raise ValueError("edge_dimension is None: must be a whole number above 0; correct it")
        return self


class Informed(NamedTuple):
    """Query-interactive embeddings of n passages, and how they came about."""

    embeddings: Tensor  # (n, d), h'_p
    attention: Tensor  # (E + n, heads), alpha (Eq. 4) of the edges, then of the passages' self-loops
    gate: Tensor  # f_p (Eq. 9): (n, d), or (n, 1) where it is a constant


class QueryPassageGNN(nn.Module):
    """Two GAT layers that inform passage embeddings by the queries that retrieve the passages.

    The paper's parameters: `query_attention` and `passage_attention` are the GAT layers of Eq. 6 and Eq. 8 (each with
    its own W_t, W_s, W_e, a); `combine` is W_pq and b_pq of Eq. 7; `gate` is W_qp and b_qp of Eq. 9. With one layer
    there is no `query_attention` and no `combine`; with a constant gate there is no `gate`.

    It starts near the identity (h'_p close to h_p): W_s = I, W_e = 0, W_pq = [I/2 | I/2], gate sigmoid(-2).

    What labels are worth differs between data. Where each passage is asked for again and again, a passage that is
    labelled already is the likelier answer; where questions are new, it has found its question. Masked Graph Training
    shows which: without a question's own edge, its positive looks as it will to questions that nobody has asked yet.

    Attention is a mean, which cannot say how often a passage was asked for. With `labels`, Eq. 10 has two terms more, a
    sum over all n_p labelled queries of a passage that is scaled by their number, as in PNA (Corso et al. 2020), and a
    map of the passage itself:

        h'_p = f_p * h~_p + W_p h_p + n_p^-a W_l A sum of labelled h_q

    They start as nothing: W_l = 0, W_p = I, a = 1/2. A does not learn. With A = (C + lambda I)^-1, which whitens
    queries, and W_l = w I they start as ridge regression of labels on queries.
    """

    A: Tensor

    def __init__(self, config: GNNConfig) -> None:
        super().__init__()
        self.config = config
        d = config.dimension
        columns = config.edge_dimension if config.edge_features == "cross_encoder" else None
        layer = partial(GraphAttention, dimension=d, heads=config.heads, edge_dimension=columns)
        if config.layers == 2:
            self.query_attention = layer()
            self.combine = nn.Linear(2 * d, d)
        self.passage_attention = layer(typed=config.labels)
        if config.gate == "learned":
            self.gate = nn.Linear(2 * d, d)
            self.w_l = nn.Parameter(torch.zeros(d)) if config.labels else None
        if config.labels:
            self.W_p, self.W_l = nn.Parameter(torch.eye(d)), nn.Parameter(torch.zeros(d, d))
            self.exponent = nn.Parameter(torch.tensor(0.5))
            self.register_buffer("A", torch.eye(d))
        with torch.no_grad():
            if config.layers == 2:
                self.combine.weight.copy_(torch.cat([torch.eye(d) / 2, torch.eye(d) / 2], dim=1))
                self.combine.bias.zero_()
            if config.gate == "learned":
                self.gate.weight.zero_()
                self.gate.bias.fill_(GATE_BIAS)

    def interactive_queries(
        self, h_q: Tensor, neighbours: Tensor, features: Features | None = None, keep: Tensor | None = None
    ) -> Tensor:
        r"""Passage-interactive query embeddings.

        .. math::
            \tilde h_q &= \mathrm{GAT}(\{h_p\}_{p \in P_q} \cup \{h_q\})    && (Eq. 6)
            h'_q &= W_{pq} [\tilde h_q \| h_q] + b_{pq}                     && (Eq. 7)

        With one layer there is none of this. The neighbours are the *cached* embeddings of each query's
        passages. Features of (q, p) and (q, q) come only with "cross_encoder". `keep` is False where no edge is.

        *Shape:* h_q (u, d), neighbours (u, k, d), features (u, k, d_e) and (u, d_e), keep (u, k) -> (u, d).
        """
        gathered = self.query_attention.dense(h_q, neighbours, features, keep)
        combined: Tensor = self.combine(torch.cat([gathered, h_q], dim=1))
        return combined

    def interactive_passages(
        self,
        h_p: Tensor,
        h_q: Tensor,
        h_q_prime: Tensor,
        edge_query: Tensor,
        edge_passage: Tensor,
        features: Features | None = None,
        labelled: Tensor | None = None,
        *,
        labels: tuple[Tensor, Tensor],
    ) -> Informed:
        r"""Query-interactive passage embeddings.

        .. math::
            \tilde h_p &= \mathrm{GAT}(\{h'_q\}_{q \in Q_p} \cup \{h_p\})       && (Eq. 8)
            f_p &= \mathrm{sigmoid}(W_{qp} [\tilde h_p \| h_p] + b_{qp})        && (Eq. 9)
            h'_p &= f_p \cdot \tilde h_p + h_p                                  && (Eq. 10)

        With cosine similarity, h'_p is divided by its length, so that Eq. 11 stays a cosine.

        Args:
            h_p: embeddings of the passages, by the encoder that is being trained. *Shape:* (n, d).
            h_q, h_q_prime: the queries' before Eq. 7, which are summed up, and after. *Shape:* (u, d).
            edge_query, edge_passage: rows of each edge's ends; those of passages ascend. *Shape:* (E,) int64.
            features: of (q, p) and (p, p), only with "cross_encoder". *Shape:* (E, d_e), (n, d_e).
            labelled: 1 for edges of queries that are labelled with the passage, else 0; only with `labels` in the
                configuration, which adds w_l to Eq. 9 where a passage has such an edge. *Shape:* (E,) float.
            labels: rows of each label's query and passage, an edge or not, to sum up. *Shape:* (L,), (L,) int64.
        """
        config, n = self.config, len(h_p)
        edges = h_q_prime, edge_query, edge_passage, features, labelled
        gathered, attention = self.passage_attention.ragged(h_p, *edges)  # Eq. 8
        if config.gate == "learned":
            logits = self.gate(torch.cat([gathered, h_p], dim=1))
            if self.w_l is not None and labelled is not None:
                have_label = labelled.new_zeros(n).index_add(0, edge_passage, labelled).clamp(max=1)
                logits = logits + have_label.unsqueeze(1) * self.w_l
            gate = torch.sigmoid(logits)  # Eq. 9
        else:
            gate = h_p.new_full((n, 1), float(config.gate))
        informed = gate * gathered + (self._own(h_p, h_q, labels) if config.labels else h_p)  # Eq. 10
        if config.similarity == "cosine" and config.unit_length:
            informed = F.normalize(informed, dim=1)
        return Informed(informed, attention, gate)

    def _own(self, h_p: Tensor, h_q: Tensor, labels: tuple[Tensor, Tensor]) -> Tensor:
        """W_p h_p + n_p^-a W_l A sum of labelled h_q. *Shape:* (n, d), (u, d), two of (L,) -> (n, d)."""
        ones = h_q.new_ones(len(labels[0]), 1)
        total = segment_weighted_sum(ones, h_q.unsqueeze(1), *labels, len(h_p)).squeeze(1)
        count = torch.bincount(labels[1], minlength=len(h_p))
        scale = count.clamp(min=1).to(h_p.dtype) ** -self.exponent
        return h_p @ self.W_p.T + scale.unsqueeze(1) * (total @ (self.W_l @ self.A).T)

    def groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """Parameter groups of AdamW, by how fast they learn."""
        groups: dict[float, list[nn.Parameter]] = {1.0: []}
        for name, weight in self.named_parameters():
            rate = RATES.get(name.rpartition(".")[2], 1.0)
            if name == "W_l" and weight.any():  # a closed form of any size: it learns in proportion
                rate *= weight.norm().item() / math.sqrt(self.config.dimension)
            groups.setdefault(rate, []).append(weight)
        return [{"params": weights, "lr": rate * learning_rate} for rate, weights in groups.items()]

    def save(self, folder: Path) -> None:
        """Write `gnn.safetensors` and `gnn.json`, each by renaming a complete file."""
        if not distributed.is_first():
            return
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{WEIGHTS}"
        save_file({name: value.contiguous() for name, value in self.state_dict().items()}, beside)
        publish(beside, folder / WEIGHTS)
        write_json(folder / CONFIG, self.config.model_dump())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote, on CPU."""
        config = _read(folder, CONFIG, lambda path: GNNConfig(**json.loads(path.read_text(encoding="utf-8"))))
        network = cls(config)
        weights = _read(folder, WEIGHTS, load_file)
        network.to(next(iter(weights.values())).dtype)
        _read(folder, WEIGHTS, lambda path: network.load_state_dict(weights))
        return network


def _read(folder: Path, name: str, read: Callable[[Path], Any]) -> Any:
    """A file of a saved network."""
    path = folder / name
    try:
        return read(path)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file; run train_mgt first") from error
    except (ValueError, TypeError, RuntimeError, SafetensorError) as error:  # load_state_dict: a RuntimeError
        told = " ".join(str(error).split())
        raise UserError(f"{path}: not what train_mgt writes ({told}); run train_mgt again") from error
