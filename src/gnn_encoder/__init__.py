"""Query-informed dense passage retrieval: GNN-encoder (Liu et al. 2022) as a pipeline of cached stages."""

__version__ = "0.1.0"
