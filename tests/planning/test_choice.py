"""What is chosen on literal data and machines: it fits where it says so, reads 95% whole, keeps the floors."""

from dataclasses import replace
from typing import Any

import pytest

from gnn_encoder.inspection.lengths import Lengths
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.stage import read_stages
from gnn_encoder.planning.choice import Choice, Chooser
from gnn_encoder.planning.command import hurts
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import main_branch, mgt_steps, plan

from ..project import ROOT
from .conftest import make_facts, make_machine

BASE, STAGES = load_params(ROOT / "params.yaml"), main_branch(read_stages(ROOT))


def choose(
    facts: Facts, machine: Machine, minutes: float | None = None, base: Params = BASE, fixed: tuple[str, ...] = ()
) -> Choice:
    return Chooser(base=base, facts=facts, machine=machine, stages=STAGES, minutes=minutes, fixed=fixed).choose()


def chosen(choice: Choice) -> dict[str, Any]:
    return {one.name: one.value for one in choice.values}


@pytest.mark.parametrize(("speed", "minutes"), [(1, 3), (1, 90), (20, 15)])
@pytest.mark.parametrize("size", [(240, 714), (27_413, 12_889)])
def test_it_ends_in_time_where_it_says_so(size: tuple[int, int], speed: float, minutes: float) -> None:
    data = make_facts(passages=size[0], queries=size[1])
    choice = choose(data, make_machine(speed), minutes)
    values = chosen(choice)
    assert data.passage_tokens.unread(values["encoder.passage_length"]) <= 0.05
    assert values["data.train_queries"] is None
    assert (values["denoise.queries"] or size[1]) >= min(size[1], 1000)
    if choice.plan.minutes > minutes:  # then all is conceded that may be
        assert values["mgt.edge_features"] == "product" and values["denoise.candidates"] == 4
        assert values["retrieve.depth"] == 100 and "R@1000" not in values["evaluate.measures"]


@pytest.mark.parametrize("tokens", [30, 100, 150, 600])
def test_without_a_limit_all_is_used_and_95_percent_are_read_whole_if_the_model_can(tokens: int) -> None:
    data = make_facts(tokens=tokens)
    choice = choose(data, make_machine())
    values = chosen(choice)
    assert (values["mgt.edge_features"], values["denoise.queries"]) == ("cross_encoder", None)
    needed = data.passage_tokens.whole(0.95)
    assert min(256, needed) <= values["encoder.passage_length"] <= min(256, needed + 7)
    section = choice.plan.params.train_dual_encoder
    assert section.epochs * round(12_889 / section.batch_size) >= 100


@pytest.mark.parametrize("tokens", [175, 600])
def test_cutting_is_advised_where_texts_are_longer_than_the_model_reads(tokens: int) -> None:
    """Whether little or much of them is left unread."""
    data = make_facts(tokens=tokens)
    (told,) = hurts(choose(data, make_machine()).plan)
    longer = "3% of the texts are longer than the 256 tokens that the model reads: "
    # Of 300 to 900 tokens 256 are read, all others are cut: the mean of 1 - 256 / n is 53%.
    unread = "100% of the passages are cut after 256 tokens, and 53% of one is not read on average: "
    advice = "cut them: `python scripts/make_beir.py cut FOLDER CUT --words 150 --overlap 25`"
    assert told == (longer if tokens == 175 else unread) + advice


@pytest.mark.parametrize(("queries", "fewest"), [(714, 48), (3000, 80), (12_889, 80)])
def test_the_gnn_gets_enough_steps(queries: int, fewest: int) -> None:
    for minutes in (30, None):
        choice = choose(make_facts(passages=2000, queries=queries), make_machine(10), minutes)
        params = choice.plan.params
        alone = params.mgt.alone
        steps = alone.epochs * mgt_steps(params, alone, choice.plan.facts.train)[0]
        control = params.train_no_gnn.epochs * mgt_steps(params, params.train_no_gnn, choice.plan.facts.train)[0]
        assert control <= steps + 1
        assert steps >= fewest and alone.evaluate_every * alone.patience == pytest.approx(steps, abs=5)
        assert queries * params.mgt.beta >= 24


def test_passages_keep_their_vectors_while_e_q_learns() -> None:
    """Four passes over few queries, part of one over many, none where time is very short."""
    few, many = (choose(make_facts(queries=queries), make_machine()) for queries in (6000, 200_000))
    assert [chosen(one)["mgt.joint.softmax"] for one in (few, many)] == ["corpus", "corpus"]
    assert chosen(few)["mgt.joint.epochs"] == 4.0 and 0 < chosen(many)["mgt.joint.epochs"] < 0.5
    assert chosen(choose(make_facts(queries=20_000), make_machine(0.1), 1))["mgt.joint.epochs"] == 0


def test_where_time_is_short_m_ce_scores_candidates_of_fewer_queries() -> None:
    """Of those that M_de's steps read, once each. Every label stays."""
    many, few = (choose(make_facts(queries=10_000), make_machine(4), minutes) for minutes in (None, 12))
    assert (chosen(many)["denoise.queries"], chosen(many)["train_dual_encoder.epochs"]) == (None, 2.57)  # 400 steps
    values = chosen(few)
    assert 1000 <= values["denoise.queries"] < 10_000 and few.plan.facts.train == 10_000
    assert values["train_dual_encoder.epochs"] == 1
    assert few.plan.minutes < many.plan.minutes


def test_m_ce_scores_all_candidates_where_the_user_set_passes() -> None:
    section = BASE.train_dual_encoder.model_copy(update={"epochs": 0.1})
    base = BASE.model_copy(update={"train_dual_encoder": section})
    choice = choose(make_facts(queries=10_000), make_machine(4), 12, base, ("train_dual_encoder.epochs",))
    assert chosen(choice)["denoise.queries"] is None


def test_sizes_are_within_a_tiny_corpus() -> None:
    values = chosen(choose(make_facts(passages=12, queries=9), make_machine(), 30))
    assert values["mine_candidates.depth"] <= 12 and values["bm25.depth"] <= 12 and values["build_graph.k"] >= 1
    assert values["denoise.range_min"] < values["denoise.range_max"] <= values["mine_candidates.depth"]
    assert values["train_retriever.batch_size"] >= 2 and values["mgt.alone.batch_size"] >= 2


def test_what_the_user_set_is_planned_with() -> None:
    """Training with all queries, shorter passages, larger folds and batches, and a teacher of PAIR's own."""
    set_ = {"data": {"train_queries": None}, "encoder": {"passage_length": 64}, "mgt": {"beta": 0.25}}
    changed = {name: BASE.value(name).model_copy(update=values) for name, values in set_.items()}
    alone = BASE.mgt.alone.model_copy(update={"batch_size": 32})
    changed["mgt"] = changed["mgt"].model_copy(update={"alone": alone})
    base = BASE.model_copy(update=changed)
    fixed = ("data.train_queries", "encoder.passage_length", "mgt.beta", "mgt.alone.batch_size", "pair")
    choice = choose(make_facts(), make_machine(), 5, base, fixed)
    values, params = chosen(choice), choice.plan.params
    assert choice.plan.minutes > 5 and not values.keys() & {*fixed, "pair.depth"}
    assert (choice.plan.facts.train, params.encoder.passage_length) == (12_889, 64)
    # 4 folds of 3,222 queries are 101 batches each, with 3 evaluations.
    assert (values["mgt.alone.epochs"], values["mgt.alone.evaluate_every"]) == (1, 135)
    assert (values["denoise.queries"], values["train_dual_encoder.epochs"]) == (1280, 1)  # 20 steps


def test_more_time_is_never_used_for_shorter_texts() -> None:
    choices = {minutes: choose(make_facts(), make_machine(2), minutes) for minutes in (10, 20, 40, 200)}
    fitting = [one for minutes, one in choices.items() if one.plan.minutes <= minutes]
    lengths = [chosen(one)["encoder.passage_length"] for one in fitting]
    assert lengths == sorted(lengths) and len(lengths) >= 2


def test_chunks_fit_into_the_memory() -> None:
    small, large = (choose(make_facts(tokens=170), make_machine(memory=size * 2**30)) for size in (3, 64))
    assert chosen(small)["train_dual_encoder.chunk_size"] < chosen(large)["train_dual_encoder.chunk_size"] == 128


def test_what_hurts() -> None:
    data, machine = make_facts(tokens=100), make_machine(20)
    unread = sum(1 - 48 / tokens for tokens in range(50, 151)) / 101
    assert next(hurts(choose(data, machine, 60, fixed=("encoder.passage_length",)).plan)) == (
        f"100% of the passages are cut after 48 tokens, and {unread:.0%} of one is not read on average: "
        "raise encoder.passage_length, up to 256"
    )
    assert list(hurts(choose(data, machine, 60).plan)) == []
    giants = replace(data, passage_tokens=Lengths.of([*data.passage_tokens.counts, 5_000_000, 4_000_000]))
    assert [line.split(":")[0] for line in hurts(choose(giants, machine, 60).plan)] == [
        "half of all tokens are in 1 of 103 passages, up to 5,000,000 in one"
    ]
    same = choose(replace(data, copies=1_200, own=60), machine, 60).plan
    assert [line.split(":")[0] for line in hurts(same)] == [
        "1,200 passages are exact copies of another",
        "60 queries are passages themselves",
    ]
    few = choose(make_facts(queries=90), machine, 60).plan
    assert [line.split(":")[0] for line in hurts(few)] == ["90 training queries are few", "15 dev queries are few"]


@pytest.mark.parametrize(
    ("passages", "queries", "told"),
    [
        (0.61, 0.0, "61% of the passages' tokens are"),
        (0.0, 0.4, "40% of the queries' tokens are"),
        (0.61, 0.4, "61% of the passages' tokens and 40% of the queries' tokens are"),
    ],
)
def test_a_language_that_the_model_does_not_know(passages: float, queries: float, told: str) -> None:
    data = make_facts()
    tokens = {"passage_tokens": (data.passage_tokens, passages), "query_tokens": (data.query_tokens, queries)}
    unknown = replace(data, **{name: replace(known, unknown=share) for name, (known, share) in tokens.items()})
    (line,) = hurts(choose(unknown, make_machine()).plan)
    assert line.startswith(f"{BASE.encoder.model}: {told} unknown to it, so that it cannot read this language; set")


def test_longer_passages_are_advised_only_where_that_is_enough() -> None:
    """Of one text in ten nearly all is unread at any length."""
    data = replace(make_facts(), passage_tokens=Lengths.of([*range(60, 150), *10 * [5_000_000]]))
    told = list(hurts(choose(data, make_machine(), fixed=("encoder.passage_length",)).plan))
    assert "cut them: " in told[0] and "raise" not in told[0]


@pytest.mark.parametrize(("factory", "told"), [("Flat", "143.1"), ("HNSW32", "143.1"), ("IVF65536,PQ64", None)])
def test_too_little_main_memory_is_told_with_the_parameter(factory: str, told: str | None) -> None:
    """100 million passages, of which 48 tokens are read, and 384 numbers of each in an index; PQ64 takes 74 bytes."""
    params = BASE.model_copy(update={"index": BASE.index.model_copy(update={"factory": factory})})
    planned = plan(params, make_facts(passages=100_000_000), make_machine(), STAGES)
    found = [line for line in hurts(planned) if "main memory" in line]
    there = "of main memory, and this machine has 16.0 GiB"
    assert found[0] == f"bm25 needs about 51.3 GiB {there}: bring fewer passages"
    cure = "take a smaller index.factory, such as IVF65536,PQ64"
    assert found[1:] == ([f"baselines needs about {told} GiB {there}: {cure}"] if told else [])
