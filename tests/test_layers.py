"""The floors of the house: each room imports only rooms of lower floors.

From the ground up: base; the sections, paths and systems of `pipeline`, which all read; data and text; search; train
and evaluate; controls; gnn, pair and dual_cross; the search of a built system, and how a stage runs; what users
start, which is the rest.
"""

from pathlib import Path

from .test_code_dependencies import PACKAGE, imported

SHARED = "pipeline.section", "pipeline.params", "pipeline.project"
FLOORS = (
    ("base",),
    *((module,) for module in SHARED),
    ("data", "text"),
    ("search",),
    ("train", "evaluate"),
    ("controls",),
    ("gnn", "pair", "dual_cross"),
    ("vectors", "searcher", "pipeline.stage"),
    ("estimator", "export", "serve", "pipeline.experiment"),
    ("init", "inform"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def room_of(file: Path) -> str:
    """The room of a file of the package: modules of `pipeline` are rooms of their own."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[: 2 if parts[0] == "pipeline" else 1])


def test_every_import_goes_down() -> None:
    files = {file for file in PACKAGE.rglob("*.py") if file.stem != "__init__"}
    arrows = {(room_of(file), room_of(other)) for file in files for other in imported(file) & files}
    assert {(room, other) for room, other in arrows if room != other and not LEVEL[room] > LEVEL[other]} == set()
    assert ("cli", "init") in arrows and ("data", "base") in arrows
