"""A text's way to a vector: tokens on disk, pretrained models, dual- and cross-encoder, and matrices of a corpus."""
