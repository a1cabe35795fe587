"""Experiments as differences: params.yaml is the one complete file, and a config of configs/ is laid over it.

params.yaml keeps its comments and its order when it is changed. A new parameter is therefore added in two places alone:
params.yaml, and the section's model in `gnn_encoder.core.params`.
"""

import io
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.tokens import CommentToken

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.section import describe
from gnn_encoder.core.storage.atomic import write_text
from gnn_encoder.pipeline.params import Params, load_params, parse_yaml

PARAMS = Path("params.yaml")
MADE = "# Made by: "
SETTING = re.compile(r"[\w-]+(\.[\w-]+)*=\s*\S.*", re.DOTALL)
# Mappings whose keys the user chooses. Each is replaced as a whole, like a list: a config that names three trials means
# these three alone, without those of params.yaml.
WHOLE = (("evidence", "trials"), ("data", "names"))
COLUMN = 27  # at which comments begin in params.yaml
Keys = tuple[str, ...]


@dataclass(frozen=True)
class Chosen:
    """A value that `gnn-encoder init --data` chose for a parameter, and why, in a few words."""

    name: str  # dotted
    value: Any
    why: str


def init(
    arguments: Sequence[str],
    path: Path = PARAMS,
    *,
    over: bool = False,
    chosen: Sequence[Chosen] = (),
    command: Sequence[str] | None = None,
) -> list[str]:
    """Change the experiment in `path`: lay a config and `key=value` arguments over it.

    A section of the config is laid over that of `path` key by key; every other value is replaced whole. Lists are such
    values, and so are the two mappings whose keys the user chooses, `evidence.trials` and `data.names`. A dotted key
    reaches into these too: `evidence.trials.no_gate.mgt={gate: 0.3}` changes or adds this trial, and no other. Of two
    arguments that set one value, the later one wins. A comment beside a value of the config replaces the comment in
    `path`, which otherwise stays.

    Args:
        arguments: `KEY=VALUE` each, the value in YAML; the first one may be the path of a config instead.
        path: the experiment.
        over: whether `path` may be the result of an earlier init, which is then changed further.
        chosen: values that are laid over `path` before the arguments, with their reasons as comments.
        command: what the line that says how `path` was made holds after `init`; None: the arguments.

    Returns:
        A line for each value that changed: `mgt.beta: 0.05 -> 0.1`.

    Raises:
        UserError: an argument, the config or the resulting experiment is wrong; `path` then stays as it was.
    """
    before = load_params(path)
    text = path.read_text(encoding="utf-8")
    made = _made(text, path, over=over)
    draft = _overlaid("\n".join(text.split("\n")[len(made) :]), path, arguments, chosen)
    after = draft.checked()
    words = ["gnn-encoder", "init", *(arguments if command is None else command), *(["--over"] if over else [])]
    header = [*made, MADE + " ".join(shlex.join(words).splitlines()), *draft.notes]
    write_text(path, "\n".join([*header, draft.text()]))
    return list(_differences(before.model_dump(exclude_unset=True), after.model_dump(exclude_unset=True)))


def preview(arguments: Sequence[str], path: Path = PARAMS, *, over: bool = False) -> Params:
    """The experiment that `init` would make of these arguments, without writing it.

    Raises:
        UserError: as `init`.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    load_params(path)
    _made(text, path, over=over)
    return _overlaid(text, path, arguments).checked()


def _made(text: str, path: Path, *, over: bool) -> list[str]:
    """The lines on top of `path` that say which inits made it."""
    made = _leading_lines(text, MADE)
    if made and not over:
        raise UserError(
            f"{path}: made by `{made[-1].removeprefix(MADE)}`, and a second init would mix two experiments; "
            f"`git checkout {path}` first, or add --over to change this one"
        )
    return made


def load_experiment(path: Path, base: Path = PARAMS) -> Params:
    """Read an experiment: a full params.yaml, or a config, which is laid over `base` as `init` does.

    Raises:
        UserError: a file is missing or is not YAML, or the experiment is wrong.
    """
    if path.is_file():
        values = parse_yaml(path.read_bytes(), path)
        if isinstance(values, dict) and not Params.model_fields.keys() <= values.keys():
            load_params(base)  # a mistake in `base` itself must not be blamed on the config
            return _overlaid(base.read_text(encoding="utf-8"), base, [str(path)]).checked()
    return load_params(path)


@dataclass(kw_only=True)
class _Draft:
    """An experiment in the making: the YAML with its comments, and where each changed value came from."""

    tree: CommentedMap
    came_from: dict[Keys, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # the comment lines on top of the config, such as its sources

    def overlay(self, section: CommentedMap, given: CommentedMap, at: Keys, source: str) -> None:
        """Lay `given` over `section`, which stands at `at`."""
        for key, value in given.items():
            here = (*at, str(key))
            old = section.get(key)
            if isinstance(old, CommentedMap) and isinstance(value, CommentedMap) and here not in WHOLE:
                self.overlay(old, value, here, source)
            else:
                _put(section, key, value)
                self.came_from[here] = source
            if comment := _comment(given, key):
                _set_comment(section, key, comment)

    def set(self, keys: Keys, value: Any, source: str) -> None:
        """Set one value; a section that it stands in is made if it is missing or null."""
        section = self.tree
        for key in keys[:-1]:
            if not isinstance(section.get(key), CommentedMap):
                _put(section, key, CommentedMap())
            section = section[key]
        self.overlay(section, CommentedMap({keys[-1]: value}), keys[:-1], source)

    def choose(self, one: Chosen) -> None:
        """Set a value with its reason as comment, unless it stands in a section that is null."""
        keys = tuple(one.name.split("."))
        section = self.tree
        for key in keys[:-1]:
            section = section.get(key)
            if not isinstance(section, CommentedMap):
                return
        self.set(keys, one.value, "gnn-encoder init --data")
        _set_comment(section, keys[-1], f"# {one.why}")

    def text(self) -> str:
        """The YAML."""
        stream = io.StringIO()
        _yaml().dump(self.tree, stream)
        return stream.getvalue()

    def checked(self) -> Params:
        """The experiment, read from the YAML as every stage will read it."""
        try:
            return Params.model_validate(parse_yaml(self.text().encode(), self._sources(())))
        except ValidationError as error:
            told = (f"{self._sources(problem['loc'])}: {describe(problem)}" for problem in error.errors())
            raise UserError("; ".join(told)) from error

    def _sources(self, place: tuple[int | str, ...]) -> str:
        """The files and arguments that set the parameter or section at `place`; if none did, all of them."""
        met = [s for keys, s in self.came_from.items() if all(a == str(b) for a, b in zip(keys, place, strict=False))]
        return ", ".join(dict.fromkeys(met or self.came_from.values()))


def _overlaid(text: str, path: Path, arguments: Sequence[str], chosen: Sequence[Chosen] = ()) -> _Draft:
    if not arguments:
        raise UserError("nothing to change: give --data, a file of configs/, or values such as mgt.beta=0.1")
    draft = _Draft(tree=_parse(text, path))
    for one in chosen:
        draft.choose(one)
    config, settings = (None, arguments) if "=" in arguments[0] else (arguments[0], arguments[1:])
    if config is not None:
        draft.overlay(draft.tree, _read_config(Path(config)), (), config)
        draft.notes += _leading_lines(Path(config).read_text(encoding="utf-8"), "#")
    for setting in settings:
        keys, value = _read_setting(setting)
        draft.set(keys, value, setting)
    return draft


def _read_config(path: Path) -> CommentedMap:
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; give one of configs/, or a value such as mgt.beta=0.1 (no blanks around =)"
        )
    without_empty_lines = re.sub(rb"\n\s*\n", b"\n", path.read_bytes())  # those of params.yaml stay
    found = _parse(without_empty_lines, path)
    if not isinstance(found, CommentedMap):
        raise UserError(f"{path}: is {found!r}: must be lines of `key: value`; see configs/msmarco.yaml")
    return found


def _read_setting(setting: str) -> tuple[Keys, Any]:
    if not SETTING.fullmatch(setting):
        rule = "must be KEY=VALUE with a dotted key, such as mgt.beta=0.1 or data.path=null"
        raise UserError(f"{setting!r}: {rule}; correct it (only the first argument can be a config)")
    key, _, value = setting.partition("=")
    return tuple(key.split(".")), _parse(value, setting)


class _Representer(RoundTripRepresenter):
    """Writes null as `null`, where ruamel.yaml leaves the value out."""


_Representer.add_representer(type(None), lambda writer, _: writer.represent_scalar("tag:yaml.org,2002:null", "null"))


def _yaml() -> YAML:
    """A reader and writer of YAML that leaves everything that is not changed as it is, to the byte."""
    found = YAML()
    found.preserve_quotes = True
    found.width = 1_000_000  # no line is broken
    found.Representer = _Representer
    return found


def _parse(text: str | bytes, source: str | Path) -> Any:
    try:
        return _yaml().load(text)
    except YAMLError as error:
        raise UserError(f"{source}: not valid YAML: {' '.join(str(error).split())}; correct it") from error


def _leading_lines(text: str, start: str) -> list[str]:
    return list(takewhile(lambda line: line.startswith(start), text.split("\n")))


# --- ruamel.yaml ------------------------------------------------------------------------------------------------------


def _put(section: CommentedMap, key: str, value: Any) -> None:
    """Set a value. A new key becomes the second one: the last one carries the empty line that ends the section."""
    if key in section or not section:
        section[key] = value
    else:
        section.insert(1, key, value)


def _token(section: CommentedMap, key: str) -> CommentToken | None:
    """What follows a key or its value up to the next key: a comment beside it, then comments and empty lines below."""
    tokens = section.ca.items.get(key)
    return tokens[2] if tokens else None


def _comment(section: CommentedMap, key: str) -> str:
    """The comment beside a key or its value."""
    token = _token(section, key)
    return "" if token is None else token.value.partition("\n")[0]


def _set_comment(section: CommentedMap, key: str, comment: str) -> None:
    """Replace the comment beside a key or its value; what stands below stays."""
    old = _token(section, key)
    beside, _, below = old.value.partition("\n") if old else ("", "", "")
    column = old.start_mark.column if old and beside else COLUMN
    # A long value leaves one blank before the comment's column; the comment brings the second one.
    token = CommentToken(f" {comment}\n{below}", CommentMark(column - 1), None)
    section.ca.items.setdefault(key, [None] * 4)[2] = token


# --- what changed -----------------------------------------------------------------------------------------------------


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], at: Keys = ()) -> Iterator[str]:
    for key in {**before, **after}:
        here = (*at, key)
        old, new = before.get(key, ...), after.get(key, ...)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and here not in WHOLE:
            yield from _differences(old, new, here)
        elif old != new:
            yield f"{'.'.join(here)}: {shown(old)} -> {shown(new)}"


def shown(value: object) -> str:
    """A value on one line of YAML."""
    if value is ...:
        return "not set"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").rstrip("\n")
