"""`gnn-encoder init`: what it writes, prints and refuses; configs laid over params.yaml."""

import shutil
from pathlib import Path

import pytest
import yaml

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.sources import open_source
from gnn_encoder.pipeline.experiment import Change
from gnn_encoder.pipeline.experiment import init as write
from gnn_encoder.pipeline.params import load_params

from ..project import ROOT, call

DEFAULT = (ROOT / "params.yaml").read_text()
HEADER = "# Made by: gnn-encoder init "


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with params.yaml and configs/ as they are committed."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str) -> list[str]:
    code, out, err = call("init", *arguments)
    assert (code, err) == (0, "")
    return out.splitlines()


def refusal(*arguments: str) -> str:
    """The error of an init that leaves everything as it was."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    code, out, err = call("init", *arguments)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err.removeprefix("error: ").rstrip("\n")


def lines() -> list[str]:
    return Path("params.yaml").read_text().splitlines()


def test_one_value_changes_one_line() -> None:
    assert init("mgt.beta=0.1") == ["mgt.beta: 0.05 -> 0.1"]
    old = "  beta: 0.05               # share"
    assert DEFAULT.count(old) == 1
    expected = f"{HEADER}mgt.beta=0.1\n" + DEFAULT.replace(old, "  beta: 0.1                # share")
    assert Path("params.yaml").read_text() == expected


def test_a_config_and_values_which_win_over_it() -> None:
    Path("c.yaml").write_text("# G = a paper.\n\nmgt:\n  beta: 0.2   # G 4.3\n\n  negatives: 3\n\nseed: 5\n")
    printed = init("c.yaml", "mgt.negatives=2", "data.path=null")
    assert printed == ["mgt.beta: 0.05 -> 0.2", "mgt.negatives: 1 -> 2", "seed: 13 -> 5"]
    assert lines()[0] == f"{HEADER}c.yaml mgt.negatives=2 data.path=null"
    assert len(lines()) == len(DEFAULT.splitlines()) + 1  # comments and empty lines are those of params.yaml
    assert load_params().mgt.negatives == 2


def test_a_reason_replaces_the_comment_beside_a_value_and_leaves_what_is_below() -> None:
    Path("params.yaml").write_text(DEFAULT.replace("  beta: 0.05  ", "  # mine\n  beta: 0.05  "))
    chosen = [Change("mgt.masking", "mgt", why="all edges"), Change("rerank.depth", 4, why="few")]
    assert write(["seed=13"], chosen=chosen, by="--data beir") == ["rerank.depth: 30 -> 4"]
    at = lines().index("  masking: mgt             # init: all edges")
    assert lines()[at + 1] == "  # mine"
    at = lines().index("  depth: 4                 # init: few")
    assert lines()[at - 1].startswith("rerank:  ") and lines()[at + 1] == "  queries: 300"
    assert lines()[0] == f"{HEADER}--data beir"
    assert lines().count("") == DEFAULT.splitlines().count("")
    write(["mgt.masking=mgt", "rerank.depth=9", "mgt.beta=0.1"], over=True)  # of another value the reason says nothing
    at = lines().index("  masking: mgt")
    assert lines()[at + 1] == "  # mine" and lines()[at + 2].startswith("  beta: 0.1                # share")
    assert "  depth: 9" in lines()


def test_a_new_key_stands_in_its_section() -> None:
    printed = init("data.source=ir_datasets", "data.names={train: a/train, test: a/test}")
    assert printed == [
        "data.source: insuranceqa -> ir_datasets",
        "data.names: not set -> {train: a/train, test: a/test}",
    ]
    at = lines().index("data:")
    assert lines()[at + 2] == "  names: {train: a/train, test: a/test}"
    assert [line == "" for line in lines()[at : at + 8]] == [False] * 7 + [True]


def test_a_section_is_laid_over_and_a_free_mapping_is_replaced() -> None:
    init(
        "pair={pretrain: {epochs: 5}, s_pos: 0.4}",
    )
    made, default = load_params(), yaml.safe_load(DEFAULT)
    assert made.pair.pretrain.epochs == 5 and made.pair.s_pos == 0.4
    assert made.pair.pretrain.batch_size == default["pair"]["pretrain"]["batch_size"]


@pytest.mark.parametrize(
    "text",
    ["5.0e-5", "017", "1e3", "1e3x", "yes", "'yes'", '"5e-5"', "~", "[1]"],
)
def test_a_value_means_what_it_means_in_params_yaml(text: str) -> None:
    """Whatever is written: ruamel.yaml, which keeps comments, and PyYAML, which stages read with, differ in dialect."""
    code, _, err = call("init", f"encoder.revision={text}")
    meant = 1000.0 if text == "1e3" else yaml.safe_load(text)  # a number in YAML 1.2, which DVC writes
    if meant is None or isinstance(meant, str):
        assert code == 0 and load_params().encoder.revision == meant
    else:
        assert code == 2 and f"encoder.revision is {meant!r}: input should be a valid string" in err


def test_a_path_is_read_as_other_values_are_and_may_begin_at_home(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project / "home"))
    (project / "home" / "my #1").mkdir(parents=True)
    init("data.source=beir", 'data.path="~/my #1"')
    assert '  path: "~/my #1"' in "\n".join(lines())
    with pytest.raises(UserError, match="home/my #1/corpus.jsonl: no such file"):
        open_source(load_params().data)
    told = "data.path is ~/no: no such file or folder; correct it"
    assert refusal("--over", "data.source=beir", "data.path=~/no") == told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to change: give --data, a file of configs/, or values such as mgt.beta=0.1"),
        (["configs/marco.yaml"], "configs/marco.yaml: no such file; give one of configs/, or a value such as"),
        (["seed=1", "configs/nq.yaml"], "'configs/nq.yaml': must be KEY=VALUE with a dotted key"),
        (["mgt..beta=1"], "'mgt..beta=1': must be KEY=VALUE"),
        (["data.path="], "'data.path=': must be KEY=VALUE with a dotted key, such as mgt.beta=0.1 or data.path=null"),
        (["mgt.beta=[1"], "'mgt.beta=[1': not valid YAML: "),
        (["seed=9999-99-99"], "'seed=9999-99-99': not valid YAML: month must be in 1..12; correct it"),
        ([f"seed={{a: {'9' * 5000}}}"], "999...: not valid YAML: Exceeds the limit (4300 digits)"),
        (["mgt.betta=0.1"], "mgt.betta=0.1: mgt.betta is not a parameter (value 0.1); remove it or correct its name"),
        (["mgt.beta=2"], "mgt.beta=2: mgt.beta is 2: input should be less than or equal to 0.5"),
        (["mgt=2"], "mgt=2: mgt is 2: must be lines of `key: value`; "),
        (["mgt.beta.x=2"], "mgt.beta.x=2: mgt.beta is {'x': 2}: input should be a valid number"),
        (
            ["seed=3", "train_retriever.learning_rate='5e-5'"],
            "seed=3 train_retriever.learning_rate='5e-5': train_retriever.learning_rate is the text '5e-5': must be a "
            "number such as 5e-5, without quotes",
        ),
        (["configs/nq.yaml", "data.source=beir"], "configs/nq.yaml data.source=beir: data.name is set"),
        (["mine_candidates.depth=9"], "mine_candidates.depth=9: denoise.range_m"),
    ],
)  # fmt: skip
def test_mistakes_in_arguments(arguments: list[str], message: str) -> None:
    assert message in refusal(*arguments)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("mgt:\n  betta: 0.1\n", "c.yaml: mgt.betta is not a parameter (value 0.1)"),
        ("mgt:\n  beta: 0.1\n  beta: 0.2\n", "c.yaml: not valid YAML: "),
        (f"seed: {'9' * 5000}\n", "c.yaml: not valid YAML: Exceeds the limit"),
        ("seed: !!python/name:os.system\n", "c.yaml: not valid YAML"),
        ("", "c.yaml: is None: must be lines of `key: value`"),
    ],
)
def test_mistakes_in_a_config(config: str, message: str) -> None:
    Path("c.yaml").write_bytes(config.encode("latin-1"))
    assert refusal("c.yaml").startswith(message)


def test_a_second_init_is_refused() -> None:
    init("configs/nq.yaml", "seed=1")
    assert refusal("configs/msmarco.yaml") == (
        "params.yaml: made by `gnn-encoder init configs/nq.yaml seed=1`, and a second init would mix two experiments; "
        "`git checkout params.yaml` first, or add --over to change this one"
    )
    assert init("mgt.beta=0.1", "--over") == ["mgt.beta: 0.05 -> 0.1"]
    assert [line for line in lines() if line.startswith(HEADER)] == lines()[:2]
    assert load_params().data.name == "nq" and load_params().seed == 1


def test_a_config_is_laid_over_params_yaml() -> None:
    Path("c.yaml").write_text("mgt:\n  betta: 0.1\n")
    code, _, err = call("inspect", "c.yaml")
    assert code == 2 and err.startswith("error: c.yaml: mgt.betta is not a parameter")
    Path("params.yaml").unlink()
    assert call("inspect", "c.yaml")[2].startswith("error: params.yaml: no such file")


def test_a_folder_of_a_config_that_is_not_there_is_said() -> None:
    assert init("configs/msmarco.yaml")[-1].startswith("! data.path is /path/to/msmarco, which is not there")
    Path("mine").mkdir()
    assert not any(line.startswith("!") for line in init("--over", "data.path=mine"))
