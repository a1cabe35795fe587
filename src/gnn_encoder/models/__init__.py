"""The models that are trained: dual-encoder and cross-encoder, their pretrained start, and pooling to one vector."""
