"""Ablations: what queues them, their tables by hand, and a queue of two values with DVC itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats

from gnn_encoder.base.errors import UserError
from gnn_encoder.evaluate.judge import ablation_tables, queue_command, read_ablations
from gnn_encoder.pipeline.experiment import preview

from ..pipelines import IDENTITY
from ..project import ROOT

FILE = ROOT / "configs" / "ablations.txt"
VALUES = {  # ablation -> seed -> values of the queries
    "full": {13: [1.0, 0.5, 0.5, 1.0], 14: [0.5, 0.5, 0.0, 1.0]},
    "one_layer": {13: [0.5, 0.5, 0.25, 1.0], 14: [0.5, 0.25, 0.0, 0.5]},
    "no_gnn": {14: [0.0, 0.25, 0.0, 0.5]},
}


def test_every_line_is_an_experiment() -> None:
    for settings in read_ablations(FILE).values():
        preview(settings or ["seed=13"], ROOT / "params.yaml")


def test_names_and_commands(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# a comment\nfull\n\nfew  mgt.layers=1 mgt.beta=0.1  # two\n")
    assert read_ablations(tmp_path / "a.txt") == {"full": [], "few": ["mgt.layers=1", "mgt.beta=0.1"]}
    assert read_ablations(tmp_path / "a.txt", ["few"]) == {"few": ["mgt.layers=1", "mgt.beta=0.1"]}
    with pytest.raises(UserError, match="has no ablation 'fewer'; name some of full, few"):
        read_ablations(tmp_path / "a.txt", ["fewer"])
    assert " ".join(queue_command("few", ["mgt.layers=1"], 13)) == (
        "dvc exp run --queue --name few-13 --set-param mgt.layers=1 --set-param seed=13"
    )


def test_means_over_seeds_and_paired_differences() -> None:
    rows = [
        (name, seed, split, f"q{place}", "RR@10", value)
        for split in ("dev", "test")
        for name, seeds in VALUES.items()
        for seed, values in seeds.items()
        for place, value in enumerate(values)
    ]
    table = pl.DataFrame(rows, ["ablation", "seed", "split", "qid", "measure", "value"], orient="row")
    dev, test = ablation_tables(table, "MRR@10")
    assert (dev.title, dev.rows) == ("Dev queries, points of 100", test.rows)
    full, one_layer, no_gnn = test.rows
    assert full == ["full", "62.5", "2: 50.0 to 75.0", "–"]
    assert one_layer[:3] == ["one_layer", "43.8", "2: 31.2 to 56.2"]
    assert no_gnn[:3] == ["control without GNN", "18.8", "1: –"]
    # A query's mean over the seeds that both have; of two differences the smaller p counts twice.
    differences = np.array([-0.25, -0.125, -0.125, -0.25]), np.array([-0.5, -0.25, 0.0, -0.5])
    ps = [stats.ttest_1samp(of, 0).pvalue for of in differences]
    assert ps[0] < 0.05 < ps[1]
    assert one_layer[3].startswith("▼ -18.8 [") and one_layer[3].endswith(f"p = {2 * ps[0]:.2g}")
    assert no_gnn[3].startswith("-31.2 [") and no_gnn[3].endswith(f"p = {ps[1]:.2g}")
    with pytest.raises(UserError, match="ablation no_gnn: no seed that full has too"):
        ablation_tables(table.filter((pl.col("ablation") != "full") | (pl.col("seed") == 13)), "RR@10")


STAGE = """
import yaml, polars as pl
from pathlib import Path
beta, seed = (yaml.safe_load(Path("params.yaml").read_text())[name] for name in ("beta", "seed"))
folder = Path("data/evaluation/gnn_encoder")
folder.mkdir(parents=True)
rows = [(s, d, f"q{i}", "RR@10", (i + seed) / 50 - beta * (s == "gnn_encoder"))
        for s in ("dual_encoder", "no_gnn", "gnn_encoder", "bm25") for d in ("dev", "test") for i in range(4)]
columns = ["system", "split", "qid", "measure", "value"]
pl.DataFrame(rows, columns, orient="row").write_parquet(folder / "values.parquet")
"""


@pytest.mark.long
def test_a_queue_of_two_values_and_its_table(tmp_path: Path) -> None:
    """With DVC, and in place of the pipeline one stage that is as fast as can be."""
    stage = {"cmd": f"{sys.executable} stage.py", "params": ["beta", "seed"], "outs": ["data/evaluation/gnn_encoder"]}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"evaluate": stage}}))
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / "params.yaml").write_text("beta: 0.0\nseed: 13\n")
    (tmp_path / "lines.txt").write_text("full\nhigh  beta=0.25\n")
    shutil.copy(ROOT / "systems.yaml", tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "DVC_SITE_CACHE_DIR": str(tmp_path / "site")}
    own |= {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in IDENTITY.items()}

    def run(command: str) -> str:
        done = subprocess.run(
            command.split(), cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for command in ("git init --quiet", "dvc init --quiet", "git add --all", "git commit --quiet --message=One"):
        run(command)
    python = f"{sys.executable} {ROOT}/scripts"
    run(f"{python}/queue_ablations.py --file lines.txt --seeds 13")
    run("dvc exp run --run-all")
    told = run(f"{python}/compare_ablations.py --file lines.txt --seeds 13 14 --measure RR@10")
    lines = [" ".join(line.split()) for line in told.splitlines()]
    # Means of the queries: (1.5 + 13) / 50, less beta, which is each query's difference.
    assert "| full | 29.0 | 1: – | – |" in lines
    assert "| high | 4.0 | 1: – | ▼ -25.0 [-25.0, -25.0], p < 1e-300 |" in lines
    assert "| control without GNN | 29.0 | 1: – | +0.0 [+0.0, +0.0], p = 1.00 |" in lines
    assert lines[-1] == "left out, since DVC has no values of them: full-14, high-14"
