"""An index that grows: passages added to a built index, deleted from it, and queries logged, without the pipeline."""
