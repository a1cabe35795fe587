"""The packages of the method stand in one order: each imports only those before it, and none knows the pipeline."""

import ast

import pytest

from .project import ROOT

SOURCE = ROOT / "src" / "gnn_encoder"
ORDER = (
    ("base",),
    ("data",),
    ("text",),
    ("search",),
    ("training",),
    ("evaluation",),
    ("controls",),
    ("graph",),
    ("mgt",),
    ("estimator", "pair", "dual_cross"),
)
PARAMS = "gnn_encoder.pipeline.params"  # what the sections of params.yaml hold, which all may read
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}


def imported(package: str) -> set[str]:
    """The project's packages and modules that the files of a package import."""
    assert (SOURCE / package).is_dir()
    modules = set()
    for file in (SOURCE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules |= {f"{node.module}.{alias.name}" for alias in node.names if node.module != PARAMS}
            elif isinstance(node, ast.Import):
                modules |= {f"{alias.name}." for alias in node.names}
    found = {module.split(".")[1] for module in modules if module.startswith("gnn_encoder.")}
    return found - {package, "", "__version__"}


@pytest.mark.parametrize("package", LEVEL)
def test_a_package_imports_only_those_before_it(package: str) -> None:
    before = {other for other, level in LEVEL.items() if level < LEVEL[package]}
    assert imported(package) - before == set()
