"""Experiments as differences: params.yaml is the one complete file, and a config of configs/ is laid over it.

ruamel.yaml changes values and leaves the comments and the order of params.yaml as they are. So a new parameter is added
in two places alone: params.yaml, and the model of its section.
"""

import io
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.files import write_text
from gnn_encoder.pipeline.params import Encoder, Params, load_params
from gnn_encoder.pipeline.section import parse_yaml
from gnn_encoder.pipeline.stage import lookup

PARAMS = Path("params.yaml")
MADE = "# Made by: "
FILES = ("data.path", "data.unlabelled", "dual_cross.generator.file")  # named by the user


def lay_over(
    arguments: Sequence[str], path: Path = PARAMS, *, chosen: Mapping[str, Any] | None = None, by: str = ""
) -> list[str]:
    """Change the experiment in `path`: lay chosen values, then a config, then `KEY=VALUE` arguments over it.

    Of two that set one value, the later one wins. The first argument may be a config's path. The line on top of `path`
    names the arguments, or those `by` which they were made. Returns a line a change: `mgt.beta: 0.05 -> 0.1`.
    """
    before, made = load_params(path), _made(path)
    settings = dict(chosen or {}) | given(arguments)
    text, after = _laid_over(path, settings, " ".join(arguments))
    command = " ".join(f"gnn-encoder init {by or shlex.join(arguments)}".splitlines())
    write_text(path, "\n".join([*made, MADE + command, *text.split("\n")[len(made) :]]))
    old, new = before.model_dump(exclude_unset=True), after.model_dump(exclude_unset=True)
    changes = {name: (lookup(old, name, ...), lookup(new, name, ...)) for name in settings}
    return [f"{name}: {as_yaml(a)} -> {as_yaml(b)}" for name, (a, b) in changes.items() if a != b]


def change(arguments: Sequence[str], base_model: Callable[[Encoder], str]) -> Iterator[str]:
    """Lay a config, and then single values, over params.yaml, and tell what changed; a mistake is told before.

    `base_model` says how a base model is used, and refuses one that cannot be trained.
    """
    params, named = preview(arguments), {argument.partition("=")[0] for argument in arguments}
    at = params.data.path
    is_missing = at is not None and not Path(at).exists()
    if is_missing and "data.path" in named:
        raise UserError(f"data.path is {at}: no such file or folder; correct it")
    if "encoder.model" in given(arguments):
        yield base_model(params.encoder)
    changed = lay_over(arguments)
    yield from changed or ["params.yaml has these values already."]
    if is_missing and any(line.startswith("data.path: ") for line in changed):
        yield f"warning: data.path is {at}, which is not there: name yours, `gnn-encoder init data.path=FOLDER`"


def preview(arguments: Sequence[str], path: Path = PARAMS, *, named: str = "") -> Params:
    """The experiment that `lay_over` would make of these arguments; nothing is written. It raises the same errors.

    Errors name the arguments, or what they are `named`.
    """
    load_params(path)  # a mistake in `path` itself must not be blamed on the arguments
    if not arguments:
        raise UserError("nothing to change: give --data, a file of configs/, or values such as mgt.beta=0.1")
    if "=" not in arguments[0]:
        refuse_second(path)
    return _laid_over(path, given(arguments), named or " ".join(arguments))[1]


def refuse_second(path: Path = PARAMS) -> None:
    """Refuse to lay a whole experiment over the result of an earlier init. Single values can always be changed."""
    if made := _made(path):
        by = made[-1].removeprefix(MADE)
        raise UserError(f"{path}: made by `{by}`, with which a second one would mix; `git checkout {path}` first")


def as_yaml(value: object) -> str:
    """A value on one line of YAML."""
    if value is ...:
        return "not set"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").rstrip("\n")


def given(arguments: Sequence[str]) -> dict[str, Any]:
    """The values that arguments set, by their dotted names."""
    found = dict[str, Any]()
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if number == 0 and not equals:
            config = Path(argument)
            if not config.is_file():
                cure = "give one of configs/, or a value such as mgt.beta=0.1 (no blanks)"
                raise UserError(f"{config}: no such file; {cure}")
            values = parse_yaml(config.read_bytes(), config, _yaml())
            if not isinstance(values, CommentedMap):
                raise UserError(f"{config}: is {values!r}: must be lines of `key: value`; see configs/msmarco.yaml")
            found |= _leaves("", values)
        elif all(name.split(".")) and value.strip():
            found |= _leaves(name, parse_yaml(value, shorten(argument, 200), _yaml()))
        else:
            rule = "must be KEY=VALUE with a dotted key, such as mgt.beta=0.1 or data.path=null"
            raise UserError(f"{shorten(argument, 200)}: {rule}; correct it (only the first argument can be a config)")
    files = {name: found[name] for name in FILES if isinstance(found.get(name), str)}
    # A queued experiment runs in a copy of the project.
    return found | {name: str(Path(file).absolute()) for name, file in files.items() if not file.startswith(("~", "/"))}


def _made(path: Path) -> list[str]:
    """The lines on top of `path` that say which inits made it."""
    return list(takewhile(lambda line: line.startswith(MADE), path.read_text(encoding="utf-8").split("\n")))


def _laid_over(path: Path, settings: Mapping[str, Any], source: str) -> tuple[str, Params]:
    """The YAML of `path` with other values, and what it means to every stage that will read it."""
    tree, stream = parse_yaml(path.read_bytes(), path, _yaml()), io.StringIO()
    for name, value in settings.items():
        section, (*outer, key) = tree, name.split(".")
        for inner in outer:
            if not isinstance(section.get(inner), CommentedMap):
                _put(section, inner, CommentedMap())
            section = section[inner]
        _put(section, key, value)
    _yaml().dump(tree, stream)
    return stream.getvalue(), Params.parsed(stream.getvalue(), source)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values in a section, with their dotted names."""
    if not isinstance(value, CommentedMap) or not value:
        yield name, value
        return
    for key, inner in value.items():
        yield from _leaves(f"{name}.{key}" if name else str(key), inner)


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
