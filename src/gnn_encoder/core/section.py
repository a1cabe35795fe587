"""What every section of params.yaml is: its base class, the types that sections share, and errors in words."""

from collections.abc import Iterable
from functools import reduce
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gnn_encoder.core.errors import shorten

Fraction = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Epochs = Annotated[float, Field(gt=0)]  # passes over the queries; 0.5: a random half of them, once
Depth = Annotated[int, Field(ge=1, le=32_767)]  # ranks are int16
Share = Annotated[float, Field(ge=0, le=1)]
Weights = Annotated[list[float], Field(min_length=1)]
PoolKind = Literal["max", "mean"]  # how the scores of a passage's views make its score: core/view_pool.py
Gate = Literal["learned"] | Annotated[float, Field(ge=0, le=1)]  # Eq. 9, or a constant in its place


class Section(BaseModel):
    """A section of the experiment. It is immutable, and an unknown key in it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def only(self, names: Iterable[str]) -> Self:
        """A copy that holds only the parameters of these dotted names: reading any other is an AttributeError.

        The values are not checked again.
        """
        asked: dict[str, list[str]] = {}
        for name in names:
            head, _, rest = name.partition(".")
            asked.setdefault(head, []).append(rest)
        values = {head: getattr(self, head) for head in asked}
        parts = {
            head: value.only(asked[head])
            for head, value in values.items()
            if isinstance(value, Section) and "" not in asked[head]
        }
        return self.model_construct(**values | parts)

    def value(self, name: str) -> Any:
        """A parameter by its dotted name."""
        return reduce(lambda of, part: of[part] if isinstance(of, dict) else getattr(of, part), name.split("."), self)


SHOWN = 5  # errors that are told
DEFAULTS = "`git show HEAD:params.yaml` shows the default"


def described(found: ValidationError) -> str:
    """All of pydantic's errors in words; of many the first ones."""
    told = [_described(error) for error in found.errors()]
    return "; ".join(told[:SHOWN]) + (f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else "")


def _described(error: Any) -> str:
    """One of pydantic's errors in words: the parameter, the value, the rule and, where it is not obvious, the cure."""
    # For a union, pydantic also names the member that failed (literal['learned'], constrained-float): leave that out.
    name = ".".join(str(part) for part in error["loc"] if str(part).isidentifier() or isinstance(part, int))
    kind, given = error["type"], shorten(error["input"], 200)
    if kind == "value_error":  # raised by one of our validators, whose message names the parameters
        return str(error["ctx"]["error"])
    if kind == "extra_forbidden":
        return f"{name} is not a parameter (value {given}); remove it or correct its name"
    if kind == "missing":
        return f"{name} is missing; {DEFAULTS}"
    if kind == "model_type":
        return f"{name or 'the file'} is {given}: must be lines of `key: value`; {DEFAULTS}"
    if kind == "float_type" and isinstance(error["input"], str):
        return f"{name} is the text {given}: must be a number such as 5e-5, without quotes"
    if kind == "string_type" and isinstance(error["input"], dict):  # YAML reads a text with a colon as a mapping
        return f"{name} is {given}: must be a text; in a shell '{name}=\"TEXT\"', in both kinds of quotes"
    return f"{name} is {given}: {error['msg'][0].lower() + error['msg'][1:]}"
