"""scripts/ablations.py: what it queues, its tables by hand, and a queue of two values with DVC itself."""

import shutil
import sys
from pathlib import Path

import ablations
import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.experiment import preview

from ..pipelines import Project
from ..project import ROOT
from .conftest import values_of

VALUES = {  # ablation -> seed -> values of the queries
    "full": {13: [1.0, 0.5, 0.5, 1.0], 14: [0.5, 0.5, 0.0, 1.0]},
    "one_layer": {13: [0.5, 0.5, 0.25, 1.0], 14: [0.5, 0.25, 0.0, 0.5]},
    "no_gnn": {14: [0.0, 0.25, 0.0, 0.5]},
}


def test_every_line_is_an_experiment() -> None:
    for settings in ablations.read_ablations(ROOT / "configs" / "ablations.txt").values():
        preview(settings or ["seed=13"], ROOT / "params.yaml")


def test_names(tmp_path: Path) -> None:
    path, few = tmp_path / "a.txt", {"few": ["mgt.layers=1", "mgt.beta=0.1"]}
    path.write_text("# a comment\nfull\n\nfew  mgt.layers=1 mgt.beta=0.1  # two\n")
    assert (ablations.read_ablations(path), ablations.read_ablations(path, ["few"])) == ({"full": []} | few, few)
    with pytest.raises(UserError, match="has no ablation 'fewer'; name some of full, few"):
        ablations.read_ablations(path, ["fewer"])


def test_means_over_seeds_and_paired_differences() -> None:
    table = pl.concat(
        values_of({name: values}).with_columns(ablation=pl.lit(name), seed=pl.lit(seed))
        for name, seeds in VALUES.items()
        for seed, values in seeds.items()
    )
    dev, test = ablations.ablation_tables(table, "MRR@10")
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
        list(ablations.ablation_tables(table.filter((pl.col("ablation") != "full") | (pl.col("seed") == 13)), "RR@10"))


STAGE = """
import yaml, polars as pl
from pathlib import Path
beta, seed = (yaml.safe_load(Path("params.yaml").read_text())[name] for name in ("beta", "seed"))
rows = [(s, d, f"q{i}", "RR@10", (i + seed) / 50 - beta * (s == "gnn_encoder"))
        for s in ("dual_encoder", "no_gnn", "gnn_encoder", "bm25") for d in ("dev", "test") for i in range(4)]
columns = ["system", "split", "qid", "measure", "value"]
for (system,), part in pl.DataFrame(rows, columns, orient="row").group_by("system"):
    folder = Path("data/measures/gnn_encoder", system)
    folder.mkdir(parents=True)
    part.write_parquet(folder / "values.parquet")
"""


@pytest.mark.long
def test_a_queue_of_two_values_and_its_table(tmp_path: Path, environment: dict[str, str]) -> None:
    """With DVC, and in place of the pipeline one stage that is as fast as can be."""
    stage = {"cmd": f"{sys.executable} stage.py", "params": ["beta", "seed"], "outs": ["data/measures/gnn_encoder"]}
    lines = "full\nhigh  beta=0.25\n"
    files = {"dvc.yaml": yaml.safe_dump({"stages": {"evaluate": stage}}), "stage.py": STAGE, "lines.txt": lines}
    for name, text in (files | {"params.yaml": "beta: 0.0\nseed: 13\n"}).items():
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "systems.yaml", tmp_path)
    path, python = f"{Path(sys.executable).parent}:{environment['PATH']}", f"{sys.executable} {ROOT}/scripts"
    project = Project(tmp_path, environment | {"PATH": path, "PYTHONPATH": str(ROOT / "src")})
    for command in (
        *("git init --quiet", "dvc init --quiet", "git add --all", "git commit --quiet --message=One"),
        f"{python}/ablations.py queue --file lines.txt --seeds 13",
        "dvc exp run --run-all",
        f"{python}/ablations.py compare --file lines.txt --seeds 13 14 --measure RR@10",
    ):
        ran = project.run(*command.split())
        assert ran.status == 0, ran.output
    told = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    # Means of the queries: (1.5 + 13) / 50, less beta, which is each query's difference.
    assert "| full | 29.0 | 1: – | – |" in told
    assert "| high | 4.0 | 1: – | ▼ -25.0 [-25.0, -25.0], p < 1e-300 |" in told
    assert "| control without GNN | 29.0 | 1: – | +0.0 [+0.0, +0.0], p = 1.00 |" in told
    assert told[-1] == "left out, since DVC has no values of them: full-14, high-14"
