"""Where a system's additions and deletions are."""

from pathlib import Path

from gnn_encoder.core.storage.fingerprint import MANIFEST
from gnn_encoder.pipeline import project


def folder_of(system: str) -> Path:
    """The folder of all that was added to a system's index and deleted from it."""
    return project.DATA / "grown" / system


def manifest_of(system: str) -> Path:
    """The file that says what counts; there is none where nothing was ever added or deleted."""
    return folder_of(system) / MANIFEST
