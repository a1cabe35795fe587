import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path

import pytest

from gnn_encoder.presenting.dag import HEIGHT, WIDTH, draw_dag
from gnn_encoder.presenting.lanes import arrange
from gnn_encoder.presenting.pipeline import Pipeline, Stage, read_pipeline, runs_table, stages_table

from ..project import declare

Rectangle = tuple[float, float, float, float]  # x, y, width, height


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    declare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return read_pipeline()


def test_dvc_tells_the_stages(pipeline: Pipeline) -> None:
    addresses = [stage.address for stage in pipeline.stages]
    assert len(addresses) == len(set(addresses)) > 70 and addresses[0] == "prepare" and "report" not in addresses
    assert ("prepare", "bm25") in pipeline.arrows and ("bm25", "prepare") not in pipeline.arrows
    (trained,) = (stage for stage in pipeline.stages if stage.address == "train_mgt@gnn_encoder")
    assert (trained.name, trained.system, trained.outs) == ("train_mgt", "gnn_encoder", ("data/mgt/gnn_encoder",))
    assert trained.seconds is None and trained.size is None


def test_times_and_sizes(empty: Path) -> None:
    (empty / ".scratch" / "times").mkdir(parents=True)
    (empty / ".scratch" / "times" / "mgt-gnn_encoder.json").write_text('{"seconds": 6.5, "inputs": []}')
    lock = "schema: '2.0'\nstages:\n  prepare:\n    cmd: scripts/python stages/prepare.py\n    outs:\n"
    (empty / "dvc.lock").write_text(
        lock + "    - {path: data/prepared, hash: md5, md5: aa.dir, size: 1234, nfiles: 2}\n"
    )
    stages = {stage.address: stage for stage in read_pipeline().stages}
    assert stages["train_mgt@gnn_encoder"].seconds == 6.5
    assert (stages["prepare"].size, stages["prepare"].seconds) == (1234, None)


def rectangles(svg: ElementTree.Element, kind: str) -> list[Rectangle]:
    found = svg.findall(f"g[@class='{kind}']/rect")
    return [tuple(float(one.attrib[name]) for name in ("x", "y", "width", "height")) for one in found]  # type: ignore[misc]


def inside(inner: Rectangle, outer: Rectangle) -> bool:
    (x, y, w, h), (left, top, width, height) = inner, outer
    return left <= x and top <= y and x + w <= left + width and y + h <= top + height


def apart(a: Rectangle, b: Rectangle) -> bool:
    return a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]


def test_boxes_stand_apart_each_in_one_frame(pipeline: Pipeline) -> None:
    drawing = arrange(pipeline)
    svg = ElementTree.fromstring(draw_dag(drawing))
    frames, boxes = rectangles(svg, "frame"), rectangles(svg, "stage")
    assert len(boxes) == len(drawing.boxes) and {box[2:] for box in boxes} == {(WIDTH, HEIGHT)}
    assert all(apart(a, b) for a, b in [*combinations(boxes, 2), *combinations(frames, 2)])
    assert all(sum(inside(box, frame) for frame in frames) == 1 for box in boxes)
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    assert all(inside(frame, (0, 0, width, height)) for frame in frames)
    assert len(svg.findall("path")) == len(drawing.arrows)


def test_every_run_of_a_stage_is_told(pipeline: Pipeline) -> None:
    svg = ElementTree.fromstring(draw_dag(arrange(pipeline)))
    told = [title.text or "" for title in svg.findall("g[@class='stage']/title")]
    systems = [f"{name}@{one}" for name, _, of in (t.partition(": ") for t in told) for one in of.split(", ") if of]
    once = [title for title in told if ": " not in title]
    assert sorted([*systems, *once]) == sorted(stage.address for stage in pipeline.stages)


def test_tables_of_times_and_sizes() -> None:
    stages = [
        Stage(address="bm25", outs=("data/bm25",), seconds=None, size=None),
        Stage(address="retrieve@pair", outs=("data/runs/pair",), seconds=2.0, size=2048),
        Stage(address="retrieve@bm25", outs=("data/runs/bm25",), seconds=None, size=1024),
    ]
    pipeline = Pipeline(stages=stages, arrows=set())
    assert stages_table(pipeline).rows == [
        ["bm25", "1", "–", "–"],
        ["retrieve", "2", "≥ 2.0 s", "3.0 KiB"],
        ["all", "3", "≥ 2.0 s", "3.0 KiB"],
    ]
    assert runs_table(pipeline).rows[1] == ["retrieve@pair", "2.0 s", "2.0 KiB", "data/runs/pair"]
