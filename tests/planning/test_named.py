"""What an experiment takes on a machine that is named: by hand for single stages, and the papers' goal for all."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gnn_encoder.base.errors import UserError
from gnn_encoder.cli import app
from gnn_encoder.pipeline.experiment import load_experiment
from gnn_encoder.pipeline.stage import read_stages
from gnn_encoder.planning.named import ALONE, GIB, SIZES, Need, needs, sizes_of
from gnn_encoder.planning.plan import main_branch

from ..project import ROOT

MAIN = main_branch(read_stages(ROOT))


def planned(config: str, gpus: int = 8) -> dict[str, Need]:
    params = load_experiment(ROOT / "configs" / f"{config}.yaml", ROOT / "params.yaml")
    return {one.stage: one for one in needs(params, sizes_of(params.data, None, None), "a100", gpus, MAIN)}


def test_encoding_by_hand() -> None:
    """8,841,823 passages of 128 tokens, 2 FLOPs for each of 84.9e6 weights, 40% of 312 TFLOP/s, 1 GB/s of disk."""
    matrix = 8_841_823 * 768 * 2
    work = 8_841_823 * 128 * 2 * 12 * 12 * 768**2 / (0.4 * 312e12)
    for gpus in (1, 8):
        found = planned("msmarco", gpus)["cache_passages@dual_encoder"]
        assert found.disk == matrix and found.processes == gpus
        assert found.hours == pytest.approx((30 + work / gpus + matrix / 1e9) / 3600)


def test_memory_of_searching_by_hand() -> None:
    """A process with its model, and IndexFlatIP of 21,015,324 passages."""
    assert planned("nq")["build_index@gnn_encoder"].memory == 4 * GIB + 21_015_324 * 768 * 4


@pytest.mark.parametrize("config", ["msmarco", "nq", "triviaqa"])
def test_the_papers_experiments_end_within_a_day_and_leave_no_gpu_idle_for_an_hour(config: str) -> None:
    found = planned(config).values()
    assert sum(one.hours for one in found) < 24
    assert max(one.hours for one in found if one.processes == 1) < 1


def test_stages_of_one_process_are_those_whose_scripts_say_so() -> None:
    alone = {stage.name for stage in MAIN if "shared=True" not in (ROOT / "stages" / f"{stage.name}.py").read_text()}
    assert alone == ALONE


def test_sizes_are_given_where_they_are_not_known() -> None:
    data = load_experiment(ROOT / "params.yaml", ROOT / "params.yaml").data
    with pytest.raises(UserError, match="the sizes of data.source 'insuranceqa' are not known here; give --passages"):
        sizes_of(data, 1000, None)
    assert sizes_of(data, 1000, 10).train == 10
    assert sizes_of(data.model_copy(update={"source": "msmarco"}), None, 10).passages == SIZES["msmarco"].passages


def test_the_command_reads_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    told = CliRunner().invoke(app, ["plan", "configs/msmarco.yaml", "--gpu", "a100", "--gpus", "8"])
    assert told.exit_code == 0, told.output
    assert re.search(r"^all +\d+\.\d\d ", told.output, re.MULTILINE) and "of the stages of one process" in told.output
    wrong = CliRunner().invoke(app, ["plan", str(Path("configs/nq.yaml")), "--gpu", "tpu"])
    assert wrong.exit_code == 2 and "--gpu is 'tpu': must be one of a100, h100, h200, l4" in wrong.output
    without = CliRunner().invoke(app, ["plan", "configs/msmarco.yaml"])
    assert without.exit_code == 2 and "plan without data for GPUs that you name: --gpu" in without.output
