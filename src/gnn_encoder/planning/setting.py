"""What steps and sizes depend on: parameters, data and the base model, and the counts that follow from them."""

from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Model
from gnn_encoder.training.dev import DEPTH, WHOLE

DISTINCT = 0.75  # share of BM25's and the untouched model's top passages of a query that are not in both
# A kind of `machine.KINDS` and how many; "other" counts seconds, "lexical" passages that BM25 scores for a query.
Steps = list[tuple[str, float]]


class Setting:
    """What steps depend on.

    Attributes:
        judged: queries of the runs, dev and test.
        scored: training queries whose candidates M_ce scores.
        rows: of a system's runs.
        nodes, edges: queries of the main graph, and its edges to passages.
        around: queries that inform a passage, on average.
        dev_pairs: pairs of a query of the dev sample and a passage that BM25 or the untouched model found for it.
    """

    def __init__(self, params: Params, facts: Facts, model: Model, *, around: float = 0) -> None:
        """`around`: queries that inform a passage, at least."""
        self.params, self.facts, self.model = params, facts, model
        self.judged = facts.dev + facts.test
        self.scored = min(facts.train, params.denoise.queries or facts.train)
        self.rows = self.judged * min(params.retrieve.depth, facts.passages)
        self.nodes = facts.nodes(params.build_graph.unlabelled)
        self.edges = self.nodes * params.build_graph.k
        self.around = max(around, self.edges / max(1, min(facts.passages, self.edges)))
        asked, depth = min(facts.dev, params.dev.queries), min(DEPTH, facts.passages)
        self.dev_pairs = round(2 * DISTINCT * asked * depth)

    def queries(self, count: float) -> float:
        """Tokens of so many queries."""
        return count * self.facts.query_tokens.mean(self.params.encoder.query_length)

    def again(self, tokens: float, chunk: int) -> float:
        """Tokens of those of a batch that GradCache encodes once more: all, where they do not fit into a chunk."""
        return tokens if tokens > chunk * self.params.encoder.passage_length else 0.0

    def passages(self, count: float, limit: int | None = None) -> float:
        """Tokens of so many passages."""
        return count * self.facts.passage_tokens.mean(limit or self.params.encoder.passage_length)

    def pairs(self, count: float) -> float:
        """Tokens of so many pairs for M_ce."""
        limit = self.params.train_cross_encoder.max_length
        both = self.facts.query_tokens.mean(limit) + self.facts.passage_tokens.mean(limit)
        return count * min(limit, both)

    def pool(self, whole: int) -> int:
        """Passages that are ranked for the dev sample: those that were found for it, or a corpus of at most `whole`."""
        return self.facts.passages if self.facts.passages <= whole else min(self.facts.passages, self.dev_pairs)

    def evaluations(self, times: int) -> Steps:
        """So many evaluations of an encoder that is being trained."""
        asked, pool = min(self.facts.dev, self.params.dev.queries), self.pool(WHOLE)
        return [("read", times * (self.passages(pool) + self.queries(asked))), ("search", times * asked * pool)]

    def found(self, queries: int) -> Steps:
        """The search for the nearest passages of so many queries."""
        return [("read", self.queries(queries)), ("search", queries * self.facts.passages)]
