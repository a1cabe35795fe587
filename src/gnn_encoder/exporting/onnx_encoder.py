"""The query encoder as ONNX, in float32 and int8: token ids in, the finished embedding out."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import write_json, write_text
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.dev_values import DevValues, dev_values
from gnn_encoder.exporting.query_encoder import CONFIG, TOKENIZER, QueryEncoderFolder
from gnn_encoder.pipeline import project
from gnn_encoder.searcher import QueryEncoder

FLOAT, INT8, SETTINGS = "model.onnx", "model_int8.onnx", "query_encoder.json"
OURS = "as trained"
FIELDS = {
    "input_ids": "ids",
    "attention_mask": "attention_mask",
    "token_type_ids": "type_ids",
}  # as tokenizers has them
TOLERANCE = 1e-4  # most difference of a component from our own embedding, as a share of its length
PROBES = ["oven", "which milk is halloumi made with?", "a question that goes on and " * 200]
Vectors = NDArray[np.float32]

LOADING = """```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("folder/of/this/file/tokenizer.json")  # it cuts and pads as the encoder was trained
session = onnxruntime.InferenceSession("folder/of/this/file/model.onnx")  # or model_int8.onnx
encoded = tokenizer.encode_batch(["a query", "another query"])
fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
inputs = {i.name: np.array([getattr(e, fields[i.name]) for e in encoded]) for i in session.get_inputs()}
(vectors,) = session.run(["sentence_embedding"], inputs)
```"""


class OnnxQueryEncoder:
    """An exported query encoder, run by onnxruntime. It can take the encoder's place in a `Searcher`.

    Args:
        folder: what `gnn-encoder export --to onnx` wrote.
        model: `model.onnx` or `model_int8.onnx`.
    """

    def __init__(self, folder: Path, model: str = FLOAT) -> None:
        import onnxruntime

        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._session = onnxruntime.InferenceSession(str(folder / model), providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self._session.get_inputs()]

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries in one batch. *Shape:* (n, d)."""
        encoded = self._tokenizer.encode_batch(list(texts))
        arrays = {name: np.array([getattr(one, FIELDS[name]) for one in encoded], np.int64) for name in self.inputs}
        result: Vectors = self._session.run(None, arrays)[0]
        return result


def export_onnx(system: str, folder: Path) -> None:
    """Write both models with their tokenizer, settings and card, after checking that they compute what ours does.

    Raises:
        UserError: the encoder, params.yaml or the packages of the extra `export` are missing, or the exported model
            computes something else.
    """
    for package in ("onnx", "onnxruntime", "onnxscript"):
        if find_spec(package) is None:
            cure = "install it with `bash scripts/environment.sh export`"
            raise UserError(f"--to onnx needs the package {package}, which is not installed; {cure}")
    from gnn_encoder.exporting.onnx_graph import OPSET, OUTPUT, quantise, write_graph
    from gnn_encoder.models.dual_encoder import DualEncoder

    files = QueryEncoderFolder.read(project.encoder(system))
    files.copy_tokenizer(folder, prefixed=True)
    (folder / CONFIG).write_bytes((files.folder / CONFIG).read_bytes())
    ours = DualEncoder.load(files.folder, precision="fp32").for_inference()
    write_graph(ours, folder / FLOAT)
    quantise(folder / FLOAT, folder / INT8)
    exported = {name: OnnxQueryEncoder(folder, name) for name in (FLOAT, INT8)}
    _check_equal(ours, exported[FLOAT])
    described = {"max_tokens": files.length, "dimension": files.dimension, "similarity": files.similarity}
    described |= {"pooling": files.pooling, "inputs": exported[FLOAT].inputs, "output": OUTPUT, "opset": OPSET}
    write_json(folder / SETTINGS, described)
    sizes = {name: (folder / name).stat().st_size for name in exported}
    cost = cost_of_formats(dev_values(system, {OURS: ours, **exported}), sizes)
    write_text(folder / "README.md", model_card(system, files, library="onnx", loading=LOADING, measured=cost))


def cost_of_formats(found: DevValues | None, sizes: dict[str, int]) -> str:
    """What each model loses against the encoder as it was trained, as a table for the card.

    Args:
        found: the measure of each, None where there is nothing to measure with.
        sizes: bytes of each model.
    """
    if found is None:
        return (
            "What the formats cost was not measured: the project that this was exported from had no judged dev "
            "queries, or no index."
        )
    rows = [f"| `{name}` | {size / 1e6:.1f} | {_against(found, name)} |" for name, size in sizes.items()]
    asked = f"{found.queries:,} dev queries, searched in the system's index when this was exported"
    head = f"{asked}. As trained, the encoder has {found.measure} {100 * found.values[OURS]:.2f} in float32."
    table = [f"| model | MB | {found.measure} (points of 100) | difference |", "|---|---:|---:|---:|", *rows]
    return "\n".join([head, "", *table])


def _against(found: DevValues, name: str) -> str:
    value, ours = found.values[name], found.values[OURS]
    return f"{100 * value:.2f} | {100 * (value - ours):+.2f}"


def _check_equal(ours: QueryEncoder, exported: QueryEncoder) -> None:
    expected, found = ours.embed_queries(PROBES), exported.embed_queries(PROBES)
    off = float(np.abs(found - expected).max() / np.linalg.norm(expected, axis=1).max())
    if not off <= TOLERANCE:  # also where one is NaN
        raise UserError(
            f"the exported model computes other embeddings, by {off:.2g} of their length; at most {TOLERANCE} is "
            "rounding: export to sentence-transformers instead"
        )
