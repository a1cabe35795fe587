"""generate_queries: a model that writes queries, queries for every passage, and those of them that are kept.

They are q_j^i ~ P_QG(q|d_j) of Dual-Cross-Encoder, section 3.4 and Eq. 9. The nearest to their passage are kept.
"""

import logging
from dataclasses import asdict
from pathlib import Path

from gnn_encoder.core import distributed
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.choosing import choose_queries
from gnn_encoder.dual_cross.generator.generation import generate_queries, sampling
from gnn_encoder.dual_cross.generator.model import QueryGenerator
from gnn_encoder.dual_cross.generator.quality import judge_generated
from gnn_encoder.dual_cross.generator.training import train_generator
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.pretrained import Source
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Train the model, generate, choose, and compare with the dev queries."""
    trained = stage.once("generator", lambda folder: train(stage.params, folder))
    drafts = stage.work / "drafts.parquet"
    generate(stage, trained, drafts)
    choose(stage, drafts)


def train(params: Params, folder: Path) -> None:
    """Train on the labelled pairs; if dual_cross.generator.model names a model, only copy that one."""
    given = params.dual_cross.generator
    if given.model is None:
        train_generator(params, folder)
        return
    model = QueryGenerator.load(Source(given.model, given.revision), precision=params.encoder.precision)
    model.save(folder)
    write_json(folder / "statistics.json", {"model": given.model, "revision": given.revision})
    logging.getLogger(__name__).info("%s: used as it is, nothing is trained", given.model)


def generate(stage: Stage, trained: Path, drafts: Path) -> None:
    """Write all generated queries."""
    params, section = stage.params, stage.params.dual_cross
    lengths, top_k = section.generator, section.top_k
    model = QueryGenerator.load(Source(str(trained)), precision=params.encoder.precision).for_inference()
    how = sampling(model, seed=params.seed, views=section.generated, top_k=top_k, query_length=lengths.query_length)
    generate_queries(
        model,
        open_passages(model),
        project.PASSAGES,
        drafts,
        stage.work / "generated",
        how,
        passage_length=lengths.passage_length,
        batch_tokens=params.encoder.batch_tokens,
    )


def choose(stage: Stage, drafts: Path) -> None:
    """Keep the best queries of each passage by the first retriever, then compare them with the dev queries."""
    params, section = stage.params, stage.params.dual_cross
    target = stage.scratch / "queries.parquet"
    encoder = DualEncoder.load(project.RETRIEVER, precision=params.encoder.precision).for_inference()
    choose_queries(
        encoder,
        drafts,
        open_queries(drafts, encoder),
        open_matrix(project.embeddings("retriever")),
        target,
        stage.work / "chosen",
        generated=section.generated,
        keep=section.views,
        batch_tokens=params.encoder.batch_tokens,
    )
    if distributed.is_first():
        write_json(stage.scratch / "quality.json", asdict(judge_generated(target, section.views)))


if __name__ == "__main__":
    run(main, shared=True)
