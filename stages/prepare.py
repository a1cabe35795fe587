"""prepare: the data set's passages, queries and judgements as checked tables (section 4.1)."""

from pathlib import Path

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import write_json
from gnn_encoder.base.tables import count_rows
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.evaluate.measures import parse
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Read and check the source, write the tables."""
    params, every = stage.params, load_params()
    # The last stage reads these, too late to hear of a mistake.
    parse(every.evaluate.measures)
    parse([every.evaluate.significance], "evaluate.significance")
    prepare(params.data, open_source(params.data), stage.scratch, seed=params.seed)
    k, passages = every.build_graph.k, count_rows(stage.scratch / project.PASSAGES.name)
    if k > passages:
        raise UserError(f"build_graph.k is {k}: there are {passages} passages; lower it")
    write_json(stage.scratch / project.MADE_BY.name, {"data": params.data.model_dump(), "seed": params.seed})


def own_files(params: Params) -> list[Path]:
    """The source's files, and that of the user's unlabelled queries if there is one."""
    own = params.data.unlabelled
    return [*open_source(params.data).files, *([Path(own)] if own else [])]


if __name__ == "__main__":
    run(main, own_files=own_files)
