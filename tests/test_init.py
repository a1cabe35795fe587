"""`gnn-encoder init`: what it reads, chooses, writes, prints and refuses."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ruamel.yaml import YAML

from gnn_encoder import init as module
from gnn_encoder.data.prepare import open_source
from gnn_encoder.init import Contents, Sample, _values
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.text.encoder import DualEncoder

from .project import ROOT, call, printed, refusal

TINY, DEFAULT = ROOT / "tests" / "tiny", (ROOT / "params.yaml").read_text()
pytestmark = pytest.mark.usefixtures("empty")
MODEL, HEADER = f"encoder.model={TINY / 'model'}", "# Made by: gnn-encoder init "


init, refused = partial(printed, "init"), partial(refusal, "init")


def lines() -> list[str]:
    return Path("params.yaml").read_text().splitlines()


# --- values and configs over params.yaml ------------------------------------------------------------------------------


def test_one_value_changes_one_line() -> None:
    assert init("mgt.beta=0.1") == ["mgt.beta: 0.05 -> 0.1"]
    old = "  beta: 0.05               # share"
    assert DEFAULT.count(old) == 1
    expected = f"{HEADER}mgt.beta=0.1\n" + DEFAULT.replace(old, "  beta: 0.1                # share")
    assert Path("params.yaml").read_text() == expected


def test_a_config_and_values_which_win_over_it() -> None:
    """A section is laid over key by key; a new key stands in its section; comments are those of params.yaml."""
    Path("c.yaml").write_text("# G = a paper.\n\nmgt:\n  beta: 0.2   # G 4.3\n\n  layers: 1\n\nseed: 5\n")
    named = "data.names={train: a/train, test: a/test}"
    assert init("c.yaml", "mgt.layers=2", "data.path=null", "data.source=ir_datasets", named) == [
        *("mgt.beta: 0.05 -> 0.2", "seed: 13 -> 5", "data.source: insuranceqa -> ir_datasets"),
        *("data.names.train: not set -> a/train", "data.names.test: not set -> a/test"),
    ]
    top = f"{HEADER}c.yaml mgt.layers=2 data.path=null data.source=ir_datasets '{named}'"
    assert lines()[0] == top and [line.rpartition("#")[2] for line in DEFAULT.splitlines() if "#" in line] == [
        line.rpartition("#")[2] for line in lines()[1:] if "#" in line
    ]
    assert load_params().data.names is not None and load_params().mgt.layers == 2


@pytest.mark.parametrize("text", ["5.0e-5", "017", "1e3", "1e3x", "yes", "'yes'", '"5e-5"', "~", "[1]"])
def test_a_value_means_what_it_means_in_params_yaml(text: str) -> None:
    """Whatever is written: as YAML 1.2, which DVC reads and writes."""
    code, _, err = call("init", f"encoder.query_prefix={text}")
    meant = YAML(typ="safe").load(text)
    if meant is None or isinstance(meant, str):
        assert code == 0 and load_params().encoder.query_prefix == meant
    else:
        assert code == 2 and f"encoder.query_prefix is {meant!r}: input should be a valid string" in err


def test_a_path_is_read_as_other_values_are_and_may_begin_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    shutil.copytree(TINY / "beir", tmp_path / "home" / "my #1")
    init("data.source=beir", 'data.path="~/my #1"')
    assert '  path: "~/my #1"' in "\n".join(lines()) and open_source(load_params().data).files
    assert refused("data.path=~/no") == f"data.path is {tmp_path}/home/no: no such file or folder; correct it"


def test_a_second_experiment_is_refused_and_single_values_are_not() -> None:
    assert init("configs/nq.yaml", "seed=1")[-1].startswith("warning: data.path is /path/to/dpr, which is not there")
    by = "made by `gnn-encoder init configs/nq.yaml seed=1`, with which a second one would mix"
    for second in (["configs/msmarco.yaml"], ["--data", "beir", "--path", str(TINY / "beir")]):
        assert refused(*second) == f"params.yaml: {by}; `git checkout params.yaml` first"
    Path("mine").mkdir()
    mine = f"data.path: /path/to/dpr -> {Path('mine').absolute()}"
    assert init("mgt.beta=0.1", "data.path=mine") == ["mgt.beta: 0.05 -> 0.1", mine]
    init("data.unlabelled=log.txt")  # a queued experiment runs in a copy of the project
    assert load_params().data.unlabelled == str(Path("log.txt").absolute())
    assert [line for line in lines() if line.startswith(HEADER)] == lines()[:3]
    assert load_params().data.name == "nq" and load_params().seed == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to change: give --data, a file of configs/, or values such as mgt.beta=0.1"),
        (["configs/marco.yaml"], "configs/marco.yaml: no such file; give one of configs/, or a value such as"),
        (["seed=1", "configs/nq.yaml"], "'configs/nq.yaml': must be KEY=VALUE with a dotted key"),
        (["data.path="], "'data.path=': must be KEY=VALUE with a dotted key, such as mgt.beta=0.1 or data.path=null"),
        (["mgt.beta=[1"], "'mgt.beta=[1': not valid YAML: "),
        (["seed=9999-99-99"], "'seed=9999-99-99': not valid YAML: month must be in 1..12; correct it"),
        (["mgt.betta=0.1"], "mgt.betta=0.1: mgt.betta is not a parameter (value 0.1); remove it or correct its name"),
        (["mgt.beta=2"], "mgt.beta=2: mgt.beta is 2: input should be less than or equal to 0.5"),
        (["configs/nq.yaml", "data.source=beir"], "configs/nq.yaml data.source=beir: data.name is set"),
        (["mine_candidates.depth=9"], "mine_candidates.depth=9: denoise.range_m"),
        (["bad.yaml"], "bad.yaml: not valid YAML: "),
        (["empty.yaml"], "empty.yaml: is None: must be lines of `key: value`"),
        (["--path", "here"], "--path belongs to --data: name the source with it, such as --data beir"),
        (["--data", "beir", "--path", "nowhere"], "--path is nowhere: no such file or folder; correct it"),
        (["--data", "beir"], "data.path is null: source beir needs the folder that holds corpus.jsonl; set data.path"),
        (["--data", "beer"], "--data beer: data.source is 'beer'"),
        (["--data", "beir", "--path", "bad", MODEL], "corpus.jsonl, line 121: '[1]' is not"),
        (["--data", "beir", "configs/nq.yaml"], "'configs/nq.yaml': must be KEY=VALUE with a dotted key"),
        ([MODEL], "encoder.frozen_layers is 3: the model has 2 layers; lower it"),
        (["encoder.model=other"], "modules.json has Transformer, Dense, where Transformer, Pooling, "),
        (["other.yaml"], "modules.json has Transformer, Dense, where Transformer, Pooling, "),
        (
            ["data.source=ir_datasets", "data.name=a", "data.names={train: a, test: b}"],
            "data.name is set, which is not",
        ),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(arguments: list[str], message: str) -> None:
    Path("bad.yaml").write_text("mgt:\n  beta: 0.1\n  beta: 0.2\n")
    Path("empty.yaml").write_text("")
    Path("other.yaml").write_text("encoder: {model: other}\n")
    with Path(shutil.copytree(TINY / "beir", "bad"), "corpus.jsonl").open("a") as corpus:
        corpus.write("[1]\n")
    modules = '[{"path": "", "type": "m.Transformer"}, {"path": "1", "type": "m.Dense"}]'
    Path(shutil.copytree(TINY / "model", "other"), "modules.json").write_text(modules)
    assert message in refused(*arguments)


# --- your data --------------------------------------------------------------------------------------------------------


LEFT_OUT = "without a label, which are left out"


def your_data(*arguments: str, source: str = "beir", path: Path | str = TINY / "beir") -> list[str]:
    return init("--data", source, "--path", str(path), MODEL, *arguments)


def log_of_clicks(folder: Path) -> Path:
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(f'{{"_id": "p{i}", "text": "oven {i % 4}"}}\n' for i in range(5)))
    (folder / "log.tsv").write_text("query\tpid\n" + "".join(f"query {i}\tp{i % 5}\n" for i in range(40)) + "?\tp9\n")
    return folder


@pytest.mark.parametrize(
    ("source", "arguments", "passages", "queries"),
    [
        ("beir", [], "120", "60 to train with (64 judgements), 15 dev, 15 test"),
        ("msmarco", [], "8", f"3 to train with (4 judgements), 1 dev, 2 test, 1 {LEFT_OUT}"),
        ("again", [], "120", f"60 to train with (64 judgements), 15 dev, 60 test, 15 {LEFT_OUT}"),
        ("dpr", ["data.name=trivia"], "6", "2 to train with (2 judgements), 1 dev, 1 test"),
        ("log", [], "5, 1 of them copies of another", "31 to train with (31 judgements), 5 dev, 4 test"),
    ],
)
def test_what_a_source_holds_is_told(
    source: str, arguments: list[str], passages: str, queries: str, tmp_path: Path
) -> None:
    path = log_of_clicks(tmp_path / "log") if source == "log" else TINY / source
    if source == "again":  # test has the queries of train, and no other
        source, path = "beir", Path(shutil.copytree(TINY / "beir", tmp_path / "again"))
        shutil.copy(path / "qrels/train.tsv", path / "qrels/test.tsv")
    told = your_data(*arguments, source=source, path=os.path.relpath(path))
    assert Path(str(load_params().data.path)).is_absolute(), "a queued experiment runs in a copy of the project"
    assert told[:2] == [f"passages: {passages}", f"queries: {queries}"]
    share, verdict = next(line for line in told if " of the dev queries ask for " in line).split("%", 1)
    is_edge = int(share) > 50
    assert is_edge == load_params().mgt.labels and verdict.endswith(f"labels are {'' if is_edge else 'no '}edges")
    assert any(line.startswith("by the speed of a batch here, M_de encodes all passages in ") for line in told)
    assert any(line.startswith("warning: ") and " training queries are few: " in line for line in told)
    assert any("it reads 128 tokens" in line for line in told) and "params.yaml is written: " in told[-1]
    assert load_params().data.source == source


def test_texts_are_read_whole_and_the_user_s_values_stay() -> None:
    """Of 120 passages two have more than 48 tokens, and no query has more than 24."""
    assert "1.7% of the passages are cut after 48 tokens, 0.0% of the queries after 24" in your_data("mgt.beta=0.2")
    params = load_params()
    assert (params.encoder.passage_length, params.encoder.query_length) == (48, 24)
    assert params.train_cross_encoder.max_length == params.dual_cross.max_length == 72
    assert (params.mgt.beta, params.mgt.alone.batch_size) == (0.2, 12)  # 5 folds of 12 queries
    shutil.copy(ROOT / "params.yaml", "params.yaml")
    told = your_data("encoder.passage_length=16", "mgt.edge_features=cross_encoder")
    cure = "are longer than is read, and what is not read is not found: raise that length in section encoder"
    assert any(line.startswith("warning: ") and line.endswith(cure) for line in told)
    assert any("480 candidates and 1,500 edges" in line for line in told)  # 60 queries with 8 and with 25 passages
    assert (load_params().encoder.passage_length, load_params().train_cross_encoder.max_length) == (16, 40)


def test_a_tokenizer_s_lengths_and_unknown_tokens() -> None:
    params = load_params().encoder.model_copy(update={"model": str(TINY / "model")})
    sample = Sample.of(["a", "a b", "a b \u6f22 c"], DualEncoder.from_pretrained(params))
    assert sample.tokens.tolist() == [3, 4, 6] and sample.unknown == pytest.approx(1 / 7)  # [CLS] and [SEP] beside
    five = Sample([], np.array([50, 10, 20, 40, 30]), 0)
    assert [five.length(share) for share in (0.2, 0.21, 0.8, 0.95)] == [16, 24, 40, 56]  # batches are padded to 8
    assert five.cut(30) == 2 / 5 and five.mean(20) == (16 + 4 * 20) / 5


def chosen(
    queries: int, passages: int = 30_000, device: str = "cpu", retrieves: bool = True, again: float = 0.9
) -> dict[str, Any]:
    """What is chosen for passages of 50 to 149 tokens."""
    texts, asked = (Sample([], np.arange(*ends), 0) for ends in ((50, 150), (6, 15)))
    found = Contents(
        {"passages": {"passages": passages}}, 0, trained=queries, again=again, passages=texts, queries=asked
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "device", lambda: torch.device(device))
        return _values(load_params(ROOT / "params.yaml"), (), found, 256, 6, retrieves)


@pytest.mark.parametrize("queries", [9, 60, 714, 6_000, 500_000])
def test_trainings_read_as_many_texts_whatever_the_number_of_queries(queries: int) -> None:
    """M_de reads up to 5,000 queries twice, which M_ce scores; few are passed over at most ten times."""
    edges = {9: 25, 60: 25, 714: 25, 6_000: 16, 500_000: 5}  # at most 100,000 of them without a GPU, and 5 a query
    values, on_gpu, few = chosen(queries), chosen(queries, device="cuda"), chosen(queries, passages=4)
    assert [one["build_graph.k"] for one in (values, on_gpu, few)] == [edges[queries], 25, 4]
    rounds = round(1 / values["mgt.beta"])
    assert rounds == max(2, min(30, queries // 24)) and values["encoder.passage_length"] == 144
    default = load_params(ROOT / "params.yaml")
    for training in ("train_retriever", "train_cross_encoder", "train_dual_encoder"):
        usual, size = default.value(training), values[f"{training}.batch_size"]
        twice = 0 if training == "train_cross_encoder" or not usual.steps else 2 * min(queries, 5_000)
        read = min(max(usual.steps * usual.batch_size, twice), 10 * queries)
        assert 2 <= size <= queries and read <= size * values[f"{training}.steps"] < read + size
    raw = chosen(queries, retrieves=False)  # a model that has to learn what an embedding is
    assert values["train_retriever.steps"] == 0 and raw["train_retriever.steps"] == raw["train_dual_encoder.steps"]
    for phase in ("alone", "joint"):
        most = min(default.value(f"mgt.{phase}.batch_size"), queries // rounds)
        assert values[f"mgt.{phase}.batch_size"] == most and f"mgt.{phase}.steps" not in values
    by = (most / 100) ** 0.5  # as a batch of the default
    assert values["mgt.joint.encoder_learning_rate"] == pytest.approx(4e-5 * by, rel=0.05)
    assert values["mgt.joint.gnn_learning_rate"] == pytest.approx(1e-4 * by, rel=0.05)
    assert values["mgt.alone.learning_rate"] == (5e-4 if queries < 2_000 else 1e-3)
    assert values["mgt.labels"] and not chosen(queries, again=0.4)["mgt.labels"]
    assert values["train_dual_encoder.batch_size"] == (64 if queries >= 2_000 else max(2, min(32, queries // 4)))
    assert values["denoise.queries"] == (5_000 if queries > 5_000 else None)
