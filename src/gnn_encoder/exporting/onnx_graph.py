"""A query encoder as one ONNX graph, made by torch's exporter, and the same graph with weights of 8 bits."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from gnn_encoder.models.batch import Batch
from gnn_encoder.models.dual_encoder import DualEncoder

OPSET = 20
OUTPUT = "sentence_embedding"


class QueryEmbedding(nn.Module):
    """E_Q as a function of tensors: transformer, pooling, scaling."""

    def __init__(self, encoder: DualEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *fields: Tensor) -> Tensor:
        """*Shape:* fields of a batch, (n, tokens) each -> (n, d)."""
        types = fields[2] if len(fields) > 2 else torch.zeros_like(fields[0])
        return self.encoder.encode_queries(Batch(fields[0], fields[1], types))


def write_graph(encoder: DualEncoder, path: Path) -> None:
    """Write the query side of a dual-encoder in float32, with any number of queries and of tokens.

    *Shape:* input_ids, attention_mask and, where the model has them, token_type_ids (n, tokens) int64 -> (n, d).
    """
    ids = torch.full((2, 3), encoder.template.pad)  # the example's values and sizes are not part of the graph
    batch = Batch(ids, torch.ones_like(ids), torch.zeros_like(ids))
    example = batch.arguments(encoder.query)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    with _quiet():
        torch.onnx.export(
            QueryEmbedding(encoder).eval(),
            args=tuple(example.values()),
            f=path,
            input_names=list(example),
            output_names=[OUTPUT],
            dynamic_shapes=((sizes,) * len(example),),
            opset_version=OPSET,
            external_data=False,
            dynamo=True,
            verbose=False,
        )


def quantise(source: Path, target: Path) -> None:
    """Write the graph with int8 weights, one scale a column; activations are scaled as they come.

    Weights use 7 bits, since processors without 8-bit dot products add two products in 16 bits, which 8 would overflow.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.preprocess import quant_pre_process

    prepared = target.with_suffix(".prepared")
    with _quiet():
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_dynamic(prepared, target, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    prepared.unlink()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' notes on their own insides from the user."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
