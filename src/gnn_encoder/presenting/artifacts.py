"""Files that a report shows where they are there, and what is told where they are not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from gnn_encoder.core.errors import UserError

Record = TypeVar("Record")


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


def read_records(path: Path, form: type[Record]) -> Record | None:
    """A JSON file's content as the records that were written to it; None where there is no such file."""
    value = read_json(path)
    return None if value is None else TypeAdapter(form).validate_python(value)
