"""The query encoder as a graph of ONNX: token ids in, the finished embedding out."""

from pathlib import Path

from gnn_encoder.core.storage.atomic import write_text
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.query_encoder import SavedQueryEncoder
from gnn_encoder.models.onnx_graph import export
from gnn_encoder.pipeline import project

MODEL = "model.onnx"

LOADING = """```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("folder/of/this/file/tokenizer.json")  # it cuts and pads as the encoder was trained
session = onnxruntime.InferenceSession("folder/of/this/file/model.onnx")
encoded = tokenizer.encode_batch(["a query", "another query"])
fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
inputs = {i.name: np.array([getattr(e, fields[i.name]) for e in encoded]) for i in session.get_inputs()}
(vectors,) = session.run(["sentence_embedding"], inputs)
```"""


def export_onnx(system: str, folder: Path) -> None:
    """Write the graph that search and service use too, with its tokenizer and card.

    Raises:
        UserError: the encoder or params.yaml is missing, or the graph computes something else than the encoder.
    """
    encoder = SavedQueryEncoder.read(project.encoder(system))
    export(encoder.folder, folder / MODEL)
    encoder.copy_tokenizer(folder, prefixed=True)
    write_text(folder / "README.md", model_card(system, encoder, library="onnx", loading=LOADING))
