"""train_generator: the query generation model P_QG(q|d), passage to query (Dual-Cross-Encoder, section 3.4)."""

import logging

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.generator.model import QueryGenerator
from gnn_encoder.dual_cross.generator.training import train_generator
from gnn_encoder.models.pretrained import Source
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Train on the labelled pairs; if dual_cross.generator.model names a model, only copy that one."""
    given = stage.params.dual_cross.generator
    if given.model is None:
        train_generator(stage.params, stage.scratch)
        return
    model = QueryGenerator.load(Source(given.model, given.revision), precision=stage.params.encoder.precision)
    model.save(stage.scratch)
    write_json(stage.scratch / "statistics.json", {"model": given.model, "revision": given.revision})
    logging.getLogger(__name__).info("%s: used as it is, nothing is trained", given.model)


if __name__ == "__main__":
    run(main, shared=True)
