"""Nearest passages by inner product: exact and streaming over a matrix on disk, or through a FAISS index."""

import logging
import os

logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # it tells which builds it could not load, as if it failed
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # bm25s starts JAX where that is installed, and it takes most of a GPU
