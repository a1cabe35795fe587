"""The dev queries that choose a baseline's setting, and the value of rankings of these queries."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from gnn_encoder.baselines.choice import Choice, Setting, choose
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.evaluation.judge import judged_queries, measure_rankings
from gnn_encoder.evaluation.measures import cutoff, parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params


@dataclass(frozen=True, kw_only=True)
class DevQueries:
    """A fixed sample of the judged dev queries.

    Attributes:
        rows: their rows in the dev table, sorted. *Shape:* (n,).
        measure: that of `evaluate.significance`.
        depth: passages per query that decide the measure.
    """

    rows: Rows
    measure: str
    depth: int
    section: Evaluate

    @classmethod
    def sample(cls, params: Params) -> Self:
        """Draw at most `baselines.dev_queries` of the dev queries that count, without replacement."""
        (measure,) = parse([params.evaluate.significance], "evaluate.significance")
        judged = judged_queries("dev")
        drawn = np.random.default_rng(params.seed).permutation(judged)[: params.baselines.dev_queries]
        # Of documents that are judged by their best passage, the first k may stand anywhere in the ranking.
        decisive = None if params.evaluate.by == "document" else cutoff(measure)
        depth = min(decisive or params.retrieve.depth, count_rows(project.PASSAGES))
        return cls(rows=np.sort(drawn), measure=measure, depth=depth, section=params.evaluate)

    def values(self, rankings: Iterable[Rows]) -> list[float]:
        """The measure's mean for each of several rankings.

        *Shape:* each ranking (n, k), rows of passages of the sampled queries, best first, -1 where there is none.
        """
        return measure_rankings(rankings, self.rows, "dev", self.measure, self.section)

    def choose(self, settings: list[Setting], rankings: Iterable[Rows]) -> Choice:
        """The setting whose ranking is best. `rankings`: one for each setting, as for `values`."""
        return choose(settings, lambda _: self.values(rankings), measure=self.measure, queries=len(self.rows))
