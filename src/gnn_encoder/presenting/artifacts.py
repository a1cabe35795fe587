"""Reading the files that a report shows, and what it says in place of files that do not exist."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from gnn_encoder.core.errors import UserError

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A sentence on what has not been made, and the command that makes it."""

    what: str
    command: str


def read_json(path: Path) -> Any:
    """A JSON file's content; None if there is no such file.

    Raises:
        UserError: the file is not JSON.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}); run the stage that writes it again") from error


def read_records(path: Path, form: type[Record]) -> Record | None:
    """A JSON file's content, validated as `form`; None if there is no such file."""
    value = read_json(path)
    return None if value is None else TypeAdapter(form).validate_python(value)
