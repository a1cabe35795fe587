"""What `QueryPassageGNN` asks of a layer; `attention.py` has the paper's."""

from typing import Protocol

from torch import Tensor, nn


class GraphLayer(Protocol):
    """A module that gathers, for each node, what its neighbours and the node itself say.

    With the weights that it starts with, a result is near plain embeddings, so that training starts from M_de. The
    arguments of its methods are those of `GraphAttention`; a layer need not use them all.

    Args:
        dimension: d.
        heads: how many results of d / heads columns are concatenated.
        edge_dimension: d_e, or None where edges have no features.
        typed: whether `ragged` and `weights` are told which edges are labelled.
    """

    b_l: nn.Parameter | None
    """What labelled edges have more in their logits; training tries some values to start from. None: no such weight.

    *Shape:* (heads,).
    """

    def __init__(self, *, dimension: int, heads: int, edge_dimension: int | None, typed: bool = False) -> None: ...

    def alone(self, target: Tensor) -> Tensor:
        """What `dense` and `ragged` give for nodes without edges. *Shape:* (n, d) -> (n, d)."""

    def dense(
        self,
        target: Tensor,
        sources: Tensor,
        edge_features: Tensor | None = None,
        loop_features: Tensor | None = None,
        keep: Tensor | None = None,
        *,
        product: bool = False,
    ) -> Tensor:
        """For queries, which all have k passages. *Shape:* (b, d), (b, k, d), ... -> (b, d).

        With `product` the features are the products of both ends' embeddings, which are not passed in.
        """

    def ragged(
        self,
        target: Tensor,
        sources: Tensor,
        edge_source: Tensor,
        edge_target: Tensor,
        edge_features: Tensor | None = None,
        loop_features: Tensor | None = None,
        labelled: Tensor | None = None,
    ) -> Tensor:
        """For passages, which have any number of queries. *Shape:* (n, d), (s, d), (E,), (E,), ... -> (n, d)."""

    def weights(
        self,
        target: Tensor,
        sources: Tensor,
        edge_source: Tensor,
        edge_target: Tensor,
        edge_features: Tensor | None = None,
        loop_features: Tensor | None = None,
        labelled: Tensor | None = None,
    ) -> Tensor:
        """How much `ragged` takes of each edge, then of each node itself, which evidence and search page show.

        *Shape:* (E + n, heads), or (E + n, 1) for all heads; a node's rows sum to 1 in each.
        """
