"""prepare: the data set's passages, queries and judgements as checked tables (section 4.1)."""

from pathlib import Path

from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.data.queries import own_file
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Read and check the source, write the tables."""
    params = stage.params
    prepare(params.data, open_source(params.data), stage.scratch, seed=params.seed)


def own_files(params: Params) -> list[Path]:
    """The source's files, and that of the user's unlabelled queries if there is one."""
    own = own_file(params.data.unlabelled)
    return [*open_source(params.data).files, *([own] if own else [])]


if __name__ == "__main__":
    run(main, own_files=own_files)
