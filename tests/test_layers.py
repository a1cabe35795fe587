"""The floors of the house: each room imports only rooms of lower floors.

From the ground up: base; the sections, paths and systems of `pipeline`, which all read; data and text; search; train
and evaluate; controls; gnn, pair and dual_cross; the search of a built system, and how a stage runs; what users
start, which is the rest.
"""

import ast

from .project import ROOT

SOURCE = ROOT / "src" / "gnn_encoder"
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
    ("estimator", "add", "export", "serve", "pipeline.experiment"),
    ("init", "inform"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def room_of(*parts: str) -> str:
    """The room of a module, from its name below `gnn_encoder`: modules of `pipeline` are rooms of their own."""
    return ".".join(parts[: 2 if parts[0] == "pipeline" else 1])


def imports() -> set[tuple[str, str]]:
    """Which room imports which other one."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        room = room_of(*file.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [f"{node.module}.{one.name}" for one in node.names] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            found |= {(room, room_of(*name.split(".")[1:])) for name in names if name.startswith("gnn_encoder.")}
    return {(room, other) for room, other in found if room not in (other, "__init__") and other != "__version__"}


def test_every_import_goes_down() -> None:
    assert {arrow for arrow in imports() if not LEVEL[arrow[0]] > LEVEL[arrow[1]]} == set()
