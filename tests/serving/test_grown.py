"""A server over an index that grows while it answers."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from gnn_encoder.growing.commands import add, delete

from .conftest import Start

QUERY = "Which milk is halloumi made with?"
NEW = {"_id": "new-1", "title": "", "text": "Halloumi is a cheese that is made with the milk of goats and sheep."}


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not met():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_what_was_added_is_found_and_what_was_deleted_is_not(root: Path, start: Start) -> None:
    server = start("--max-k", "1000")
    before = server.get("/search", query=QUERY, k=5).json()["hits"]
    gone = before[0]["pid"]
    (root / "new.jsonl").write_text(json.dumps(NEW) + "\n", encoding="utf-8")
    add("gnn_encoder", root / "new.jsonl")
    delete("gnn_encoder", [gone])
    systems = {one["name"]: one for one in server.get("/systems").json()["systems"]}
    built = systems["gnn_encoder"]["passages"]
    until(lambda: server.get("/passages/new-1").status_code == 200)
    until(lambda: server.get(f"/passages/{gone}").status_code == 404)

    assert server.get("/passages/new-1").json() == {"pid": "new-1", "title": "", "text": NEW["text"]}
    hits = server.get("/search", query=QUERY, k=built).json()["hits"]
    assert "new-1" in [hit["pid"] for hit in hits] and gone not in [hit["pid"] for hit in hits] and len(hits) == built
    beside = server.get("/search", query=QUERY, k=built, system="dual_encoder").json()["hits"]
    assert gone in [hit["pid"] for hit in beside], "the other system's index has not changed"
    assert server.get("/systems").json()["systems"][0]["passages"] == built

    score = next(hit["score"] for hit in hits if hit["pid"] == "new-1")
    told = server.get("/explain", query=QUERY, pid="new-1").json()
    assert "graph" in told, told
    assert told["graph"]["n_queries"] == len(told["graph"]["queries"]) > 0 and told["note"] is None
    assert told["before"] is None, "M_de's index has no such passage"
    assert abs(told["after"]["score"] - score) < 1e-6
    old = server.get("/explain", query=QUERY, pid=before[1]["pid"]).json()
    assert old["graph"] is not None and old["before"]["score"] is not None
