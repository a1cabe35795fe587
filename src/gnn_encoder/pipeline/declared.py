"""Reads `dvc.yaml`, the only place that says what a stage needs and which parameters decide its result.

DVC itself is not imported: a stage also runs on a machine without DVC, whose import takes a second.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError
from gnn_encoder.pipeline.params import parse_yaml

PIPELINE = Path("dvc.yaml")
PARAMS = Path("params.yaml")
STAGES = "stages"
CODE = ("src", STAGES)
NAME = re.compile(r"\$\{\s*([\w.]+)\s*\}")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A stage of dvc.yaml with every `${...}` filled in.

    Attributes:
        name: name of the stage and of its script.
        key: the key of `foreach` that it runs for, such as a system; empty for a stage without `foreach`.
        item: the values that `foreach` has for the key.
        cmd, deps, outs, metrics, plots: as in dvc.yaml.
        params: dotted names in params.yaml. Names in systems.yaml are left out: `item` holds their values.
    """

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
        """DVC's name for it: NAME or NAME@KEY."""
        return f"{self.name}@{self.key}" if self.key else self.name

    @property
    def inputs(self) -> list[Path]:
        """The dependencies that are artifacts, each once; the other dependencies are code."""
        return [path for path in dict.fromkeys(self.deps) if path.parts[0] not in CODE]

    @property
    def scripts(self) -> list[Path]:
        """The dependencies that are code outside the package, each once: the stage's script."""
        return [path for path in dict.fromkeys(self.deps) if path.parts[0] == STAGES]


def find_stage(name: str, arguments: list[str], folder: Path = Path()) -> Declared:
    """The stage that `python stages/NAME.py [KEY]` runs.

    Raises:
        UserError: dvc.yaml has no stage of that name, or `arguments` are not one of its keys.
    """
    found = {stage.key: stage for stage in read_stages(folder) if stage.name == name}
    if not found:
        raise UserError(f"{folder / PIPELINE}: has no stage {name}; its stages and the scripts in stages/ share names")
    asked = " ".join(arguments)
    if asked not in found:
        rule = f"stage {name} runs once; leave it out" if "" in found else f"must be one of {', '.join(found)}"
        raise UserError(f"argument is {asked!r}: {rule}" if arguments else f"no argument: {rule}")
    return found[asked]


def read_stages(folder: Path = Path()) -> Iterator[Declared]:
    """Yield every stage that DVC would run, one for each key of a `foreach`, in the order of the file."""
    pipeline = _load(folder / PIPELINE)
    values = _load(folder / PARAMS)
    for file in pipeline.get("vars", []):
        values |= _load(folder / file)
    for name, stage in pipeline["stages"].items():
        if "foreach" not in stage:
            yield _declared(name, "", None, fill(stage, values))
            continue
        items = fill(stage["foreach"], values)
        pairs = items.items() if isinstance(items, dict) else zip(map(str, items), items, strict=True)
        for key, item in pairs:
            yield _declared(name, key, item, fill(stage["do"], {**values, "key": key, "item": item}))


def fill(node: Any, values: dict[str, Any]) -> Any:
    """Replace each `${a.b}` in the strings of `node` by its value; names that are not in `values` stay."""
    if isinstance(node, dict):
        return {fill(key, values): fill(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [fill(value, values) for value in node]
    if not isinstance(node, str):
        return node
    whole = NAME.fullmatch(node)
    if whole:
        return lookup(values, whole[1], node)
    return NAME.sub(lambda found: str(lookup(values, found[1], found[0])), node)


def lookup(values: Any, dotted: str, default: Any = None) -> Any:
    """The value of a dotted name; `default` where there is none."""
    for key in dotted.split("."):
        if not isinstance(values, dict) or key not in values:
            return default
        values = values[key]
    return values


def _declared(name: str, key: str, item: Any, stage: dict[str, Any]) -> Declared:
    def paths(section: str) -> tuple[Path, ...]:
        return tuple(Path(one if isinstance(one, str) else next(iter(one))) for one in stage.get(section, []))

    return Declared(
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


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root")
    values: dict[str, Any] = parse_yaml(path.read_bytes(), path)
    return values
