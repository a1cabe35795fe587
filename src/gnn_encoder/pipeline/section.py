"""What every section of params.yaml is: its base class, how YAML is read, and errors in words."""

from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gnn_encoder.base.errors import UserError, shorten


class Section(BaseModel):
    """A section of the experiment. It is immutable, and an unknown key in it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def parsed(cls, content: bytes | str, source: str | Path) -> Self:
        """Parse and check YAML; an error names `source`."""
        try:
            return cls.model_validate(parse_yaml(content, source))
        except ValidationError as error:
            raise UserError(f"{source}: {described(error)}") from error

    def only(self, names: Iterable[str]) -> Self:
        """A copy that holds only the parameters of these dotted names: reading any other is an AttributeError.

        The values are not checked again.
        """
        asked = dict[str, list[str]]()
        for name in names:
            head, _, rest = name.partition(".")
            asked.setdefault(head, []).append(rest)
        found = {head: getattr(self, head) for head in asked}
        parts = {head: found[head].only(rests) for head, rests in asked.items() if "" not in rests}
        return self.model_construct(**found | parts)

    def value(self, name: str) -> Any:
        """A parameter by its dotted name."""
        return attrgetter(name)(self)


DEFAULTS = "`git show HEAD:params.yaml` shows the default"


def described(found: ValidationError) -> str:
    """All of pydantic's errors in words; of many the first ones."""
    told = [_described(error) for error in found.errors()]
    return "; ".join([*told[:5], *([f"and {len(told) - 5} more"] if len(told) > 5 else [])])


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


def parse_yaml(content: bytes | str, source: str | Path, reader: YAML | None = None) -> Any:
    """Parse YAML 1.2, as DVC does; `reader` is one that keeps comments."""
    try:
        return (reader or YAML(typ="safe")).load(content)
    except (YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits, an odd date
        mark, problem = (getattr(error, name, None) for name in ("problem_mark", "problem"))
        told = f"line {mark.line + 1}: {problem}" if mark else " ".join(str(error).split())
        raise UserError(f"{source}: not valid YAML: {told}; correct it") from error
