"""What a data source holds, read once: for `gnn-encoder inspect`, and for what `init` and `plan` make of it."""
