"""Passages encoded a second: our streaming path against `SentenceTransformer.encode` at its defaults.

Same model, texts and length, from texts to vectors: ours reads a passages table, tokenises it, encodes it in the
working precision and writes the matrix; the peer gets a list of texts in memory (batches of 32, float32).
Requirement: at least 3 times the peer's rate. Ours in float32 stands beside them.

    python benchmarks/encode_passages.py
"""

import shutil
from pathlib import Path

import harness
import numpy as np
from sentence_transformers import SentenceTransformer
from texts import cosines, sample_passages, write_passages

from gnn_encoder.core.storage.arrays import Origin, open_matrix
from gnn_encoder.core.storage.scratch import SCRATCH
from gnn_encoder.encoding.corpus import alone, encode_corpus
from gnn_encoder.encoding.tokens import open_tokens
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.pretrained import resolve
from gnn_encoder.pipeline.params import Params, load_params

FACTOR = 3.0
AGREEMENT = 0.99


class Ours:
    """Our path over a passages table in the present folder."""

    def __init__(self, table: Path, params: Params, precision: str) -> None:
        self._table, self._params = table, params
        self._folder = Path("embeddings") / precision
        settings = params.encoder.model_copy(update={"precision": precision})
        self._encoder = DualEncoder.from_pretrained(settings).for_inference()
        self.precision = str(self._encoder.dtype).removeprefix("torch.")

    def __call__(self) -> float:
        """Seconds of one pass that finds nothing done."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(SCRATCH, ignore_errors=True)
        return harness.seconds(self._encode)

    def _encode(self) -> None:
        encoder = self._params.encoder
        tokens = open_tokens(self._table, self._encoder.tokenizer, SCRATCH, encoder.passage_length)
        encode_corpus(
            self._encoder,
            alone(self._encoder, tokens),
            self._folder,
            dtype=self._params.cache_passages.dtype,
            batch_tokens=encoder.batch_tokens,
            origin=Origin(model_fingerprint="", input_fingerprint=""),
        )

    def embeddings(self) -> np.ndarray:
        """What the last pass wrote. *Shape:* (n, d)."""
        return np.asarray(open_matrix(self._folder), dtype=np.float32)


class Peer:
    """SentenceTransformer with the same model folder."""

    def __init__(self, texts: list[str], params: Params) -> None:
        self._texts = texts
        self._model = SentenceTransformer(resolve(params.encoder.model))
        self._model.max_seq_length = params.encoder.passage_length
        self.embeddings = np.empty(0)

    def __call__(self) -> float:
        """Seconds of one pass."""
        return harness.seconds(self._encode)

    def _encode(self) -> None:
        self.embeddings = self._model.encode(self._texts)


def main() -> None:
    parser = harness.parser("encode_passages", __doc__)
    parser.add_argument("--passages", type=int, help="default: 4096")
    parser.add_argument("--repeats", type=int, help="default: 5")
    options = parser.parse_args()
    n_passages = options.passages or (256 if options.quick else 4_096)
    params, texts = load_params(), sample_passages(n_passages)
    with harness.temporary_project():
        table = Path("passages.parquet")
        write_passages(table, texts)
        ours, plain, peer = (
            Ours(table, params, params.encoder.precision),
            Ours(table, params, "fp32"),
            Peer(texts, params),
        )
        sides = {"ours": ours, "ours, float32": plain, "SentenceTransformer.encode": peer}
        harness.take_turns(sides, 1)  # warms up
        times = harness.take_turns(sides, options.repeats or (1 if options.quick else 5))
        agreement = float(cosines(ours.embeddings(), peer.embeddings).min())
    rates = {name: len(texts) / time for name, time in harness.medians(times).items()}
    slowest = rates["SentenceTransformer.encode"]
    print(
        f"{len(texts)} InsuranceQA passages, at most {params.encoder.passage_length} tokens, ours in {ours.precision}"
    )
    harness.print_table(
        ["", "passages/s", "times the peer"],
        [[name, f"{rate:.0f}", f"{rate / slowest:.2f}"] for name, rate in rates.items()],
    )
    print(f"least cosine of ours and the peer's embedding of a passage: {agreement:.4f}")
    met = rates["ours"] >= FACTOR * slowest and agreement > AGREEMENT
    verdict = harness.requirement("at least 3 times the peer, cosine above 0.99", met, options.quick)
    record = {
        "passages": len(texts),
        "passage_length": params.encoder.passage_length,
        "precision": ours.precision,
        "seconds": times,
        "passages_per_second": rates,
        "ratio": rates["ours"] / slowest,
        "least_cosine": agreement,
        "verdict": verdict,
    }
    harness.finish("encode_passages", options, record)


if __name__ == "__main__":
    main()
