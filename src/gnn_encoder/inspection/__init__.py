"""What a data source holds, read once and in constant memory: `gnn-encoder inspect`."""
