"""Query embeddings without torch, for `gnn-encoder search`: importing torch would take longer than the search.

This is BERT (Devlin et al. 2019) in numpy. A test checks that it computes what `DualEncoder` does.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from scipy.special import erf
from tokenizers import Tokenizer

SETTINGS = "dual_encoder.json"
WEIGHTS = "model.safetensors"
Floats = NDArray[np.float32]


class QuickEncoder:
    """The query side of a saved dual-encoder, in float32 on one text at a time."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        self._config = config
        self._mean: bool = settings["pooling"] == "mean"
        self._cosine: bool = settings["similarity"] == "cosine"
        self._prefix: str = settings.get("query_prefix", "")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(settings["query_length"])
        with safe_open(folder / WEIGHTS, framework="numpy") as file:
            self._weights: dict[str, Floats] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    @classmethod
    def open(cls, folder: Path) -> "QuickEncoder | None":
        """Read a folder written by `DualEncoder.save`; None where the model is not a plain float32 BERT."""
        needed = [folder / name for name in (SETTINGS, WEIGHTS, "config.json", "tokenizer.json")]
        if not all(path.is_file() for path in needed):
            return None
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        form = (config.get("model_type"), config.get("hidden_act"), config.get("position_embedding_type", "absolute"))
        if form != ("bert", "gelu", "absolute") or config.get("is_decoder"):
            return None
        with safe_open(folder / WEIGHTS, framework="numpy") as file:
            if any(file.get_slice(name).get_dtype() != "F32" for name in file.keys()):  # noqa: SIM118
                return None
        return cls(folder, config)

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """As `DualEncoder.embed_queries`. *Shape:* (n, d)."""
        return np.stack([self._embed(self._tokenizer.encode(self._prefix + text).ids) for text in texts])

    def _embed(self, ids: list[int]) -> Floats:
        states = self._states(ids)  # (tokens, d)
        vector: Floats = states.mean(axis=0) if self._mean else states[0]
        return vector / max(float(np.linalg.norm(vector)), 1e-12) if self._cosine else vector

    def _states(self, ids: list[int]) -> Floats:
        w = self._weights
        states = w["embeddings.word_embeddings.weight"][ids]
        states = states + w["embeddings.position_embeddings.weight"][: len(ids)]
        states = self._normalise(states + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self._config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            attended = self._linear(self._attend(states, f"{name}.attention.self"), f"{name}.attention.output.dense")
            states = self._normalise(states + attended, f"{name}.attention.output.LayerNorm")
            inner = _gelu(self._linear(states, f"{name}.intermediate.dense"))
            states = self._normalise(states + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return states

    def _attend(self, states: Floats, name: str) -> Floats:
        n_heads = self._config["num_attention_heads"]
        query, key, value = (
            self._linear(states, f"{name}.{part}").reshape(len(states), n_heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )  # (heads, tokens, d / heads)
        logits = query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1]))
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed: Floats = (weights @ value).swapaxes(0, 1).reshape(len(states), -1)
        return mixed

    def _linear(self, inputs: Floats, name: str) -> Floats:
        return inputs @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalise(self, states: Floats, name: str) -> Floats:
        centred = states - states.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(self._config["layer_norm_eps"]))
        scaled: Floats = centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return scaled


def _gelu(inputs: Floats) -> Floats:
    result: Floats = inputs * 0.5 * (1 + erf(inputs / np.float32(np.sqrt(2))))
    return result
