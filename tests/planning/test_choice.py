"""What is chosen on literal data and machines: it fits where it says so, reads 95% whole, keeps the floors."""

from typing import Any

import pytest

from gnn_encoder.mgt.masking import fold_count
from gnn_encoder.pipeline.declared import Declared, read_stages
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.planning.choice import Choice, choose, enough
from gnn_encoder.planning.command import summary
from gnn_encoder.planning.plan import hurts, main_branch
from gnn_encoder.planning.stages import batches_of

from ..project import ROOT
from .conftest import make_facts, make_machine


@pytest.fixture(scope="module")
def base() -> Params:
    return load_params(ROOT / "params.yaml")


@pytest.fixture(scope="module")
def stages() -> list[Declared]:
    return main_branch(read_stages(ROOT))


def chosen(choice: Choice) -> dict[str, Any]:
    return {one.name: one.value for one in choice.values}


@pytest.mark.parametrize(("speed", "minutes"), [(1, 3), (1, 90), (20, 15)])
@pytest.mark.parametrize("size", [(240, 714), (27_413, 12_889)])
def test_it_ends_in_time_where_it_says_so(
    base: Params, stages: list[Declared], size: tuple[int, int], speed: float, minutes: float
) -> None:
    data = make_facts(passages=size[0], queries=size[1])
    choice = choose(base, data, make_machine(speed), stages, minutes=minutes)
    assert choice.fits == (choice.plan.minutes <= minutes)
    values = chosen(choice)
    assert data.passage_tokens.unread(values["encoder.passage_length"]) <= 0.05
    assert (values["data.train_queries"] or size[1]) >= min(size[1], 1000)
    if not choice.fits:  # then all is conceded that may be
        assert values["mgt.edge_features"] == "product" and values["denoise.candidates"] == 4


@pytest.mark.parametrize("tokens", [30, 100, 150])
def test_without_a_limit_95_percent_of_the_passages_are_read_whole(
    base: Params, stages: list[Declared], tokens: int
) -> None:
    data = make_facts(tokens=tokens)
    choice = choose(base, data, make_machine(), stages, minutes=None)
    length = chosen(choice)["encoder.passage_length"]
    assert choice.fits and data.passage_tokens.longer(length) <= 0.05
    assert length - 8 < data.passage_tokens.whole(0.95)  # and not longer than that needs
    assert chosen(choice)["mgt.edge_features"] == "cross_encoder"
    assert chosen(choice)["data.train_queries"] is None


def test_no_length_is_beyond_the_model(base: Params, stages: list[Declared]) -> None:
    data, machine = make_facts(tokens=600), make_machine()
    values = chosen(choose(base, data, machine, stages, minutes=None))
    assert values["encoder.passage_length"] == values["train_cross_encoder.max_length"] == 256


@pytest.mark.parametrize("tokens", [175, 600])
def test_cutting_is_advised_where_texts_are_longer_than_the_model_reads(
    base: Params, stages: list[Declared], tokens: int
) -> None:
    """Whether little or much of them is left unread."""
    data, machine = make_facts(tokens=tokens), make_machine()
    (told,) = hurts(choose(base, data, machine, stages, minutes=None).plan)
    longer = "3% of the texts are longer than the 256 tokens that the model reads: "
    unread = f"passages are cut after 256 tokens: {data.passage_tokens.unread(256):.0%} of the text is never read; "
    setting = "'data.passages={words: 150, overlap: 25}'"
    advice = f"cut them: the same `gnn-encoder init` again, with --over {setting} at its end"
    assert told == (longer if tokens == 175 else unread) + advice


@pytest.mark.parametrize(("queries", "fewest"), [(714, 48), (3000, 80), (12_889, 80)])
def test_the_gnn_gets_enough_steps_and_folds_are_no_smaller_than_a_batch(
    base: Params, stages: list[Declared], queries: int, fewest: int
) -> None:
    data = make_facts(passages=2000, queries=queries)
    for minutes in (30, None):
        choice = choose(base, data, make_machine(10), stages, minutes=minutes)
        params = choice.plan.params
        steps = params.mgt.gnn_epochs * batches_of(params, choice.plan.facts.train)[0]
        assert steps >= fewest
        assert queries // fold_count(params.mgt.beta) >= 24
        assert params.mgt.evaluate_every == pytest.approx(steps / 10, abs=1)


def test_queries_that_training_leaves_out_are_nodes_of_the_graph(base: Params, stages: list[Declared]) -> None:
    assert base.build_graph.unlabelled is None and base.pair.unlabelled_fraction == 0.9
    choice = choose(base, make_facts(queries=10_000), make_machine(), stages, minutes=15)
    found, values = choice.plan.facts, chosen(choice)
    assert found.train == values["data.train_queries"] < 10_000
    assert found.unlabelled == min(10_000 - found.train, 9_000)
    (k,) = (one for one in choice.values if one.name == "build_graph.k")
    assert f", {k.value * (found.train + found.unlabelled) / 27_413:.1f} queries per passage" in k.why


def test_trainings_have_a_hundred_steps_where_time_allows(base: Params, stages: list[Declared]) -> None:
    for queries in (714, 3000, 12_889):
        data = make_facts(queries=queries)
        params = choose(base, data, make_machine(20), stages, minutes=None).plan.params
        section = params.train_dual_encoder
        assert section.epochs * round(queries / section.batch_size) >= 100
        assert section.batch_size in (32, 64)


def test_little_data_takes_little_of_the_time(base: Params, stages: list[Declared]) -> None:
    data = make_facts(passages=240, queries=714)
    assert enough(data) == 3.5
    long = choose(base, data, make_machine(10), stages, minutes=600)
    assert long.plan.minutes <= 4
    assert chosen(long)["encoder.passage_length"] >= data.passage_tokens.whole(0.95)


def test_depths_are_within_a_tiny_corpus(base: Params, stages: list[Declared]) -> None:
    values = chosen(choose(base, make_facts(passages=12, queries=9), make_machine(), stages, minutes=30))
    assert values["mine_candidates.depth"] <= 12 and values["bm25.depth"] <= 12 and values["build_graph.k"] >= 1
    assert values["denoise.range_min"] < values["denoise.range_max"] <= values["mine_candidates.depth"]
    assert values["train_retriever.batch_size"] >= 2 and values["mgt.batch_size"] >= 2


def test_what_the_user_set_is_not_chosen(base: Params, stages: list[Declared]) -> None:
    own = base.model_copy(update={"encoder": base.encoder.model_copy(update={"passage_length": 64})})
    choice = choose(own, make_facts(), make_machine(20), stages, minutes=60, fixed={"encoder.passage_length", "pair"})
    assert "encoder.passage_length" not in chosen(choice) and "pair.teacher.max_length" not in chosen(choice)
    assert choice.plan.params.encoder.passage_length == 64


def test_more_time_is_never_used_for_shorter_texts(base: Params, stages: list[Declared]) -> None:
    data, machine = make_facts(), make_machine(2)
    choices = [choose(base, data, machine, stages, minutes=minutes) for minutes in (10, 20, 40, 200)]
    lengths = [chosen(one)["encoder.passage_length"] for one in choices if one.fits]
    assert lengths == sorted(lengths) and len(lengths) >= 2


def test_chunks_fit_into_the_memory(base: Params, stages: list[Declared]) -> None:
    data = make_facts(tokens=170)
    small, large = (
        choose(base, data, make_machine(memory=memory), stages, minutes=None) for memory in (3 * 2**30, 64 * 2**30)
    )
    assert chosen(small)["train_dual_encoder.chunk_size"] < chosen(large)["train_dual_encoder.chunk_size"] == 128
    costs = {stage.address: stage for stage in small.plan.stages}
    assert costs["train_dual_encoder@dual_encoder"].memory <= 1.5 * 2**30
    told = "train_cross_encoder needs 4.7 GiB of memory, there are 3.0 GiB"
    assert hurts(small.plan)[0].startswith(told)


def test_what_hurts(base: Params, stages: list[Declared]) -> None:
    data, machine = make_facts(tokens=100), make_machine(20)
    choice = choose(base, data, machine, stages, minutes=60, fixed={"encoder.passage_length"})
    unread = sum(max(0, tokens - 48) for tokens in range(50, 151)) / sum(range(50, 151))
    assert hurts(choice.plan)[0] == (
        f"passages are cut after 48 tokens: {unread:.0%} of the text is never read; "
        "raise encoder.passage_length, up to 256"
    )
    assert hurts(choose(base, data, machine, stages, minutes=60).plan) == []
    few = choose(base, make_facts(queries=90), machine, stages, minutes=60).plan
    assert [line.split(":")[0] for line in hurts(few)] == ["90 training queries are few", "15 dev queries are few"]


@pytest.mark.parametrize(("model", "told"), [("some/other", True), (None, False)])
def test_a_teacher_from_another_model_was_not_timed(
    base: Params, stages: list[Declared], model: str | None, told: bool
) -> None:
    teacher = base.train_cross_encoder.model_copy(update={"model": model})
    params = base.model_copy(update={"train_cross_encoder": teacher})
    lines = summary(choose(params, make_facts(), make_machine(), stages, minutes=None).plan)
    assert ("  M_ce is planned as if it started from encoder.model: some/other was not timed" in lines) == told
