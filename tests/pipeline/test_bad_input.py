"""Every mistake of a user's is one line on stderr and status 2, and what had been made before stays as it was."""

import errno
import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CORPUS, QUERIES, QRELS = (f"tests/tiny/beir/{name}" for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"))
MATRIX = "data/embeddings/dual_encoder"
Change = Callable[[Any], None]


def check(project: Any, ran: Any, before: dict[str, str], *parts: str) -> None:
    """One error line that holds `parts`, no traceback, nothing below data/, metrics/ and plots/ changed."""
    assert ran.status == 2, ran.stderr
    assert len(ran.errors) == 1, ran.stderr
    message = ran.stderr.splitlines()[-1]
    assert message.startswith("error: ")
    for part in parts:
        assert part in message
    assert project.hashes("data", "metrics", "plots") == before


@pytest.fixture
def refused(stages: Any) -> Callable[..., None]:
    """`refused(change, "stage argument", parts of the message...)`."""

    def refuse(change: Change, command: str, *parts: str) -> None:
        change(stages)
        before = stages.hashes("data", "metrics", "plots")
        check(stages, stages.stage(*command.split()), before, *parts)

    return refuse


# --- changes ----------------------------------------------------------------------------------------------------------


def params(**values: Any) -> Change:
    return lambda project: project.set_params(**values)


def append(name: str, line: bytes) -> Change:
    def change(project: Any) -> None:
        with (project.folder / name).open("ab") as file:
            file.write(line + b"\n")

    return change


def cut_gzip(project: Any) -> None:
    corpus = project.folder / CORPUS
    packed = gzip.compress(corpus.read_bytes())
    corpus.with_name("corpus.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    corpus.unlink()


def no_queries(project: Any) -> None:
    (project.folder / QRELS).write_text("query-id\tcorpus-id\tscore\n")


def replace_matrix(make: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Another matrix with the manifest that belongs to it."""

    def change(project: Any) -> None:
        folder = project.folder / MATRIX
        matrix = make(np.load(folder / "embeddings.npy"))
        (folder / "embeddings.npy").unlink()  # it may be a link into a cache
        np.save(folder / "embeddings.npy", matrix)
        manifest = json.loads((folder / "manifest.json").read_text()) | {"shape": list(matrix.shape)}
        (folder / "manifest.json").unlink()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return change


def with_nan(matrix: np.ndarray) -> np.ndarray:
    matrix[7, 3] = np.nan
    return matrix


def cut_off(name: str, keep: float) -> Change:
    def change(project: Any) -> None:
        path = project.folder / name
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[: int(keep * len(content))])

    return change


def remove(name: str) -> Change:
    def change(project: Any) -> None:
        path = project.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def configure_model(**values: Any) -> Change:
    def change(project: Any) -> None:
        path = project.folder / "tests" / "tiny" / "model" / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


# --- the source -------------------------------------------------------------------------------------------------------

LINE = b'{"_id": "new", "text": "Some text."}'
SOURCE = {
    "duplicate passage id": (append(CORPUS, LINE.replace(b"new", b"bread-7")), ["corpus.jsonl, line 121", "bread-7"]),
    "duplicate query id": (append(QUERIES, LINE.replace(b"new", b"q01")), ["queries.jsonl, line 91", "q01"]),
    "missing id": (append(CORPUS, b'{"text": "Some text."}'), ["corpus.jsonl, line 121, _id", "missing"]),
    "empty id": (append(CORPUS, LINE.replace(b"new", b"")), ["corpus.jsonl, line 121, _id", "empty"]),
    "empty text": (append(CORPUS, LINE.replace(b"Some text.", b"  ")), ["corpus.jsonl, line 121, text", "empty"]),
    "empty query": (append(QUERIES, LINE.replace(b"Some text.", b"")), ["queries.jsonl, line 91, text", "empty"]),
    "not UTF-8": (append(CORPUS, LINE.replace(b"Some", b"S\xffme")), ["corpus.jsonl, line 121", "0xff", "UTF-8"]),
    "malformed JSON": (append(QUERIES, b'{"_id": "new", '), ["queries.jsonl, line 91", "not JSON"]),
    "truncated gzip": (cut_gzip, ["corpus.jsonl.gz", "cut off"]),
    "unknown passage": (append(QRELS, b"q00\tnone-1\t1"), ["qrels/test.tsv, line 18", "none-1"]),
    "unknown query": (append(QRELS, b"q999\tbread-7\t1"), ["qrels/test.tsv, line 18", "q999"]),
    "grade that is no number": (append(QRELS, b"q00\tbread-7\tgood"), ["qrels/test.tsv, line 18", "score", "good"]),
    "split without queries": (no_queries, ["split test", "add judgements"]),
    "file that is not there": (remove(CORPUS), ["corpus.jsonl", "no such file"]),
    "folder that is not there": (params(data__path="nowhere"), ["data.path", "nowhere"]),
}


@pytest.mark.parametrize("name", SOURCE)
def test_source(refused: Callable[..., None], name: str) -> None:
    change, parts = SOURCE[name]
    refused(change, "prepare", *parts)


# --- params.yaml ------------------------------------------------------------------------------------------------------

PARAMS = {
    "unknown": (params(mgt__betta=0.1), "train_mgt gnn_encoder", ["params.yaml", "mgt.betta", "not a parameter"]),
    "beta 1": (params(mgt__beta=1.0), "train_mgt gnn_encoder", ["mgt.beta is 1.0", "less than or equal to 0.5"]),
    "no params.yaml": (remove("params.yaml"), "bm25", ["params.yaml", "no such file"]),
    "k beyond the corpus": (params(build_graph__k=121), "build_graph gnn_encoder", ["build_graph.k is 121", "120"]),
    "depth beyond the corpus": (
        params(mine_candidates__depth=121),
        "mine_candidates",
        ["mine_candidates.depth is 121", "120"],
    ),
    "no FAISS factory": (params(index__factory="Flatt"), "build_index retriever", ["index.factory is 'Flatt'"]),
    "unknown measure": (params(evaluate__measures=["RRR@10"]), "evaluate gnn_encoder", ["evaluate.measures", "RRR@10"]),
    "heads that do not divide": (params(mgt__heads=5), "train_mgt gnn_encoder", ["heads", "5", "32"]),
    "views that were not generated": (
        params(dual_cross__views=3),
        "encode_views dual_cross",
        ["dual_cross.views", "3", "240"],
    ),
    "more views than queries": (
        params(dual_cross__views=4),
        "generate_queries",
        ["dual_cross.views is 4", "at most dual_cross.generated, 3"],
    ),
    "no score above s_pos": (
        params(pair__s_pos=0.999999),
        "pair_label",
        ["pair.s_pos is 0.999999", "lower pair.s_pos"],
    ),
    "s_neg above s_pos": (params(pair__s_neg=0.5), "pair_label", ["pair.s_neg is 0.5", "s_pos, 0.25"]),
    "no such unlabelled queries": (
        params(data__unlabelled="none.txt"),
        "prepare",
        ["none.txt", "data.unlabelled"],
    ),
    "k of the evidence beyond the corpus": (
        params(evidence__k=121),
        "build_graph widest",
        ["evidence.k is 121", "120"],
    ),
    "ablation that is none": (
        params(evidence__trials__no_mgt__mgt={"layers": 3}),
        "trial full",
        ["evidence.trials.no_mgt", "layers is 3", "1 or 2"],
    ),
    "unknown trial": (lambda p: None, "trial k_3", ["'k_3'", "full, no_mgt, no_gnn, k_2, k_8, beta_50"]),
    "unknown measure of the evidence": (
        params(evidence__measures=["RRR@10"]),
        "trial k_2",
        ["evidence.measures", "RRR@10"],
    ),
    "unknown system": (
        lambda p: None,
        "cache_passages bm26",
        ["'bm26'", "must be one of retriever, dual_encoder, no_gnn, dual_encoder_distilled, dual_cross_dpr"],
    ),
}


@pytest.mark.parametrize("name", PARAMS)
def test_params(refused: Callable[..., None], name: str) -> None:
    change, command, parts = PARAMS[name]
    refused(change, command, *parts)


# --- models -----------------------------------------------------------------------------------------------------------

TINY_MODEL = "tests/tiny/model"
MODELS = {
    "no such folder": (params(encoder__model="tests/tiny/none"), "train_dual_encoder retriever", ["tests/tiny/none"]),
    "no weights": (
        remove(f"{TINY_MODEL}/model.safetensors"),
        "train_dual_encoder retriever",
        [TINY_MODEL, "cannot be loaded"],
    ),
    "weights cut off": (cut_off(f"{TINY_MODEL}/model.safetensors", 0.5), "train_dual_encoder retriever", [TINY_MODEL]),
    "no tokenizer": (remove(f"{TINY_MODEL}/tokenizer.json"), "train_dual_encoder retriever", [TINY_MODEL]),
    "weights of another size": (configure_model(hidden_size=16), "train_dual_encoder retriever", [TINY_MODEL]),
    "fewer layers than frozen": (
        params(encoder__frozen_layers=3),
        "train_dual_encoder retriever",
        ["encoder.frozen_layers is 3"],
    ),
    "longer passages than positions": (
        params(encoder__passage_length=200),
        "train_dual_encoder retriever",
        ["encoder.passage_length", "200", "128"],
    ),
    "longer views than positions": (
        params(dual_cross__max_length=200),
        "train_dual_cross dual_cross",
        ["dual_cross.max_length", "200", "128"],
    ),
    "no such generator": (params(dual_cross__generator__model="tests/none"), "generate_queries", ["tests/none"]),
    "longer pairs than positions": (
        params(train_cross_encoder__max_length=200),
        "train_cross_encoder",
        ["train_cross_encoder.max_length", "200", "128"],
    ),
    "no dual-encoder": (remove("data/retriever/dual_encoder.json"), "cache_passages retriever", ["data/retriever"]),
    "unknown package": (
        params(encoder__model="package:no_such/model"),
        "train_dual_encoder retriever",
        ["encoder.model", "no_such"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(refused: Callable[..., None], name: str) -> None:
    change, command, parts = MODELS[name]
    refused(change, command, *parts)


# --- artifacts --------------------------------------------------------------------------------------------------------


TRAIN, ENCODE, LINK = (f"{stage} gnn_encoder" for stage in ("train_mgt", "encode_corpus", "build_graph"))


@pytest.mark.parametrize("command", [LINK, "build_index dual_encoder", TRAIN, "train_no_gnn"])
def test_nan_in_embeddings(refused: Callable[..., None], command: str) -> None:
    refused(replace_matrix(with_nan), command, f"{MATRIX}/embeddings.npy", "row 7", "NaN")


@pytest.mark.parametrize(
    "command",
    [LINK, "build_index dual_encoder", TRAIN, ENCODE],
)
def test_an_embedding_file_shorter_than_its_manifest(refused: Callable[..., None], command: str) -> None:
    refused(cut_off(f"{MATRIX}/embeddings.npy", 0.5), command, f"{MATRIX}/embeddings.npy", "(120, 32) float16")


@pytest.mark.parametrize("command", [LINK, TRAIN, ENCODE])
def test_embeddings_of_another_dimension(refused: Callable[..., None], command: str) -> None:
    refused(replace_matrix(lambda matrix: matrix[:, :16].copy()), command, "16", "32")


@pytest.mark.parametrize("command", ["build_index dual_encoder", TRAIN, ENCODE])
def test_embeddings_of_another_corpus(refused: Callable[..., None], command: str) -> None:
    refused(replace_matrix(lambda matrix: matrix[:119].copy()), command, "119", "120")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("data/prepared/passages.parquet", "bm25"),
        ("data/runs/dual_encoder/dev.trec.gz", "baselines"),
        ("data/candidates/candidates.parquet", "train_cross_encoder"),
        ("data/examples/examples.parquet", "train_dual_encoder dual_encoder"),
        ("data/graph/gnn_encoder/edges.parquet", "embed_edges gnn_encoder"),
        ("data/runs/retriever/dev.trec.gz", "evaluate gnn_encoder"),
        ("data/runs/dual_encoder/dev.trec.gz", "rerank"),
        ("data/graph/gnn_encoder_generated/sources.parquet", "train_mgt gnn_encoder_generated"),
        ("data/pair_labels/pretrain.parquet", "train_dual_encoder pair_pretrained"),
        ("data/generated/queries.parquet", "train_dual_cross dual_cross"),
        ("data/trials/no_mgt/attention.parquet", "evidence"),
        ("data/trials/k_8/values.parquet", "evidence"),
    ],
)
def test_an_artifact_that_is_cut_off(refused: Callable[..., None], name: str, command: str) -> None:
    refused(cut_off(name, 0.5), command, name)


def test_a_model_that_is_cut_off(refused: Callable[..., None]) -> None:
    refused(cut_off("data/retriever/model.safetensors", 0.5), "mine_candidates", "data/retriever", "cannot be loaded")


def test_an_artifact_that_is_not_there(refused: Callable[..., None]) -> None:
    refused(
        remove("data/graph/gnn_encoder"), "train_mgt gnn_encoder", "data/graph/gnn_encoder", "no such file", "dvc repro"
    )


def test_a_shell_sees_one_line_and_status_2(stages: Any, fresh: Any) -> None:
    """As DVC starts a stage: a Python of its own, through scripts/python."""
    stages.set_params(mgt__beta=1.0)
    before = stages.hashes("data")
    (stages.folder / "src").symlink_to(fresh.folder / "src")
    ran = stages.python("stages/prepare.py")
    check(stages, ran, before | stages.hashes("metrics", "plots"), "mgt.beta is 1.0")
    assert ran.stderr.count("\n") == 1


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(stages: Any) -> Iterator[Callable[[int], None]]:
    """A real file system of 8 MiB in the place of .scratch; `leave(KiB)` fills it up but for that much."""
    scratch: Path = stages.folder / ".scratch"
    mounted = []

    def leave(kib: int) -> None:
        kept = scratch.rename(scratch.with_name("kept"))
        scratch.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(scratch)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no right to mount a small disk here: {done.stderr.strip()}")
        mounted.append(scratch)
        shutil.copytree(kept, scratch, dirs_exist_ok=True)
        free = shutil.disk_usage(scratch).free - 1024 * kib
        with (scratch / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free)

    yield leave
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


FULL = [
    ("prepare", 8),
    ("untouched", 100),
    ("bm25", 8),
    ("train_dual_encoder retriever", 100),
    ("train_cross_encoder", 1000),
    ("cache_passages retriever", 8),
    ("denoise", 0),
    ("build_graph gnn_encoder", 0),
    ("embed_edges gnn_encoder", 12),
    ("train_mgt gnn_encoder", 200),
    ("encode_corpus gnn_encoder", 8),
    ("baselines", 4),
    ("generate_queries", 200),
    ("train_dual_cross dual_cross", 200),
    ("evaluate gnn_encoder", 16),
    ("trial full", 200),
    ("trial k_2", 900),
    ("evidence", 0),
]


@pytest.mark.parametrize(("command", "kib"), FULL)
def test_a_full_disk(stages: Any, small_disk: Callable[[int], None], command: str, kib: int) -> None:
    before = stages.hashes("data", "metrics", "plots")
    small_disk(kib)
    check(stages, stages.stage(*command.split()), before, "no space left on the disk", "free space")


@pytest.fixture
def short_texts(stages: Any) -> None:
    """Thousands of passages of one token, not tokenised yet."""
    shutil.rmtree(stages.folder / ".scratch" / "tokens")
    for number in range(4000):
        append(CORPUS, json.dumps({"_id": f"new-{number}", "text": "a"}).encode())(stages)
    assert stages.stage("prepare").status == 0


# `short_texts` stands before `small_disk`: an artifact is not moved from one file system to another.
@pytest.mark.parametrize("kib", [0, 16])
def test_a_disk_that_fills_while_texts_are_tokenised(
    stages: Any, short_texts: None, small_disk: Callable[[int], None], kib: int
) -> None:
    """Short texts: 8 KiB of tokens, 32 KiB of offsets. Were those a mapped file, the process would die of SIGBUS."""
    before = stages.hashes("data", "metrics", "plots")
    small_disk(kib)
    check(stages, stages.stage("cache_passages", "retriever"), before, "no space left on the disk")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_write_that_fails(stages: Any, number: int) -> None:
    """Where no small disk can be mounted: the same error, from the second block on."""
    order = {
        "settings": {"gnn_encoder.encoding.corpus:WINDOW": 16},
        "counted": "gnn_encoder.core.storage.arrays:ArrayWriter.write",
    }
    before = stages.hashes("data", "metrics", "plots")
    failed = stages.stage("cache_passages", "retriever", **order, fail_after=[1, number])
    check(stages, failed, before, "no space left on the disk")
    resumed = stages.stage("cache_passages", "retriever", **order)
    assert resumed.status == 0 and resumed.calls == 7, "one of the eight blocks was written before"
