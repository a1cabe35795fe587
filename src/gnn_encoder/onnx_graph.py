"""The query side of a dual-encoder as one graph of ONNX: token ids in, the finished embedding out."""

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.onnx import OnnxExporterError

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.encoder import DualEncoder

OPSET = 18
OUTPUT = "sentence_embedding"
TOLERANCE = 1e-4  # most difference of a component from the model's own embedding, as a share of its length
PROBES = ["oven", "which milk is halloumi made with?", "a question that goes on and " * 200]


class QueryEmbedding(nn.Module):
    """E_Q as a function of tensors: transformer, pooling, scaling."""

    def __init__(self, encoder: DualEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *fields: Tensor) -> Tensor:
        """*Shape:* fields of a batch, (n, tokens) each -> (n, d)."""
        types = fields[2] if len(fields) > 2 else torch.zeros_like(fields[0])
        return self.encoder.encode_queries(Batch(fields[0], fields[1], types))


def write_checked(model: Path, graph: Path) -> None:
    """Write the graph of a saved dual-encoder, after checking that it computes what the model does."""
    encoder = DualEncoder.load(model, precision="fp32").for_inference().cpu()
    try:
        write_graph(encoder, graph)
    except (OnnxExporterError, RuntimeError) as error:  # RuntimeError: torch's own of a graph above 2 GiB
        reason = shorten(str(error).strip().partition("\n")[0], 200)
        raise UserError(f"{model}: has no ONNX graph: {reason}; export it --to sentence-transformers") from error
    prefix, length = encoder.settings.query_prefix, encoder.settings.query_length
    batch = Batch.of(encoder.tokenizer, [prefix + text for text in PROBES], length=length)
    with torch.inference_mode():
        expected = encoder.encode_queries(batch).numpy()
    off = float(np.abs(run_graph(graph, batch) - expected).max() / np.linalg.norm(expected, axis=1).max())
    if not off <= TOLERANCE:  # also where one is NaN
        raise UserError(
            f"{model}: its ONNX graph computes other embeddings, by {off:.2g} of their length where {TOLERANCE} is "
            "rounding; export it --to sentence-transformers"
        )


def run_graph(graph: Path, batch: Batch) -> Matrix:
    """The embeddings that a graph computes of a batch. *Shape:* (n, tokens) -> (n, d)."""
    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    vectors: Matrix = session.run(None, {name: getattr(batch, name).numpy() for name in names})[0]
    return vectors


def write_graph(encoder: DualEncoder, path: Path) -> None:
    """Write the query side of a dual-encoder in float32, for any number of queries and of tokens.

    *Shape:* input_ids, attention_mask and, where the model has them, token_type_ids (n, tokens) int64 -> (n, d).
    """
    ids = torch.full((2, 3), encoder.template.pad)  # the example's values and sizes are not part of the graph
    example = Batch(ids, torch.ones_like(ids), torch.zeros_like(ids)).arguments(encoder.query)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's notes on its own insides
        torch.onnx.export(
            QueryEmbedding(encoder).eval(),
            args=tuple(example.values()),
            f=path,
            input_names=list(example),
            output_names=[OUTPUT],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in example},
            opset_version=OPSET,
            dynamo=False,  # the exporter that traces: 0.4 s for a small model, where the newer one takes 5
        )
