"""Section `cache_passages` of params.yaml."""

from typing import Literal

from gnn_encoder.core.section import Section


class CachePassages(Section):
    """Passage embeddings on disk."""

    dtype: Literal["float16", "float32"]
