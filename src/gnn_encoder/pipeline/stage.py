"""How every stage runs: it reads what dvc.yaml declares for it, builds its artifact in a scratch folder, and moves the
finished artifact into place. A user's mistake is told in one line.
"""

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.core.storage.atomic import publish, publish_files, write_json
from gnn_encoder.core.storage.fingerprint import MANIFEST, code_fingerprint, fingerprint
from gnn_encoder.pipeline.declared import Declared, find_stage
from gnn_encoder.pipeline.params import Params, load_params

SCRATCH = Path(".scratch")
TIMES = SCRATCH / "times"  # how long each artifact took here; not in the artifacts, which would then differ every time
WORK = ".work"  # subfolder of an unfinished artifact, for files that only a resumed call needs; deleted at the end
log = logging.getLogger(__name__)
Files = Callable[[Params], list[Path]]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A running stage.

    Attributes:
        key: the key of dvc.yaml's `foreach` that it runs for, such as a system; empty where it runs once.
        item: the values that `foreach` has for the key.
        params: the parameters that dvc.yaml declares; reading another one is an AttributeError.
        inputs: the artifacts that dvc.yaml declares, and a user's own files.
        scratch: folder of the unfinished artifact; files that an interrupted call left in it are still there.
    """

    key: str
    item: Any
    params: Params
    inputs: list[Path]
    scratch: Path

    @property
    def work(self) -> Path:
        """Subfolder for files that only a resumed call needs; it is deleted at the end."""
        return self.scratch / WORK

    @property
    def metrics(self) -> Path:
        """Files put here are moved to where dvc.yaml declares metrics."""
        return self.work / "metrics"

    @property
    def plots(self) -> Path:
        """Files put here are moved to where dvc.yaml declares plots."""
        return self.work / "plots"


def run(main: Callable[[Stage], None], *, shared: bool = False, own_files: Files = lambda params: []) -> None:
    """Run the stage whose script was called: `python stages/NAME.py [KEY]`, alone or under torchrun.

    Args:
        shared: whether all ranks share the work; if not, the first rank does it alone.
        own_files: lists the user's files that parameters name; like the declared inputs, they decide the result.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with report_errors(), distributed.session():
        params = load_params()  # first, so that a mistake in it is told before dvc.yaml is filled in with its values
        declared = find_stage(Path(sys.argv[0]).stem, sys.argv[1:])
        with artifact(declared, params, own_files(params)) as stage:
            if shared:
                main(stage)
            elif distributed.is_first():
                with distributed.alone():
                    main(stage)


@contextmanager
def artifact(declared: Declared, params: Params, own_files: list[Path]) -> Iterator[Stage]:
    """Build a stage's artifact, the first of its outputs.

    The scratch folder is named after everything that decides the result: content of the inputs, declared parameters,
    code. After a kill the same call yields the same folder, with the work that was done in it. On success the folder
    becomes the output, in one move; on an error the output stays as it was.

    Under torchrun all ranks work in the same folder, on a shared file system, and the first rank moves it.
    """
    inputs, target = [*declared.inputs, *own_files], declared.outs[0]
    for path in inputs:
        if not path.exists():
            raise UserError(f"{path}: no such file; run the stage that makes it first (`dvc repro`)")
    started = time.monotonic()
    decisive = {name: params.value(name) for name in declared.params}
    plain = {name: value.model_dump() if isinstance(value, BaseModel) else value for name, value in decisive.items()}
    decided = {"params": plain, "item": declared.item, "code": code_fingerprint(), "target": target.as_posix()}
    key = fingerprint(*inputs, *declared.scripts, **decided)
    name = artifact_name(target)
    scratch, aside = SCRATCH / name / key, SCRATCH / name / f"{key}{WORK}"
    resumed = _begin(scratch, aside)
    if resumed and distributed.is_first():
        log.info("%s: resuming what an interrupted run left in %s", name, scratch)
    allowed = params.only(declared.params)
    yield Stage(key=declared.key, item=declared.item, params=allowed, inputs=inputs, scratch=scratch)
    distributed.barrier()
    if distributed.is_first():
        _publish(declared, scratch, aside, plain)
        if not target.suffix:
            # After resuming, only the time of the last part is known, which says nothing about the whole.
            seconds = None if resumed else round(time.monotonic() - started, 1)
            write_json(TIMES / f"{name}.json", {"seconds": seconds, "inputs": [path.as_posix() for path in inputs]})
        shutil.rmtree(SCRATCH / name, ignore_errors=True)
    distributed.barrier()


def _publish(declared: Declared, scratch: Path, aside: Path, params: dict[str, Any]) -> None:
    """Move metrics, plots and the artifact into place. What resuming needs goes aside first.

    It is not deleted before the artifact is in place: a kill in between would lose a whole training.
    """
    for folder, places in (("metrics", declared.metrics), ("plots", declared.plots)):
        if (scratch / WORK / folder).is_dir():
            publish_files(scratch / WORK / folder, places[0].parent)
    (scratch / WORK).rename(aside)
    target = declared.outs[0]
    if target.suffix:  # a single file, which has no manifest
        publish(scratch / target.name, target)
        return
    if not (scratch / MANIFEST).exists():
        # The fingerprint is of the content, not of the code or the inputs: an artifact that is made again with the same
        # content must not make later stages run again, and one with other content must not pass for it.
        write_json(scratch / MANIFEST, {"fingerprint": fingerprint(scratch, params=params), "params": params})
    publish(scratch, target)


def _begin(scratch: Path, aside: Path) -> bool:
    """Make the scratch folder. Returns whether an interrupted run left one."""
    if aside.exists() and distributed.is_first():  # an earlier call was killed in its last step
        scratch.mkdir(exist_ok=True)
        aside.rename(scratch / WORK)
    distributed.barrier()
    resumed = scratch.exists()
    distributed.barrier()
    (scratch / WORK).mkdir(parents=True, exist_ok=True)
    return resumed


def artifact_name(target: Path) -> str:
    """An artifact's name in one word: its path below data/, joined by hyphens."""
    return "-".join(target.parts[1:] or target.parts)
