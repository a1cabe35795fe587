"""Queries that train a dual-encoder a second: ours against `SentenceTransformerTrainer`.

Same model, texts, lengths, batch, hard negatives, dropout and precision: InsuranceQA's questions, an answer each, and a
random other answer. Ours starts from texts on disk and ends with a checkpoint; the peer has
MultipleNegativesRankingLoss, or its cached variant, whose parts are as large as ours. Requirement: at least 1.5 times
the faster peer's rate.

    pip install accelerate datasets
    python benchmarks/train_encoder.py
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import polars as pl
import torch
from datasets import Dataset
from harness import SEED, sample_pairs, write_passages, write_queries
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)

from gnn_encoder.base.files import SCRATCH
from gnn_encoder.pipeline.params import Contrastive, Params, load_params
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import resolve
from gnn_encoder.text.tokens import open_tokens
from gnn_encoder.train.dev import DevSample
from gnn_encoder.train.dual_encoder import ContrastiveTask, Texts
from gnn_encoder.train.examples import BatchSampler, to_examples
from gnn_encoder.train.loop import WARMUP, fit, parameter_group

FACTOR = 1.5
DROPOUT, RATE = 0.1, 5e-5
OURS, PLAIN, CACHED = "ours", "MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"
Triples = dict[str, list[str]]
NONE = np.empty(0, dtype=np.int64)
UNSCORED = DevSample(NONE, NONE, np.empty((0, 0), dtype=np.bool_))


def ours(triples: Triples, params: Params, batch: int, steps: int, part: int) -> tuple[float, float]:
    """Seconds, and the mean loss."""
    n = len(triples["anchor"])
    encoder = DualEncoder.from_pretrained(params.encoder)
    settings = Contrastive(steps=n // batch, batch_size=batch, negatives=1, learning_rate=RATE)
    with harness.temporary_project():
        write_queries(Path("queries.parquet"), triples["anchor"])
        write_passages(Path("passages.parquet"), triples["positive"] + triples["negative"])

        def train() -> float:
            read = partial(open_tokens, tokenizer=encoder.tokenizer, folder=SCRATCH)
            queries = read(Path("queries.parquet"), max_tokens=params.encoder.query_length)
            passages = read(Path("passages.parquet"), max_tokens=params.encoder.passage_length)
            rows = np.arange(n)
            listed = {"query": rows, "positives": rows[:, None].tolist(), "negatives": (n + rows)[:, None].tolist()}
            examples = to_examples(pl.DataFrame(listed), 2 * n)
            texts = Texts(encoder, queries, passages, batch_tokens=params.encoder.batch_tokens, chunk_size=part)
            batches = BatchSampler(n, settings.batch_size, SEED)
            draw = partial(batches.draw, examples, negatives=settings.negatives)
            task = ContrastiveTask(texts, examples, draw, settings.steps, dev=(UNSCORED, queries))
            history = fit(task, [parameter_group(encoder, RATE)], Path(), name=OURS, title=OURS, seed=SEED)
            return float(np.mean([row["loss"] for row in history]))

        losses: list[float] = []
        return harness.seconds(lambda: losses.append(train())), losses[0]


def peer(triples: Triples, params: Params, batch: int, steps: int, part: int | None) -> tuple[float, float]:
    """As `ours`, by the cached loss if there is a `part`."""
    model = SentenceTransformer(resolve(params.encoder.model)[0])
    model.max_seq_length = params.encoder.passage_length
    same = DualEncoder.from_pretrained(params.encoder)
    plain = MultipleNegativesRankingLoss(model, scale=same.scale)
    loss = CachedMultipleNegativesRankingLoss(model, scale=same.scale, mini_batch_size=part) if part else plain
    with tempfile.TemporaryDirectory() as folder:
        size: dict[str, Any] = {"steps": steps, "batch": batch, "warmup": round(WARMUP * steps)}
        bf16 = same.dtype == torch.bfloat16
        how = harness.peer_training(folder, **size, rate=RATE, bf16=bf16, seed=SEED)
        trainer = SentenceTransformerTrainer(model=model, args=how, train_dataset=Dataset.from_dict(triples), loss=loss)
        losses: list[float] = []
        return harness.seconds(lambda: losses.append(trainer.train().training_loss)), losses[0]


def main() -> None:
    parser = harness.parser("train_encoder", __doc__)
    parser.add_argument("--batch", type=int, default=64, help="queries of a step (%(default)s)")
    parser.add_argument("--part", type=int, default=256, help="texts encoded with gradient at a time (%(default)s)")
    options = harness.parse(parser, steps=(40, 2), repeats=(3, 1))
    steps = options.steps
    params = load_params()
    encoder = params.encoder.model_copy(update={"dropout": DROPOUT, "frozen_layers": 0})
    params = params.model_copy(update={"encoder": encoder})
    triples = sample_pairs(steps * options.batch)
    runs: dict[str, tuple[Any, int | None]] = {
        OURS: (ours, options.part),
        PLAIN: (peer, None),
        CACHED: (peer, options.part),
    }
    if torch.cuda.is_available():  # whose first steps take seconds, to load what they launch
        for run, part in runs.values():
            run(sample_pairs(2 * options.batch), params, options.batch, 2, part)
    losses: dict[str, float] = {}

    def side(name: str) -> float:
        run, part = runs[name]
        time, losses[name] = run(triples, params, options.batch, steps, part)
        return float(time)

    sides = {name: partial(side, name) for name in runs}
    times = harness.take_turns(sides, options.repeats)
    rates = {name: steps * options.batch / time for name, time in harness.medians(times).items()}
    best = max(rates[PLAIN], rates[CACHED])
    print(f"{steps} steps of {options.batch} queries, each with a relevant passage and another one")
    rows: list[list[object]] = [
        [name, f"{rate:.1f}", f"{rate / best:.2f}", f"{losses[name]:.3f}"] for name, rate in rates.items()
    ]
    harness.print_table(["", "queries/s", "times the best peer", "mean loss"], rows)
    met = rates[OURS] >= FACTOR * best
    record = {
        "steps": steps,
        "batch": options.batch,
        "lengths": [encoder.query_length, encoder.passage_length],
        "seconds": times,
        "queries_per_second": rates,
        "losses": losses,
        "ratio": rates[OURS] / best,
    }
    told = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
    measured = f"queries/s: {told}; {rates[OURS] / best:.2f}x the faster peer"
    harness.finish(options, "at least 1.5 times the faster peer", met, measured, record)


if __name__ == "__main__":
    main()
