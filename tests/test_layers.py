"""The packages of the method stand in one order: each imports only those before it, and none knows a stage."""

import ast

import pytest

from .project import ROOT

SOURCE = ROOT / "src" / "gnn_encoder"
ORDER = (
    ("base",),
    ("data",),
    ("text",),
    ("search",),
    ("train",),
    ("evaluate",),
    ("controls",),
    ("gnn",),
    ("estimator", "pair", "dual_cross"),
)
# What the sections of params.yaml hold, where artifacts lie, and how they are opened, which all may read.
SHARED = tuple(f"gnn_encoder.pipeline.{name}" for name in ("params", "project", "section"))
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}


def imported(package: str) -> set[str]:
    """The project's packages and modules that the files of a package import."""
    files = [*(SOURCE / package).rglob("*.py"), *SOURCE.glob(f"{package}.py")]
    assert files
    modules = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                modules |= {f"{alias.name}." for alias in node.names}
    others = (module for module in modules if module.startswith("gnn_encoder.") and not module.startswith(SHARED))
    found = {module.split(".")[1] for module in others}
    return found - {package, "", "__version__"}


@pytest.mark.parametrize("package", LEVEL)
def test_a_package_imports_only_those_before_it(package: str) -> None:
    before = {other for other, level in LEVEL.items() if level < LEVEL[package]}
    assert imported(package) - before == set()
