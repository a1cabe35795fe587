"""Vectors that are known again wherever they stand, though an encoder never gives quite the same numbers twice."""

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from gnn_encoder.base.matrix import Matrix, Rows, array_blocks

SAME = 0.004  # of its length, by which a vector may be off: bfloat16 rounds by less
SKETCH = 8  # projections: few enough for a tree, and enough that vectors which are not the same are not taken for it
Sketches = NDArray[np.float16]  # 16 bytes a vector


class Known:
    """Vectors to be known again by a sketch of each: random projections, which nearly keep distances.

    *Shape:* (m, SKETCH).
    """

    def __init__(self, sketches: Sketches) -> None:
        self.sketches = sketches

    @classmethod
    def of(cls, vectors: NDArray[Any]) -> Self:
        """Vectors, which are read in blocks. *Shape:* (m, d)."""
        return cls(np.concatenate([_sketch(block) for _, block in array_blocks(vectors)]))

    def rows(self, block: Matrix, first: int = 0) -> Rows:
        """The row of each vector: its own place if the same vector is there, else the nearest; -1 if that is another.

        *Shape:* (b, d) -> (b,).

        Args:
            first: the place of the block's first vector.
        """
        asked, most = _sketch(block), SAME * np.linalg.norm(block, axis=1)

        def same(rows: Rows) -> NDArray[np.bool_]:
            off = self.sketches[rows].astype(np.float32) - asked
            found: NDArray[np.bool_] = np.linalg.norm(off, axis=1) <= most
            return found

        rows: Rows = np.arange(first, first + len(block)).clip(max=len(self.sketches) - 1)
        moved = ~same(rows)
        if moved.any():
            tree, of_distinct = self._tree
            nearest = tree.query(asked[moved], distance_upper_bound=most.max())[1]  # none within: one too many
            rows[moved] = of_distinct[nearest.clip(max=len(of_distinct) - 1)]
        return np.where(same(rows), rows, -1)

    @cached_property
    def _tree(self) -> tuple[KDTree, Rows]:
        """A tree of the sketches, and their rows. Equal ones are in it once: it is slow where thousands are equal."""
        whole = np.ascontiguousarray(self.sketches).view(f"V{self.sketches.itemsize * SKETCH}")[:, 0]
        rows = np.unique(whole, return_index=True)[1]
        return KDTree(self.sketches[rows]), rows


def _sketch(block: Matrix) -> Sketches:
    """*Shape:* (n, d) -> (n, SKETCH)."""
    projections = np.random.default_rng(0).standard_normal((block.shape[1], SKETCH), dtype=np.float32)
    return (block @ (projections / np.float32(SKETCH**0.5))).astype(np.float16)
