"""The dev queries that choose a baseline's setting."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.base.tables import count_rows
from gnn_encoder.baselines.choice import Choice, Setting, best_of
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.rankings import Ranking, best
from gnn_encoder.baselines.shifting import Shift
from gnn_encoder.evaluation.judge import Judgements
from gnn_encoder.evaluation.measures import cutoff, parse


class Candidates(Protocol):
    """The passages that may be ranked for each query of a split, and their scores with each setting."""

    @property
    def passages(self) -> Rows:
        """*Shape:* (n, c), -1 where there is none."""

    def scores(self, setting: Setting) -> Scores:
        """*Shape:* (n, c), `NOTHING` where there is no passage."""


@dataclass(frozen=True, kw_only=True)
class DevQueries:
    """A fixed sample of the judged dev queries.

    Attributes:
        rows: their rows in the dev table, sorted. *Shape:* (n,).
        measure: name of the measure that decides.
        depth: passages per query that decide the measure.
    """

    rows: Rows
    measure: str
    depth: int
    judgements: Judgements

    @classmethod
    def sample(cls, judgements: Judgements, *, measure: str, size: int, depth: int, seed: int) -> Self:
        """Draw at most `size` of the dev queries that count, without replacement.

        Args:
            judgements: of the dev split.
            depth: passages that a system retrieves for a query.
        """
        (name,) = parse([measure], "evaluate.significance")
        drawn = np.random.default_rng(seed).permutation(judgements.judged_rows())[:size]
        depth = min(cutoff(name) or depth, count_rows(judgements.passages))
        return cls(rows=np.sort(drawn), measure=name, depth=depth, judgements=judgements)

    def values(self, rankings: Iterable[Rows]) -> list[float]:
        """The measure's mean for each of several rankings.

        *Shape:* each ranking (n, k), rows of passages of the sampled queries, best first, -1 where there is none.
        """
        return self.judgements.means(rankings, self.rows, self.measure)

    def choose(self, settings: list[Setting], rankings: Iterable[Rows]) -> Choice:
        """The setting whose ranking is best. `rankings`: one for each setting, as for `values`."""
        return best_of(settings, self.values(rankings), measure=self.measure, queries=len(self.rows))

    def rank(
        self,
        system: str,
        candidates: Mapping[str, Candidates],
        settings: list[Setting],
        *,
        depth: int,
        facts: Setting,
    ) -> tuple[Choice, dict[str, Ranking]]:
        """Rank the passages that systems found anew, with the setting that ranks those of the dev queries best.

        Args:
            system: what the setting is chosen for, in the log.
            candidates: split -> its candidates; `dev` is among the splits.
            settings: what to try; of equally good ones the first is taken.
            depth: passages per query.
            facts: what is written beside the choice.

        Returns:
            The choice, and split -> ranking of all its queries.
        """
        dev = candidates["dev"]
        passages = dev.passages[self.rows]
        tops = (best(passages, dev.scores(setting)[self.rows], self.depth)[0] for setting in settings)
        choice = replace(self.choose(settings, tops), facts=facts)
        choice.tell(system)
        rankings = {split: best(of.passages, of.scores(choice.setting), depth) for split, of in candidates.items()}
        return choice, rankings


def choose_shift(shifts: list[Shift], asked: Asked, others: Others, dev: DevQueries, *, dtype: str) -> Choice:
    """The setting of a closed form that is best on dev, with vectors rounded as on disk.

    Args:
        others: with the queries of `dev`.
    """
    rankings = (others.rank(rounded(moved(), dtype))[0] for _, moved in shifts)
    choice = dev.choose([setting for setting, _ in shifts], rankings)
    return replace(choice, facts={"labelled_passages": len(asked.passages)})


def rounded(matrix: Matrix, dtype: str) -> Matrix:
    """What is left of vectors that are written as `dtype`. *Shape:* (l, d)."""
    return matrix.astype(dtype).astype(np.float32)
