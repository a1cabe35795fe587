"""How a stage whose work can be shared is started: as launch.yaml says, or as one of many independent shards.

A stage that is to have several processes starts itself anew under torchrun's agent. No stage depends on launch.yaml.
"""

import logging
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from gnn_encoder.base.distributed import cores
from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.params import Count, Section, described, parse_yaml

FILE = Path("launch.yaml")
STARTED = "GNN_ENCODER_STARTED"  # set for what launch.yaml has started
SHARD, SHARDS, NUMBERS = "--shard", "shards", re.compile(r"([1-9]\d*)/([1-9]\d*)")
log = logging.getLogger(__name__)
Shard = tuple[int, int]  # (i, n), the i-th of n, 1 <= i <= n


class Launch(Section):
    """The content of launch.yaml."""

    processes: Count | Literal["auto"] = "auto"  # on this machine; auto: one a GPU, and one where there is none
    restarts: Annotated[int, Field(ge=0)] = 3  # of all processes, after one of them is lost
    command: str | None = None  # of a shell, starts the processes in place of this; the stage is put behind it


def read_launch(file: Path = FILE) -> Launch:
    """Read and check launch.yaml; where there is none, the defaults hold."""
    try:
        return Launch.model_validate((parse_yaml(file.read_bytes(), file) if file.is_file() else None) or {})
    except ValidationError as error:
        raise UserError(f"{file}: {described(error)}") from error


def launched() -> int | None:
    """Start the present stage anew as several processes. Returns their status; None: this process does the work.

    $PYTHON in the command is the interpreter of this process.
    """
    if "LOCAL_RANK" in os.environ or STARTED in os.environ:
        return None
    launch = read_launch()
    if launch.command is not None:
        environment = os.environ | {STARTED: "1", "PYTHON": sys.executable}
        return subprocess.run(f"{launch.command} {shlex.join(sys.argv)}", shell=True, env=environment).returncode
    processes = _gpus() if launch.processes == "auto" else launch.processes
    return _under_torchrun(processes, launch.restarts) if processes > 1 else None


def _gpus() -> int:
    import torch  # which a stage with shared work has imported

    return torch.cuda.device_count()


def _under_torchrun(processes: int, restarts: int) -> int:
    """As `torchrun --standalone --nproc-per-node N`, but a mistake of the user's is told once and starts nothing again.

    Restarts are ours and not the agent's, which would also run a user's mistake again.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in ("agent.server.api", "multiprocessing.api"):  # what they tell of a failure is told below
        logging.getLogger(f"torch.distributed.elastic.{name}").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    how: dict[str, Any] = {"min_nodes": 1, "max_nodes": 1, "nproc_per_node": processes, "max_restarts": 0}
    how |= {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "local_addr": "localhost", "run_id": "stage"}
    stage = Path(sys.argv[0]).stem
    log.info("%s: %d processes", stage, processes)
    for left in reversed(range(restarts + 1)):
        try:
            elastic_launch(LaunchConfig(**how), sys.executable)(*sys.argv)
            return 0
        except ChildFailedError as error:
            if any(failure.exitcode == 2 for failure in error.failures.values()):
                return 2
            rank, failure = error.get_first_failure()
            told = failure.message if failure.exitcode < 0 else f"exit status {failure.exitcode}"
            again = "all start again" if left else "run the stage again: it goes on from its last checkpoint"
            log.error("%s: process %d of %d is lost, %s; %s", stage, rank, processes, told, again)
    return 1


def split_arguments(arguments: list[str]) -> tuple[list[str], Shard | None]:
    """The arguments of a stage without `--shard I/N`, and what that says."""
    if SHARD not in arguments:
        return arguments, None
    place = arguments.index(SHARD)
    told = "".join(arguments[place + 1 : place + 2])
    found = NUMBERS.fullmatch(told)
    if not found or int(found[1]) > int(found[2]):
        raise UserError(f"{SHARD} is {told!r}: must be I/N with I from 1 to N, such as {SHARD} 3/64")
    return arguments[:place] + arguments[place + 2 :], (int(found[1]), int(found[2]))


def end_shard(work: Path, shard: Shard) -> None:
    """Note that a shard has done its part."""
    (work / SHARDS).mkdir(exist_ok=True)
    (work / SHARDS / "{}-of-{}".format(*shard)).touch()


def check_shards(work: Path, call: str) -> None:
    """Refuse to finish a stage of whose shards some have not ended; a stage that had no shards may finish.

    Args:
        call: how the stage is run.
    """
    done = {note.name for note in work.glob(f"{SHARDS}/*")}
    totals = {int(name.rpartition("-")[2]) for name in done}
    missing = {n: [i for i in range(1, n + 1) if f"{i}-of-{n}" not in done] for n in totals}
    if missing and all(missing.values()):
        n, waiting = min(missing.items(), key=lambda item: len(item[1]))
        raise UserError(
            f"{call}: {len(waiting)} of {n} shards have not ended, the first of them {waiting[0]}/{n}; run "
            f"`{call} {SHARD} {waiting[0]}/{n}`; `{SHARD} 1/1` does what is left of all"
        )
