"""The query encoder as a folder that sentence-transformers, `AutoModel` and text-embedding servers load.

The names in the JSON files are those that sentence-transformers has written for years and that servers look for; its
newer versions read them still.
"""

from pathlib import Path

from gnn_encoder.core.storage.atomic import write_json, write_text
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.query_encoder import SavedQueryEncoder
from gnn_encoder.pipeline import project

MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
MODE = {"cls": "cls_token", "mean": "mean_tokens"}

LOADING = """```python
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


def export_sentence_transformer(system: str, folder: Path) -> None:
    """Copy the query side of a dual-encoder, and say how its states become an embedding.

    Raises:
        UserError: the encoder or params.yaml is missing.
    """
    encoder = SavedQueryEncoder.read(project.encoder(system))
    settings, is_cosine = encoder.settings, encoder.settings.similarity == "cosine"
    encoder.copy_model(folder)
    encoder.copy_tokenizer(folder)
    modules = {"": "Transformer", "1_Pooling": "Pooling"} | ({"2_Normalize": "Normalize"} if is_cosine else {})
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(modules.items())
    ]
    for path in modules:
        (folder / path).mkdir(exist_ok=True)
    pooling = {f"pooling_mode_{mode}": mode == MODE[settings.pooling] for mode in MODES}
    prompts: dict[str, object] = {
        "prompts": {"query": settings.query_prefix},
        "default_prompt_name": "query" if settings.query_prefix else None,
        "similarity_fn_name": "cosine" if is_cosine else "dot",
    }
    write_json(folder / "modules.json", rows)
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": encoder.dimension, **pooling})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": settings.query_length, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", prompts)
    prefix = PREFIX.format(settings.query_prefix) if settings.query_prefix else ""
    loading = LOADING + ("" if is_cosine else DOT) + prefix
    write_text(folder / "README.md", model_card(system, encoder, library="sentence-transformers", loading=loading))
