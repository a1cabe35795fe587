"""Whether the prepared tables are of the data that the experiment names. It imports little: a search asks it."""

from pathlib import Path

from gnn_encoder.core.storage.fingerprint import recorded_params
from gnn_encoder.pipeline.params import Params


def is_prepared(folder: Path, params: Params) -> bool:
    """Whether stage prepare has written `folder` with the present parameters."""
    made = recorded_params(folder)
    return bool(made.get("data") == params.data.model_dump() and made.get("seed") == params.seed)
