"""Anybody's runs and judgements: their forms, their mistakes, and `gnn-encoder evaluate`; ablations."""

import gzip
import json
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats

from gnn_encoder.base.errors import UserError
from gnn_encoder.evaluate.judge import ablation_tables, read_ablations, read_qrels
from gnn_encoder.pipeline.experiment import preview

from ..pipelines import Project
from ..project import ROOT, refusal
from ..project import call as cli
from .conftest import values_of

RUN = "q1 Q0 a 0 1.0 t\nq1 Q0 b 0 2.0 t\nq2 Q0 c 0 5 t\nq2 Q0 a 0 5 t\nq2 Q0 b 0 4 t\n"
call = partial(cli, "evaluate")
OTHER = "q1 Q0 a 1 9 t\nq2 Q0 b 1 9 t\nq3 Q0 a 1 9 t\n"
QRELS = "q1 0 a 2\nq1 0 b 0\nq2 0 a 1\nq3 0 a 1\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.trec").write_text(RUN)
    (tmp_path / "other.trec.gz").write_bytes(gzip.compress(OTHER.encode()))
    (tmp_path / "qrels.txt").write_text(QRELS)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        QRELS,
        "q1\t0\ta\t2\r\nq1\t0\tb\t0\r\n\nq2\t0\ta\t1\nq3\t0\ta\t+1.0",
        "q1 iter a 2\nq1 x b 0\nq2 7 a 1\nq3 Q0 a 1",
        "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\ta\t1\nq3\ta\t1\n",
        "\ufeffq1\ta\t2\nq1\tb\t0\nq2\ta\t1\nq3\ta\t1\n",
        "q1 0 a 2\nq1 0 b 0\nq1 0 a 2\nq2 0 a 1\nq3 0 a 1\nq1 0 b 0\n",
    ],
)
def test_forms_of_qrels(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels.tsv").write_bytes(text.encode())
    (tmp_path / "qrels.gz").write_bytes(gzip.compress(text.encode()))
    for found in (read_qrels(tmp_path / "qrels.tsv"), read_qrels(tmp_path / "qrels.gz")):
        assert found.rows() == [("q1", "a", 2), ("q1", "b", 0), ("q2", "a", 1), ("q3", "a", 1)]
        assert found.schema == {"qid": pl.String, "pid": pl.String, "grade": pl.Int32}


def test_a_table_of_one_run(files: Path) -> None:
    code, out, err = call("run.trec", "qrels.txt", "-m", "RR@10", "-m", "MRR@1", "-m", "R(rel=2)@1000")
    assert code == 0 and err.splitlines() == [
        "run.trec: 1 judged queries are not in it and count as 0",
        "run.trec: has at most 3 passages a query, below which nothing counts: RR@10, R(rel=2)@1000",
    ]
    assert out.splitlines() == [
        "| measure       |    run |",
        "| ------------- | -----: |",
        f"| RR@10         | {(1 / 2 + 1 / 2 + 0) / 3:.4f} |",
        "| RR@1          | 0.0000 |",
        "| R(rel=2)@1000 | 0.3333 |",
    ]


def test_two_runs_as_json(files: Path) -> None:
    code, out, _ = call("run.trec", "qrels.txt", "--against", "other.trec.gz", "--json", "-m", "RR@10", "-m", "R@1")
    found = json.loads(out)
    assert code == 0 and found["queries"] == 3
    assert found["missing"] == {"run.trec": 1, "other.trec.gz": 0}
    assert found["depths"] == {"run.trec": 3, "other.trec.gz": 1}
    assert found["measures"] == pytest.approx({"RR@10": 1 / 3, "R@1": 0.0})
    assert found["against"] == pytest.approx({"RR@10": 2 / 3, "R@1": 2 / 3})
    test = stats.ttest_rel([0.5, 0.5, 0.0], [1.0, 0.0, 1.0])
    tested = found["comparisons"]["RR@10"]
    assert tested["difference"] == pytest.approx(-1 / 3) and tested["p"] == pytest.approx(test.pvalue)
    ps = {name: one["p"] for name, one in found["comparisons"].items()}
    assert ps["R@1"] < ps["RR@10"] and found["comparisons"]["R@1"]["p_holm"] == pytest.approx(2 * ps["R@1"])
    _, table, _ = call("run.trec", "qrels.txt", "--against", "other.trec.gz", "-m", "RR@10")
    assert f"| RR@10   | 0.3333 |  0.6667 |    -0.3333 | {tested['low']:+.4f} to {tested['high']:+.4f} |" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.trec", "qrels.txt"], "none.trec: no such file"),
        (["run.trec", "none.parquet"], "none.parquet: no such file; correct its path"),
        (["run.trec", "."], ".: a folder, not a file; correct its path"),
        (["run.trec", "qrels.txt", "-m", "RRR@10"], "--measure has 'RRR@10'"),
        (["strange.trec", "qrels.txt"], "strange.trec: none of its queries is judged"),
        (["run.trec", "twice.txt"], "twice.txt, line 3: query 'q' and passage 'a' were judged before, differently"),
    ],
)
def test_mistakes_in_one_line(files: Path, arguments: list[str], message: str) -> None:
    """What is wrong with a run: tests/base/test_runs.py."""
    (files / "strange.trec").write_text("x1 Q0 a 1 1 t\n")
    (files / "twice.txt").write_text("q 0 a 1\nq 0 b 1\nq 0 a 0\n")
    assert refusal("evaluate", *arguments).startswith(message)


# --- ablations: what queues them, their tables by hand, and a queue of two values with DVC itself ---------------------

VALUES = {  # ablation -> seed -> values of the queries
    "full": {13: [1.0, 0.5, 0.5, 1.0], 14: [0.5, 0.5, 0.0, 1.0]},
    "one_layer": {13: [0.5, 0.5, 0.25, 1.0], 14: [0.5, 0.25, 0.0, 0.5]},
    "no_gnn": {14: [0.0, 0.25, 0.0, 0.5]},
}


def test_every_line_is_an_experiment() -> None:
    for settings in read_ablations(ROOT / "configs" / "ablations.txt").values():
        preview(settings or ["seed=13"], ROOT / "params.yaml")


def test_names(tmp_path: Path) -> None:
    path, few = tmp_path / "a.txt", {"few": ["mgt.layers=1", "mgt.beta=0.1"]}
    path.write_text("# a comment\nfull\n\nfew  mgt.layers=1 mgt.beta=0.1  # two\n")
    assert (read_ablations(path), read_ablations(path, ["few"])) == ({"full": []} | few, few)
    with pytest.raises(UserError, match="has no ablation 'fewer'; name some of full, few"):
        read_ablations(path, ["fewer"])


def test_means_over_seeds_and_paired_differences() -> None:
    table = pl.concat(
        values_of({name: values}).with_columns(ablation=pl.lit(name), seed=pl.lit(seed))
        for name, seeds in VALUES.items()
        for seed, values in seeds.items()
    )
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
        list(ablation_tables(table.filter((pl.col("ablation") != "full") | (pl.col("seed") == 13)), "RR@10"))


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
def test_a_queue_of_two_values_and_its_table(tmp_path: Path, environment: dict[str, str]) -> None:
    """With DVC, and in place of the pipeline one stage that is as fast as can be."""
    stage = {"cmd": f"{sys.executable} stage.py", "params": ["beta", "seed"], "outs": ["data/evaluation/gnn_encoder"]}
    lines = "full\nhigh  beta=0.25\n"
    files = {"dvc.yaml": yaml.safe_dump({"stages": {"evaluate": stage}}), "stage.py": STAGE, "lines.txt": lines}
    for name, text in (files | {"params.yaml": "beta: 0.0\nseed: 13\n"}).items():
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "systems.yaml", tmp_path)
    path, python = f"{Path(sys.executable).parent}:{environment['PATH']}", f"{sys.executable} {ROOT}/scripts"
    project = Project(tmp_path, environment | {"PATH": path, "PYTHONPATH": str(ROOT / "src")})
    for command in (
        *("git init --quiet", "dvc init --quiet", "git add --all", "git commit --quiet --message=One"),
        f"{python}/queue_ablations.py --file lines.txt --seeds 13",
        "dvc exp run --run-all",
        f"{python}/compare_ablations.py --file lines.txt --seeds 13 14 --measure RR@10",
    ):
        ran = project.run(*command.split())
        assert ran.status == 0, ran.output
    told = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    # Means of the queries: (1.5 + 13) / 50, less beta, which is each query's difference.
    assert "| full | 29.0 | 1: – | – |" in told
    assert "| high | 4.0 | 1: – | ▼ -25.0 [-25.0, -25.0], p < 1e-300 |" in told
    assert "| control without GNN | 29.0 | 1: – | +0.0 [+0.0, +0.0], p = 1.00 |" in told
    assert told[-1] == "left out, since DVC has no values of them: full-14, high-14"
