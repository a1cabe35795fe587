"""prepare: the data set's passages, queries and judgements as checked tables (section 4.1)."""

from gnn_encoder.core.stage import Stage, run
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source


def main(stage: Stage) -> None:
    """Read and check the source, write the tables."""
    params = stage.params
    hidden = params.pair.unlabelled_fraction
    prepare(params.data, open_source(params.data), stage.scratch, seed=params.seed, unlabelled_fraction=hidden)


if __name__ == "__main__":
    run(main, own_files=lambda params: open_source(params.data).files())
