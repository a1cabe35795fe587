"""generate_queries: queries for every passage, q_j^i ~ P_QG(q|d_j) (Dual-Cross-Encoder Eq. 9)."""

from gnn_encoder.dual_cross.generator.generation import generate_queries, sampling
from gnn_encoder.dual_cross.generator.model import QueryGenerator
from gnn_encoder.encoding.texts import open_passages
from gnn_encoder.models.pretrained import Source
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Generate the queries."""
    params, section = stage.params, stage.params.dual_cross
    lengths, top_k = section.generator, section.top_k
    model = QueryGenerator.load(Source(str(project.GENERATOR)), precision=params.encoder.precision).for_inference()
    how = sampling(model, seed=params.seed, views=section.generated, top_k=top_k, query_length=lengths.query_length)
    generate_queries(
        model,
        open_passages(model),
        project.PASSAGES,
        stage.scratch / "queries.parquet",
        stage.work / "parts",
        how,
        passage_length=lengths.passage_length,
        batch_tokens=params.encoder.batch_tokens,
    )


if __name__ == "__main__":
    run(main, shared=True)
