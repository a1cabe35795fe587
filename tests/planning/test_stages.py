"""What the stages of the main branch do, counted by hand, and what that takes."""

from dataclasses import replace
from typing import Any

import pytest

from gnn_encoder.pipeline.declared import Declared, read_stages
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine, Speeds
from gnn_encoder.planning.plan import main_branch, plan
from gnn_encoder.planning.stages import STAGES, Setting, Work, batches_of

from ..project import ROOT
from .conftest import make_facts, make_machine


def params(section: str = "seed", **values: Any) -> Params:
    experiment = load_params(ROOT / "params.yaml")
    return experiment.model_copy(
        update={section: experiment.value(section).model_copy(update=values)} if values else {}
    )


def work(address: str, at: Setting) -> Work:
    stage = next(one for one in main_branch(read_stages(ROOT)) if one.address == address)
    return STAGES[stage.name](at, stage)


def test_seconds_are_units_times_seconds_a_unit() -> None:
    kinds = ("read", "train", "train_pair", "step", "step_pair", "gnn", "search", "index", "bm25", "start", "load")
    speeds = Speeds(**{kind: 10.0**-place for place, kind in enumerate(kinds)})
    done = Work(read=2, train_pair=3, load=1, memory=5.0) + Work(read=1, other=4.0, disk=7.0, memory=9.0)
    assert (done.read, done.disk, done.memory) == (3, 7.0, 9.0)
    assert done.seconds(speeds) == pytest.approx(3 * 1 + 3 * 0.01 + 1e-8 + 4)


def test_all_stages_of_the_main_branch_are_planned_and_an_unknown_one_is_named(
    facts: Facts, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = main_branch(read_stages(ROOT))
    assert plan(params(), facts, machine, main).unplanned == ()
    monkeypatch.delitem(STAGES, "denoise")
    assert plan(params(), facts, machine, main).unplanned == ("denoise",)


def test_a_control_that_gains_nothing_stops_after_some_evaluations(facts: Facts, machine: Machine) -> None:
    """20 folds of 644 queries are 5 batches each: 200 steps in two passes, of which it trains 3 * 10."""
    values = {"gnn_epochs": 2, "epochs": 0, "beta": 0.05, "batch_size": 128, "evaluate_every": 10, "patience": 3}
    found = plan(params("mgt", **values), facts, machine, main_branch(read_stages(ROOT)))
    assert batches_of(found.params, facts.train) == (100, 129)
    seconds = {stage.address: stage.seconds for stage in found.stages}
    spared = 0.85 * seconds["train_no_gnn"] + seconds["cache_passages@no_gnn"]
    assert found.control == pytest.approx(spared / 60) and 0 < found.control < found.minutes


def test_the_passages_through_m_de(facts: Facts, machine: Machine) -> None:
    """27,413 of 50 to 150 tokens, of which 48 are read."""
    at = Setting(params(), facts, machine)
    found = work("cache_passages@dual_encoder", at)
    assert (found.read, found.disk, found.load) == (27_413 * 48, 27_413 * 384 * 2, 1)
    assert found.seconds(machine.speeds) == pytest.approx(27_413 * 48 * 1e-4 + 0.5)


def test_training_of_m_de_and_gradient_caching(facts: Facts, machine: Machine) -> None:
    """12,889 queries are 201 batches of 65, half of which are taken; passages have 48 tokens, queries 16 or 8."""
    asked = (3 * 8 + 6 * 16) / 9
    (whole, cached) = (
        work(
            "train_dual_encoder@dual_encoder",
            Setting(params("train_dual_encoder", chunk_size=chunk, epochs=0.5, negatives=1), facts, machine),
        )
        for chunk in (130, 64)
    )
    steps = 100
    assert whole.train == cached.train == pytest.approx(steps * (65 * asked + 130 * 48)) and whole.step == steps
    assert cached.read - whole.read == pytest.approx(steps * (65 * asked + 130 * 48))
    assert cached.memory < whole.memory


def test_products_cost_nothing_to_embed(machine: Machine) -> None:
    dear, cheap = (
        work("embed_edges@gnn_encoder", Setting(params("mgt", edge_features=kind), make_facts(), machine))
        for kind in ("cross_encoder", "product")
    )
    assert dear.seconds(machine.speeds) > 100 * cheap.seconds(machine.speeds)


@pytest.mark.parametrize(("wanted", "nodes"), [(0, 3000), (1000, 4000), (9000, 8000), (None, 8000)])
def test_queries_without_labels_are_nodes_too(machine: Machine, wanted: int | None, nodes: int) -> None:
    facts = replace(make_facts(queries=3000), unlabelled=5000)
    at = Setting(params("build_graph", unlabelled=wanted), facts, machine)
    assert at.nodes == nodes and work("build_graph@gnn_encoder", at).search == nodes * facts.passages


def test_a_machine_twice_as_fast_takes_half_the_time(facts: Facts) -> None:
    main: list[Declared] = main_branch(read_stages(ROOT))
    slow, fast = (plan(params(), facts, make_machine(speed), main).stages for speed in (1, 2))
    (trained,) = ((a, b) for a, b in zip(slow, fast, strict=True) if a.address == "train_no_gnn")
    assert trained[0].seconds == pytest.approx(2 * trained[1].seconds)
