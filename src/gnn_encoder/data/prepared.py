"""Whether the prepared tables are of the data that the experiment names. It imports little: a search asks it."""

import json
from pathlib import Path

from gnn_encoder.core.params import Params
from gnn_encoder.core.storage.fingerprint import MANIFEST


def is_prepared(folder: Path, params: Params) -> bool:
    """Whether stage prepare has written `folder` with the present parameters."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return False
    made = json.loads(manifest.read_text(encoding="utf-8")).get("params", {})
    return bool(made.get("data") == params.data.model_dump() and made.get("seed") == params.seed)
