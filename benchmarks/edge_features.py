"""Edge features a second: our `embed_pairs` against `CrossEncoder.predict` at its defaults.

Same model folder, pairs and length, from texts to results: ours reads tables of queries and passages, tokenises
each text once, runs the cross-encoder in the working precision and writes [CLS] embeddings to Parquet; the peer gets
a list of pairs in memory (batches of 32, float32) and returns scores. Requirement: at least 3 times the peer's rate.
Ours in float32 stands beside them. The model is data/cross_encoder, or, before that exists, the base model of
params.yaml with a fresh head.

    python benchmarks/edge_features.py
"""

import shutil
from pathlib import Path

import harness
import numpy as np
import polars as pl
import torch
from harness import SEED, cosines, sample_passages, sample_queries, write_passages, write_queries
from scipy.special import expit
from sentence_transformers import CrossEncoder as PeerCrossEncoder

from gnn_encoder.base.files import SCRATCH
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.cross_encoder import CrossEncoder, embed_pairs, score_pairs
from gnn_encoder.text.tokens import open_tokens

FACTOR = 3.0
AGREEMENT = 0.99
PASSAGES_A_QUERY = 10
CHECKED = 256  # pairs whose results are compared


class Ours:
    """Our path over tables in the present folder. *Shape:* `rows` (2, pairs): queries, passages."""

    def __init__(self, model: Path, rows: np.ndarray, params: Params, precision: str) -> None:
        self._model = CrossEncoder.load(model, precision=precision).for_inference()
        self._rows, self._folder = rows, Path("edges") / precision
        max_length, batch_tokens = params.train_cross_encoder.max_length, params.encoder.batch_tokens
        self._limits = {"max_length": max_length, "batch_tokens": batch_tokens}
        self.precision = str(self._model.dtype).removeprefix("torch.")

    def __call__(self) -> float:
        """Seconds of one pass that finds nothing done."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(SCRATCH, ignore_errors=True)
        return harness.seconds(self._embed)

    def _pairs(self) -> Inputs:
        queries, passages = (
            open_tokens(Path(f"{name}.parquet"), self._model.tokenizer, SCRATCH, self._limits["max_length"])
            for name in ("queries", "passages")
        )
        texts = queries, self._rows[0], passages, self._rows[1]
        return Inputs.pairs(*texts, self._model.template, self._limits["max_length"])

    def _embed(self) -> None:
        keys = dict(zip(("query", "passage"), self._rows, strict=True))
        embed_pairs(self._model, self._pairs(), self._folder, keys, batch_tokens=self._limits["batch_tokens"])

    def features(self) -> np.ndarray:
        """What the last pass wrote for the first pairs. *Shape:* (CHECKED, d_e)."""
        table = pl.read_parquet(self._folder / "part-000000.parquet")
        return table["feature"].head(CHECKED).cast(pl.Array(pl.Float32, self._model.dimension)).to_numpy()

    def scores(self) -> np.ndarray:
        """Relevance of the first pairs, untimed. *Shape:* (CHECKED,)."""
        scores = Path("scores")
        scores.mkdir(exist_ok=True)
        logits = score_pairs(self._model, self._pairs(), scores, self._limits["batch_tokens"])[:CHECKED]
        return expit(logits)  # as the peer gives them


class Peer:
    """CrossEncoder of sentence-transformers."""

    def __init__(self, model: Path, pairs: list[tuple[str, str]], max_length: int) -> None:
        self._model = PeerCrossEncoder(str(model), max_length=max_length)
        self._pairs, self._max_length = pairs, max_length
        self.scores = np.empty(0)

    def __call__(self) -> float:
        """Seconds of one pass."""
        return harness.seconds(self._predict)

    def _predict(self) -> None:
        self.scores = self._model.predict(self._pairs)

    @torch.inference_mode()
    def features(self) -> np.ndarray:
        """[CLS] states of the first pairs, by its model and tokenizer. *Shape:* (CHECKED, d_e)."""
        texts = self._pairs[:CHECKED]
        length = {"truncation": True, "max_length": self._max_length, "padding": True}
        inputs = self._model.tokenizer(*map(list, zip(*texts, strict=True)), **length, return_tensors="pt")
        states = self._model.model.base_model(**inputs.to(self._model.device)).last_hidden_state
        return states[:, 0].float().cpu().numpy()


def model_folder(params: Params) -> Path:
    """The trained cross-encoder, else a fresh one in the present folder."""
    if (harness.ROOT / project.CROSS_ENCODER / "config.json").is_file():
        return harness.ROOT / project.CROSS_ENCODER
    torch.manual_seed(params.seed)
    base = params.encoder
    name = params.train_cross_encoder.model or base.model
    CrossEncoder.from_pretrained(name, base).save(Path("model"))
    return Path("model")


def main() -> None:
    options = harness.parse(harness.parser("edge_features", __doc__), queries=(400, 30), repeats=(5, 1))
    params = load_params()
    queries = sample_queries(options.queries)
    passages = sample_passages(4 * len(queries))  # on InsuranceQA a retrieved passage has 2 to 3 queries
    max_length = params.train_cross_encoder.max_length
    drawn = np.random.default_rng(SEED).integers(len(passages), size=len(queries) * PASSAGES_A_QUERY)
    rows = np.stack([np.repeat(np.arange(len(queries)), PASSAGES_A_QUERY), drawn])
    texts = [(queries[query], passages[passage]) for query, passage in rows.T]
    with harness.temporary_project():
        write_queries(Path("queries.parquet"), queries)
        write_passages(Path("passages.parquet"), passages)
        model = model_folder(params)
        ours, plain = (Ours(model, rows, params, precision) for precision in (params.encoder.precision, "fp32"))
        peer = Peer(model, texts, max_length)
        sides = {"ours": ours, "ours, float32": plain, "CrossEncoder.predict": peer}
        harness.take_turns(sides, 1)  # warms up
        times = harness.take_turns(sides, options.repeats)
        agreement = float(cosines(ours.features(), peer.features()).min())
        difference = float(np.abs(ours.scores() - peer.scores[:CHECKED]).max())
    rates = {name: len(texts) / time for name, time in harness.medians(times).items()}
    slowest = rates["CrossEncoder.predict"]
    print(f"{len(texts)} pairs of InsuranceQA, at most {max_length} tokens, ours in {ours.precision}")
    harness.print_table(
        ["", "pairs/s", "times the peer"],
        [[name, f"{rate:.0f}", f"{rate / slowest:.2f}"] for name, rate in rates.items()],
    )
    print(f"least cosine of a pair's [CLS] states: {agreement:.4f}; largest difference of scores: {difference:.4f}")
    met = rates["ours"] >= FACTOR * slowest and agreement > AGREEMENT
    record = {
        "pairs": len(texts),
        "max_length": max_length,
        "precision": ours.precision,
        "seconds": times,
        "pairs_per_second": rates,
        "ratio": rates["ours"] / slowest,
        "least_cosine": agreement,
        "largest_score_difference": difference,
    }
    both = f"{rates['ours']:.0f} pairs/s in {ours.precision}, peer in float32 {slowest:.0f}"
    times_peer = f"{rates['ours'] / slowest:.2f}x; ours in float32 {rates['ours, float32'] / slowest:.2f}x"
    harness.finish(options, "at least 3 times the peer, cosine above 0.99", met, f"{both}: {times_peer}", record)


if __name__ == "__main__":
    main()
