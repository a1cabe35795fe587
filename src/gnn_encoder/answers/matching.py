"""Whether a text holds one of a query's answers, by the rules of DPR's published code (`qa_validation.py`).

String answers: text and answer are brought to Unicode NFD, cut into tokens and put into lower case; the text holds the
answer if the answer's tokens stand in it one after another. Regular expressions are searched in the text in NFD,
ignoring case. Unlike in DPR's code, an answer without any token is found nowhere, and an expression that cannot be
compiled is an error.
"""

import unicodedata
from collections.abc import Sequence
from typing import ClassVar, Literal

import regex

from gnn_encoder.core.errors import UserError

Kind = Literal["string", "regex"]
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")  # DPR's SimpleTokenizer
SECONDS = 1.0  # limit for one expression searching one text: backtracking can take for ever


def normalise(text: str) -> str:
    """Unicode NFD."""
    return unicodedata.normalize("NFD", text)


def spaced_tokens(text: str) -> str:
    """Tokens in lower case, each between spaces. No token holds a space, so that only whole tokens match."""
    return f" {' '.join(TOKEN.findall(normalise(text))).lower()} "


class StringAnswers:
    """A query's answers as strings of tokens. `prepare` turns a text into such a string, once for all queries."""

    prepare = staticmethod(spaced_tokens)

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = [spaced for spaced in map(spaced_tokens, answers) if not spaced.isspace()]

    def found_in(self, prepared: str) -> bool:
        """Whether the tokens of one of the answers stand in the text, one after another."""
        return any(answer in prepared for answer in self._answers)


class RegexAnswers:
    """A query's answers as regular expressions."""

    prepare = staticmethod(normalise)
    _flags: ClassVar[int] = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = [self._compile(answer) for answer in answers if answer and not answer.isspace()]

    def found_in(self, prepared: str) -> bool:
        """Whether one of the answers matches somewhere in the text."""
        return any(self._search(pattern, prepared) for pattern in self._answers)

    def _compile(self, answer: str) -> "regex.Pattern[str]":
        try:
            return regex.compile(normalise(answer), self._flags)
        except (regex.error, RecursionError, OverflowError) as error:
            raise UserError(f"{answer!r} is no regular expression ({error}); correct it") from error

    @staticmethod
    def _search(pattern: "regex.Pattern[str]", text: str) -> bool:
        try:
            return pattern.search(text, timeout=SECONDS) is not None
        except TimeoutError as error:
            raise UserError(
                f"{pattern.pattern!r} searched one passage for more than {SECONDS:g} s; write it without nested repeats"
            ) from error


KINDS: dict[Kind, type[StringAnswers] | type[RegexAnswers]] = {"string": StringAnswers, "regex": RegexAnswers}
