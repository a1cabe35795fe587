"""The teacher's score of a query's passages: M_ce's logit, with or without the retriever's score.

    s(q, p) = a logit(q, p) + b retrieved(q, p)
    p(q, p) = sigmoid(scale z(q, p) + shift),    z: s, standardised over the query's candidates

The papers' teacher is M_ce alone: a = scale = 1, b = shift = 0 and z = s. Other numbers are fitted on labelled dev
queries: `gnn_encoder.training.teacher`. Thresholds apply to p, and the softmax of s over a query's passages is its soft
target.
"""

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The numbers of the teacher."""

    cross_encoder: float = 1.0  # a
    retriever: float = 0.0  # b
    standardised: bool = False
    scale: float = 1.0
    shift: float = 0.0

    def score(self, lists: pl.DataFrame) -> pl.DataFrame:
        """Add the columns `combined` (s) and `score` (p) to passages of some queries.

        Args:
            lists: columns query, logit (M_ce's), retrieved (the retriever's score; null if the teacher does not read
                it), and listed: whether the passage is one of the candidates that z is standardised over. The labelled
                passages that were not retrieved are not among them.
        """
        combined = self.cross_encoder * pl.col("logit").cast(pl.Float64)
        if self.retriever:
            combined = combined + self.retriever * pl.col("retrieved").cast(pl.Float64)
        found = lists.with_columns(combined=combined)
        log_odds = self.scale * (standardised() if self.standardised else pl.col("combined")) + self.shift
        return found.with_columns(
            pl.col("combined").cast(pl.Float32), score=(1 / (1 + (-log_odds).exp())).cast(pl.Float32)
        )


def standardised() -> pl.Expr:
    """The column `combined` minus its mean over the query's candidates, in units of their standard deviation.

    Where all candidates score alike, or there is but one, it is 0.
    """
    listed = pl.col("combined").filter(pl.col("listed"))
    spread = listed.std(ddof=0).over("query")
    z = (pl.col("combined") - listed.mean().over("query")) / spread
    return pl.when(spread > 1e-9).then(z).otherwise(0.0)
