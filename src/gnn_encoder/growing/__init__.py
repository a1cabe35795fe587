"""Passages added to a built index and deleted from it, as a new version of the index, without the pipeline."""
