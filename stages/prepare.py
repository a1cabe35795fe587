"""prepare: the source's passages, questions and judgements as checked tables (section 4.1)."""

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source


def main() -> None:
    """Run the stage."""
    params = load_params()
    source = open_source(params.data)
    hidden = params.pair.unlabelled_fraction
    sections = {"data": params.data, "unlabelled_fraction": hidden, "seed": params.seed}
    with output(project.PREPARED, inputs=source.files(), params=sections) as scratch:
        prepare(params.data, source, scratch, seed=params.seed, unlabelled_fraction=hidden)


if __name__ == "__main__":
    run(main)
