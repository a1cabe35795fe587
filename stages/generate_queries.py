"""generate_queries: a model that writes queries, queries for every passage, and those of them that are kept.

They are q_j^i ~ P_QG(q|d_j) of Dual-Cross-Encoder, section 3.4 and Eq. 9. The nearest to their passage are kept.
"""

import logging
from pathlib import Path

from gnn_encoder.core import distributed
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.dual_cross.generation import choose_queries, generate_queries, sampling
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.dual_cross.quality import measure, tell
from gnn_encoder.dual_cross.training import PairTexts, mean_loss, train_generator
from gnn_encoder.models.pretrained import Source
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import load_encoder, open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.training.loop import write_history

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Train the model, generate, choose, and compare with the dev queries."""
    trained = stage.once("generator", lambda folder: train(stage.params, folder))
    drafts = stage.work / "drafts.parquet"
    generate(stage, trained, drafts)
    choose(stage, drafts)


def train(params: Params, folder: Path) -> None:
    """Train on the labelled pairs; if dual_cross.generator.model names a model, only copy that one."""
    base, section = params.encoder, params.dual_cross.generator
    if section.model is not None:
        given = QueryGenerator.load(Source(section.model, section.revision), precision=base.precision)
        given.save(folder)
        write_json(folder / "statistics.json", {"model": section.model, "revision": section.revision})
        log.info("%s: used as it is, nothing is trained", section.model)
        return
    source = Source(base.model, base.revision, base.trust_remote_code)
    model = QueryGenerator.from_encoder(source, base, seed=params.seed)

    def texts(split: str, relevant: Path) -> PairTexts:
        pairs = relevant_pairs(project.queries(split), relevant, project.PASSAGES)
        return PairTexts(model, pairs, open_queries(project.queries(split), model), open_passages(model), section)

    labelled, frozen = texts("train", project.qrels("train")), base.frozen_layers
    history = train_generator(model, labelled, section, folder / WORK, seed=params.seed, frozen_layers=frozen)
    dev = texts("dev", project.POSITIVES)
    if distributed.is_first():
        loss = mean_loss(model, dev)
        log.info("generator: %d training pairs, dev loss %.3f nats a token", len(labelled), loss)
        write_json(folder / "statistics.json", {"train_pairs": len(labelled), "dev_loss": loss})
    model.save(folder)
    write_history(folder / "history.csv", history)


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
    target, encoder = stage.scratch / "queries.parquet", load_encoder(project.encoder("retriever"), params.encoder)
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
        queries = project.queries("dev")
        pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
        quality = measure(pairs, queries, project.PASSAGES, target, section.views)
        tell(quality, pairs, queries, target, section.views)
        write_json(stage.scratch / "quality.json", quality)


if __name__ == "__main__":
    run(main, shared=True)
