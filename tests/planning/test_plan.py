"""What the stages of the main branch do, counted by hand, and what that takes."""

from dataclasses import replace
from typing import Any

import pytest

from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.stage import Declared, read_stages
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import count, main_branch, mgt_steps, plan
from gnn_encoder.planning.setting import Setting

from ..project import ROOT
from .conftest import make_facts, make_machine

MAIN: dict[str, Declared] = {stage.address: stage for stage in main_branch(read_stages(ROOT))}


def params(section: str = "seed", **values: Any) -> Params:
    experiment = load_params(ROOT / "params.yaml")
    return experiment.model_copy(
        update={section: experiment.value(section).model_copy(update=values)} if values else {}
    )


def steps(address: str, found: Params, facts: Facts) -> dict[str, float]:
    """How many of each kind."""
    counted = count(MAIN[address], Setting(found, facts, make_machine()))
    return {kind: sum(number for one, number in counted if one == kind) for kind, _ in counted}


def test_every_stage_of_the_main_branch_has_steps(facts: Facts) -> None:
    for address in MAIN:
        assert any(steps(address, params(), facts).values()) or address == "embed_edges@gnn_encoder"


def test_seconds_are_steps_times_seconds_a_step(facts: Facts, machine: Machine) -> None:
    """27,413 passages of 50 to 150 tokens, of which 48 are read."""
    assert steps("cache_passages@dual_encoder", params(), facts) == {"read": 27_413 * 48}
    planned = plan(params(), facts, machine, [MAIN["cache_passages@dual_encoder"]])
    assert planned.stages == {"cache_passages@dual_encoder": pytest.approx(1.5 + 27_413 * 48 * 1e-4)}


def test_training_of_m_de_and_gradient_caching(facts: Facts) -> None:
    """12,889 queries are 201 batches of 65, half of which are taken; passages have 48 tokens, queries 16 or 8.

    A side is encoded twice if it has more tokens than a chunk.
    """
    asked, read = 65 * (3 * 8 + 6 * 16) / 9, 130 * 48
    whole, cached, both = (
        steps(
            "train_dual_encoder@dual_encoder",
            params("train_dual_encoder", chunk_size=chunk, epochs=0.5, negatives=1),
            facts,
        )
        for chunk in (130, 64, 8)
    )
    assert whole["train"] == cached["train"] == both["train"] == pytest.approx(100 * (asked + read))
    assert cached["read"] - whole["read"] == pytest.approx(100 * read)
    assert both["read"] - whole["read"] == pytest.approx(100 * (asked + read))


def test_passes_of_masked_graph_training() -> None:
    """20 folds of 644 queries are 5 batches of 129 each."""
    base = params("mgt", beta=0.05)
    assert mgt_steps(base, base.mgt.alone.model_copy(update={"batch_size": 128}), 12_889) == (100, 129)


def test_products_cost_nothing_to_embed(facts: Facts) -> None:
    dear, cheap = (
        steps("embed_edges@gnn_encoder", params("mgt", edge_features=kind), facts)
        for kind in ("cross_encoder", "product")
    )
    assert dear["read"] > 1e6 and cheap == {}


@pytest.mark.parametrize(("wanted", "nodes"), [(0, 3000), (1000, 4000), (9000, 8000), (None, 8000)])
def test_queries_without_labels_are_nodes_too(wanted: int | None, nodes: int) -> None:
    facts = replace(make_facts(queries=3000), unlabelled=5000)
    found = steps("build_graph@gnn_encoder", params("build_graph", unlabelled=wanted), facts)
    assert found["search"] == nodes * facts.passages


def test_a_machine_twice_as_fast_takes_half_the_time(facts: Facts) -> None:
    slow, fast = (plan(params(), facts, make_machine(speed), [MAIN["train_no_gnn"]]).minutes for speed in (1, 2))
    assert slow == pytest.approx(2 * fast)
