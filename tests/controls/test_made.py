"""The whole of each control on the tiny corpus and model: what it writes, and that it knows training labels alone."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gnn_encoder.base.files import fingerprint
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.runs import as_run, read_run, write_ranking
from gnn_encoder.base.tables import OWN, QRELS, QUERIES, count_rows, read_column, write_table
from gnn_encoder.controls import closed_form, hybrid
from gnn_encoder.controls import write as controls
from gnn_encoder.controls.choose import read_choice
from gnn_encoder.controls.hybrid import LABELLED
from gnn_encoder.controls.write import Encoded
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.evaluate.judge import Judgements
from gnn_encoder.evaluate.measures import mean
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.text.corpus import embed_queries, encode_corpus, open_passages, open_queries, origin_of, passage_inputs
from gnn_encoder.text.encoder import DualEncoder

from ..project import ROOT

BASE = "dual_encoder"
FORMS = {"query_mean": "mean", "nudge_n": "nudge_n", "closed_form": "closed_form"}
SYSTEMS = (*FORMS, "logged_neighbours", "hybrid")


def write(system: str, params: Params, target: Path, dense: Sequence[str] = (BASE,)) -> None:
    """What the stage `controls` does for a system on a base, without DVC."""
    target.mkdir(exist_ok=True)
    dev, runs, encoded = controls.dev_queries(params), project.runs(BASE), partial(Encoded.of, section=params.encoder)
    if system in FORMS:
        controls.write_closed_forms(encoded(BASE), {target: (system, FORMS[system])}, target / "matrix", dev, params)
    elif system == "hybrid":
        controls.write_hybrid(target, {name: project.runs(name) for name in dense}, [BASE], encoded, dev, params)
    else:
        controls.write_control(target, system, *controls.rank_with_log(encoded(BASE), runs, target, dev, params))


@pytest.fixture(scope="module")
def params(tiny_params: Params) -> Params:
    """The tiny experiment with its paths made absolute."""
    data = tiny_params.data.model_copy(update={"path": str(ROOT / "tests/tiny/beir")})
    encoder = tiny_params.encoder.model_copy(update={"model": str(ROOT / "tests/tiny/model")})
    return tiny_params.model_copy(update={"data": data, "encoder": encoder})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, params: Params) -> Path:
    """A project with prepared tables, an untrained M_de, its matrix, and runs of it and of BM25."""
    root = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        prepare(params.data, open_source(params.data), project.PREPARED, seed=1)
        project.POSITIVES.parent.mkdir()
        shutil.copy(project.qrels("dev"), project.POSITIVES)
        encoder = DualEncoder.from_pretrained(params.encoder).for_inference()
        encoder.save(project.encoder(BASE))
        origin = origin_of(project.encoder(BASE), project.PASSAGES)
        inputs, dtype = passage_inputs(encoder, open_passages(encoder)), params.cache_passages.dtype
        encode_corpus(encoder, inputs, project.embeddings(BASE), dtype=dtype, batch_tokens=512, origin=origin)
        bm25 = BM25Index.build(project.PASSAGES, params.bm25)
        for split in project.JUDGED:
            queries = project.queries(split)
            vectors = embed_queries(encoder, open_queries(queries, encoder), 512)
            found = exact_top_k(project.embeddings(BASE), vectors, params.retrieve.depth)
            write_ranking(project.run_file(BASE, split), found, queries, project.PASSAGES, BASE)
            words = bm25.search(read_column(queries, "text").to_pylist(), params.retrieve.depth)
            write_ranking(project.run_file("bm25", split), words, queries, project.PASSAGES, "bm25")
    return root


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project as the working folder."""
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def written(system: str, params: Params) -> dict[str, str]:
    """What the control writes, file by file, apart from its choice."""
    target = Path("written")
    shutil.rmtree(target, ignore_errors=True)
    write(system, params, target)
    files = [path for path in sorted(target.rglob("*")) if path.is_file() and path.name != "choice.json"]
    return {path.relative_to(target).as_posix(): fingerprint(path) for path in files}


def shift_labels(split: str) -> None:
    """Give each query of a split the labels of the next one."""
    table = pl.read_parquet(project.qrels(split))
    write_table(project.qrels(split), QRELS, [table.with_columns(pl.col("pid").shift(-1, fill_value="p5")).to_arrow()])


@pytest.mark.parametrize("system", ["query_mean", "logged_neighbours", "hybrid"])
def test_only_training_labels_are_used(
    folder: Path, params: Params, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = {"LOG_WEIGHTS": (1.0,), "NEIGHBOURS": (2,), "TEMPERATURES": (0.1,), "BM25_WEIGHTS": (0.5,)}
    for name, value in ones.items():
        monkeypatch.setattr(hybrid, name, value)
    monkeypatch.setattr(closed_form, "MEAN_WEIGHTS", (0.3,))
    before = written(system, params)
    shift_labels("dev")
    project.qrels("test").unlink()
    assert written(system, params) == before, "dev labels choose among settings, of which there is one"
    shift_labels("train")
    assert written(system, params) != before


@pytest.mark.parametrize("by_answers", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_value_on_dev_is_that_of_the_run(folder: Path, params: Params, system: str, by_answers: bool) -> None:
    if by_answers:
        answered("dev")
    write(system, params, Path("written"))
    choice, dev = read_choice(Path("written")), read_run(Path("written/dev.trec.gz"))
    value = mean(Judgements.of("dev", params.evaluate).measure(dev, ["RR@10"]))["RR@10"]
    assert choice.chosen.value == pytest.approx(value, abs=1e-12)
    assert choice.chosen.value == max(one.value for one in choice.tried) and choice.queries == 15
    for split in project.JUDGED:
        run, qids = read_run(Path(f"written/{split}.trec.gz")), read_column(project.queries(split), "qid").to_pylist()
        assert run["qid"].unique(maintain_order=True).to_list() == qids
        assert run.group_by("qid").len()["len"].max() == params.retrieve.depth
    if system in FORMS:
        assert choice.chosen.value == pytest.approx(searched(Path("written/matrix"), params), abs=1e-12)


def answered(split: str) -> None:
    """Have a split judged by answers: the first word of a passage's text for each query."""
    table = pl.read_parquet(project.queries(split))
    texts = pl.read_parquet(project.PASSAGES)["text"].head(len(table)).to_list()
    table = table.with_columns(answers=pl.Series([[text.split()[0]] for text in texts]))
    write_table(project.queries(split), QUERIES, [table.to_arrow()])
    write_table(project.qrels(split), QRELS, [QRELS.empty_table()])


def searched(matrix: Path, params: Params) -> float:
    """RR@10 of the dev queries in a search of a passage matrix."""
    encoder = DualEncoder.load(project.encoder(BASE), precision="fp32").for_inference()
    vectors = embed_queries(encoder, open_queries(project.queries("dev"), encoder), 512)
    qids, pids = (
        pl.Series(read_column(path, name))
        for path, name in ((project.queries("dev"), "qid"), (project.PASSAGES, "pid"))
    )
    run = as_run(exact_top_k(matrix, vectors, 10)[0], qids, pids)
    return mean(Judgements.of("dev", params.evaluate).measure(run, ["RR@10"]))["RR@10"]


def test_neighbours_do_not_bring_a_query_to_itself(
    folder: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled = relevant_pairs(*project.tables("train"))["passage"].unique()
    for split in project.JUDGED:
        queries = pl.DataFrame({"query": range(count_rows(project.queries(split)))})
        own = queries.join(labelled.to_frame(), how="cross").cast(pl.Int32)
        write_table(project.IDENTICAL / f"{split}.parquet", OWN, [own.to_arrow()])
    found, ranked_anew = dict[str, Any](), controls.ranked_anew
    monkeypatch.setattr(
        controls, "ranked_anew", lambda of, *given, **more: found.update(of) or ranked_anew(of, *given, **more)
    )
    write("logged_neighbours", params, Path("log"))
    for split, (passages, _) in found.items():
        run, _ = controls.read_ranked(project.runs(BASE), split)
        assert all(set(row) <= {-1, *ran} for row, ran in zip(passages, run, strict=True))


def test_the_hybrid_takes_the_best_of_each_source(folder: Path, params: Params) -> None:
    write("hybrid", params, Path("written"))
    write("logged_neighbours", params, Path("alone"))
    fused, log = read_choice(Path("written")), read_choice(Path("alone"))
    assert fused.chosen.value >= log.chosen.value
    assert fused.facts.get("log_weight", 0) == log.setting["weight"], "the log stands beside the same M_de"
    assert (Path("written") / LABELLED).is_dir() == bool(log.setting["weight"])
    shutil.copytree(project.RUNS / "bm25", project.RUNS / "retriever")  # which finds nearly all on the tiny corpus
    shutil.copytree(project.encoder(BASE), project.encoder("retriever"))
    write("hybrid", params, Path("again"), dense=[BASE, "retriever"])
    facts: Any = read_choice(Path("again")).facts
    assert facts["dense"] == "retriever" and facts["dev_retriever"] > facts["dev_dual_encoder"]
    assert facts["depth"] == params.retrieve.depth


@pytest.mark.parametrize(
    ("measure", "depth"), [("RR@10", 10), ("nDCG@5", 5), ("AP", 50), ("nDCG(judged_only=True)@10", 50)]
)
def test_the_dev_queries_are_a_sample(
    folder: Path, params: Params, monkeypatch: pytest.MonkeyPatch, measure: str, depth: int
) -> None:
    monkeypatch.setattr(controls, "DEV_QUERIES", 6)
    params = params.model_copy(update={"evaluate": params.evaluate.model_copy(update={"significance": measure})})
    dev = controls.dev_queries(params)
    assert dev.depth == depth and dev.measure == measure
    assert len(set(dev.rows.tolist())) == 6 and dev.rows.tolist() == sorted(dev.rows.tolist())
    assert dev.rows.tolist() == controls.dev_queries(params).rows.tolist()
