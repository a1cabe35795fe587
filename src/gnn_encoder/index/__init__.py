"""Nearest passages by inner product: exact and streaming over a matrix on disk, or through a FAISS index."""
