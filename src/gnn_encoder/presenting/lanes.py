"""The layout of the drawn pipeline: stages of one name share a box, and a box stands in the lane of its branch."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.pipeline import Pipeline, Stage

SHARED = "shared"  # lane of stages that several branches need
TOGETHER = "together"  # lane of stages that read several branches
TITLES = {SHARED: "Shared by the branches", TOGETHER: "All together"}


@dataclass(frozen=True)
class Box:
    """Stages that have one name, belong to one lane and do not need each other."""

    name: str
    lane: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Boxes in the order of dvc.yaml, and arrows between them, without those that follow from other arrows."""

    boxes: list[Box]
    arrows: list[tuple[Box, Box]]


def arrange(pipeline: Pipeline) -> Drawing:
    """Group the stages that differ only in the system that they run for into boxes."""
    graph = _graph(pipeline)
    lanes, depths = _lanes(graph), _depths(graph)
    groups: dict[tuple[str, str, int], list[Stage]] = {}
    for stage in pipeline.stages:
        groups.setdefault((stage.name, lanes[stage.address], depths[stage.address]), []).append(stage)
    boxes = [Box(name, lane, tuple(stages)) for (name, lane, _), stages in groups.items()]
    quotient = _quotient(pipeline, boxes)
    if not nx.is_directed_acyclic_graph(quotient):  # stages of two names that need each other in turn
        boxes = [Box(stage.name, lanes[stage.address], (stage,)) for stage in pipeline.stages]
        quotient = _quotient(pipeline, boxes)
    kept = nx.transitive_reduction(quotient)
    places = {box: place for place, box in enumerate(boxes)}
    arrows = sorted(kept.edges, key=lambda arrow: (places[arrow[0]], places[arrow[1]]))
    return Drawing(boxes=boxes, arrows=arrows)


def lane_title(lane: str) -> str:
    """A lane's heading: the title of its branch, or a text for the lanes of several branches."""
    return TITLES.get(lane, name_of(lane))


def _graph(pipeline: Pipeline) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(stage.address for stage in pipeline.stages)
    graph.add_edges_from(sorted(pipeline.arrows))
    return graph


def _quotient(pipeline: Pipeline, boxes: list[Box]) -> nx.DiGraph:
    of = {stage.address: box for box in boxes for stage in box.stages}
    graph = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((of[a], of[b]) for a, b in sorted(pipeline.arrows) if of[a] is not of[b])
    return graph


def _lanes(graph: nx.DiGraph) -> dict[str, str]:
    """Stage address -> its lane.

    A stage that branches need stands in the lane of the only one that needs it, or in the shared lane. Branches that
    are built on another branch (their baseline is a system of it) do not count here if an independent branch needs the
    stage too. A stage that no branch needs stands in the lane that holds more than half of the stages that it reads
    (shared ones aside), or in the lane of all branches together if there is no such lane.
    """
    needed = {
        name: {f"evaluate@{name}", *nx.ancestors(graph, f"evaluate@{name}")}
        for name in registry().branches
        if f"evaluate@{name}" in graph
    }
    own = [name for name in registry().independent_branches if name in needed]
    lanes: dict[str, str] = {}
    for address in nx.topological_sort(graph):
        needing = [name for name in needed if address in needed[name]]
        first = [name for name in needing if name in own] or needing
        if needing:
            lanes[address] = first[0] if len(first) == 1 else SHARED
        else:
            lanes[address] = _lane_of_most(lanes[before] for before in graph.predecessors(address))
    return lanes


def _lane_of_most(before: Iterable[str]) -> str:
    counts = Counter(lane for lane in before if lane != SHARED)
    (lane, count), *_ = [*counts.most_common(1), (TOGETHER, 0)]
    return lane if 2 * count > counts.total() else TOGETHER


def _depths(graph: nx.DiGraph) -> dict[str, int]:
    """Stage address -> the length of the longest chain of stages of the same name that lead to it."""
    depths: dict[str, int] = {}
    for address in nx.topological_sort(graph):
        name = address.partition("@")[0]
        same = [depths[before] for before in nx.ancestors(graph, address) if before.partition("@")[0] == name]
        depths[address] = 1 + max(same, default=-1)
    return depths
