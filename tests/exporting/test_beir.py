"""The data in BEIR's format, read by BEIR's loader and by our own reader; a built system in BEIR's evaluation."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from beir.datasets.data_loader import GenericDataLoader
from beir.retrieval.evaluation import EvaluateRetrieval

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, QRELS, QUERIES
from gnn_encoder.core.runs import as_run
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source
from gnn_encoder.evaluation.measures import mean, per_query
from gnn_encoder.exporting import beir, command
from gnn_encoder.exporting.beir import BeirSearch, apart
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


@pytest.mark.parametrize("split", SPLITS)
def test_beirs_loader_reads_it(root: Path, folder: Path, split: str) -> None:
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


@pytest.mark.parametrize("system", ["gnn_encoder", "dual_cross"])
@pytest.mark.parametrize("split", ["dev", "test"])
def test_beirs_figures_equal_ours(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, system: str, split: str
) -> None:
    monkeypatch.setattr(beir, "BATCH", 7)  # several batches
    corpus, queries, qrels = GenericDataLoader(str(folder)).load(split=split)
    search = BeirSearch.open(project.index(system))
    evaluation = EvaluateRetrieval(search, k_values=[1, 10, 1000])
    found = evaluation.evaluate(qrels, evaluation.retrieve(corpus, queries), evaluation.k_values)
    theirs = {name: value for part in found for name, value in part.items()}
    ours = ir_measures(search, split)
    assert 0 < ours["nDCG@10"] < 1 and 0 < ours["AP@1000"] < 1
    pairs = {"nDCG@10": "NDCG@10", "AP@1000": "MAP@1000", "R@10": "Recall@10", "P@1": "P@1"}
    assert {name: theirs[name] for name in pairs.values()} == pytest.approx(
        {pairs[name]: value for name, value in ours.items()}, abs=5.1e-6
    )  # BEIR rounds to five digits


def ir_measures(search: BeirSearch, split: str) -> dict[str, float]:
    """What our own evaluation says of the same encoder and index."""
    table = pl.read_parquet(project.queries(split))
    rows, _ = search.index.search(search.encoder.embed_queries(table["text"].to_list()), search.index.passages)
    run = as_run(rows, table["qid"], pl.Series(search.index.pids()))
    return mean(per_query(run, pl.read_parquet(project.qrels(split)), ["nDCG@10", "AP@1000", "R@10", "P@1"]))


def test_equal_scores_keep_the_order() -> None:
    scores = np.array([[0.5, 0.5, 0.5, 0.25], [1.0, -np.inf, -np.inf, -np.inf]], np.float32)
    found = apart(scores)
    one, two = np.nextafter(np.float32(0.5), np.float32(0)), np.float32(0.5) - 2 * np.float32(2.0**-25)
    assert found[0].tolist() == [0.5, float(one), float(two), 0.25]
    assert found[1].tolist() == [1.0, -np.inf, -np.inf, -np.inf]
    assert scores[0, 1] == 0.5  # the caller's array stays


def test_ties_of_duplicate_passages_are_ranked_as_the_index_does(root: Path) -> None:
    """trec_eval orders equal scores by descending id: without lowering, "9" would win over "10"."""
    results = dict(zip(["10", "9"], apart(np.array([[0.5, 0.5]], np.float32))[0].tolist(), strict=True))
    ndcg, *_ = EvaluateRetrieval.evaluate({"q": {"10": 1}}, {"q": results}, [1])
    assert ndcg == {"NDCG@1": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda corpus: corpus.popitem(),
            r"holds 120 passages, BEIR's corpus has no passage '.*'; evaluate on",
        ),
        (lambda corpus: corpus.update(more={}), r"holds 120 passages, BEIR's corpus has 121; evaluate on"),
    ],
)
def test_another_corpus(root: Path, folder: Path, change, message: str) -> None:
    corpus, queries, _ = GenericDataLoader(str(folder)).load(split="dev")
    change(corpus)
    with pytest.raises(UserError, match=message):
        EvaluateRetrieval(BeirSearch.open(project.index("gnn_encoder"))).retrieve(corpus, queries)


def test_there_is_nothing_to_encode(root: Path) -> None:
    search = EvaluateRetrieval(BeirSearch.open(project.index("gnn_encoder")))
    with pytest.raises(UserError, match="call `retrieve`, which searches it"):
        search.encode_and_retrieve({}, {})
    with pytest.raises(UserError, match="call `retrieve`, which searches it"):
        search.retriever.search_from_files("queries.pkl", [], 10)
