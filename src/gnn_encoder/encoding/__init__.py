"""Running texts through a model: tokens on disk, batches of similar length, and windows that survive a kill."""
