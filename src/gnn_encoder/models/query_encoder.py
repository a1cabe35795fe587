"""Query embeddings by onnxruntime, for search and serving: torch would take longer to import than a search takes.

`onnx_graph.py` makes the graph of a saved dual-encoder once; it is kept under the model's fingerprint.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.files import cached, fingerprint, read_json

log = logging.getLogger(__name__)
SETTINGS, CONFIG, WEIGHTS = "dual_encoder.json", "config.json", "model.safetensors"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
FILES = (SETTINGS, CONFIG, WEIGHTS, TOKENIZER, TOKENIZER_CONFIG)  # of a saved dual-encoder whose graph can be made
GRAPH = "query_encoder.onnx"
TOGETHER = 8  # queries of one call of the graph, of like lengths, since all are padded to the longest
FIELDS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}  # of tokenizers


@dataclass(frozen=True)
class Reading:
    """What a saved dual-encoder's settings say of how it reads a query."""

    query_length: int
    query_prefix: str = ""


class Asked(NamedTuple):
    """Embedded queries, and of which the end was not read. *Shape:* vectors (n, d)."""

    vectors: NDArray[np.float32]
    truncated: list[bool]


class QueryEncoder:
    """E_Q as a graph of ONNX, in float32 on the CPU.

    Args:
        graph: what `onnx_graph.export` wrote.
        tokenizer: cuts and pads queries as the encoder was trained.
        prefix: stands before every query.
    """

    def __init__(self, graph: Path, tokenizer: Tokenizer, *, prefix: str = "") -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)  # 0: all cores
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other threads need the cores
        self._session: Any = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._inputs = [one.name for one in self._session.get_inputs()]
        self._prefix, self._tokenizer = prefix, tokenizer
        padding = tokenizer.padding
        assert padding is not None, "query_tokenizer pads, and so does the tokenizer of an export"
        self._pad: int = padding["pad_id"]
        tokenizer.no_padding()  # each call of the graph is padded by itself

    @classmethod
    def open(cls, model: Path, cache: Path) -> Self:
        """Open a folder written by `DualEncoder.save`."""
        prefix = read_json(model / SETTINGS, Reading).query_prefix
        return cls(graph_of(model, cache), query_tokenizer(model), prefix=prefix)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed queries. *Shape:* (n, d)."""
        return self.ask(texts).vectors

    def ask(self, texts: Sequence[str]) -> Asked:
        """Embed queries, and tell which have more tokens than are read."""
        encoded = self._tokenizer.encode_batch_fast([self._prefix + text for text in texts])
        order = np.argsort([len(one) for one in encoded], kind="stable")
        parts = [order[first : first + TOGETHER] for first in range(0, len(order), TOGETHER)]
        vectors = np.concatenate([self._run([encoded[row] for row in rows]) for rows in parts])
        found = np.empty_like(vectors)
        found[order] = vectors
        return Asked(found, [bool(one.overflowing) for one in encoded])

    def _run(self, encoded: list[Encoding]) -> NDArray[np.float32]:
        """Embeddings of queries that ascend in length. *Shape:* (n, d)."""
        for one in encoded:
            one.pad(len(encoded[-1]), pad_id=self._pad)
        arrays = {name: np.array([getattr(one, FIELDS[name]) for one in encoded], np.int64) for name in self._inputs}
        vectors: NDArray[np.float32] = self._session.run(None, arrays)[0]
        return vectors


def query_tokenizer(model: Path) -> Tokenizer:
    """The tokenizer of a saved dual-encoder, which cuts queries where training did, and pads a batch, by itself."""
    length = read_json(model / SETTINGS, Reading).query_length
    tokenizer = Tokenizer.from_file(str(present(model / TOKENIZER)))
    pad = read_json(model / TOKENIZER_CONFIG, dict[str, Any])["pad_token"]
    name = pad["content"] if isinstance(pad, dict) else pad
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(name), pad_token=name)
    return tokenizer


def graph_of(model: Path, cache: Path) -> Path:
    """The graph of a saved dual-encoder in a folder of graphs. It is made if it is missing, and replaces a former one.

    Two models that are equal have graphs of one name.
    """
    key = fingerprint(*(present(model / name) for name in FILES))
    return cached(cache / "-".join(model.parts[-4:]), "graph", key, partial(_export, model), keep=1) / GRAPH


def _export(model: Path, folder: Path) -> None:
    """Make the graph; where torch is not loaded in a process of its own, so that a server's memory stays as small."""
    log.warning("%s: is prepared for search, once; this takes some seconds", model)
    graph = folder / GRAPH
    if "torch" in sys.modules:
        from gnn_encoder.models.onnx_graph import export

        export(model, graph)
        return
    command = [sys.executable, "-m", "gnn_encoder.models.onnx_graph", str(model), str(graph)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError((done.stderr.splitlines() or [f"{model}: cannot be exported"])[-1].removeprefix("error: "))


def present(path: Path) -> Path:
    """A file of an artifact, which must be there."""
    if not path.is_file():
        raise not_built(path)
    return path
