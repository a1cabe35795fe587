"""The small task of the training tests: tokens, examples, an encoder."""

from ..train.conftest import examples, tables, texts

__all__ = ["examples", "tables", "texts"]
