"""Every stage of the main branch has a model, and the branch is what DVC would run."""

from dataclasses import replace
from typing import Any

import pytest

from gnn_encoder.pipeline.declared import read_stages
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import plan
from gnn_encoder.planning.stages import STAGES, Setting, branch, cost_of, start

from ..project import ROOT
from .conftest import make_facts


def params() -> Params:
    return load_params(ROOT / "params.yaml")


def test_all_stages_of_the_main_branch_are_planned(facts: Facts, machine: Machine) -> None:
    main = branch(read_stages(ROOT))
    assert plan(params(), facts, machine, main, times=None).unplanned == []


def test_the_branch_ends_with_its_evaluation_and_each_stage_follows_what_it_reads() -> None:
    main = branch(read_stages(ROOT))
    assert main[-1].address == "evaluate@gnn_encoder"
    made: list[str] = []
    for stage in main:
        for path in stage.inputs:
            if path.parts[0] == "data":
                assert any(path.as_posix().startswith(out) or out.startswith(path.as_posix()) for out in made), path
        made += [out.as_posix() for out in stage.outs]
    names = {stage.address for stage in main}
    assert {"prepare", "train_mgt@gnn_encoder", "train_no_gnn"} <= names
    assert not {"rerank", "compare", "pair_label", "train_generator"} & names


def test_a_stage_without_a_model_is_named(facts: Facts, machine: Machine) -> None:
    stages = branch(read_stages(ROOT))
    kept = STAGES.pop("measure")
    try:
        found = plan(params(), facts, machine, stages, times=None)
    finally:
        STAGES["measure"] = kept
    assert "measure@bm25" in found.unplanned
    assert all(stage.start > 0 for stage in found.stages)


def test_a_control_that_gains_nothing_stops_after_some_evaluations(facts: Facts, machine: Machine) -> None:
    """20 folds of 644 queries are 5 batches each: 200 steps in two passes, of which it trains 3 * 10."""
    mgt = params().mgt.model_copy(
        update={"gnn_epochs": 2, "epochs": 0, "beta": 0.05, "batch_size": 128, "evaluate_every": 10, "patience": 3}
    )
    stages = branch(read_stages(ROOT))
    found = plan(params().model_copy(update={"mgt": mgt}), facts, machine, stages, times=None)
    work = {stage.address: stage.seconds for stage in found.stages}
    spared = 0.85 * work["train_no_gnn"] + work["cache_passages@no_gnn"]
    assert found.control == pytest.approx(spared / 60) and 0 < found.control < found.minutes


def test_the_default_run_costs_what_its_parts_cost(facts: Facts, machine: Machine) -> None:
    """The passages of the corpus through M_de, by hand: 27,413 of 50 to 150 tokens, of which 48 are read."""
    stages = {stage.address: stage for stage in read_stages(ROOT)}
    cost = cost_of(stages["cache_passages@dual_encoder"], Setting(params(), facts, machine))
    assert cost is not None
    rate = (1 + 0.25 * (48 - 32) / (256 - 32)) / 10_000
    assert abs(cost.seconds - 27_413 * 48 * rate) < 0.01
    assert cost.disk == 27_413 * 384 * 2
    assert start(cost, machine, served=False) == 0.3 + 3.0 + 0.5
    assert start(cost, machine, served=True) == 0.3 + 0.3 + 0.5


def changed(section: str, **values: Any) -> Params:
    experiment = params()
    return experiment.model_copy(update={section: getattr(experiment, section).model_copy(update=values)})


def test_products_cost_nothing_to_embed(machine: Machine) -> None:
    stage = next(one for one in read_stages(ROOT) if one.address == "embed_edges@gnn_encoder")
    kinds = (changed("mgt", edge_features=kind) for kind in ("cross_encoder", "product"))
    costs = [cost_of(stage, Setting(one, make_facts(), machine)) for one in kinds]
    assert costs[0] is not None and costs[1] is not None
    assert costs[0].seconds > 100 * costs[1].seconds


@pytest.mark.parametrize(("wanted", "nodes"), [(0, 3000), (1000, 4000), (9000, 8000), (None, 8000)])
def test_queries_without_labels_are_nodes_too(machine: Machine, wanted: int | None, nodes: int) -> None:
    facts = replace(make_facts(queries=3000), unlabelled=5000)
    setting = Setting(changed("build_graph", unlabelled=wanted), facts, machine)
    assert setting.nodes == nodes
    stage = next(one for one in read_stages(ROOT) if one.address == "build_graph@gnn_encoder")
    cost = cost_of(stage, setting)
    assert cost is not None and cost.disk == 8 * nodes * params().build_graph.k
