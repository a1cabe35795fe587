"""Tables of texts with their tokens, as the tests of encoding have them."""

from ..encoding.conftest import passages, passages_table, queries, queries_table, scratch

__all__ = ["passages", "passages_table", "queries", "queries_table", "scratch"]
