"""build_index SYSTEM: the FAISS index of a system's passage embeddings, searched online."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.index.build import build


def main() -> None:
    """Index the system's passages."""
    params = load_params()
    system = project.chosen(sys.argv[1:], tuple(project.ENCODERS))
    inputs = [project.PASSAGES, project.embeddings(system)]
    with output(project.index(system), inputs, {"index": params.index, "seed": params.seed}) as scratch:
        build(
            project.embeddings(system),
            scratch,
            factory=params.index.factory,
            pids=project.PASSAGES,
            system=system,
            seed=params.seed,
        )


if __name__ == "__main__":
    run(main)
