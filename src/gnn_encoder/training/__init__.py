"""Training: losses, batches, gradient caching, the resumable loop, and a task for each kind of model."""
