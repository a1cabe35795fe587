"""scripts/make_beir.py: SQuAD's JSON, texts that are cut, and pages of tldr-pages, as folders in BEIR's format."""

import json
from pathlib import Path
from typing import Any

import make_beir
import polars as pl
import pytest

from gnn_encoder.base.errors import UserError

from .conftest import write_files
from .sources import lines

PAGES = {
    "common/mow-lawn.md": "# mow lawn\n\n> Cut grass with `mow`.\n> Some parts are in other pages.\n"
    "> See also: `rake`.\n> More information: <https://example.org/mow>.\n\n- [c]ut the front lawn:\n\n"
    "`mow {{front}}`\n\n- Show `mow`'s blades:\n\n`mow --blades`\n",
    "linux/mow-lawn.md": "# mow lawn\n\n> Another system's.\n\n- Mow by night:\n\n`mow -n`\n",
    "common/mower.md": "# mower\n\n> This command is an alias of `mow`.\n\n- View documentation:\n\n`tldr mow`\n",
}


def read(folder: Path) -> tuple[dict[str, tuple[str, str]], dict[str, str], dict[str, list[str]]]:
    corpus, queries = (pl.read_ndjson(folder / f"{name}.jsonl") for name in ("corpus", "queries"))
    qrels = {path.stem: path.read_text().splitlines()[1:] for path in (folder / "qrels").iterdir()}
    return {pid: tuple(texts) for pid, *texts in corpus.rows()}, dict(queries.rows()), qrels


def test_squad(tmp_path: Path) -> None:
    def asked(*questions: tuple[str, bool]) -> list[dict[str, Any]]:
        return [{"id": qid, "question": f"{qid}?", "answers": [{"text": "x"}] * right} for qid, right in questions]

    ash, yew = "Ash has black buds.", "Yew is poisonous."
    one, other = asked(("q1", True), ("q2", False)), asked(("q3", True))
    train = [{"title": "Ash_(tree)", "paragraphs": [{"context": ash, "qas": one}, {"context": yew, "qas": other}]}]
    test = [{"paragraphs": [{"context": ash, "qas": asked(("q4", True))}]}]
    files = {"train.json": json.dumps({"data": train}), "test.json": json.dumps({"data": test})}
    sets = write_files(tmp_path / "sets", files)
    make_beir.squad(sets, tmp_path / "out", 0.1)
    passages, queries, qrels = read(tmp_path / "out")
    assert list(passages.values()) == [("Ash (tree)", ash), ("Ash (tree)", yew)]
    assert queries == {qid: f"{qid}?" for qid in ("q1", "q3", "q4")}  # q2 has no answer
    first, second = passages
    assert qrels == {"train": [f"q1\t{first}\t1", f"q3\t{second}\t1"], "test": [f"q4\t{first}\t1"]}
    make_beir.squad(sets / "train.json", tmp_path / "one", 0.999)
    assert read(tmp_path / "one")[2] == {"test": qrels["train"]}
    (sets / "train.json").write_text('{"data": [{}]}')
    with pytest.raises(UserError, match=r"train\.json: not SQuAD's JSON \(KeyError 'paragraphs'\)"):
        make_beir.squad(sets, tmp_path / "bad", 0.1)
    assert not (tmp_path / "bad").exists()
    with pytest.raises(UserError, match="sets: exists already; name a new folder, or remove it"):
        make_beir.squad(sets / "test.json", sets, 0.1)


def test_cut(tmp_path: Path) -> None:
    """`the` is in all documents, `moss` in two, `fern` in one: fern weighs ln(4/2), moss ln(4/3), the nothing."""
    texts = {"d1": "The moss is green. The fern is green. The sand is dry.", "d2": "The moss is old.", "d3": "The the"}
    texts["d4"] = ""  # what is judged of it is left out, as `prepare` does
    queries = {"q1": "Which moss and fern?", "q2": "the sand", "q3": "salt"}
    files = {
        "corpus.jsonl": lines(*({"_id": pid, "title": text and "T", "text": text} for pid, text in texts.items())),
        "queries.jsonl": lines(*({"_id": qid, "text": text} for qid, text in queries.items())),
        "qrels/train.tsv": "q1\td1\t2\nq1\td2\t0\nq1\td4\t1\n",
        "qrels/test.tsv": "q2\td1\t1\nq3\td1\t1\nq3\td9\t1\n",
    }
    long = write_files(tmp_path / "long", files)
    make_beir.cut(long, tmp_path / "out", 4, 0)
    passages, asked, qrels = read(tmp_path / "out")
    parts = {"d1#0": "The moss is green.", "d1#1": "The fern is green.", "d1#2": "The sand is dry."}
    parts |= {"d2#0": "The moss is old.", "d3#0": "The the"}
    assert passages == {pid: ("T", text) for pid, text in parts.items()}
    assert asked == queries
    assert qrels == {"train": ["q1\td1#1\t2", "q1\td2#0\t0"], "test": ["q2\td1#2\t1", "q3\td1#0\t1", "q3\td9\t1"]}
    for text, words, overlap, blocks in (
        ("  one two\nthree ", 3, 2, ["one two\nthree"]),
        ("a b c d e f", 3, 2, ["a b c", "b c d", "c d e", "d e f"]),
        ("今天很好。 fine", 4, 0, ["今天很好", "。 fine"]),
        ("ที่นี่ดี ok", 2, 0, ["ที่นี่", "ดี ok"]),  # characters stay with their marks
    ):
        assert make_beir.blocks(text, words, overlap) == blocks
    with pytest.raises(UserError, match="--overlap is 4: must be from 0 to below --words, 4"):
        make_beir.cut(long, tmp_path / "bad", 4, 4)


def test_tldr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a clone of tldr-pages, with the kept splits."""
    assert pl.read_parquet(make_beir.OUR_SPLIT)["split"].value_counts(sort=True).rows() == [
        ("test", 9374),
        ("dev", 3125),
    ]
    write_files(tmp_path / "clone/pages", PAGES)
    dev, test = (make_beir.hashed("pmow-lawn", caption) for caption in ("Show mow's  blades", "`mow` by [n]ight"))
    monkeypatch.setattr(make_beir, "OUR_SPLIT", tmp_path / "split.parquet")
    pl.DataFrame({"hash": [dev, test], "split": ["dev", "test"]}).write_parquet(make_beir.OUR_SPLIT)
    make_beir.tldr(tmp_path / "clone", tmp_path / "beir")
    passages, queries, qrels = read(tmp_path / "beir")
    assert passages == {"pmow-lawn": ("mow lawn", "Cut grass with mow. Some parts are in other pages.")}
    assert list(queries.values()) == ["cut the front lawn", "Show mow's blades", "Mow by night"]
    assert qrels == {"train": ["q0\tpmow-lawn\t1"], "dev": ["q1\tpmow-lawn\t1"], "test": ["q2\tpmow-lawn\t1"]}
    with pytest.raises(UserError, match="none of our dev or test captions"):
        make_beir.tldr(tmp_path, tmp_path / "none")
    assert not (tmp_path / "none").exists()
