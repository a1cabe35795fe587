"""Artifacts on disk: written to a scratch place, fingerprinted, resumable, moved into place whole."""
