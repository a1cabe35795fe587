"""cache_passages SYSTEM: the corpus as a matrix of plain dual-encoder embeddings (Eq. 6 reads M_de's)."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.matrix import write_matrix


def main() -> None:
    """Encode every passage with the system's encoder."""
    params = load_params()
    system = project.chosen(sys.argv[1:], tuple(project.ENCODERS))
    model = project.ENCODERS[system]
    sections = {"cache_passages": params.cache_passages, "precision": params.encoder.precision}
    with output(project.embeddings(system), [project.PASSAGES, model], sections) as scratch:
        write_matrix(model, scratch, params)


if __name__ == "__main__":
    run(main)
