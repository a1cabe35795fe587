"""No pickle is ever read, since one can hold any code: loaders refuse one, and no source says otherwise."""

import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnn_encoder.base.errors import UserError
from gnn_encoder.gnn.network import QueryPassageGNN
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train import loop as checkpoints
from gnn_encoder.vectors import VectorFile

from ..encoders import dual_encoder
from ..project import ROOT


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def pickled(path: Path, trap: Trap) -> None:
    path.write_bytes(pickle.dumps(trap))


def as_array(path: Path, trap: Trap) -> None:
    np.save(path, np.array([trap], dtype=object), allow_pickle=True)


def as_checkpoint(path: Path, trap: Trap) -> None:
    torch.save({"modules": trap, "progress": {}}, path)


def base(path: Path) -> Any:
    return dual_encoder(path.parent)


GNN = {"dimension": 2, "edge_dimension": 2, "layers": 1, "heads": 1, "gate": 0.5, "edge_features": "none"}
GNN |= {"labels": False, "similarity": "dot"}
LOADERS: dict[str, tuple[str, Callable[[Path, Trap], None], Callable[[Path], Any]]] = {
    "base model": ("model.safetensors", pickled, base),
    "base model in torch's old form": ("pytorch_model.bin", as_checkpoint, base),
    "dual-encoder": ("model.safetensors", pickled, lambda path: DualEncoder.load(path.parent)),
    "cross-encoder": ("model.safetensors", pickled, lambda path: CrossEncoder.load(path.parent)),
    "GNN": ("gnn.safetensors", pickled, lambda path: QueryPassageGNN.load(path.parent)),
    "checkpoint": ("last.pt", as_checkpoint, lambda path: checkpoints.load_checkpoint(path, {})),
    "own vectors": ("vectors.npy", as_array, VectorFile.read),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_pickle_is_refused(name: str, tiny_model: Path, tmp_path: Path) -> None:
    file, write, load = LOADERS[name]
    folder, mark = shutil.copytree(tiny_model, tmp_path / "folder"), tmp_path / "mark"
    (folder / "gnn.json").write_text(json.dumps(GNN))
    if name == "dual-encoder":
        base(folder / file).save(folder)
    if file == "pytorch_model.bin":
        (folder / "model.safetensors").unlink()
    write(folder / file, Trap(mark))
    opened = rf"{re.escape(file)}|deserializing header|no file named model.safetensors|Weights only load failed"
    with pytest.raises((UserError, pickle.UnpicklingError), match=opened):
        load(folder / file)
    assert not mark.exists()


def test_no_source_reads_pickles() -> None:
    imports = r"(?m)^\s*(import|from) (pickle|joblib|dill|shelve|cloudpickle)"
    unsafe = re.compile(rf"{imports}|allow_pickle=True|weights_only=False")
    for folder in ("src", "stages", "scripts", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not unsafe.search(text), path
            assert all("weights_only=True" in call for call in re.findall(r"torch\.load\([^\n]*", text)), path
