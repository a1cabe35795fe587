"""dvc.yaml declares what its stages run on: code by their imports, parameters by what their scripts read.

A dependency that is not declared never triggers a rerun: the stage's old output would pass for the new code's.
"""

import ast
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gnn_encoder.pipeline.declared import Declared, lookup, read_stages

from .project import ROOT

MISSING = object()
PACKAGE = Path("src/gnn_encoder/__init__.py")
RUNNER = Path("src/gnn_encoder/pipeline")  # it places artifacts and decides nothing that is in them
FOLDERS = (Path("src"), Path("stages"))  # where Python looks for a script's modules
Imports = Callable[[Path], list[Path]]


def problems(root: Path) -> list[str]:
    """What dvc.yaml under `root` leaves out or names in vain, one line each."""
    params = load(root / "params.yaml")
    imports = cache(lambda file: direct_imports(root, file))  # nearly all stages come to import the same files
    return [
        f"{stage.address}: {problem}"
        for stage in read_stages(root)
        for problem in stage_problems(root, stage, params, imports)
    ]


def stage_problems(root: Path, stage: Declared, params: dict[str, Any], imports: Imports) -> Iterator[str]:
    scripts = stage_scripts(root, stage.cmd)
    if not scripts:
        yield f"cmd {stage.cmd!r} names no script that exists"
    for script in scripts:
        if script.stem != stage.name:
            yield f"cmd {stage.cmd!r} runs a script of another name, which finds its own declaration"
    for file in sorted(imported_files(scripts, imports)):
        if not any(file == dep or dep in file.parents for dep in stage.deps):
            yield f"{file} is imported but is not among deps"
    for dep in dict.fromkeys(stage.deps):
        if dep.parts[0] in ("src", "stages") and not (root / dep).exists():
            yield f"{dep} is among deps but does not exist"
    for key in stage.params:
        if lookup(params, key, MISSING) is MISSING:
            yield f"{key} is among params but not in params.yaml"
    sections = {key.split(".")[0] for key in stage.params}
    for section in sorted(sections_read(root, scripts, set(params)) - sections):
        yield f"{section} of params.yaml is read by the script but is not among params"


def load(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def stage_scripts(root: Path, cmd: str) -> list[Path]:
    """Python files that the command names, relative to `root`."""
    return [Path(word) for word in shlex.split(cmd) if word.endswith(".py") and (root / word).is_file()]


# --- Python -----------------------------------------------------------------------------------------------------------


def imported_files(scripts: list[Path], imports: Imports) -> set[Path]:
    """`scripts` and every file of the project that they can come to import, relative to its root."""
    reached: set[Path] = set()
    waiting = list(scripts)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += imports(file)
    return reached


def direct_imports(root: Path, file: Path) -> list[Path]:
    """Every file of the project that one file can come to import itself, in functions too; both relative to `root`.

    An `__init__.py` that holds nothing but a docstring decides no result and is left out, and so is the package's own,
    which imports for its users alone, when they ask.
    """
    named = imported_modules(root, file)
    found = {path for module in named for folder in FOLDERS for path in module_files(root, folder, module)}
    decisive = (path for path in found - {PACKAGE} if RUNNER not in path.parents and path.name != "params.py")
    return [path for path in decisive if path.name != "__init__.py" or has_code(root / path)]


def imported_modules(root: Path, file: Path) -> Iterator[str]:
    """Names of modules that a file may import; `from a import b` gives both `a` and `a.b`."""
    for node in running_nodes(ast.parse((root / file).read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package_of(file, level) + ([module] if module else [])
                yield ".".join(base)
                yield from (".".join([*base, alias.name]) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`, which never run."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield from running_nodes(other)
        else:
            yield from running_nodes(child)


def package_of(file: Path, level: int) -> list[str]:
    """The package that `level` dots mean in a file of src."""
    return list(file.parts[1:-level]) if level else []


def module_files(root: Path, folder: Path, module: str) -> Iterator[Path]:
    """The module's file and the `__init__.py` of each package above it, where the project has them."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        path = folder.joinpath(*parts[:length])
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if (root / candidate).is_file():
                yield candidate


def has_code(file: Path) -> bool:
    def inert(node: ast.stmt) -> bool:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assign(targets=[ast.Name(id="__version__")]):
                return True
        return False

    return not all(inert(node) for node in ast.parse(file.read_text(encoding="utf-8")).body)


def sections_read(root: Path, scripts: list[Path], sections: set[str]) -> set[str]:
    """Sections of params.yaml that the scripts read, as `params.SECTION` or `stage.params.SECTION`."""

    def is_params(node: ast.AST) -> bool:
        match node:
            case ast.Name(id="params") | ast.Attribute(value=ast.Name(id="stage"), attr="params"):
                return True
        return False

    return {
        node.attr
        for script in scripts
        for node in ast.walk(ast.parse((root / script).read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and is_params(node.value)
    } & sections


# --- tests ------------------------------------------------------------------------------------------------------------


def test_dvc_yaml_declares_what_its_stages_run_on() -> None:
    assert problems(ROOT) == []


def test_every_stage_script_is_a_stage() -> None:
    run = {script for stage in read_stages(ROOT) for script in stage_scripts(ROOT, stage.cmd)}
    assert {path.relative_to(ROOT) for path in (ROOT / "stages").glob("*.py")} == run


SOURCES = {
    "stages/fit.py": """
from gnn_encoder.models import big

def main():
    from gnn_encoder.late import f
    f(stage.params.fit)
""",
    "src/gnn_encoder/__init__.py": '"""The package."""\n__version__ = "1"\n',
    "src/gnn_encoder/late.py": "from gnn_encoder.deep import g\n",
    "src/gnn_encoder/deep.py": """
import numpy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gnn_encoder.types_only
""",
    "src/gnn_encoder/types_only.py": "",
    "src/gnn_encoder/models/__init__.py": '"""Models."""\nfrom . import registry\n',
    "src/gnn_encoder/models/registry.py": "",
    "src/gnn_encoder/models/big.py": "from .layers import attention\nfrom ..storage import save\n",
    "src/gnn_encoder/models/layers/__init__.py": '"""Layers."""\n',
    "src/gnn_encoder/models/layers/attention.py": "",
    "src/gnn_encoder/storage.py": "",
}
REACHED = ["stages/fit.py", "src/gnn_encoder/models", *(f"src/gnn_encoder/{n}.py" for n in ("late", "deep", "storage"))]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    (tmp_path / "params.yaml").write_text("seed: 1\nfit: {rate: 0.1}\n")
    return tmp_path


def write_stages(project: Path, stages: dict[str, Any], **variables: Any) -> None:
    (project / "systems.yaml").write_text(yaml.safe_dump(variables))
    pipeline = {"vars": ["systems.yaml"], "stages": stages}
    (project / "dvc.yaml").write_text(yaml.safe_dump(pipeline, sort_keys=False))


def fit_stage(deps: list[str], params: list[Any] | None = None) -> dict[str, Any]:
    return {"cmd": "scripts/python stages/fit.py", "deps": deps, "params": params or ["seed", "fit.rate"]}


def test_complete_stage_has_no_problem(project: Path) -> None:
    write_stages(project, {"fit": fit_stage([*REACHED, "data/prepared"])})
    assert problems(project) == []


@pytest.mark.parametrize(
    ("dropped", "missing"),
    [
        ("stages/fit.py", ["stages/fit.py"]),
        ("src/gnn_encoder/late.py", ["src/gnn_encoder/late.py"]),
        ("src/gnn_encoder/deep.py", ["src/gnn_encoder/deep.py"]),
        ("src/gnn_encoder/storage.py", ["src/gnn_encoder/storage.py"]),
        (
            "src/gnn_encoder/models",
            [f"src/gnn_encoder/models/{name}.py" for name in ("__init__", "big", "layers/attention", "registry")],
        ),
    ],
)
def test_planted_missing_dependency_is_found(project: Path, dropped: str, missing: list[str]) -> None:
    write_stages(project, {"fit": fit_stage([dep for dep in REACHED if dep != dropped])})
    assert problems(project) == [f"fit: {file} is imported but is not among deps" for file in missing]


def test_dependency_that_does_not_exist_is_found(project: Path) -> None:
    write_stages(project, {"fit": fit_stage([*REACHED, "src/gnn_encoder/gone.py"])})
    assert problems(project) == ["fit: src/gnn_encoder/gone.py is among deps but does not exist"]


def test_unknown_and_undeclared_params_are_found(project: Path) -> None:
    write_stages(project, {"fit": fit_stage(REACHED, ["seed.x", "nothing", {"systems.yaml": ["fit"]}])})
    assert problems(project) == [
        "fit: seed.x is among params but not in params.yaml",
        "fit: nothing is among params but not in params.yaml",
        "fit: fit of params.yaml is read by the script but is not among params",
    ]


def test_command_without_a_script_is_found(project: Path) -> None:
    write_stages(project, {"fit": fit_stage(REACHED) | {"cmd": "scripts/python stages/fitt.py"}})
    assert problems(project) == ["fit: cmd 'scripts/python stages/fitt.py' names no script that exists"]


def test_a_script_of_another_name_is_found(project: Path) -> None:
    write_stages(project, {"train": fit_stage(REACHED)})
    assert problems(project) == [
        "train: cmd 'scripts/python stages/fit.py' runs a script of another name, which finds its own declaration"
    ]


def test_parameters_are_read_by_either_name(project: Path) -> None:
    script = project / "stages" / "fit.py"
    write_stages(project, {"fit": fit_stage(REACHED, ["seed"])})
    expected = ["fit: fit of params.yaml is read by the script but is not among params"]
    assert problems(project) == expected
    script.write_text(script.read_text().replace("f(stage.params.fit)", "params = stage.params; f(params.fit)"))
    assert problems(project) == expected
    script.write_text(script.read_text().replace("params.fit", "params.seed, other.fit"))
    assert problems(project) == []


def test_foreach_is_spelt_out(project: Path) -> None:
    body = {"cmd": "scripts/python stages/${item}.py", "deps": []}
    named = {"foreach": "${dense}", "do": fit_stage(REACHED) | {"cmd": "scripts/python stages/${item.script}.py"}}
    dense = {"a": {"script": "fit"}, "b": {"script": "gone"}}
    write_stages(project, {"each": {"foreach": ["fit", "gone"], "do": body}, "fit": named}, dense=dense)
    found = problems(project)
    assert {problem.split(":")[0] for problem in found} == {"each@fit", "each@gone", "fit@b"}
    assert "each@gone: cmd 'scripts/python stages/gone.py' names no script that exists" in found
    assert "fit@b: cmd 'scripts/python stages/gone.py' names no script that exists" in found
