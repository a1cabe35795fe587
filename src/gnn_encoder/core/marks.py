"""Characters that are no part of a text: byte order marks, also in the middle of joined files, and invisible ones."""

import re

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"  # how a gzip file begins, whatever its name is
# In regular expressions: soft hyphens, joiners and marks of direction; and the zero width space, between words.
INSIDE_WORDS = r"\u00AD\u200C-\u200F\u2060\uFEFF"
INVISIBLE = INSIDE_WORDS + r"\u200B"
EMPTY = re.compile(rf"[\s{INVISIBLE}]*")


def without_marks(line: bytes) -> bytes:
    """A line without the byte order marks at its start."""
    while line.startswith(BYTE_ORDER_MARK):
        line = line.removeprefix(BYTE_ORDER_MARK)
    return line


def is_empty(text: str) -> bool:
    """Whether nothing of a text can be seen."""
    return EMPTY.fullmatch(text) is not None
