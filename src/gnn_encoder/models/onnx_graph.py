"""The query side of a dual-encoder as one graph of ONNX: token ids in, the finished embedding out."""

import os
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn
from torch.onnx import OnnxExporterError

from gnn_encoder.base.errors import UserError, report_errors, shorten
from gnn_encoder.base.files import publish
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.query_encoder import QueryEncoder, query_tokenizer

OPSET = 18
OUTPUT = "sentence_embedding"
TOLERANCE = 1e-4  # most difference of a component from the model's own embedding, as a share of its length
CURE = "take another encoder.model"
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


def check_graph(encoder: DualEncoder, name: str) -> None:
    """Make sure that search will be able to make the graph of what a new dual-encoder becomes."""
    with TemporaryDirectory() as place:
        encoder.save(folder := Path(place, "model"))
        export(folder, Path(place, "graph.onnx"), f"model {name!r}")


def export(model: Path, graph: Path, name: str | None = None) -> None:
    """Write the graph of a saved dual-encoder, whole, after checking that it computes what the model does.

    Args:
        name: what an error calls the model; None: its folder.
    """
    encoder = DualEncoder.load(model, precision="fp32").for_inference().cpu()
    beside = graph.with_name(f".{graph.name}.{os.getpid()}")
    try:
        try:
            write_graph(encoder, beside)
        except (OnnxExporterError, RuntimeError) as error:  # RuntimeError: torch's own of a graph above 2 GiB
            reason = shorten(str(error).strip().partition("\n")[0], 200)
            raise UserError(f"{name or model}: has no ONNX graph, which search runs: {reason}; {CURE}") from error
        exported = QueryEncoder(beside, query_tokenizer(model), prefix=encoder.settings.query_prefix)
        _check_equal(encoder, exported, name or str(model))
        publish(beside, graph)
    finally:
        beside.unlink(missing_ok=True)


def write_graph(encoder: DualEncoder, path: Path) -> None:
    """Write the query side of a dual-encoder in float32, for any number of queries and of tokens.

    The exporter is the one that traces, since for a small model the newer one takes 5 seconds where this takes 0.4.

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
            dynamo=False,
        )


def _check_equal(ours: DualEncoder, exported: QueryEncoder, name: str) -> None:
    expected, found = ours.embed_queries(PROBES), exported.embed_queries(PROBES)
    off = float(np.abs(found - expected).max() / np.linalg.norm(expected, axis=1).max())
    if not off <= TOLERANCE:  # also where one is NaN
        raise UserError(
            f"{name}: its ONNX graph, which search runs, computes other embeddings, by {off:.2g} of their length where "
            f"{TOLERANCE} is rounding; {CURE}"
        )


if __name__ == "__main__":
    with report_errors():
        export(Path(sys.argv[1]), Path(sys.argv[2]))
