"""One multi-head graph attention layer (Eq. 3-5 of the GNN-encoder paper)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_encoder.gnn.segment import segment_softmax, segment_weighted_sum

Features = tuple[Tensor, Tensor]  # of edges to neighbours, h_{i-j}, and of each node's edge to itself, h_{i-i}
NEGATIVE_SLOPE = 0.2  # of LeakyReLU; the value of GAT's authors, since the paper names none


class GraphAttention(nn.Module):
    r"""Graph attention: each node computes a weighted sum over its neighbours and itself.

    .. math::
        e_{ij} &= a^T [W_t h_i \| W_s h_j \| W_e h_{i-j}]                           && (Eq. 3)
        \alpha_{ij} &= \mathrm{softmax}_{j \in N_i}(\mathrm{LeakyReLU}(e_{ij}))     && (Eq. 4)
        \tilde h_i &= \sum_{j \in N_i} \alpha_{ij} W_s h_j                          && (Eq. 5)

    Eq. 5's optional activation sigma is the identity. N_i always contains i itself. Each head has d / heads columns,
    and the outputs of the heads are concatenated.

    Parameters are the paper's: `W_t`, `W_s` *Shape:* (d, d), `W_e` *Shape:* (d, d_e), `a` *Shape:*
    (heads, 3, d / heads), its three parts for target, source and edge. Rows of the matrices are split over the heads.
    Without edge features there is no `W_e`, and `a` has two parts.

    No edge is multiplied by a (d, d) matrix. Eq. 3 is computed as three dot products per head, :math:`(W_t^T a_t) h_i +
    (W_s^T a_s) h_j + (W_e^T a_e) h_{i-j}`, and `fold` computes the vectors in brackets once per forward pass.

    Two methods share the parameters: `dense` for nodes that all have the same number of neighbours (layer 1: a query
    has k passages), and `ragged` for nodes that have any number (layer 2: a passage has any number of queries).

    Edges may have a type besides, which the paper does not have: with `typed`, each head adds a learned number `b_l` to
    Eq. 3 where the query is labelled with the passage. It starts at 0.
    Only `ragged` takes the types. `dimension` is d, a multiple of `heads`; `edge_dimension` is d_e.
    """

    def __init__(self, *, dimension: int, heads: int, edge_dimension: int | None, typed: bool = False) -> None:
        super().__init__()
        self.dimension = dimension
        self.heads = heads
        self.edge_dimension = edge_dimension
        self.W_t = nn.Parameter(torch.empty(dimension, dimension))
        self.W_s = nn.Parameter(torch.empty(dimension, dimension))
        self.W_e = nn.Parameter(torch.empty(dimension, edge_dimension)) if edge_dimension is not None else None
        self.a = nn.Parameter(torch.empty(heads, 2 if self.W_e is None else 3, dimension // heads))
        self.b_l = nn.Parameter(torch.empty(heads)) if typed else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """W_s starts as the identity, so that a node first sums plain embeddings; W_t and a start by Xavier's rule.

        W_e starts at zero. A cross-encoder's states are several times as long as embeddings, and would dominate the
        logits before W_e has learnt anything.
        """
        nn.init.eye_(self.W_s)
        nn.init.xavier_uniform_(self.W_t)
        if self.W_e is not None:
            nn.init.zeros_(self.W_e)
        if self.b_l is not None:
            nn.init.zeros_(self.b_l)
        bound = math.sqrt(6 / (self.a[0].numel() + 1))  # a head's `a` maps 3 d / heads numbers to one
        nn.init.uniform_(self.a, -bound, bound)

    def fold(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """W_t^T a_t, W_s^T a_s and W_e^T a_e of each head. *Shape:* (heads, d), (heads, d), (heads, d_e)."""
        matrices = (self.W_t, self.W_s, self.W_e)
        u_t, u_s, *rest = (
            torch.einsum("hc,hcd->hd", self.a[:, part], matrix.view(self.heads, -1, matrix.shape[1]))
            for part, matrix in enumerate(matrices)
            if matrix is not None
        )
        return u_t, u_s, rest[0] if rest else None

    def dense(
        self, target: Tensor, sources: Tensor, features: Features | None = None, keep: Tensor | None = None
    ) -> Tensor:
        """Eq. 3-5 for nodes with k neighbours each; a node also attends to itself.

        `keep` is False where the graph has no edge.

        *Shape:* target h_i (b, d), sources h_j (b, k, d), features (b, k, d_e) and (b, d_e), keep (b, k) -> (b, d).
        """
        u_t, u_s, u_e = self.fold()
        to_target, to_loop = target @ u_t.T, target @ u_s.T  # (b, heads)
        edges = (sources @ u_s.T).transpose(1, 2)  # (b, heads, k)
        if u_e is not None:
            assert features is not None, "a layer with W_e needs features"
            to_loop = to_loop + features[1] @ u_e.T
            edges = edges + (features[0] @ u_e.T).transpose(1, 2)
        e = torch.cat([edges, to_loop.unsqueeze(2)], dim=2) + to_target.unsqueeze(2)  # (b, heads, k + 1), Eq. 3
        e = F.leaky_relu(e, NEGATIVE_SLOPE)
        if keep is not None:
            e = e.masked_fill(~F.pad(keep, (0, 1), value=True).unsqueeze(1), -torch.inf)
        alpha = e.softmax(dim=2)  # Eq. 4
        gathered = torch.bmm(alpha[:, :, -1:], target.unsqueeze(1))  # (b, heads, d)
        gathered = torch.baddbmm(gathered, alpha[:, :, :-1], sources)
        # Eq. 5. The sum is linear, so that W_s can be applied after it: once per node and head, not per neighbour.
        rows = self.W_s.view(self.heads, -1, self.dimension)  # (heads, d / heads, d)
        return torch.bmm(gathered.transpose(0, 1), rows.transpose(1, 2)).transpose(0, 1).reshape(target.shape)

    def ragged(
        self,
        target: Tensor,
        sources: Tensor,
        edge_source: Tensor,
        edge_target: Tensor,
        features: Features | None = None,
        labelled: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Eq. 3-5 for nodes with any number of neighbours; a node also attends to itself.

        A target without edges attends to itself alone, with weight 1 whatever its loop feature is.

        Args:
            target, sources: h_i and h_j. *Shape:* (n, d), (s, d).
            edge_source, edge_target: each edge's rows of both; those of targets ascend. *Shape:* (E,) int64.
            features: h_{i-j} and h_{i-i}; only with W_e. *Shape:* (E, d_e), (n, d_e).
            labelled: 1 for labelled edges, else 0; only with `typed`. *Shape:* (E,) float.

        Returns:
            The sums, and the attention alpha (Eq. 4) of the edges, then of the self-loops, which sums to 1 for each
            target and head. *Shape:* (n, d), (E + n, heads).
        """
        if len(edge_source) == 0:
            return target @ self.W_s.T, target.new_ones(len(target), self.heads)
        u_t, u_s, u_e = self.fold()
        to_target = target @ u_t.T
        edges = to_target.index_select(0, edge_target) + (sources @ u_s.T).index_select(0, edge_source)
        loops = to_target + target @ u_s.T
        if u_e is not None:
            assert features is not None, "a layer with W_e needs features"
            edges = edges + features[0] @ u_e.T
            loops = loops + features[1] @ u_e.T
        if self.b_l is not None:
            assert labelled is not None, "a layer with b_l needs to know which edges are labelled"
            edges = edges + labelled.unsqueeze(1) * self.b_l
        e = F.leaky_relu(torch.cat([edges, loops]), NEGATIVE_SLOPE)  # (E + n, heads), Eq. 3
        n, nodes = len(target), torch.arange(len(target), device=target.device)
        edge_source, edge_target = torch.cat([edge_source, len(sources) + nodes]), torch.cat([edge_target, nodes])
        alpha = segment_softmax(e, edge_target, n)  # Eq. 4
        # Eq. 5. Here W_s comes before the sum, once per node: after it there are `heads` vectors of d columns per node.
        values = (torch.cat([sources, target]) @ self.W_s.T).view(len(sources) + n, self.heads, -1)
        return segment_weighted_sum(alpha, values, edge_source, edge_target, n).view(n, self.dimension), alpha
