"""choose_queries: the generated queries that are kept, those nearest to their passage, and their quality."""

from dataclasses import asdict

from gnn_encoder.core import distributed
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.choosing import choose_queries
from gnn_encoder.dual_cross.generator.quality import judge_generated
from gnn_encoder.encoding.texts import open_queries
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Keep the best queries of each passage by the first retriever, then compare them with the dev queries."""
    params, section = stage.params, stage.params.dual_cross
    drafts, target = project.DRAFTS / "queries.parquet", stage.scratch / "queries.parquet"
    encoder = DualEncoder.load(project.RETRIEVER, precision=params.encoder.precision).for_inference()
    choose_queries(
        encoder,
        drafts,
        open_queries(drafts, encoder),
        open_matrix(project.embeddings("retriever")),
        target,
        stage.work / "parts",
        generated=section.generated,
        keep=section.views,
        batch_tokens=params.encoder.batch_tokens,
    )
    if distributed.is_first():
        write_json(stage.scratch / "quality.json", asdict(judge_generated(target, section.views)))


if __name__ == "__main__":
    run(main, shared=True)
