"""What one would do instead: sentence-transformers, from the same base model, data and labels, on the same machine.

It mines hard negatives (`mine_hard_negatives`), trains by CachedMultipleNegativesRankingLoss, encodes the passages and
searches them in FAISS's exact index; it reads as many tokens. Beside it stand M_de and GNN-encoder of the pipeline, and
its own vectors with our formulas of labels and query bank, as `gnn-encoder inform` has them, chosen on dev.
Requirement: GNN-encoder is significantly above it on the test queries, also with the formulas on both, and M_de is not
significantly below it.

    pip install accelerate datasets
    dvc repro
    python benchmarks/common_practice.py [--passes 1] [--rate 2e-5]
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from math import ceil
from typing import Any

import faiss
import harness
import numpy as np
import polars as pl
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
from sentence_transformers.util import mine_hard_negatives

from gnn_encoder.base.errors import report_errors
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.base.runs import as_run, read_run
from gnn_encoder.base.tables import UNLABELLED, read_column, with_title
from gnn_encoder.controls.closed_form import LabelledPassages
from gnn_encoder.evaluate.judge import Judgements
from gnn_encoder.evaluate.measures import Comparison, compare, mean
from gnn_encoder.evaluate.tables import difference, p_value, points
from gnn_encoder.inform import labels_alone, less_bank
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.search.faiss_index import PassageIndex
from gnn_encoder.text.corpus import load_encoder
from gnn_encoder.text.device import supports_bf16
from gnn_encoder.text.pretrained import TEMPERATURES, resolve

PEER, PEER_PLUS = "sentence-transformers", "sentence-transformers + labels + query bank"
SYSTEMS = {
    "dual_encoder": "M_de",
    "gnn_encoder": "GNN-encoder",
    "gnn_encoder_plus": "GNN-encoder + labels + query bank",
}
MEASURES = ["RR@10", "Success@5"]
BATCH, DEPTH, ASKED = 64, 100, 200  # queries of a step; passages of a query; queries that are timed one by one


def read_passages() -> list[str]:
    """Title and text of all passages."""
    table = pl.read_parquet(project.PASSAGES, columns=["title", "text"])
    return [with_title(title, text, " ") for title, text in table.rows()]


def train(model: SentenceTransformer, passages: list[str], passes: float, rate: float, seed: int) -> int:
    """Train the model on the labelled queries; returns the steps."""
    queries, pairs = read_column(project.queries("train"), "text").to_list(), relevant_pairs(*project.tables("train"))
    rows = [(queries[query], passages[passage]) for query, passage in pairs.select("query", "passage").rows()]
    labelled = Dataset.from_dict({"anchor": [one for one, _ in rows], "positive": [one for _, one in rows]})
    mined = mine_hard_negatives(labelled, model, corpus=passages, num_negatives=1, batch_size=BATCH, verbose=False)
    steps = ceil(passes * len(mined) / BATCH)
    with tempfile.TemporaryDirectory() as folder:
        size: dict[str, Any] = {"steps": steps, "batch": BATCH, "warmup": ceil(0.1 * steps)}
        how = harness.peer_training(folder, **size, rate=rate, bf16=supports_bf16(), seed=seed)
        loss = CachedMultipleNegativesRankingLoss(model, mini_batch_size=BATCH)
        SentenceTransformerTrainer(model=model, args=how, train_dataset=mined, loss=loss).train()
    return steps


def by_formulas(passages: Matrix, asked: dict[str, Matrix], seed: int) -> Matrix:
    """The passages by labels and query bank, as is best on dev; `asked`: split -> its queries. *Shape:* (m, d)."""
    train, dev = (relevant_pairs(*project.tables(split)) for split in ("train", "dev"))
    labelled = LabelledPassages.of(passages, train, asked["train"])
    *_, moved = max(labels_alone(passages, labelled, asked["dev"], dev, unit_length=True), key=lambda row: row[1])
    passages, nodes = labelled.place(0, passages, moved), np.concatenate([asked["train"], asked[UNLABELLED]])
    _, weight, bank = less_bank(passages, nodes, asked["dev"], dev, 1 / TEMPERATURES["cosine"], seed)
    return bank.lower(0, passages, weight)


def milliseconds(ask: Callable[[str], object], queries: list[str]) -> float:
    """The median time of one query, from text to passages."""
    times = []
    for query in queries[:ASKED]:
        began = time.perf_counter()
        ask(query)
        times.append(1000 * (time.perf_counter() - began))
    return float(np.median(times))


def main() -> None:
    parser = harness.parser("common_practice", __doc__)
    parser.add_argument("--passes", type=float, default=1.0, help="over the labelled pairs (%(default)s)")
    parser.add_argument("--rate", type=float, default=2e-5, help="learning rate (%(default)s)")
    options = parser.parse_args()
    params, passages = load_params(), read_passages()
    model = SentenceTransformer(resolve(params.encoder.model)[0])
    model.max_seq_length = params.encoder.passage_length
    steps, spent = 0, dict[str, float]()
    if not options.quick:
        began = time.perf_counter()
        steps = train(model, passages, options.passes, options.rate, params.seed)
        spent["train"] = time.perf_counter() - began
    encode = partial(model.encode, normalize_embeddings=True, batch_size=BATCH, show_progress_bar=True)
    began = time.perf_counter()
    index = faiss.IndexFlatIP(model.get_embedding_dimension())
    index.add(vectors := encode(passages))
    spent["encode and index"] = time.perf_counter() - began
    texts = {
        split: read_column(project.queries(split), "text").to_list() for split in ("train", "dev", "test", UNLABELLED)
    }
    asked_of = {split: encode(of) if of else np.empty((0, index.d), dtype=np.float32) for split, of in texts.items()}
    informed = faiss.IndexFlatIP(index.d)
    informed.add(by_formulas(vectors, asked_of, params.seed))
    pids, found, gains = read_column(project.PASSAGES, "pid"), dict[str, Any](), dict[str, dict[str, Comparison]]()
    for split in project.JUDGED:
        qids = read_column(project.queries(split), "qid")
        runs = [as_run(of.search(asked_of[split], DEPTH)[1], qids, pids) for of in (index, informed)]
        runs += [read_run(project.run_file(system, split)) for system in SYSTEMS]
        values = dict(zip((PEER, PEER_PLUS, *SYSTEMS), Judgements(split).measure(runs, MEASURES), strict=True))
        gains[split] = {system: compared(values, system, PEER) for system in (PEER_PLUS, *SYSTEMS)}
        gains[split][f"gnn_encoder_plus, {PEER_PLUS}"] = compared(values, "gnn_encoder_plus", PEER_PLUS)
        against = {system: asdict(one) for system, one in gains[split].items()}
        found[split] = {"means": {system: mean(of) for system, of in values.items()}, "against": against}
    queries = texts["test"]
    asked = {PEER: milliseconds(lambda text: index.search(model.encode([text]), 10), queries)}
    for system in SYSTEMS:
        ours, opened = load_encoder(project.encoder(system), params.encoder), PassageIndex.open(project.index(system))
        asked[system] = milliseconds(lambda text, o=ours, i=opened: i.search(o.embed_queries([text]), 10), queries)
    test, gained = found["test"], gains["test"]
    table: list[list[object]] = [
        [
            SYSTEMS.get(name, name),
            *(points(of[one]) for one in MEASURES),
            f"{asked[name]:.1f}" if name in asked else "",
        ]
        for name, of in test["means"].items()
    ]
    harness.print_table(["test queries", *MEASURES, "ms a query"], table)
    print(took := ", ".join(f"{what} {seconds:.0f} s" for what, seconds in spent.items()))
    for system, one in gained.items():
        print(f"{system} minus {one.baseline}: {difference(one)}, {p_value(one.p)}")
    names = "gnn_encoder", f"gnn_encoder_plus, {PEER_PLUS}", "dual_encoder"
    above, plus, level = (gained[name] for name in names)
    met = above.low > 0 and plus.low > 0 and level.high >= 0
    text = "GNN-encoder significantly above sentence-transformers, also with formulas on both, M_de not below it"
    record = {
        "steps": steps,
        "passes": options.passes,
        "rate": options.rate,
        "seconds": spent,
        "milliseconds": asked,
        "index_bytes": 4 * index.d * index.ntotal,
        **found,
    }
    means = ", ".join(f"{name} {points(of['RR@10'])}" for name, of in test["means"].items())
    told = f"GNN-encoder {difference(above)}, with formulas on both {difference(plus)}"
    measured = f"RR@10 on test: {means}; {told}; {took}"
    harness.finish(options, text, met, measured, record)


def compared(values: dict[str, pl.DataFrame], system: str, other: str) -> Comparison:
    """RR@10 of a system minus another's, paired by query."""
    ours, theirs = (values[one].filter(measure="RR@10") for one in (system, other))
    both = ours.join(theirs, on="qid", suffix="_there")
    return compare(both["value"].to_numpy(), both["value_there"].to_numpy(), other)


if __name__ == "__main__":
    with report_errors():
        main()
