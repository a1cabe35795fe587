"""A project with a built index of random vectors, and a system that gives every text a vector of its own: no models."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.core.records import PASSAGES
from gnn_encoder.core.storage.arrays import ArrayManifest, ArrayWriter
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.growing.made import Made
from gnn_encoder.growing.overlay import Overlay
from gnn_encoder.growing.reading import Log
from gnn_encoder.index.build import build
from gnn_encoder.pipeline import project

ROOT = Path(__file__).parents[2]
SYSTEM, D = "gnn_encoder", 16


def vector(text: str) -> np.ndarray:
    """The vector of a text. *Shape:* (D,)."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=D).astype(np.float32)


class HashGrower:
    """Gives texts their vectors. A logged query changes the passages that it is labelled with: one letter more."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def add(self, passages: pl.DataFrame, old: np.ndarray) -> Made:
        return Made(vectors=np.stack([vector(text) for text in passages["text"]]))

    def known_queries(self) -> pl.LazyFrame:
        tables = [pl.scan_parquet(one.queries) for one in self._overlay.segments if one.entry.queries]
        return pl.concat([pl.LazyFrame({"text": []}, {"text": pl.String}), *tables])

    def log(self, queries: Log, folder: Path) -> np.ndarray:
        return self._overlay.find(queries.pairs["pid"])["row"].to_numpy()

    def remake(self, passages: pl.DataFrame, rows: np.ndarray) -> Made:
        return Made(vectors=np.stack([vector(text + "!") for text in passages["text"]]))


def make(folder: Path, texts: dict[str, str], factory: str = "Flat") -> None:
    """Build the index of some passages in `folder`, which is the current folder; texts by pid."""
    shutil.copy(ROOT / "systems.yaml", folder)
    shutil.copy(ROOT / "params.yaml", folder)
    columns = [list(texts), [""] * len(texts), list(texts.values())]
    write_table(project.PASSAGES, PASSAGES, [pa.table(columns, schema=PASSAGES)])
    values = np.stack([vector(text) for text in texts.values()])
    shutil.rmtree(project.embeddings(SYSTEM), ignore_errors=True)
    with ArrayWriter(project.embeddings(SYSTEM), values.shape, "float32") as writer:
        writer.write(0, values)
        names = {"model_fingerprint": "", "input_fingerprint": "", "fingerprint": str(hash(tuple(texts.items())))}
        writer.finish(ArrayManifest(shape=values.shape, dtype="float32", **names))
    folders = project.embeddings(SYSTEM), project.index(SYSTEM)
    build(*folders, factory=factory, pids=project.PASSAGES, system=SYSTEM, seed=0)


def jsonl(path: Path, texts: dict[str, str]) -> Path:
    """Passages as a file to add."""
    path.write_text("".join(json.dumps({"_id": pid, "text": text}) + "\n" for pid, text in texts.items()))
    return path
