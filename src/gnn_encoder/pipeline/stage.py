"""How every stage runs: it reads what its dvc.yaml declares for it, builds its artifacts in a scratch folder, and moves
the finished artifacts into place. A user's mistake is told in one line.
"""

import fcntl
import logging
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.base import distributed, files
from gnn_encoder.base.errors import UserError, not_built, report_errors
from gnn_encoder.base.files import MANIFEST, SCRATCH, WORK, check_undamaged, fingerprint, publish, seal, write_json
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.section import parse_yaml

PIPELINE = "dvc.yaml"
ROOT = Path(__file__).parents[3]  # of the code that runs
CODE, SHOWN = ("src", "stages"), ("metrics", "plots")
NAME = re.compile(r"\$\{([\w.]+)\}")
log = logging.getLogger(__name__)
Files = Callable[[Params], list[Path]]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A stage as a dvc.yaml has it, with every `${...}` filled in; `wdir` is always the project's root."""

    name: str
    key: str  # of a stage with `foreach`, and the value that it has there; else "" and None
    item: Any
    cmd: str
    deps: tuple[Path, ...]
    params: tuple[str, ...]  # dotted names in params.yaml; names in systems.yaml are left out
    outs: tuple[Path, ...]  # artifacts
    shown: tuple[Path, ...]  # files of metrics/ and plots/, also those that DVC does not compare

    @property
    def address(self) -> str:
        """DVC's name for it in its file: NAME or NAME@KEY."""
        return f"{self.name}@{self.key}" if self.key else self.name

    @property
    def inputs(self) -> list[Path]:
        """The dependencies that are artifacts, each once."""
        return [path for path in dict.fromkeys(self.deps) if path.parts[0] not in CODE]

    @property
    def code(self) -> list[Path]:
        """The dependencies that are code, each once: the stage's script, and packages."""
        return [path for path in dict.fromkeys(self.deps) if path.parts[0] in CODE]


def find_stage(name: str, arguments: list[str], folder: Path = Path()) -> Declared:
    """The stage that `python stages/NAME.py [KEY]` runs."""
    found = {stage.key: stage for stage in read_stages(folder) if stage.name == name}
    if not found:
        raise UserError(f"{folder / PIPELINE}: has no stage {name}; its stages and the scripts in stages/ share names")
    asked = " ".join(arguments)
    if asked not in found:
        rule = f"stage {name} runs once; leave it out" if "" in found else f"must be one of {', '.join(found)}"
        raise UserError(f"argument is {asked!r}: {rule}" if arguments else f"no argument: {rule}")
    return found[asked]


def read_stages(folder: Path = Path()) -> Iterator[Declared]:
    """Yield every stage that DVC would run, one for each key of a `foreach`; those of the root's file come first."""
    if not (folder / PIPELINE).is_file():
        raise UserError(f"{folder / PIPELINE}: no such file; run from the project's root")
    for path in (folder / PIPELINE, *sorted(folder.glob(f"pipelines/*/{PIPELINE}"))):
        for name, stage in parse_yaml(path.read_bytes(), path)["stages"].items():
            for key, item in stage.get("foreach", {"": None}).items():
                yield _declared(name, key, item, stage.get("do", stage))


def _declared(name: str, key: str, item: Any, stage: dict[str, Any]) -> Declared:
    values = {"key": key, "item": item}

    def filled(text: str) -> str:
        return NAME.sub(lambda found: str(lookup(values, found[1])), text)

    def listed(section: str) -> list[str]:
        whole = [one if isinstance(one, str) else next(iter(one)) for one in stage.get(section, [])]
        return [filled(one) for one in whole]

    made = [Path(one) for part in ("outs", "metrics", "plots") for one in listed(part)]
    outs, shown = (tuple(one for one in made if (one.parts[0] in SHOWN) == is_shown) for is_shown in (False, True))
    paths = {"deps": tuple(map(Path, listed("deps"))), "outs": outs, "shown": shown}
    params = tuple(dict.fromkeys(filled(one) for one in stage.get("params", []) if isinstance(one, str)))
    return Declared(name=name, key=key, item=item, cmd=filled(stage["cmd"]), params=params, **paths)


def lookup(values: Any, dotted: str, default: Any = None) -> Any:
    """The value of a dotted name; `default` where there is none."""
    for key in dotted.split("."):
        if not isinstance(values, dict) or key not in values:
            return default
        values = values[key]
    return values


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A running stage."""

    key: str  # the key of dvc.yaml's `foreach` that it runs for, such as a system; empty where it runs once
    item: Any  # the value that `foreach` has for the key
    params: Params  # those that dvc.yaml declares
    inputs: list[Path]  # the artifacts that dvc.yaml declares, and a user's own files
    outputs: tuple[Path, ...]  # the artifacts that dvc.yaml declares
    folder: Path  # scratch folder of the call; files that an interrupted call left in it are still there

    @property
    def scratch(self) -> Path:
        """Folder of the unfinished artifact, of a stage that makes a single one."""
        (output,) = self.outputs
        return self.unfinished(output)

    def unfinished(self, place: Path) -> Path:
        """What becomes the artifact at `place`, or a file of metrics or plots there, or a folder of these."""
        if place not in self.outputs:
            return self.work / place
        return self.folder if len(self.outputs) == 1 else self.folder / artifact_name(place)

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder of the artifact, made by `make` in a scratch folder; a resumed call does not make it again."""
        part, unfinished = self.scratch / name, self.work / name
        done = part.exists()
        distributed.barrier()
        if not done:
            make(unfinished)
            if distributed.is_first():
                shutil.rmtree(unfinished / WORK, ignore_errors=True)
                publish(unfinished, part)
            distributed.barrier()
        return part

    @property
    def work(self) -> Path:
        """Subfolder for files that only a resumed call needs; it is deleted at the end."""
        return self.folder / WORK


def run(main: Callable[[Stage], None], *, shared: bool = False, own_files: Files = lambda params: []) -> None:
    """Run the stage whose script was called: `python stages/NAME.py [KEY]`, alone or under torchrun.

    All ranks share the work if it is `shared`, or else the first one does it alone. `own_files` lists the user's files
    that parameters name, which decide the result as the declared inputs do.
    """
    level = logging.INFO if os.environ.get("RANK", "0") == "0" else logging.ERROR
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with distributed.session(), report_errors():  # told before the group ends
        params, declared = load_params(), find_stage(Path(sys.argv[0]).stem, sys.argv[1:])
        with artifact(declared, params, own_files(params)) as stage:
            if shared:
                main(stage)
            else:
                distributed.on_first(lambda: main(stage))


@contextmanager
def artifact(declared: Declared, params: Params, own_files: list[Path]) -> Iterator[Stage]:
    """Build a stage's artifacts, its outputs.

    The scratch folder is named after everything that decides the result: content of the inputs, declared parameters,
    declared code. After a kill the same call yields the same folder, with the work that was done in it; a folder that a
    call with another name has left is removed. On success each output is moved into place, whole; on an error the
    outputs stay as they were.

    Under torchrun all ranks work in the same folder, on a shared file system, and the first rank moves it.
    """
    _check_inputs(declared.inputs, own_files)
    inputs, name = [*declared.inputs, *own_files], artifact_name(declared.outs[0])
    values = params.model_dump()
    plain = {name: lookup(values, name) for name in declared.params}
    decided = {"params": plain, "item": declared.item, "address": declared.address}
    code = [file for path in declared.code for file in sorted((ROOT / path).rglob("*.py")) or [ROOT / path]]
    key = fingerprint(*inputs, *code, code=[file.relative_to(ROOT) for file in code], **decided)
    folder, aside = SCRATCH / name / key, SCRATCH / name / f"{key}{WORK}"
    with _only_here(declared):
        _begin(folder, aside)
        known = {"key": declared.key, "item": declared.item, "params": params.only(declared.params)}
        stage = Stage(**known, inputs=inputs, outputs=declared.outs, folder=folder)
        for output in declared.outs:
            stage.unfinished(output).mkdir(exist_ok=True)
        yield stage
        distributed.barrier()
        if distributed.is_first():
            _publish(stage, declared, aside)
            shutil.rmtree(SCRATCH / name, ignore_errors=True)
    distributed.barrier()


@contextmanager
def _only_here(declared: Declared) -> Iterator[None]:
    """A block for one call of a stage at a time: another one would write into the same files. A kill ends it too."""
    if not distributed.is_first():
        yield
        return
    path = SCRATCH / f"{artifact_name(declared.outs[0])}.lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{declared.outs[0]}: another call of its stage runs; wait until it has ended") from error
        yield
        path.unlink()


def _publish(stage: Stage, declared: Declared, aside: Path) -> None:
    """Move metrics, plots and the artifacts into place. What resuming needs goes aside first.

    It is not deleted before the artifacts are in place: a kill in between would lose a whole training.
    """
    for left in [path for path in stage.folder.rglob(".*") if path.is_file()]:
        left.unlink()  # what killed writes left beside their places
    for place in declared.shown:
        if (made := stage.unfinished(place)).exists():  # DVC says what is missing
            publish(made, place)
    publish(stage.work, aside)
    for output in declared.outs:
        made = stage.unfinished(output)
        if not (made / MANIFEST).exists():
            # Of the content, not of code, inputs or parameters: an artifact that is made again with the same content
            # must not make later stages run again, and one with other content must not pass for it.
            write_json(made / MANIFEST, {"fingerprint": fingerprint(made)})
        seal(made)
        files.sync(made)
    for output in declared.outs:  # close together: what a kill finds moved is made again with all others
        publish(stage.unfinished(output), output)


def _check_inputs(inputs: list[Path], own_files: list[Path]) -> None:
    """Refuse an input that is missing, or that lacks a part of what its stage wrote, before hours are spent on it."""
    for path in own_files:
        if not path.exists():
            raise UserError(f"{path}: no such file; correct its name in params.yaml")
    for path in inputs:
        if not path.exists():
            raise not_built(path)
        check_undamaged(path, _command_of)


def _command_of(artifact: Path) -> str:
    """What makes an artifact again."""
    return next((one.cmd for one in read_stages() if artifact in one.outs), "dvc repro")


def _begin(folder: Path, aside: Path) -> None:
    """Make the scratch folder, perhaps with what an interrupted run left in it, and remove those of other names."""
    if distributed.is_first():
        for other in {*folder.parent.glob("*")} - {folder, aside}:
            shutil.rmtree(other)
        if aside.exists():  # an earlier call was killed in its last step
            folder.mkdir(exist_ok=True)
            aside.rename(folder / WORK)
        if folder.exists():
            log.info("resuming what an interrupted run left in %s", folder)
        (folder / WORK).mkdir(parents=True, exist_ok=True)
    distributed.barrier()
    if not folder.exists():
        raise UserError(
            f"{folder.absolute()}: process {distributed.rank()} on {socket.gethostname()} does not see what the first "
            "process has made there: all must see the same data, code and params.yaml, on one file system"
        )


def artifact_name(target: Path) -> str:
    """An artifact's name in one word, which is also its scratch folder's: its path below data/, joined by hyphens."""
    return "-".join(target.parts[1:] or target.parts)
