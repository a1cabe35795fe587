"""generate_queries: queries for every passage, q_j^i ~ P_QG(q|d_j) (Dual-Cross-Encoder Eq. 9), and their quality."""

from dataclasses import asdict

from gnn_encoder.core import distributed, project
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.generator.generation import generate_queries, sampling
from gnn_encoder.dual_cross.generator.model import QueryGenerator
from gnn_encoder.dual_cross.generator.quality import judge_generated
from gnn_encoder.encoding.texts import open_passages
from gnn_encoder.models.pretrained import Source


def main(stage: Stage) -> None:
    """Generate the queries, then compare them with the dev queries."""
    params, section = stage.params, stage.params.dual_cross
    lengths, target = section.generator, stage.scratch / "queries.parquet"
    model = QueryGenerator.load(Source(str(project.GENERATOR)), precision=params.encoder.precision).for_inference()
    how = sampling(model, seed=params.seed, views=section.views, top_k=section.top_k, query_length=lengths.query_length)
    sizes = {"passage_length": lengths.passage_length, "batch_tokens": params.encoder.batch_tokens}
    generate_queries(model, open_passages(model), project.PASSAGES, target, stage.work / "parts", how, **sizes)
    if distributed.is_first():
        write_json(stage.scratch / "quality.json", asdict(judge_generated(target, section.views)))


if __name__ == "__main__":
    run(main, shared=True)
