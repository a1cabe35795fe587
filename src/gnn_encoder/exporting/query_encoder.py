"""The query encoder as a folder that sentence-transformers, `AutoModel` and text-embedding servers load.

The names in the JSON files are those that sentence-transformers has written for years and that servers look for; its
newer versions read them still.
"""

import json
import shutil
from pathlib import Path

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import write_json, write_text

SETTINGS = "dual_encoder.json"
COPIED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def export_query_encoder(encoder: Path, folder: Path, *, title: str) -> None:
    """Copy the query side of a dual-encoder, and say how its states become an embedding.

    Args:
        encoder: folder of a dual-encoder.
        folder: where the model is written.
        title: the system, in the model card.

    Raises:
        UserError: the encoder is missing.
    """
    missing = [name for name in (SETTINGS, *COPIED) if not (encoder / name).is_file()]
    if missing:
        raise UserError(f"{encoder / missing[0]}: no such file; run the stage that trains it first (`dvc repro`)")
    folder.mkdir(parents=True, exist_ok=True)
    settings = json.loads((encoder / SETTINGS).read_text(encoding="utf-8"))
    for name in COPIED:
        shutil.copyfile(encoder / name, folder / name)
    dimension = json.loads((encoder / "config.json").read_text(encoding="utf-8"))["hidden_size"]
    cosine = settings["similarity"] == "cosine"
    modules = ["Transformer", "Pooling", *(["Normalize"] if cosine else [])]
    paths = ["", *(f"{number}_{name}" for number, name in enumerate(modules) if number)]
    write_json(
        folder / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
            for number, (name, path) in enumerate(zip(modules, paths, strict=True))
        ],
    )
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": settings["query_length"], "do_lower_case": False}
    )
    similarity = "cosine" if cosine else "dot"
    prompts: dict[str, object] = {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": similarity}
    write_json(folder / "config_sentence_transformers.json", prompts)
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    chosen = {"cls": "cls_token", "mean": "mean_tokens"}[settings["pooling"]]
    pooling = {f"pooling_mode_{mode}": mode == chosen for mode in modes}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": dimension, **pooling})
    if cosine:
        (folder / "2_Normalize").mkdir(exist_ok=True)
    write_text(folder / "README.md", _card(title, settings["query_length"], dimension, similarity))


def _card(title: str, length: int, dimension: int, similarity: str) -> str:
    product = "their cosine, which is the inner product of both" if similarity == "cosine" else "their inner product"
    return f"""---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
---

# Query encoder of {title}

It embeds **queries** of at most {length} tokens in {dimension} dimensions. A passage's score is {product}.

The passages' vectors do not come from this model alone: embed passages with it only if the system's passages are
encoded alone, as M_de's are. Those of a GNN-encoder are also informed by the queries that retrieve them, and those of
a Dual-Cross-Encoder by generated queries. Take them from `gnn-encoder export --to npy`, `parquet` or `faiss`.

```python
from sentence_transformers import SentenceTransformer

SentenceTransformer("this/folder").encode(["a query"])
```

Trained by the pipeline gnn-encoder; `params.yaml` and `metrics/` of the project that it was exported from hold data,
parameters and measures. Its weights are under the terms of the base model.
"""
