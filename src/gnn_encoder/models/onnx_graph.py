"""The query side of a dual-encoder as one graph of ONNX: token ids in, the finished embedding out."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.core.storage.atomic import publish
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.query_encoder import QueryEncoder, query_tokenizer

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


def export(model: Path, graph: Path) -> None:
    """Write the graph of a saved dual-encoder, whole, after checking that it computes what the model does."""
    encoder = DualEncoder.load(model, precision="fp32").for_inference().cpu()
    beside = graph.with_name(f".{graph.name}.{os.getpid()}")
    try:
        write_graph(encoder, beside)
        _check_equal(encoder, QueryEncoder(beside, query_tokenizer(model), prefix=encoder.settings.query_prefix), model)
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


def _check_equal(ours: DualEncoder, exported: QueryEncoder, model: Path) -> None:
    expected, found = ours.embed_queries(PROBES), exported.embed_queries(PROBES)
    off = float(np.abs(found - expected).max() / np.linalg.norm(expected, axis=1).max())
    if not off <= TOLERANCE:  # also where one is NaN
        raise UserError(
            f"{model}: its ONNX graph computes other embeddings, by {off:.2g} of their length where {TOLERANCE} is "
            "rounding; take another encoder.model"
        )


if __name__ == "__main__":
    with report_errors():
        export(Path(sys.argv[1]), Path(sys.argv[2]))
