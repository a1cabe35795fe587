"""Dual-encoder and cross-encoder: models, pooling, tokens on disk, streaming encoding."""
