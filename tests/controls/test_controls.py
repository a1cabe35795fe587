"""Each control on the tiny corpus and model: what it writes, that it knows training labels alone; and its parts."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import Rows, Scores, open_matrix
from gnn_encoder.base.runs import read_run, write_ranking
from gnn_encoder.base.tables import OWN, QRELS, QUERIES, UNLABELLED, count_rows, read_column, write_table
from gnn_encoder.controls import closed_form, hybrid, query_bank
from gnn_encoder.controls import write as controls
from gnn_encoder.controls.choose import DevQueries, best_on_dev, read_choice
from gnn_encoder.controls.hybrid import LABELLED, LabelledQueries, log_settings, unit, with_log
from gnn_encoder.controls.write import Encoded
from gnn_encoder.evaluate.judge import Judgements
from gnn_encoder.evaluate.measures import mean
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.exact import MISSING, array_top_k, top
from gnn_encoder.text.corpus import embed_queries, load_encoder

from ..built import BASE
from ..texts import pairs

FORMS = ("nudge_n", "closed_form", "query_bank")
SYSTEMS = (*FORMS, "logged_neighbours", "hybrid")


def write(system: str, params: Params, target: Path, **others: Path) -> None:
    """What the stage `controls` does for a system on a base, without DVC; `others`: dense systems and their runs."""
    target.mkdir(exist_ok=True)
    dev, runs = controls.dev_queries(params), project.runs(BASE)
    queries = Encoded.of(BASE, runs, params)
    if system in FORMS:
        plus, matrix = target / "plus", target / "matrix"
        plus.mkdir()
        controls.write_closed_forms(queries, {system: (system, target)}, plus, matrix, dev, params)
        return
    logged = controls.rank_with_log(queries, dev, params)
    if system == "hybrid":
        controls.write_hybrid(target, {BASE: runs, **others}, {BASE: queries}, logged, dev, params)
    else:
        controls.write_control(target, system, logged.choice, logged.rankings)


@pytest.fixture
def params(built_copy: Path) -> Params:
    """Those of a copy of a built project, which becomes the working folder, with runs of BM25."""
    found = load_params()
    project.POSITIVES.parent.mkdir(exist_ok=True)
    shutil.copy(project.qrels("dev"), project.POSITIVES)
    bm25 = BM25Index.build(project.PASSAGES, found.bm25)
    for split in project.JUDGED:
        queries = project.queries(split)
        words = bm25.search(read_column(queries, "text").to_list(), found.retrieve.depth)
        write_ranking(project.run_file("bm25", split), words, queries, project.PASSAGES, "bm25")
    return found


@pytest.mark.parametrize("system", ["closed_form", "hybrid"])
def test_only_training_labels_are_used(params: Params, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ones = {"LOG_WEIGHTS": (1.0,), "NEIGHBOURS": (2,), "TEMPERATURES": (0.1,), "BM25_WEIGHTS": (0.5,)}
    for name, value in ones.items():
        monkeypatch.setattr(hybrid, name, value)
    for room, name, value in (
        (closed_form, "STEPS", (0.3,)),
        (closed_form, "RIDGES", (None,)),
        (closed_form, "POWERS", (1.0,)),
        (query_bank, "WEIGHTS", (0.3,)),
    ):
        monkeypatch.setattr(room, name, value)

    def written() -> dict[Path, str]:
        shutil.rmtree("written", ignore_errors=True)
        write(system, params, Path("written"))
        files = [path for path in Path("written").rglob("*") if path.is_file() and path.name != "choice.json"]
        return {path: fingerprint(path) for path in files}

    def shift_labels(split: str) -> None:  # to the queries before
        table = pl.read_parquet(project.qrels(split)).with_columns(pl.col("pid").shift(-1, fill_value="p5"))
        write_table(project.qrels(split), QRELS, [table.to_arrow()])

    before = written()
    shift_labels("dev")
    project.qrels("test").unlink()
    assert written() == before, "dev labels choose among settings, of which there is one"
    shift_labels("train")
    assert written() != before


@pytest.mark.parametrize("by_answers", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_value_on_dev_is_that_of_the_run(params: Params, system: str, by_answers: bool) -> None:
    if by_answers:  # each query's answer is the first word of a passage
        table, path = pl.read_parquet(project.queries("dev")), project.queries("dev")
        words = pl.read_parquet(project.PASSAGES)["text"].head(len(table)).str.split(" ").list.head(1)
        write_table(path, QUERIES, [table.with_columns(answers=words).to_arrow()])
        write_table(project.qrels("dev"), QRELS, [QRELS.empty_table()])
    write(system, params, Path("written"))
    choice, dev, judge = read_choice(Path("written")), read_run(Path("written/dev.trec.gz")), Judgements("dev")
    value = mean(*judge.measure([dev], ["RR@10"]))["RR@10"]
    assert choice.chosen.value == pytest.approx(value, abs=1e-12)
    assert choice.chosen.value == max(one.value for one in choice.tried) and choice.queries == 15
    if system in FORMS:
        rows, matrix, plus = judge.judged_rows(), open_matrix(Path("written/matrix")), read_choice(Path("written/plus"))
        found, _ = array_top_k(matrix, np.load(project.asked(BASE, "dev"))[rows], 10)
        assert plus.chosen.value == pytest.approx(*judge.means([found], rows, "RR@10"), abs=1e-12)
        assert plus.chosen.value == max(one.value for one in plus.tried)


def test_the_bank_has_queries_with_and_without_labels(params: Params) -> None:
    """The first training query has no label either."""
    new = pl.DataFrame({"qid": ["u1", "u2"], "text": ["Which river is long?", "A metal"], "answers": [None, None]})
    write_table(project.queries(UNLABELLED), QUERIES, [new.to_arrow().cast(QUERIES)])
    train = pl.read_parquet(project.queries("train"))
    labels = pl.read_parquet(project.qrels("train")).filter(pl.col("qid") != train["qid"][0])
    write_table(project.qrels("train"), QRELS, [labels.to_arrow().cast(QRELS)])
    found, encoder = Encoded.of(BASE, project.runs(BASE), params), load_encoder(project.encoder(BASE), params.encoder)
    tables = project.queries("train"), project.queries(UNLABELLED)
    every = np.concatenate([embed_queries(encoder, of, params.encoder.batch_tokens) for of in tables])
    np.testing.assert_allclose(found.bank, every, atol=1e-6)
    rows = train["qid"].is_in(labels["qid"].implode()).arg_true().to_numpy()
    assert 0 < len(rows) < len(train)
    np.testing.assert_allclose(found.labelled, every[rows], atol=1e-6)


def test_neighbours_do_not_bring_a_query_to_itself(params: Params) -> None:
    labelled = relevant_pairs(*project.tables("train"))["passage"].unique()
    for split in project.JUDGED:
        queries = pl.DataFrame({"query": range(count_rows(project.queries(split)))})
        own = queries.join(labelled.to_frame(), how="cross").cast(pl.Int32)
        write_table(project.IDENTICAL / f"{split}.parquet", OWN, [own.to_arrow()])
    with patch.object(controls, "ranked_anew", wraps=controls.ranked_anew) as ranked_anew:
        write("logged_neighbours", params, Path("log"))
    for split, (passages, _) in ranked_anew.call_args.args[0].items():
        run, _ = controls.read_ranked(project.runs(BASE), split)
        assert all(set(row) <= {-1, *ran} for row, ran in zip(passages, run, strict=True))


def test_the_hybrid_takes_the_best_of_each_source(params: Params) -> None:
    write("hybrid", params, Path("written"))
    write("logged_neighbours", params, Path("alone"))
    fused, log = read_choice(Path("written")), read_choice(Path("alone"))
    assert fused.chosen.value >= log.chosen.value
    assert fused.facts.get("log_weight", 0) == log.setting["weight"], "the log stands beside the same M_de"
    assert (Path("written") / LABELLED).is_dir() == bool(log.setting["weight"])
    shutil.copytree(project.encoder(BASE), project.encoder("untouched"))
    # BM25 finds nearly all on the tiny corpus. The runs are where this stage has not published them yet.
    unfinished = shutil.copytree(project.RUNS / "bm25", Path("unfinished"))
    for split in project.JUDGED:
        shutil.copy(project.asked(BASE, split), unfinished)
    write("hybrid", params, Path("again"), untouched=unfinished)
    facts: Any = read_choice(Path("again")).facts
    assert facts["dense"] == "untouched" and facts["dev_untouched"] > facts["dev_dual_encoder"]
    assert facts["depth"] == params.retrieve.depth


def test_the_dev_queries_are_a_sample(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "DEV_QUERIES", 6)
    for name, depth in {"RR@10": 10, "nDCG@5": 5, "AP": 50, "P(judged_only=True)@9": 50}.items():
        params = params.model_copy(update={"evaluate": params.evaluate.model_copy(update={"significance": name})})
        dev, again = controls.dev_queries(params), controls.dev_queries(params).rows.tolist()
        assert (dev.depth, dev.measure) == (depth, name)
        assert len(set(again)) == 6 and dev.rows.tolist() == sorted(again) == again


# --- what ranks anew, by plain loops ----------------------------------------------------------------------------------

RUN = (np.array([[3, 0, 2], [1, 4, -1]]), np.array([[5.0, 4.0, 1.0], [2.0, 1.0, MISSING]], np.float32))

# --- similar logged queries: query 1 has no label; passage 2 is labelled for 0 and 3, passage 5 for 2 alone -----------

LOGGED = [[1.0, 0.1], [1.0, 0.0], [0.5, 1.0], [2.0, 1.0], [-1.0, 0.3]]
LABELS = {0: [2], 2: [0, 5], 3: [2, 3], 4: [5]}
ASKED = np.array([[3.0, 0.5], [0.2, 1.0]], np.float32)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def logged() -> LabelledQueries:
    labels = pairs(*((query, passage) for query, passages in LABELS.items() for passage in passages))
    return LabelledQueries.of(labels, np.array(LOGGED, np.float32))


def oracle(count: int, weight: float, temperature: float) -> list[dict[int, float]]:
    results = []
    for row, asked in enumerate(ASKED.tolist()):
        nearest = sorted(LABELS, key=lambda query: -cosine(asked, LOGGED[query]))
        near = [math.exp(cosine(asked, LOGGED[query]) / temperature) for query in nearest[:count]]
        given: dict[int, float] = {}
        for query, share in zip(nearest, near, strict=False):
            for passage in LABELS[query]:
                given[passage] = given.get(passage, 0.0) + share / sum(near)
        scores = {p: s for p, s in zip(RUN[0][row].tolist(), RUN[1][row].tolist(), strict=True) if p >= 0}
        lowest = min(scores.values())
        # Candidates: the labelled passages of the 3 nearest queries, the most that any setting looks at.
        for query in nearest[:3]:
            for passage in LABELS[query]:
                scores.setdefault(passage, lowest)
        results.append({passage: score + weight * given.get(passage, 0.0) for passage, score in scores.items()})
    return results


@pytest.mark.parametrize(("count", "temperature"), [(1, 1.0), (2, 0.1), (3, 0.5)])
@pytest.mark.parametrize("weight", [0.0, 1.5, -2.0])
def test_similar_logged_queries(tmp_path: Path, count: int, temperature: float, weight: float) -> None:
    logged().save(tmp_path / "log")
    near = LabelledQueries.open(tmp_path / "log").look_up(ASKED, 3)
    passages, scores = with_log(RUN, near, 0.5)
    found = as_dicts((passages, scores({"weight": weight / 0.5, "neighbours": count, "temperature": temperature})))
    assert found == [pytest.approx(expected, abs=1e-6) for expected in oracle(count, weight, temperature)]


def test_a_log_of_few_queries() -> None:
    few, shares = logged().look_up(ASKED, 50)
    assert shares({"neighbours": 50, "temperature": 1.0})[few >= 0].all(), "all logged queries are near"


def test_unit_is_the_mean_standard_deviation_of_a_query() -> None:
    # of 5, 4, 1: sqrt(26 / 9); of 2, 1: 1 / 2
    assert unit(*RUN) == pytest.approx((math.sqrt(26) / 3 + 0.5) / 2)
    assert unit(np.full((2, 3), -1), np.full((2, 3), MISSING)) == 0.0


# --- the fusion with BM25. The first query's passages 7 and 2 are found by both, the second one's by the dense system
# alone. Of the third one BM25 finds a single passage, the dense system's last. The fourth one's scores are equal. -----

DENSE = (
    np.array([[7, 2, 5], [1, 0, -1], [8, 3, 6], [3, 4, -1]]),
    np.array([[9.0, 6.0, 3.0], [2.0, 1.0, MISSING], [3.0, 2.0, 1.0], [1.0, 1.0, MISSING]], np.float32),
)
LEXICAL = (
    np.array([[2, 9, 7, 4], [-1, -1, -1, -1], [6, -1, -1, -1], [4, 6, -1, -1]]),
    np.array([[8.0, 4.0, 2.0, 2.0], [MISSING] * 4, [5.0, *[MISSING] * 3], [2.0, 0.0, MISSING, MISSING]], np.float32),
)


def as_dicts(ranking: tuple[Rows, Scores]) -> list[dict[int, float]]:
    return [
        {passage: score for passage, score in zip(rows, scores, strict=True) if passage >= 0}
        for rows, scores in zip(ranking[0].tolist(), ranking[1].tolist(), strict=True)
    ]


def standardised(scores: dict[int, float]) -> dict[int, float]:
    mean = sum(scores.values()) / max(1, len(scores))
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores.values()) / max(1, len(scores)))
    return {passage: (score - mean) / (deviation or 1) for passage, score in scores.items()}


def test_without_weight_all_stays_as_it_was() -> None:
    """What a run does not have stands below its last passage, also below one with a higher row."""
    run = np.array([[4, 2], [-1, -1]]), np.array([[3.0, 1.0], [MISSING, MISSING]], np.float32)
    near = np.array([[1, 3], [6, 5]]), lambda setting: np.array([[0.5, 0.5], [0.2, 0.8]], np.float32)
    passages, scores = hybrid.with_log(run, near, 1.0)
    assert top(passages, scores({"weight": 0.0}), 2)[0][0].tolist() == [4, 2]
    assert top(passages, scores({"weight": 1.0}), 2)[0][1].tolist() == [5, 6], "of an empty run the shares decide"
    lexical = np.array([[1, 4], [-1, -1]]), np.array([[2.0, 1.0], [MISSING, MISSING]], np.float32)
    passages, scores = hybrid.fused(run, lexical)
    assert top(passages, scores({"weight": 0.0}), 2)[0][0].tolist() == [4, 2]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_by_standardised_scores(weight: float) -> None:
    passages, scores = hybrid.fused(DENSE, LEXICAL)
    fused = as_dicts((passages, scores({"weight": weight})))
    for one, found, words in zip(fused, as_dicts(DENSE), as_dicts(LEXICAL), strict=True):
        other = {-1: 0.0} if len(words) < 4 else {}  # one of those without a word of the query
        dense, lexical = standardised(found), standardised(words | other)
        lowest = min(dense.values(), default=0.0), min(lexical.values(), default=0.0)
        rest, both = max(1 - weight, 1e-4), found.keys() | words.keys()
        expected = {p: rest * dense.get(p, lowest[0]) + weight * lexical.get(p, lowest[1]) for p in both}
        assert one == pytest.approx(expected, abs=1e-6)
    ranked, _ = top(passages, scores({"weight": 1.0}), 3)
    assert ranked[:3].tolist() == [[2, 9, 7], [1, 0, -1], [6, 8, 3]], "among equals the dense scores decide"


def test_the_first_of_equally_good_settings_is_chosen_the_one_that_changes_least() -> None:
    first = {0.0: 50, 0.1: 75, 0.2: 75, 0.5: 25}  # the row of the passage found first, which is the measure's value
    dev = DevQueries(
        rows=np.arange(7), measure="RR@10", depth=1, values=lambda found: [float(one[0, 0]) for one in found]
    )
    found = best_on_dev([{"weight": one} for one in first], (np.array([[row]]) for row in first.values()), dev)
    assert found.setting == {"weight": 0.1} and found.chosen.value == 75 and found.queries == 7
    assert [(one.setting["weight"], one.value) for one in found.tried] == list(first.items())
    tried = log_settings()
    assert len(tried) == 8 * (1 + 3 * 4) and tried[0] == {"weight": 0.0, "neighbours": 1, "temperature": 0.02}
    weights = [float(one["weight"]) for one in tried]
    assert weights == sorted(weights) and list(hybrid.BM25_WEIGHTS) == sorted(hybrid.BM25_WEIGHTS)


def test_a_damaged_choice_and_a_missing_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vectors\.npy: not built yet"):
        LabelledQueries.open(tmp_path)
    for text in ("{", "{}", '{"measure": 3}'):
        (tmp_path / "choice.json").write_text(text)
        with pytest.raises(UserError, match="choice.json: not what its stage writes .*; run the stage") as caught:
            read_choice(tmp_path)
        assert "\n" not in str(caught.value)
