"""The committed experiments of the papers run, on a tiny corpus in their source's format.

Only sizes and the base model are overridden: what the experiment chooses otherwise is what runs. The ablations that no
table needs are those of params.yaml, and run with one of the experiments.
"""

import csv
import json
import shutil
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gnn_encoder.data.formats import open_beir
from gnn_encoder.data.reading import DataSource
from gnn_encoder.pipeline.experiment import preview
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.pipeline.stage import Declared, read_stages

from ..pipelines import ROOT, TINY_PARAMS, Project

MISSING = object()
SIZES = {
    *("batch_size", "batch_tokens", "chunk_size", "epochs", "depth", "k", "views", "range_max", "candidates"),
    *("query_length", "passage_length", "max_length", "evaluate_every", "evaluations", "dev_fraction"),
    *("seeds", "cases", "resamples"),
}


def overridden(config: dict[str, Any], tiny: dict[str, Any]) -> dict[str, Any]:
    """`config` with the sizes and the base model of the tiny experiment."""
    found = {}
    for key, value in config.items():
        other = tiny.get(key, value)
        if isinstance(value, dict) and isinstance(other, dict):
            found[key] = overridden(value, other)
        else:
            found[key] = other if key in SIZES else value
    return found


def write_nq(corpus: DataSource, folder: Path) -> None:
    """DPR's files; a query's answers are the titles, or the first words, of its passages."""
    passages = {passage.pid: passage for _, passage in corpus.passages()}
    table = [("id", "text", "title"), *((row.pid, one_line(row.text), row.title) for row in passages.values())]
    write_rows(folder / "psgs_w100.tsv", table)
    items = [
        {"question": text, "answers": [], "positive_ctxs": [{"passage_id": pid} for pid in positives]}
        for text, positives in judged_queries(corpus, "train")
    ]
    (folder / "biencoder-nq-train.json").write_text(json.dumps(items))
    for split in ("dev", "test"):
        rows = []
        for text, positives in judged_queries(corpus, split):
            found = [passages[pid] for pid in positives]
            rows.append((text, repr([row.title or " ".join(row.text.split()[:3]) for row in found])))
        write_rows(folder / f"nq-{split}.qa.csv", rows)


def judged_queries(corpus: DataSource, split: str) -> Iterator[tuple[str, list[str]]]:
    positives: dict[str, list[str]] = {}
    for _, judgement in corpus.judgements[split]():
        if judgement.grade > 0:
            positives.setdefault(judgement.qid, []).append(judgement.pid)
    texts = {query.qid: query.text for _, query in corpus.queries[split]()}
    return ((texts[qid], pids) for qid, pids in positives.items())


def write_rows(path: Path, rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def one_line(text: str) -> str:
    return " ".join(text.split())


def complete(config: Path) -> dict[str, Any]:
    """The whole experiment of a config: this one laid over params.yaml."""
    return preview([str(config)], ROOT / "params.yaml").model_dump(exclude_unset=True)


def experiment(name: str, folder: Path, fresh: Project, corpus: Path) -> Project:
    """A copy of the project with the configuration and a sample in its source's format."""
    project = Project(Path(shutil.copytree(fresh.folder, folder, symlinks=True)), fresh.environment)
    source = folder / "source"
    source.mkdir()
    write_nq(open_beir(corpus), source)
    tiny = complete(TINY_PARAMS)
    params = overridden(complete(ROOT / "configs" / f"{name}.yaml"), tiny)
    params["data"]["path"] = "source"
    # A user's queries without labels, and thresholds that a teacher of few steps reaches.
    params["data"]["unlabelled"] = tiny["data"]["unlabelled"]
    params["pair"] |= {"s_pos": tiny["pair"]["s_pos"], "s_neg": tiny["pair"]["s_neg"]}
    params["encoder"] |= {"model": "tests/tiny/model", "revision": None}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    return project


def in_order(stages: list[Declared]) -> list[str]:
    """Addresses of stages, each after those that make what it reads."""
    made = {path: one.address for one in stages for path in (*one.outs, *one.metrics, *one.plots)}

    def makers(path: Path) -> Iterator[str]:
        return (maker for one, maker in made.items() if one == path or one in path.parents or path in one.parents)

    sources = {one.address: {maker for path in one.inputs for maker in makers(path)} for one in stages}
    return list(TopologicalSorter(sources).static_order())


@pytest.mark.slow
def test_natural_questions_run(fresh: Project, tiny_corpus: Path, tmp_path: Path) -> None:
    """The main branch in one process, without DVC, which reads the same stages: test_read_stages.py."""
    project = experiment("nq", tmp_path / "nq", fresh, tiny_corpus)
    stages = [one for one in read_stages(project.folder) if one.file == Path("dvc.yaml")]
    pairs = (address.partition("@") for address in in_order(stages))
    ran = project.fork(*([f"stages/{stage}.py", *([key] if key else [])] for stage, _, key in pairs))
    assert ran.status == 0, ran.output[-5000:]
    config = yaml.safe_load((project.folder / "configs" / "nq.yaml").read_text())
    metrics = json.loads((project.folder / "metrics" / MAIN / "test.json").read_text())
    assert set(metrics[MAIN]) == set(config["evaluate"]["measures"])
