"""generate_queries: a model that writes queries, queries for every passage, and those of them that are kept.

They are q_j^i ~ P_QG(q|d_j) of Dual-Cross-Encoder, section 3.4 and Eq. 9. The nearest to their passage are kept. A
user's file of queries stands in for the model.
"""

from pathlib import Path

from gnn_encoder.base import distributed
from gnn_encoder.base.files import write_json
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.data.queries import write_generated
from gnn_encoder.dual_cross.generation import choose_queries, generate_queries
from gnn_encoder.dual_cross.generator import QueryGenerator, make_generator
from gnn_encoder.dual_cross.views import measure_queries
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import load_encoder, open_passages, open_queries


def main(stage: Stage) -> None:
    """Generate or read the queries, choose the nearest by the first retriever, and compare with the dev queries."""
    params, section, target = stage.params, stage.params.dual_cross, stage.scratch / "queries.parquet"
    chosen = section.views < section.generated
    drafts = stage.work / "drafts.parquet" if chosen else target  # else all are kept, in their order
    if section.generator.file is None:
        trained = stage.once("generator", lambda folder: make_generator(params, folder))
        model = QueryGenerator.load(trained, precision=params.encoder.precision).for_inference()
        passages = project.PASSAGES, open_passages(model)
        generate_queries(model, *passages, drafts, stage.work / "generated", params)
    elif distributed.is_first():
        write_generated(Path(section.generator.file), project.PASSAGES, drafts, stage.work / "given", section.generated)
    distributed.barrier()
    if chosen:
        encoder, matrix = load_encoder(project.RETRIEVER, params.encoder), open_matrix(project.embeddings("retriever"))
        written = drafts, open_queries(drafts, encoder)
        choose_queries(encoder, *written, matrix, target, stage.work / "chosen", params)
    if distributed.is_first():
        dev = project.queries("dev")
        pairs = relevant_pairs(dev, project.POSITIVES, project.PASSAGES)
        write_json(stage.scratch / "quality.json", measure_queries(pairs, dev, project.PASSAGES, target, section.views))


def own_files(params: Params) -> list[Path]:
    """The file of generated queries, if there is one."""
    return [Path(file)] if (file := params.dual_cross.generator.file) else []


if __name__ == "__main__":
    run(main, shared=True, own_files=own_files)
