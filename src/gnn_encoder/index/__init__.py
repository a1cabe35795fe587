"""Nearest passages by inner product: exact and streaming over a matrix on disk, or through a FAISS index."""

import logging

logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # it tells which builds it could not load, as if it failed
