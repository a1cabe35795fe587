"""The pipeline as files: where artifacts lie, what params.yaml and systems.yaml say, how a stage runs."""
