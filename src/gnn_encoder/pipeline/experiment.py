"""Experiments as differences: params.yaml is the one complete file, and a config of configs/ is laid over it.

ruamel.yaml changes values and leaves the comments and the order of params.yaml as they are. So a new parameter is added
in two places alone: params.yaml, and the model of its section.
"""

import io
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.tokens import CommentToken

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.files import write_text
from gnn_encoder.pipeline.params import Params, described, load_params, parse_yaml
from gnn_encoder.pipeline.stage import lookup

PARAMS = Path("params.yaml")
MADE = "# Made by: "
# Mappings whose keys the user chooses. Each is replaced as a whole, like a list.
WHOLE = ("data.names",)
REASON = "# init: "  # begins a reason beside a value, which goes when the value is set without one
COLUMN = 26  # at which comments begin in params.yaml


class Change(NamedTuple):
    """A value for a parameter, and why: a few words, which become the comment beside the value."""

    name: str  # dotted
    value: Any
    why: str = ""


def init(
    arguments: Sequence[str], path: Path = PARAMS, *, over: bool = False, chosen: Sequence[Change] = (), by: str = ""
) -> list[str]:
    """Change the experiment in `path`: lay chosen values, then a config, then `key=value` arguments over it.

    A section is laid over that of `path` key by key; every other value is replaced whole. A dotted key reaches into
    `WHOLE` mappings too: `evidence.trials.no_gate.mgt={gate: 0.3}` changes this trial, and no other. Of two arguments
    that set one value, the later one wins.

    Args:
        arguments: `KEY=VALUE` each, the value in YAML; the first one may be the path of a config instead.
        over: whether `path` may be the result of an earlier init, which is then changed further.
        by: the arguments that the line on top of `path` names after `gnn-encoder init`; by default those above.

    Returns:
        A line for each value that changed: `mgt.beta: 0.05 -> 0.1`.
    """
    before, made = load_params(path), _made(path, over=over)
    settings, text, after = _laid_over(path, arguments, chosen)
    command = f"gnn-encoder init {by or shlex.join(arguments)}{' --over' if over else ''}"
    lines = [*made, MADE + " ".join(command.splitlines()), *text.split("\n")[len(made) :]]
    write_text(path, "\n".join(lines))
    old, new = before.model_dump(exclude_unset=True), after.model_dump(exclude_unset=True)
    changes = {one.name: (lookup(old, one.name, ...), lookup(new, one.name, ...)) for one in settings}
    return [f"{name}: {shown(a)} -> {shown(b)}" for name, (a, b) in changes.items() if a != b]


def preview(arguments: Sequence[str], path: Path = PARAMS, *, over: bool = False) -> Params:
    """The experiment that `init` would make of these arguments; nothing is written. It raises the same errors."""
    load_params(path)  # a mistake in `path` itself must not be blamed on the arguments
    _made(path, over=over)
    return _laid_over(path, arguments)[-1]


def load_experiment(path: Path, base: Path = PARAMS) -> Params:
    """Read `base`, or another experiment, which is laid over `base` as `init` does."""
    return load_params(path) if path == base else preview([str(path)], base, over=True)


def shown(value: object) -> str:
    """A value on one line of YAML."""
    if value is ...:
        return "not set"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").rstrip("\n")


def _made(path: Path, *, over: bool) -> list[str]:
    """The lines on top of `path` that say which inits made it."""
    lines = path.read_text(encoding="utf-8").split("\n")
    made = list(takewhile(lambda line: line.startswith(MADE), lines))
    if made and not over:
        raise UserError(
            f"{path}: made by `{made[-1].removeprefix(MADE)}`, and a second init would mix two experiments; "
            f"`git checkout {path}` first, or add --over to change this one"
        )
    return made


def _laid_over(path: Path, arguments: Sequence[str], chosen: Sequence[Change] = ()) -> tuple[list[Change], str, Params]:
    """What is laid over `path`, the resulting YAML, and what that means to every stage that will read it."""
    if not arguments:
        raise UserError("nothing to change: give --data, a file of configs/, or values such as mgt.beta=0.1")
    tree, settings, stream = _parse(path.read_bytes(), path), [*chosen, *_given(arguments)], io.StringIO()
    for one in settings:
        _set(tree, one)
    _yaml().dump(tree, stream)
    text, source = stream.getvalue(), " ".join(arguments)
    try:
        return settings, text, Params.model_validate(parse_yaml(text.encode(), source))
    except ValidationError as error:
        raise UserError(f"{source}: {described(error)}") from error


def _given(arguments: Sequence[str]) -> Iterator[Change]:
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if number == 0 and not equals:
            yield from _leaves("", _read_config(Path(argument)))
        elif all(name.split(".")) and value.strip():
            yield from _leaves(name, _parse(value, shorten(argument, 200)))
        else:
            rule = "must be KEY=VALUE with a dotted key, such as mgt.beta=0.1 or data.path=null"
            raise UserError(f"{shorten(argument, 200)}: {rule}; correct it (only the first argument can be a config)")


def _read_config(path: Path) -> CommentedMap:
    if not path.is_file():
        raise UserError(f"{path}: no such file; give one of configs/, or a value such as mgt.beta=0.1 (no blanks)")
    found = _parse(path.read_bytes(), path)
    if not isinstance(found, CommentedMap):
        raise UserError(f"{path}: is {found!r}: must be lines of `key: value`; see configs/msmarco.yaml")
    return found


def _leaves(name: str, value: Any) -> Iterator[Change]:
    """The values in a section, with their dotted names."""
    if not isinstance(value, CommentedMap) or not value or name in WHOLE:
        yield Change(name, value)
        return
    for key, inner in value.items():
        yield from _leaves(f"{name}.{key}" if name else str(key), inner)


def _set(section: CommentedMap, one: Change) -> None:
    """Set a value; a section that it stands in is made if it is missing or null, and with a reason has a line a key."""
    *outer, key = one.name.split(".")
    for name in outer:
        if not isinstance(section.get(name), CommentedMap):
            _put(section, name, CommentedMap())
        section = section[name]
    _put(section, key, one.value)
    # ruamel.yaml keeps the comment beside a value in one token with what stands below.
    tokens = section.ca.items.setdefault(key, [None] * 4) if one.why else section.ca.items.get(key)
    beside, _, below = tokens[2].value.partition("\n") if tokens and tokens[2] else ("", "", "")
    if one.why:
        section.fa.set_block_style()
        tokens[2] = CommentToken(f" {REASON}{one.why}\n{below}", CommentMark(COLUMN), None)
    elif beside.strip().startswith(REASON):  # it is of the value that was there
        tokens[2] = CommentToken(f"\n{below}", CommentMark(COLUMN), None)


def _put(section: CommentedMap, key: str, value: Any) -> None:
    """Set a value. A new key becomes the second one: the last one carries the empty line that ends the section."""
    if key in section:
        section[key] = value
    else:
        section.insert(min(1, len(section)), key, value)


def _yaml() -> YAML:
    """A reader and writer of YAML that leaves everything that is not changed as it is, to the byte."""
    found, null = YAML(), "tag:yaml.org,2002:null"
    found.preserve_quotes, found.width = True, 1_000_000  # no line is broken
    found.representer.add_representer(type(None), lambda writer, _: writer.represent_scalar(null, "null"))
    return found


def _parse(text: str | bytes, source: str | Path) -> Any:
    try:
        return _yaml().load(text)
    except (YAMLError, ValueError) as error:  # ValueError: a number of thousands of digits, an odd date
        told = " ".join(str(error).split())
        raise UserError(f"{source}: not valid YAML: {told}; correct it") from error
