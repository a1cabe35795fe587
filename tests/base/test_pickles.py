"""No pickle is ever read, since one can hold any code: loaders refuse one, and no source says otherwise."""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnn_encoder.base.errors import UserError
from gnn_encoder.train.loop import load_checkpoint
from gnn_encoder.vectors import VectorFile

from ..project import ROOT


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    """Base models' are in tests/text/test_encoder.py; other weights are safetensors."""
    trap, vectors, checkpoint = Trap(tmp_path / "mark"), tmp_path / "vectors.npy", tmp_path / "last.pt"
    np.save(vectors, np.array([trap], dtype=object), allow_pickle=True)
    torch.save({"modules": trap, "progress": {}}, checkpoint)
    with pytest.raises(UserError, match=r"vectors\.npy"):
        VectorFile.read(vectors)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load_checkpoint(checkpoint, {})
    assert not trap.mark.exists()


def test_no_source_reads_pickles() -> None:
    imports = r"(?m)^\s*(import|from) (pickle|joblib|dill|shelve|cloudpickle)"
    unsafe = re.compile(rf"{imports}|allow_pickle=True|weights_only=False")
    for folder in ("src", "stages", "scripts", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not unsafe.search(text), path
            assert all("weights_only=True" in call for call in re.findall(r"torch\.load\([^\n]*", text)), path
