"""The query encoder as a folder that sentence-transformers, `AutoModel` and text-embedding servers load.

The names in the JSON files are those that sentence-transformers has written for years and that servers look for; its
newer versions read them still.
"""

from pathlib import Path

from gnn_encoder.core.storage.atomic import write_json, write_text
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.query_encoder import QueryEncoderFolder
from gnn_encoder.pipeline import project

MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
MODE = {"cls": "cls_token", "mean": "mean_tokens"}

LOADING = """```python
from sentence_transformers import SentenceTransformer

SentenceTransformer("folder/of/this/file").encode(["a query"])
```

Its own files say how queries are cut, pooled and scaled, so that nothing has to be set. {server}{prefix}"""
COSINE = "A text-embedding server loads the folder too."
DOT = (
    "A text-embedding server loads the folder too; tell it not to normalise (`normalize: false`), since these vectors "
    "have lengths that matter."
)
PREFIX = (
    " Before every query stands {prefix!r}: sentence-transformers puts it there by itself, a text-embedding server "
    "with `--default-prompt-name query`, and `AutoModel` does not."
)


def export_sentence_transformer(system: str, folder: Path) -> None:
    """Copy the query side of a dual-encoder, and say how its states become an embedding.

    Raises:
        UserError: the encoder or params.yaml is missing.
    """
    encoder = QueryEncoderFolder.read(project.encoder(system))
    encoder.copy_model(folder)
    encoder.copy_tokenizer(folder)
    _write_modules(folder, encoder)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": encoder.length, "do_lower_case": False})
    default = "query" if encoder.prefix else None
    prompts: dict[str, object] = {"prompts": {"query": encoder.prefix}, "default_prompt_name": default}
    similarity = {"similarity_fn_name": "cosine" if encoder.cosine else "dot"}
    write_json(folder / "config_sentence_transformers.json", prompts | similarity)
    prefix = PREFIX.format(prefix=encoder.prefix) if encoder.prefix else ""
    loading = LOADING.format(server=COSINE if encoder.cosine else DOT, prefix=prefix)
    write_text(folder / "README.md", model_card(system, encoder, library="sentence-transformers", loading=loading))


def _write_modules(folder: Path, encoder: QueryEncoderFolder) -> None:
    """The chain from tokens to an embedding: transformer, pooling and, for cosines, scaling to length 1."""
    modules = ["Transformer", "Pooling", *(["Normalize"] if encoder.cosine else [])]
    paths = ["", *(f"{number}_{name}" for number, name in enumerate(modules) if number)]
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (name, path) in enumerate(zip(modules, paths, strict=True))
    ]
    write_json(folder / "modules.json", rows)
    for path in paths[1:]:
        (folder / path).mkdir(exist_ok=True)
    chosen = {f"pooling_mode_{mode}": mode == MODE[encoder.pooling] for mode in MODES}
    write_json(folder / paths[1] / "config.json", {"word_embedding_dimension": encoder.dimension, **chosen})
