"""Training: losses, batches, cached gradients, the resumable loop, and the models' own tasks."""
