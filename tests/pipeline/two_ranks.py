"""One of two processes of test_stage.py: in the present folder it runs two stages, of which one is shared."""

import os
import sys
from pathlib import Path

from gnn_encoder.base import distributed
from gnn_encoder.base.files import write_text
from gnn_encoder.pipeline.stage import Stage, run

RANK = os.environ.get("RANK", "0")


def main(stage: Stage) -> None:
    distributed.barrier()  # of the first rank alone where the work is not shared, or it would wait for ever
    ran = Path(f"{stage.outputs[0].name}-ran-{RANK}")
    ran.write_text(f"{distributed.rank()} of {distributed.world_size()}")
    if distributed.is_first():
        write_text(stage.scratch / "made.txt", f"made by rank {RANK}")
    distributed.barrier()


if __name__ == "__main__":
    with distributed.session():
        for mode in ("once", "shared"):
            sys.argv = [f"stages/{mode}.py"]
            run(main, shared=mode == "shared")
            Path(f"{mode}-after-{RANK}").write_text(Path("data", mode, "made.txt").read_text())
