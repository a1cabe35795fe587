"""Whether a text holds one of a query's answers, by the rules of DPR's published code (`qa_validation.py`).

String answers: text and answer are brought to Unicode NFD, cut into tokens and put into lower case; the text holds the
answer if the answer's tokens stand in it one after another. Regular expressions are searched in the text in NFD,
ignoring case. Unlike in DPR's code, an answer without any token is found nowhere, and an expression that cannot be
compiled is an error.
"""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

import regex

from gnn_encoder.base.errors import UserError

Kind = Literal["string", "regex"]
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")  # DPR's SimpleTokenizer
FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
SECONDS = 1.0  # limit for one expression searching one text: backtracking can take for ever


def prepared(text: str, kind: Kind) -> str:
    """A text as `finder` wants it; it is prepared once for all queries."""
    return spaced_tokens(text) if kind == "string" else unicodedata.normalize("NFD", text)


def finder(answers: Sequence[str], kind: Kind) -> Callable[[str], bool]:
    """A function of a prepared text: whether it holds one of a query's answers."""
    if kind == "string":
        spaced = [answer for answer in map(spaced_tokens, answers) if not answer.isspace()]
        return lambda text: any(answer in text for answer in spaced)
    patterns = [_compiled(answer) for answer in answers if answer and not answer.isspace()]
    return lambda text: any(_matches(pattern, text) for pattern in patterns)


def spaced_tokens(text: str) -> str:
    """Tokens in lower case, each between spaces. No token holds a space, so that only whole tokens match."""
    return f" {' '.join(TOKEN.findall(unicodedata.normalize('NFD', text))).lower()} "


def _compiled(answer: str) -> "regex.Pattern[str]":
    try:
        return regex.compile(unicodedata.normalize("NFD", answer), FLAGS)
    except (regex.error, RecursionError, OverflowError) as error:
        raise UserError(f"{answer!r} is no regular expression ({error}); correct it") from error


def _matches(pattern: "regex.Pattern[str]", text: str) -> bool:
    try:
        return pattern.search(text, timeout=SECONDS) is not None
    except TimeoutError as error:
        raise UserError(
            f"{pattern.pattern!r} searched one passage for more than {SECONDS:g} s; write it without nested repeats"
        ) from error
