"""Byte order marks, which are no part of a text. Files that were joined have them in their middle, too."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def without_marks(line: bytes) -> bytes:
    """A line without the byte order marks at its start."""
    while line.startswith(BYTE_ORDER_MARK):
        line = line.removeprefix(BYTE_ORDER_MARK)
    return line
