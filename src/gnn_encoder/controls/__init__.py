"""Controls: what labels, the query log and BM25 are worth without a graph and without training."""
