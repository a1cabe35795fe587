"""Systems that need no training: what the query log and BM25 are worth beside a dual-encoder."""
