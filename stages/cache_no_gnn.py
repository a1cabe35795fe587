"""cache_no_gnn: the corpus by the control's encoder, which may still be M_de."""

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.matrix import write_matrix


def main() -> None:
    """Encode every passage, or take M_de's matrix where training on did not change the weights."""
    params = load_params()
    base = params.mgt.init
    inputs = [project.PASSAGES, project.NO_GNN, project.ENCODERS[base], project.embeddings(base)]
    sections = {"cache_passages": params.cache_passages, "precision": params.encoder.precision}
    with output(project.embeddings("no_gnn"), inputs, sections) as scratch:
        write_matrix(project.NO_GNN, scratch, params, base=base)


if __name__ == "__main__":
    run(main)
