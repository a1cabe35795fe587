"""BEIR's format -> tables: what is written for a good source, and the one line for each kind of bad one."""

import gzip
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.data.insuranceqa import open_insuranceqa
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source
from gnn_encoder.pipeline.params import Data

TINY = Path(__file__).parents[1] / "tiny" / "beir"
HEADER = "query-id\tcorpus-id\tscore\n"

CORPUS = [
    {"_id": "p1", "title": "Ash", "text": "A tree with black buds."},
    {"_id": "p2", "title": "", "text": "Yew is poisonous."},
    {"_id": "p3", "text": "Oars are\nmade of ash.", "metadata": {"url": None}},
]
QUERIES_ROWS = [
    {"_id": "q3", "text": "What are oars made of?"},
    {"_id": "q1", "text": "Which tree has black buds?"},
    {"_id": "q2", "text": "Is yew poisonous?"},
    {"_id": "q4", "text": "A query of no split"},
    {"_id": "q5", "text": "A query without an answer"},
]
QRELS_ROWS = {
    "train": "q1\tp1\t2\nq3\tp3\t1\nq3\tp2\t0\nq1\tp3\t-1\nq5\tp1\t0\n",
    "dev": "q2\tp2\t1\n",
    "test": "q2\tp2\t1\n",
}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(folder / "corpus.jsonl", CORPUS)
    write_jsonl(folder / "queries.jsonl", QUERIES_ROWS)
    for split, rows in QRELS_ROWS.items():
        (folder / "qrels" / f"{split}.tsv").write_text(HEADER + rows)
    return folder


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(folder: Path, target: Path, *, seed: int = 1, train_queries: int | None = None, fraction: float = 0.2) -> Path:
    data = Data(source="beir", path=str(folder), train_queries=train_queries, dev_fraction=fraction)
    prepare(data, open_source(data), target, seed=seed)
    return target


def qids(target: Path, split: str) -> list[str]:
    return pl.read_parquet(target / "queries" / f"{split}.parquet")["qid"].to_list()


def rows(path: Path) -> list[tuple[object, ...]]:
    return pl.read_parquet(path).rows()


def test_tables(beir: Path, tmp_path: Path) -> None:
    target = run(beir, tmp_path / "out")
    assert rows(target / "passages.parquet") == [
        ("p1", "Ash", "A tree with black buds."),
        ("p2", "", "Yew is poisonous."),
        ("p3", "", "Oars are\nmade of ash."),
    ]
    # In the order of queries.jsonl; q5 has no positive grade, so neither it nor its judgement is there.
    assert rows(target / "queries" / "train.parquet") == [
        ("q3", "What are oars made of?", []),
        ("q1", "Which tree has black buds?", []),
    ]
    assert rows(target / "qrels" / "train.parquet") == [
        ("q1", "p1", 2), ("q3", "p3", 1), ("q3", "p2", 0), ("q1", "p3", -1)
    ]  # fmt: skip
    assert rows(target / "queries" / "dev.parquet") == rows(target / "queries" / "test.parquet")
    assert rows(target / "qrels" / "test.parquet") == [("q2", "p2", 1)]


@pytest.mark.parametrize("text", ["Is yew poisonous?", " is  YEW pois\u00adonous"])
def test_queries_in_two_splits_are_said(
    beir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    write_jsonl(beir / "queries.jsonl", [*QUERIES_ROWS, {"_id": "q6", "text": text}])
    (beir / "qrels" / "test.tsv").write_text(HEADER + "q6\tp2\t1\n")
    run(beir, tmp_path / "out")
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "warning: 1 queries are in both dev and test: measures will flatter"
    ]


def test_dev_is_cut_from_train(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = shutil.copytree(TINY, tmp_path / "beir")
    full = qids(run(folder, tmp_path / "full"), "train")
    (folder / "qrels" / "dev.tsv").unlink()
    caplog.set_level(logging.INFO)
    target = run(folder, tmp_path / "out", seed=2)
    train, dev = qids(target, "train"), qids(target, "dev")
    assert "no dev split in the source: 12 training queries, drawn with seed 2, become dev" in caplog.text
    assert len(train) == 48 and len(dev) == 12
    assert sorted(train + dev) == sorted(full)
    assert train == [qid for qid in full if qid in train]  # in the source's order
    assert dev != [qid for qid in full][:12]
    for split, chosen in (("train", train), ("dev", dev)):
        assert set(pl.read_parquet(target / "qrels" / f"{split}.parquet")["qid"]) == set(chosen)


def test_draws_depend_on_the_seed_only(tmp_path: Path) -> None:
    folder = shutil.copytree(TINY, tmp_path / "beir")
    (folder / "qrels" / "dev.tsv").unlink()
    one, same, other = (run(folder, tmp_path / f"{i}", seed=s, train_queries=20) for i, s in enumerate((1, 1, 2)))
    assert qids(one, "train") == qids(same, "train") != qids(other, "train")
    assert qids(one, "dev") == qids(same, "dev") != qids(other, "dev")
    smaller = run(folder, tmp_path / "smaller", seed=1, train_queries=10)
    assert qids(smaller, "dev") == qids(one, "dev")
    assert not set(qids(one, "train")) & set(qids(one, "dev"))


def test_train_sample(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    target = run(TINY, tmp_path / "out", train_queries=20)
    assert "train: a sample of 20 of 60 queries, seed 1" in caplog.text
    assert len(qids(target, "train")) == 20
    assert len(qids(target, "test")) == 15
    run(TINY, tmp_path / "all", train_queries=61)
    assert "train: a sample of 60 of 60 queries" in caplog.text


def test_hidden_labels(tmp_path: Path) -> None:
    """Queries of no other split, with the judgements that pseudo-labels are judged by; the sample stays as it was."""
    plain, target = run(TINY, tmp_path / "plain", train_queries=20), tmp_path / "out"
    data = Data(source="beir", path=str(TINY), train_queries=20, dev_fraction=0.2)
    prepare(data, open_source(data), target, seed=1)
    assert qids(target, "train") == qids(plain, "train") and len(qids(target, "unlabelled")) == 40
    assert not set(qids(target, "unlabelled")) & set(qids(target, "train"))
    judged = pl.read_parquet(target / "qrels" / "unlabelled.parquet")["qid"]
    assert set(judged) == set(qids(target, "unlabelled"))
    assert json.loads((target / "statistics.json").read_text())["unlabelled"]["queries"] == 40


@pytest.mark.parametrize(("train_queries", "hidden"), [(None, 0), (61, 0), (50, 10)])
def test_no_more_labels_are_hidden_than_the_sample_leaves_out(
    tmp_path: Path, train_queries: int | None, hidden: int
) -> None:
    data = Data(source="beir", path=str(TINY), train_queries=train_queries, dev_fraction=0.2)
    prepare(data, open_source(data), tmp_path / "out", seed=1)
    assert (len(qids(tmp_path / "out", "unlabelled")), len(qids(tmp_path / "out", "train"))) == (hidden, 60 - hidden)
    assert len(pl.read_parquet(tmp_path / "out" / "qrels" / "unlabelled.parquet")) >= hidden


def test_the_users_unlabelled_queries_stand_after_the_hidden_ones(tmp_path: Path) -> None:
    data = Data(source="beir", path=str(TINY), train_queries=50, dev_fraction=0.2)
    prepare(data, open_source(data), tmp_path / "hidden", seed=1)
    hidden = pl.read_parquet(tmp_path / "hidden" / "queries" / "unlabelled.parquet")
    own = tmp_path / "own.txt"
    own.write_text("\n".join(["what is new?", *hidden["text"], "and what else?"]))
    data = data.model_copy(update={"unlabelled": str(own)})
    prepare(data, open_source(data), tmp_path / "out", seed=1)
    found = qids(tmp_path / "out", "unlabelled")
    assert found == [*hidden["qid"], "unlabelled-0", "unlabelled-1"] and len(hidden) == 10
    judged = pl.read_parquet(tmp_path / "out" / "qrels" / "unlabelled.parquet")["qid"]
    assert set(judged) == set(hidden["qid"])


def append(name: str, text: str | bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    return change


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def replace(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(text)

    return change


def cut_one_query(folder: Path) -> None:
    (folder / "qrels" / "dev.tsv").unlink()
    (folder / "qrels" / "train.tsv").write_text("q1\tp1\t1\n")


def test_passages_without_a_text(beir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """p8 has neither text nor title, and takes its judgement with it; the titles of the others are their texts."""
    caplog.set_level(logging.INFO)
    more: list[dict[str, object]] = [
        {"_id": "p8", "title": "", "text": " "},
        {"_id": "p9", "title": "A title", "text": ""},
        {"_id": "p10", "title": "Null", "text": None},
        {"_id": "p11", "title": "No key"},
    ]
    write_jsonl(beir / "corpus.jsonl", [*CORPUS, *more])
    (beir / "qrels" / "train.tsv").write_text(HEADER + QRELS_ROWS["train"] + "q1\tp8\t1\nq1\tp9\t1\n")
    target = run(beir, tmp_path / "out")
    assert rows(target / "passages.parquet")[3:] == [("p9", "", "A title"), ("p10", "", "Null"), ("p11", "", "No key")]
    assert rows(target / "qrels" / "train.parquet")[4:] == [("q1", "p9", 1)]
    statistics = json.loads((target / "statistics.json").read_text())
    assert statistics["left_out_or_replaced"] == {
        "empty_passages": 1,
        "judgements_of_empty_passages": 1,
        "texts_replaced_by_titles": 3,
    }
    told = "1 empty passages, 1 judgements of empty passages, 3 texts replaced by titles"
    assert f"left_out_or_replaced: {told}" in caplog.text


BAD = {
    "duplicate passage": (
        append("corpus.jsonl", 2 * '{"_id": "p2", "text": "again"}\n' + '{"_id": "p1", "text": "too"}\n'),
        "corpus.jsonl, line 4, passage id: 'p2' is also the id in line 2; give each row its own (2 more: line 5, "
        "passage id: 'p2' is also the id in line 2; line 6, passage id: 'p1' is also the id in line 1)",
    ),
    "duplicate query": (
        append("queries.jsonl", '{"_id": "q4", "text": "again"}\n'),
        "queries.jsonl, line 6, query id: 'q4' is also the id in line 4; give each row its own",
    ),
    "duplicate judgement": (
        append("qrels/train.tsv", "q1\tp1\t1\n"),
        "train.tsv, line 7: query 'q1' and passage 'p1' are judged twice, differently; keep one judgement",
    ),
    "missing id": (
        append("corpus.jsonl", '{"text": "a"}\n'),
        "corpus.jsonl, line 4, _id: missing; give every row an id of its own",
    ),
    "no text": (
        append("corpus.jsonl", '{"_id": "p4", "title": " "}\n'),
        "corpus.jsonl, line 4, text: missing; add it or remove the row",
    ),
    "empty query": (
        append("queries.jsonl", '{"_id": "q7", "text": " \\u200b\\n"}\n'),
        "queries.jsonl, line 6, text: ' \\u200b\\n' is empty; give it a text or remove the row",
    ),
    "unknown passage": (
        append("qrels/dev.tsv", "q1\tp9\t1\n"),
        "dev.tsv, line 3: passage 'p9' is not in the corpus; add it or remove the judgement",
    ),
    "unknown query": (
        append("qrels/test.tsv", "q9\tp1\t1\n"),
        "test.tsv, line 3: query 'q9' is not among the queries; add it or remove the judgement",
    ),
    "all wrong judgements of a file": (
        append("qrels/train.tsv", "q9\tp1\t1\nq1\tp1\t1\nq1\tp9\t1\nq2\tp1\t1\n"),
        "train.tsv, line 7: query 'q9' is not among the queries; add it or remove the judgement (2 more: line 8: query "
        "'q1' and passage 'p1' are judged twice, differently; line 9: passage 'p9' is not in the corpus)",
    ),
    "unknown query after a judgement given twice": (
        append("qrels/test.tsv", "q1\tp1\t1\nq1\tp1\t1\nq9\tp1\t1\n"),
        "test.tsv, line 5: query 'q9' is not among the queries",
    ),
    "no training judgements": (remove("qrels/train.tsv"), "train.tsv: no such file, nor qrels/train.tsv.gz; add"),
    "no judgements": (
        replace("qrels/dev.tsv", HEADER),
        "qrels of split dev: no query has a positive grade; add judgements with grade 1",
    ),
    "one passage": (
        lambda folder: write_jsonl(folder / "corpus.jsonl", CORPUS[:1]),
        "corpus.jsonl: one passage alone, so that there is nothing to rank; add some",
    ),
    "no passages": (replace("corpus.jsonl", ""), "corpus.jsonl: no passages with a text; add some"),
    "nothing left for train": (cut_one_query, "1 query is too few to cut a dev split from; add queries"),
    "no corpus": (remove("corpus.jsonl"), "corpus.jsonl: no such file, nor corpus.jsonl.gz; add it, or"),
    "no test": (remove("qrels/test.tsv"), "test.tsv: no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(beir: Path, tmp_path: Path, name: str) -> None:
    change, message = BAD[name]
    change(beir)
    with pytest.raises(UserError) as error:
        run(beir, tmp_path / "out")
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_repeated_ids_are_told_beside_other_faults(beir: Path, tmp_path: Path) -> None:
    append("corpus.jsonl", '{"_id": "p2", "text": "again"}\n{"text": "no id"}\n')(beir)
    with pytest.raises(UserError) as error:
        run(beir, tmp_path / "out")
    missing = f"{beir}/corpus.jsonl, line 5, _id: missing; give every row an id of its own"
    repeated = f"{beir}/corpus.jsonl, line 4, passage id: 'p2' is also the id in line 2; give each row its own"
    assert str(error.value) == f"{missing}; also {repeated}"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, "data.path is null: source beir needs the folder that holds corpus.jsonl; set data.path, or --path of"),
        ("nowhere", "data.path: nowhere is not a folder; give the one that holds corpus.jsonl"),
    ],
)
def test_bad_path(path: str | None, message: str) -> None:
    with pytest.raises(UserError) as error:
        open_source(Data(source="beir", path=path, train_queries=None, dev_fraction=0.1))
    assert str(error.value).startswith(message)


def test_batches_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(TINY, tmp_path / "whole")
    monkeypatch.setattr("gnn_encoder.base.tables.ROW_GROUP", 7)
    parts = run(TINY, tmp_path / "parts")
    for path in whole.rglob("*.parquet"):
        assert rows(path) == rows(parts / path.relative_to(whole))


def test_passages_lie_in_small_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each hit a search decodes a whole row group."""
    monkeypatch.setattr("gnn_encoder.data.prepare.PICKED", 7)
    passages = pq.ParquetFile(run(TINY, tmp_path) / "passages.parquet")
    assert passages.metadata.row_group(0).num_rows == 7


def write_insuranceqa(folder: Path) -> Path:
    answers = {"1": {"zh": "", "en": " Coverage  follows\tthe car. "}, "2": {"en": "No."}}
    query = {"en": "Is  It  Required?", "domain": "d", "answers": ["2", "1"], "negatives": ["1"]}
    folder.mkdir()
    for name, entries in (("answers", answers), *((n, {"0": query}) for n in ("train", "valid", "test"))):
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(entries).encode()))
    return folder


def test_insuranceqa(tmp_path: Path) -> None:
    data = Data(source="insuranceqa", path=None, train_queries=None, dev_fraction=0.1)
    prepare(data, open_insuranceqa(write_insuranceqa(tmp_path / "package")), tmp_path / "out", seed=1)
    assert rows(tmp_path / "out" / "passages.parquet") == [("1", "", "Coverage follows the car."), ("2", "", "No.")]
    for split in SPLITS:
        assert rows(tmp_path / "out" / "queries" / f"{split}.parquet") == [("0", "Is It Required?", [])]
        assert rows(tmp_path / "out" / "qrels" / f"{split}.parquet") == [("0", "2", 1), ("0", "1", 1)]


def test_insuranceqa_damaged_or_incomplete(tmp_path: Path) -> None:
    folder = write_insuranceqa(tmp_path / "package")
    (folder / "answers.json.gz").write_bytes((folder / "answers.json.gz").read_bytes()[:40])
    with pytest.raises(UserError, match=r"answers\.json\.gz: damaged .* --force-reinstall insuranceqa-data==1\.0"):
        list(open_insuranceqa(folder).passages())
    (folder / "valid.json.gz").unlink()
    with pytest.raises(UserError, match=r"valid\.json\.gz: no such file"):
        open_insuranceqa(folder)


def test_insuranceqa_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.data.insuranceqa.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"run `pip install insuranceqa-data==1\.0`"):
        open_insuranceqa()
