"""Messages between the server and its worker: JSON, one line each, of bounded length."""

import json
from typing import Any, BinaryIO

LONGEST = 4 * 2**20  # bytes of a line


class LineTooLong(ValueError):
    """A message is longer than agreed: the other side is not what it should be."""


def encode(message: dict[str, Any]) -> bytes:
    """A message as a line.

    Raises:
        LineTooLong: it is too long.
    """
    line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    if len(line) > LONGEST:
        raise LineTooLong(f"a message of {len(line)} bytes; at most {LONGEST} are sent")
    return line


def decode(line: bytes) -> dict[str, Any]:
    """A line as a message.

    Raises:
        ValueError: the line is cut short, too long, or no JSON object.
    """
    if len(line) > LONGEST or not line.endswith(b"\n"):
        raise LineTooLong(f"a line of {len(line)} bytes without its end")
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a line that is no JSON object")
    return message


def read(file: BinaryIO) -> dict[str, Any] | None:
    """The next message, or None at the end. Raises as `decode`."""
    line = file.readline(LONGEST + 1)
    return decode(line) if line else None
