"""The controls, made of artifacts where they lie; dev queries choose their settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.files import fingerprint, write_json
from gnn_encoder.base.judgements import Identical, relevant_pairs, with_rows
from gnn_encoder.base.matrix import Matrix, Origin, Rows, array_blocks, open_matrix
from gnn_encoder.base.runs import as_matrices, read_run, write_ranking
from gnn_encoder.base.tables import UNLABELLED, count_rows
from gnn_encoder.controls import hybrid
from gnn_encoder.controls.choose import CHOICE, Choice, DevQueries, Setting, best_on_dev, ranked_anew
from gnn_encoder.controls.closed_form import DEPTH, FAMILY, METHODS, LabelledPassages, Unmoved, settings_of
from gnn_encoder.controls.query_bank import BY_BANK, QueryBank, best_weight, drawn
from gnn_encoder.evaluate.judge import Judgements
from gnn_encoder.evaluate.measures import cutoff, parse
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, registry
from gnn_encoder.search.exact import Ranking, array_top_k
from gnn_encoder.text.corpus import embed_queries, load_encoder, transform_corpus
from gnn_encoder.text.encoder import DualEncoder

DEV_QUERIES = 2_000  # most judged dev queries that choose
Change = Callable[[int, Matrix], Matrix]  # of a matrix's rows from one on


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Queries by a system's encoder: those that are judged as its stage embedded them, and the labelled ones."""

    base: str
    runs: Path  # the system's folder of runs
    unit_length: bool  # of the system's embeddings
    labels: pl.DataFrame  # columns query, the place of a labelled training query, and passage
    labelled: Matrix  # (n, d), the labelled training queries
    bank: Matrix  # (at most BANK, d), queries drawn at random, labelled or not
    scale: float  # 1 / temperature
    splits: Mapping[str, Matrix]  # split -> its queries, (queries of the split, d)

    @classmethod
    def of(cls, base: str, runs: Path, params: Params) -> Self:
        """Read what lies beside the system's runs, and embed the labelled queries and the bank."""
        encoder, pairs = load_encoder(project.encoder(base), params.encoder), relevant_pairs(*project.tables("train"))
        rows, places = np.unique(pairs["query"].to_numpy(), return_inverse=True)
        n, tokens = count_rows(project.queries("train")), params.encoder.batch_tokens
        bank = drawn(n + count_rows(project.queries(UNLABELLED)), params.seed)
        read = np.union1d(rows, bank)
        parts = {"train": read[read < n], UNLABELLED: read[read >= n] - n}
        vectors = np.concatenate(
            [embed_queries(encoder, project.queries(one), tokens, some) for one, some in parts.items()]
        )
        return cls(
            base=base,
            runs=runs,
            unit_length=encoder.settings.similarity == "cosine",
            labels=pairs.with_columns(query=pl.Series(places)),
            labelled=vectors[np.searchsorted(read, rows)],
            bank=vectors[np.searchsorted(read, bank)],
            scale=encoder.scale,
            splits={split: np.load(runs / project.asked(base, split).name) for split in project.JUDGED},
        )

    @property
    def passages(self) -> NDArray[Any]:
        """The system's embeddings. *Shape:* (m, d)."""
        return open_matrix(project.embeddings(self.base))

    def search(self, split: str, k: int, change: Change, rows: Rows | None = None) -> Ranking:
        """The best passages, after a change, of a split's queries or of some rows of them. *Shape:* (q, k) both."""
        of, own, passages = self.splits[split], Identical.read(project.IDENTICAL, split), self.passages
        if rows is not None:
            of, own = of[rows], own.of_queries(rows)
        k = min(k, len(passages))
        return own.search(lambda wide: array_top_k(passages, of, wide, change=change), k, len(passages))


def dev_queries(params: Params) -> DevQueries:
    """The dev queries that choose the controls' settings: a fixed sample of those that count."""
    judge = Judgements("dev")
    (name,) = parse([params.evaluate.significance], "evaluate.significance")
    rows = np.sort(np.random.default_rng(params.seed).permutation(judge.judged_rows())[:DEV_QUERIES])
    depth = min(cutoff(name) or params.retrieve.depth, count_rows(judge.passages))
    return DevQueries(rows=rows, measure=name, depth=depth, values=lambda found: judge.means(found, rows, name))


def read_ranked(runs: Path, split: str) -> Ranking:
    """A run in a system's folder of runs. *Shape:* (queries of the split, longest ranking) both."""
    queries = project.queries(split)
    run = with_rows(read_run(runs / project.run_file("", split).name), queries, project.PASSAGES)
    return as_matrices(run, count_rows(queries))


def write_control(folder: Path, system: str, choice: Choice, rankings: Mapping[str, Ranking]) -> None:
    """Write a choice, and what it ranks in each split, into an unfinished artifact."""
    choice.tell(system)
    write_json(folder / CHOICE, choice)
    for split, ranking in rankings.items():
        target = folder / project.run_file(system, split).name
        write_ranking(target, ranking, project.queries(split), project.PASSAGES, system)


def write_closed_forms(
    queries: Encoded,
    reordered: Mapping[str, tuple[str, Path]],
    plus: Path,
    matrix: Path,
    dev: DevQueries,
    params: Params,
) -> None:
    """Write the runs of closed forms, and into `matrix` the passages by labels and query bank, its choice into `plus`.

    `reordered`: system -> its `by`, and its folder of runs. Of these closed forms of labels, or of the family if there
    is none, the best on dev goes into `matrix`.
    """
    dtype = params.cache_passages.dtype
    methods = [by for by, _ in reordered.values() if by in METHODS] or [FAMILY]
    forms = by_labels(methods, queries, dev, dtype)
    for system, (by, folder) in reordered.items():
        choice, change = lowered(queries, lambda first, block: block, dev, dtype) if by == BY_BANK else forms[by]
        found = {split: queries.search(split, params.retrieve.depth, change) for split in queries.splits}
        write_control(folder, system, choice, found)
    of_labels, change = max(forms.values(), key=lambda form: form[0].chosen.value)
    choice, change = lowered(queries, change, dev, dtype)
    choice = replace(choice, facts=of_labels.facts | {f"labels_{name}": one for name, one in of_labels.setting.items()})
    choice.tell(f"{queries.base}, labels and query bank")
    plain = project.embeddings(queries.base)
    origin = Origin(
        model_fingerprint=DualEncoder.passage_fingerprint(project.encoder(queries.base)),
        input_fingerprint=fingerprint(plain, *project.tables("train")[:2], **choice.setting, **choice.facts),
    )
    transform_corpus(plain, matrix, dtype=dtype, origin=origin, transform=change)
    write_json(plus / CHOICE, choice)


def by_labels(
    methods: Sequence[str], queries: Encoded, dev: DevQueries, dtype: str
) -> dict[str, tuple[Choice, Change]]:
    """Of each closed form of labels the setting that is best on dev, and how it changes passages, as on disk."""
    labelled = LabelledPassages.of(queries.passages, queries.labels, queries.labelled)
    pairs = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
    pairs = pairs.filter(pl.col("query").is_in(dev.rows.tolist()))
    pairs = pairs.with_columns(query=pl.Series(np.searchsorted(dev.rows, pairs["query"].to_numpy())))
    own = Identical.read(project.IDENTICAL, "dev").of_queries(dev.rows)
    read = min(max(dev.depth, DEPTH), len(queries.passages))
    unmoved = Unmoved(queries.passages, labelled, queries.splits["dev"][dev.rows], read, own)
    forms = dict[str, tuple[Choice, Change]]()
    for method in methods:
        settings, moved = settings_of(method, labelled, unmoved, pairs, unit_length=queries.unit_length)

        def rounded(setting: Setting, moved: Callable[[Setting], Matrix] = moved) -> Matrix:
            return moved(setting).astype(dtype).astype(np.float32)

        choice = best_on_dev(settings, (unmoved.rank(rounded(one))[0] for one in settings), dev)
        choice = replace(choice, facts={"labelled_passages": len(labelled.passages)})
        forms[method] = choice, partial(labelled.place, moved=rounded(choice.setting))
    return forms


def lowered(queries: Encoded, place: Change, dev: DevQueries, dtype: str) -> tuple[Choice, Change]:
    """The weight of the query bank that is best on dev, for passages that `place` changes before, and both changes."""
    passages = queries.passages

    def placed() -> Iterator[tuple[int, Matrix]]:
        return ((first, place(first, block)) for first, block in array_blocks(passages))

    bank = QueryBank.of(placed, len(passages), queries.bank, queries.scale)

    def by(weight: float) -> Change:  # as on disk
        return lambda first, block: bank.lower(first, place(first, block), weight).astype(dtype).astype(np.float32)

    choice = best_weight(lambda weight: queries.search("dev", dev.depth, by(weight), dev.rows)[0], dev)
    return choice, by(float(choice.setting["weight"]))


@dataclass(frozen=True, kw_only=True)
class WithLog:
    """What a system found, ranked anew by the shares of similar logged queries."""

    base: str
    known: hybrid.LabelledQueries
    choice: Choice
    rankings: dict[str, Ranking]


def rank_with_log(queries: Encoded, dev: DevQueries, params: Params) -> WithLog:
    """Rank anew what a system's runs have, as is best on dev."""
    known = hybrid.LabelledQueries.of(queries.labels, queries.labelled)
    found = {split: read_ranked(queries.runs, split) for split in project.JUDGED}
    unit, candidates = hybrid.unit(*found["dev"]), {}
    for split, of in found.items():
        near, shares = known.look_up(queries.splits[split], max(hybrid.NEIGHBOURS))
        own = Identical.read(project.IDENTICAL, split).is_own(near)
        candidates[split] = hybrid.with_log(of, (np.where(own, -1, near), shares), unit)
    choice, rankings = ranked_anew(candidates, hybrid.log_settings(), dev, depth=params.retrieve.depth)
    choice = replace(choice, facts={"unit": unit, "logged_queries": len(known.vectors)})
    return WithLog(base=queries.base, known=known, choice=choice, rankings=rankings)


def write_hybrid(
    folder: Path,
    dense: Mapping[str, Path],
    encoded: Mapping[str, Encoded],
    logged: WithLog,
    dev: DevQueries,
    params: Params,
) -> None:
    """Write the hybrid of three sources: words, meaning and the log.

    Meaning is the dense system that is best on dev, of equally good ones the first; with it, or with that of `logged`,
    whichever is better, the log is asked; what comes out is fused with what BM25 found. Each step may leave a source
    out, so that on dev the hybrid is not below any of these. `dense`: systems and their folders of runs; `encoded`:
    queries by encoders of systems; a shifted system has that of its base.
    """
    depth, lexical = params.retrieve.depth, project.runs(LEXICAL)
    found = (read_ranked(runs, "dev")[0][dev.rows, : dev.depth] for runs in dense.values())
    side = best_on_dev([Setting(system=name) for name in dense], found, dev)
    if (name := str(side.setting["system"])) != logged.base:
        known = encoded.get(registry().dense[name].base or name)
        queries = replace(known, base=name, runs=dense[name]) if known else Encoded.of(name, dense[name], params)
        other = rank_with_log(queries, dev, params)
        other.choice.tell(f"{HYBRID}, log beside {name}")
        logged = max(other, logged, key=lambda one: one.choice.chosen.value)
    choice, rankings = logged.choice, logged.rankings
    facts: Setting = {"dense": logged.base, "depth": depth}
    facts |= {f"dev_{one.setting['system']}": one.value for one in side.tried}
    if choice.setting["weight"]:
        logged.known.save(folder / hybrid.LABELLED)
        facts |= {f"log_{name}": value for name, value in choice.setting.items()} | {"log_unit": choice.facts["unit"]}
    candidates = {split: hybrid.fused(of, read_ranked(lexical, split)) for split, of in rankings.items()}
    choice, rankings = ranked_anew(candidates, [Setting(weight=one) for one in hybrid.BM25_WEIGHTS], dev, depth=depth)
    write_control(folder, HYBRID, replace(choice, facts=facts), rankings)
