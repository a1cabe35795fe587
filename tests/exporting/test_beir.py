"""The data in BEIR's format, read by BEIR's loader and by our own reader."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from beir.datasets.data_loader import GenericDataLoader

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, write_table
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.exporting import command
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params

SPLITS = ("train", "dev", "test")


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    command.export("gnn_encoder", "beir", tmp_path / "beir")
    return tmp_path / "beir"


def test_our_own_reader_makes_the_same_tables_of_it(root: Path, folder: Path, tmp_path: Path) -> None:
    params = load_params()
    data = params.data.model_copy(update={"path": str(folder)})
    prepare(data, open_source(data), tmp_path / "again", seed=params.seed)
    names = [f"{kind}/{split}.parquet" for kind in ("queries", "qrels") for split in SPLITS]
    for name in ("passages.parquet", *names):
        assert pl.read_parquet(tmp_path / "again" / name).equals(pl.read_parquet(project.PREPARED / name)), name


def test_beirs_loader_reads_it(root: Path, folder: Path) -> None:
    split = "dev"
    corpus, queries, qrels = GenericDataLoader(str(folder)).load(split=split)
    passages = pl.read_parquet(project.PASSAGES)
    assert corpus == {pid: {"title": title, "text": text} for pid, title, text in passages.iter_rows()}
    asked = dict(pl.read_parquet(project.queries(split)).select("qid", "text").iter_rows())
    judged = pl.read_parquet(project.qrels(split))
    assert queries == {qid: asked[qid] for qid in judged["qid"].unique()}
    assert [(q, p, g) for q, of in qrels.items() for p, g in of.items()] == judged.rows()


def write_project(qids: dict[str, str], grade: int = 1) -> None:
    """One passage, and a query of each split with the id given."""
    write_table(project.PASSAGES, PASSAGES, [pa.table([["7"], [""], ['a "quoted"\ttext, é']], schema=PASSAGES)])
    for split, qid in qids.items():
        write_table(project.queries(split), QUERIES, [pa.table([[qid], [f"of {split}"], [[]]], schema=QUERIES)])
        write_table(project.qrels(split), QRELS, [pa.table([[qid], ["7"], [grade]], schema=QRELS)])


@pytest.mark.parametrize(
    ("qids", "expected"),
    [
        ({"train": "a", "dev": "b", "test": "c"}, ["a", "b", "c"]),
        ({"train": "a", "dev": "a", "test": "c"}, ["train-a", "dev-a", "test-c"]),  # an id of two queries
        ({"train": "a", "dev": "b", "test": "7"}, ["train-a", "dev-b", "test-7"]),  # that of a passage
    ],
)
def test_an_id_means_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qids: dict[str, str], expected: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(qids, grade=2)
    command.export("gnn_encoder", "beir", Path("out"))
    assert Path("out/corpus.jsonl").read_text() == '{"_id": "7", "title": "", "text": "a \\"quoted\\"\\ttext, é"}\n'
    lines = Path("out/queries.jsonl").read_text().splitlines()
    assert lines == [f'{{"_id": "{name}", "text": "of {s}"}}' for name, s in zip(expected, SPLITS, strict=True)]
    for split, name in zip(SPLITS, expected, strict=True):
        assert Path(f"out/qrels/{split}.tsv").read_text() == f"query-id\tcorpus-id\tscore\n{name}\t7\t2\n"


def test_a_split_that_answers_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_project({"train": "a", "dev": "b", "test": "c"})
    write_table(project.qrels("test"), QRELS, [pa.table([[], [], []], schema=QRELS)])
    with pytest.raises(UserError, match=r"data/prepared/qrels/test.parquet: holds no judgements"):
        command.export("gnn_encoder", "beir", Path("out"))
    assert not Path("out").exists()
