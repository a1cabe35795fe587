"""Files that a report shows where they are there, and what is told where they are not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that has not been made, and the command that makes it."""

    what: str
    command: str


def read_json(path: Path) -> Any:
    """A JSON file's content; None where there is no such file.

    Raises:
        UserError: it is no JSON.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: no JSON ({error}); run the stage that makes it again") from error
