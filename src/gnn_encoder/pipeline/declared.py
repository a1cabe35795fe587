"""Reads dvc.yaml and pipelines/*/dvc.yaml, the only places that say what a stage needs and what decides its result.

DVC itself is not imported: a stage also runs on a machine without DVC, whose import takes a second.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError
from gnn_encoder.pipeline.params import parse_yaml

PIPELINE = "dvc.yaml"
PARAMS = "params.yaml"
CODE = ("src", "stages")
NAME = re.compile(r"\$\{([\w.]+)\}")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A stage with every `${...}` filled in.

    Attributes:
        file: the dvc.yaml that it stands in.
        name: name of the stage and of its script.
        key: the key of `foreach` that it runs for, such as a system; empty for a stage without `foreach`.
        item: the values that `foreach` has for the key.
        cmd, deps, outs, metrics, plots: as in dvc.yaml, whose `wdir` is always the project's root.
        params: dotted names in params.yaml. Names in systems.yaml are left out.
    """

    file: Path
    name: str
    key: str
    item: Any
    cmd: str
    deps: tuple[Path, ...]
    params: tuple[str, ...]
    outs: tuple[Path, ...]
    metrics: tuple[Path, ...]
    plots: tuple[Path, ...]

    @property
    def address(self) -> str:
        """DVC's name for it in its file: NAME or NAME@KEY."""
        return f"{self.name}@{self.key}" if self.key else self.name

    @property
    def inputs(self) -> list[Path]:
        """The dependencies that are artifacts, each once."""
        return [path for path in dict.fromkeys(self.deps) if path.parts[0] not in CODE]

    @property
    def code(self) -> list[Path]:
        """The dependencies that are code, each once: the stage's script, and packages."""
        return [path for path in dict.fromkeys(self.deps) if path.parts[0] in CODE]


def find_stage(name: str, arguments: list[str], folder: Path = Path()) -> Declared:
    """The stage that `python stages/NAME.py [KEY]` runs."""
    found = {stage.key: stage for stage in read_stages(folder) if stage.name == name}
    if not found:
        raise UserError(f"{folder / PIPELINE}: has no stage {name}; its stages and the scripts in stages/ share names")
    asked = " ".join(arguments)
    if asked not in found:
        rule = f"stage {name} runs once; leave it out" if "" in found else f"must be one of {', '.join(found)}"
        raise UserError(f"argument is {asked!r}: {rule}" if arguments else f"no argument: {rule}")
    return found[asked]


def read_stages(folder: Path = Path()) -> Iterator[Declared]:
    """Yield every stage that DVC would run, one for each key of a `foreach`; those of the root's file come first."""
    if not (folder / PIPELINE).is_file():
        raise UserError(f"{folder / PIPELINE}: no such file; run from the project's root")
    for path in (folder / PIPELINE, *sorted(folder.glob(f"pipelines/*/{PIPELINE}"))):
        file = path.relative_to(folder)
        for name, stage in parse_yaml(path.read_bytes(), path)["stages"].items():
            if "foreach" not in stage:
                yield _declared(file, name, "", None, stage)
                continue
            for key, item in _items(stage["foreach"], folder).items():
                yield _declared(file, name, key, item, _filled(stage["do"], {"key": key, "item": item}))


def _items(foreach: dict[str, Any] | str, folder: Path) -> dict[str, Any]:
    """What `foreach` goes over: a mapping, or the name of one in params.yaml, `${evidence.trials}`."""
    if isinstance(foreach, dict):
        return foreach
    params = parse_yaml((folder / PARAMS).read_bytes(), folder / PARAMS)
    found: dict[str, Any] = lookup(params, foreach.strip("${}"), {})
    return found


def _filled(node: Any, values: dict[str, Any]) -> Any:
    """`node` with each `${key}`, `${item}` and `${item.NAME}` in its strings replaced."""
    if isinstance(node, dict):
        return {_filled(key, values): _filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, values) for value in node]
    return NAME.sub(lambda found: str(lookup(values, found[1])), node) if isinstance(node, str) else node


def lookup(values: Any, dotted: str, default: Any = None) -> Any:
    """The value of a dotted name; `default` where there is none."""
    for key in dotted.split("."):
        if not isinstance(values, dict) or key not in values:
            return default
        values = values[key]
    return values


def _declared(file: Path, name: str, key: str, item: Any, stage: dict[str, Any]) -> Declared:
    def paths(section: str) -> tuple[Path, ...]:
        return tuple(Path(one if isinstance(one, str) else next(iter(one))) for one in stage.get(section, []))

    return Declared(
        file=file,
        name=name,
        key=key,
        item=item,
        cmd=stage["cmd"],
        deps=paths("deps"),
        params=tuple(dict.fromkeys(one for one in stage.get("params", []) if isinstance(one, str))),
        outs=paths("outs"),
        metrics=paths("metrics"),
        plots=paths("plots"),
    )
