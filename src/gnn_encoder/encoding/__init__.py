"""How texts run through a model: tokens on disk, batches of like length, windows that a kill does not lose."""
