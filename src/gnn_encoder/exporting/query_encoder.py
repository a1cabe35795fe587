"""The query encoder as a folder: for sentence-transformers, `AutoModel` and text-embedding servers, or as ONNX.

The names in the JSON files are those that sentence-transformers has written for years and that servers look for; its
newer versions read them still.
"""

import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers
from transformers import AutoConfig

from gnn_encoder.base.errors import not_built
from gnn_encoder.base.files import check_undamaged, read_json, write_json, write_text
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.onnx_graph import export
from gnn_encoder.pipeline import project
from gnn_encoder.text.encoder import SETTINGS, DualEncoderSettings
from gnn_encoder.text.pretrained import POOLING

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
FILES = (SETTINGS, "config.json", "model.safetensors", TOKENIZER, TOKENIZER_CONFIG)  # of a saved dual-encoder
OWN = (SETTINGS, "history.csv", "manifest.json")  # ours, of no use to other tools
MODEL = "model.onnx"

SENTENCE_TRANSFORMERS = """```python
from sentence_transformers import SentenceTransformer

SentenceTransformer("folder/of/this/file").encode(["a query"])
```

Its own files say how queries are cut, pooled and scaled, so that nothing has to be set. A text-embedding server loads
the folder too."""
DOT = " Tell the server not to normalise (`normalize: false`), since these vectors have lengths that matter."
PREFIX = (
    " Before every query stands {!r}: sentence-transformers puts it there by itself, a text-embedding server with "
    "`--default-prompt-name query`, and `AutoModel` does not."
)
ONNX = """```python
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


def read_settings(encoder: Path) -> DualEncoderSettings:
    """How a saved dual-encoder reads, pools and scores."""
    for name in FILES:
        if not (encoder / name).is_file():
            raise not_built(encoder / name)
    check_undamaged(encoder)
    return read_json(encoder / SETTINGS, DualEncoderSettings)


def write_tokenizer(encoder: Path, target: Path, settings: DualEncoderSettings, *, prefixed: bool = False) -> None:
    """Copy the tokenizer, and let it cut queries where the encoder was trained to, and pad a batch, by itself.

    Tools that ask their tokenizer for the longest input would read more of a query than training did.

    Args:
        prefixed: it also puts the prefix before a query. transformers makes some tokenizers anew and loses that.
    """
    config = read_json(encoder / TOKENIZER_CONFIG, dict[str, Any])
    config.pop("max_length", None)  # that of a call, which some models were saved with
    write_json(
        target / TOKENIZER_CONFIG, {**config, "model_max_length": settings.query_length, "padding_side": "right"}
    )
    tokenizer = Tokenizer.from_file(str(encoder / TOKENIZER))
    pad = config["pad_token"]
    name = pad["content"] if isinstance(pad, dict) else pad
    tokenizer.enable_truncation(settings.query_length)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(name), pad_token=name)
    if settings.query_prefix and prefixed:
        then = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(settings.query_prefix), *then])
    tokenizer.save(str(target / TOKENIZER))


def export_onnx(system: str, folder: Path) -> None:
    """Write the graph that search and service use too, token ids in, the embedding out, with its tokenizer and card."""
    encoder = project.encoder(system)
    settings = read_settings(encoder)
    export(encoder, folder / MODEL)
    write_tokenizer(encoder, folder, settings, prefixed=True)
    write_text(folder / "README.md", model_card(system, settings, library="onnx", loading=ONNX))


def export_sentence_transformer(system: str, folder: Path) -> None:
    """Copy the query side of a dual-encoder, and say how its states become an embedding."""
    encoder = project.encoder(system)
    settings = read_settings(encoder)
    for file in encoder.iterdir():  # configuration and weights, and whatever else the model was saved with
        if file.is_file() and file.name not in (*OWN, TOKENIZER, TOKENIZER_CONFIG):
            shutil.copyfile(file, folder / file.name)
    write_tokenizer(encoder, folder, settings)
    is_cosine, prefix = settings.similarity == "cosine", settings.query_prefix
    modules = {"": "Transformer", "1_Pooling": "Pooling"} | ({"2_Normalize": "Normalize"} if is_cosine else {})
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(modules.items())
    ]
    for path in modules:
        (folder / path).mkdir(exist_ok=True)
    pooling = {
        "word_embedding_dimension": AutoConfig.from_pretrained(encoder).hidden_size,
    } | {switch: kind == settings.pooling for kind, switch in POOLING.items()}
    prompts: dict[str, object] = {
        "prompts": {"query": prefix},
        "default_prompt_name": "query" if prefix else None,
        "similarity_fn_name": "dot",  # passages' vectors may have any length, which counts
    }
    write_json(folder / "modules.json", rows)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": settings.query_length, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", prompts)
    loading = SENTENCE_TRANSFORMERS + ("" if is_cosine else DOT) + (PREFIX.format(prefix) if prefix else "")
    card = model_card(system, settings, library="sentence-transformers", loading=loading)
    write_text(folder / "README.md", card)
