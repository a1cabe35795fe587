"""GNN-encoder for anybody's vectors: arrays in, arrays out."""
