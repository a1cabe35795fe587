"""Memory of a step is reused by the next: counted as page faults, in a process of its own."""

import subprocess
import sys

import pytest

from gnn_encoder.training.allocator import keep_freed_memory

PROGRAM = """
import resource
import torch
from gnn_encoder.training.allocator import keep_freed_memory

torch.set_num_threads(1)
if {keep}:
    keep_freed_memory()
before = 0
for step in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt if step == 10 else before
    activations = [torch.ones(size << 18) for size in (5, 40, 10)]  # MiB
    del activations
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, keep: bool) -> int:
    program = PROGRAM.format(keep=keep)
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library is glibc on Linux alone")
def test_later_steps_touch_no_new_memory() -> None:
    assert faults(keep=True) < faults(keep=False) / 10


def test_no_op_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
