"""Passages encoded a second: our streaming path against sentence-transformers and, if installed, OpenVINO.

Same model, texts and length, from texts to vectors: ours reads a passages table, tokenises it, encodes it in the
working precision and writes the matrix. The peers get a list of texts in memory, and encode batches of like length: of
32, the default of sentence-transformers, and of 1,024 on a GPU. Both run in float32, and in bf16 if the processor has
it. OpenVINO runs an ONNX graph of the transformer, without pooling. Requirement: at least 1.2 times the fastest peer,
the number format being anybody's choice.

    pip install onnx openvino    # optional
    python benchmarks/encode_passages.py
"""

import importlib.util
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from harness import cosines, sample_passages, write_passages
from sentence_transformers import SentenceTransformer

from gnn_encoder.base.files import SCRATCH
from gnn_encoder.base.matrix import Origin, open_matrix
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.text.corpus import encode_corpus, passage_inputs
from gnn_encoder.text.device import supports_bf16
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import resolve
from gnn_encoder.text.tokens import open_tokens

FACTOR = 1.2
AGREEMENT = 0.99
BATCH = 1_024 if torch.cuda.is_available() else 32  # texts
TRANSFORMERS, OPENVINO = "SentenceTransformer", "OpenVINO"
FIELDS = ("input_ids", "attention_mask", "token_type_ids")
FORMATS = {"float32": "f32", **({"bf16": "bf16"} if supports_bf16() else {})}  # as OpenVINO names them


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
            passage_inputs(self._encoder, tokens),
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

    def __init__(self, texts: list[str], params: Params, number_format: str) -> None:
        self._texts = texts
        self._model = SentenceTransformer(resolve(params.encoder.model)[0])
        if number_format == "bf16":
            self._model.bfloat16()
        self._model.max_seq_length = params.encoder.passage_length
        self.embeddings = np.empty(0)

    def __call__(self) -> float:
        """Seconds of one pass."""
        return harness.seconds(self._encode)

    def _encode(self) -> None:
        found = self._model.encode(self._texts, batch_size=BATCH, convert_to_tensor=True)
        self.embeddings = found.float().cpu().numpy()


class States(torch.nn.Module):
    """A transformer as a function of the tensors in FIELDS."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *fields: torch.Tensor) -> torch.Tensor:
        """*Shape:* (n, tokens) each -> (n, tokens, d)."""
        states: torch.Tensor = self.model(**dict(zip(FIELDS, fields, strict=False))).last_hidden_state
        return states


class OpenVINO:
    """OpenVINO on a graph of the transformer."""

    def __init__(self, texts: list[str], params: Params, number_format: str) -> None:
        import openvino

        encoder = DualEncoder.from_pretrained(params.encoder.model_copy(update={"precision": "fp32"})).for_inference()
        read = encoder.tokenizer(["a b", "c d"], return_tensors="pt")
        example = {name: read[name] for name in FIELDS if name in read}
        axes = {name: {0: "batch", 1: "tokens"} for name in example}
        names: Any = {"input_names": [*example], "dynamic_axes": axes, "dynamo": False}
        torch.onnx.export(States(encoder.query), tuple(example.values()), f="graph.onnx", **names)
        hints = {"INFERENCE_PRECISION_HINT": FORMATS[number_format], "PERFORMANCE_HINT": "LATENCY"}
        self._graph = openvino.Core().compile_model("graph.onnx", "CPU", hints)
        self._read = partial(encoder.tokenizer, truncation=True, max_length=params.encoder.passage_length)
        self._inputs = [name for one in self._graph.inputs for name in one.names if name in FIELDS]
        self._texts = sorted(texts, key=len)

    def __call__(self) -> float:
        """Seconds of one pass."""
        return harness.seconds(self._encode)

    def _encode(self) -> None:
        for first in range(0, len(self._texts), BATCH):
            read = self._read(self._texts[first : first + BATCH], padding=True, return_tensors="np")
            self._graph([read[name] for name in self._inputs])


def main() -> None:
    options = harness.parse(harness.parser("encode_passages", __doc__), passages=(4_096, 256), repeats=(5, 1))
    params, texts = load_params(), sample_passages(options.passages)
    with harness.temporary_project():
        table = Path("passages.parquet")
        write_passages(table, texts)
        ours, plain = (Ours(table, params, precision) for precision in (params.encoder.precision, "fp32"))
        peers: dict[str, Peer | OpenVINO] = {f"{TRANSFORMERS}, {one}": Peer(texts, params, one) for one in FORMATS}
        if importlib.util.find_spec("openvino") is not None:
            peers |= {f"{OPENVINO}, {one}": OpenVINO(texts, params, one) for one in FORMATS}
        sides = {"ours": ours, "ours, float32": plain, **peers}
        harness.take_turns(sides, 1)  # warms up
        times = harness.take_turns(sides, options.repeats)
        plain_peer = peers[f"{TRANSFORMERS}, float32"]
        assert isinstance(plain_peer, Peer)
        agreement = float(cosines(ours.embeddings(), plain_peer.embeddings).min())
    rates = {name: len(texts) / time for name, time in harness.medians(times).items()}
    fastest = max(rates[name] for name in peers)
    print(
        f"{len(texts)} InsuranceQA passages, at most {params.encoder.passage_length} tokens, ours in {ours.precision}"
    )
    harness.print_table(
        ["", "passages/s", "times the fastest peer"],
        [[name, f"{rate:.0f}", f"{rate / fastest:.2f}"] for name, rate in rates.items()],
    )
    print(f"least cosine of ours and the float32 peer's embedding of a passage: {agreement:.4f}")
    met = rates["ours"] >= FACTOR * fastest and agreement > AGREEMENT
    record = {
        "passages": len(texts),
        "passage_length": params.encoder.passage_length,
        "precision": ours.precision,
        "seconds": times,
        "passages_per_second": rates,
        "ratio": rates["ours"] / fastest,
        "least_cosine": agreement,
    }
    told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
    measured = f"passages/s: {told}; {rates['ours'] / fastest:.2f}x the fastest peer"
    harness.finish(options, f"at least {FACTOR} times the fastest peer, cosine above 0.99", met, measured, record)


if __name__ == "__main__":
    main()
