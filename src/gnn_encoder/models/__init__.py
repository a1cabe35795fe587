"""What is trained: dual-encoder and cross-encoder, what they start from, and how token states become a vector."""
