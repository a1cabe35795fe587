"""build_index SYSTEM: the FAISS index of a system's passage embeddings, searched online."""

import sys

from gnn_encoder import project
from gnn_encoder.index.build import build
from gnn_encoder.params import load_params
from gnn_encoder.stage import output, run


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
