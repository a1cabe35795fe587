"""train_generator: the query generation model P_QG(q|d), passage to question (Dual-Cross-Encoder, section 3.4)."""

import logging
from pathlib import Path

from gnn_encoder.core import distributed, project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.dual_cross.training import GeneratorTask, PairTexts, mean_loss, parameter_groups
from gnn_encoder.dual_cross.warm_start import set_word_frequencies
from gnn_encoder.encoders.pretrained import Source, check_length
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.training.history import write_history
from gnn_encoder.training.loop import Settings, fit

log = logging.getLogger(__name__)
QRELS = {"train": project.qrels("train"), "dev": project.POSITIVES}


def main() -> None:
    """Train on the labelled pairs; a model that is given is used as it is, and only put into its place."""
    params = load_params()
    settings = params.dual_cross.generator
    tables = [*map(project.queries, QRELS), *QRELS.values()]
    sections = {"encoder": params.encoder, "generator": settings, "seed": params.seed}
    with output(project.GENERATOR, [project.PASSAGES, *tables], sections) as scratch:
        if settings.model is None:
            train(params, scratch)
        elif distributed.is_first():
            QueryGenerator.load(Source(settings.model, settings.revision), precision=params.encoder.precision).save(
                scratch
            )
            write_json(scratch / "statistics.json", {"model": settings.model, "revision": settings.revision})
            log.info("%s: used as it is, nothing is trained", settings.model)


def train(params: Params, scratch: Path) -> None:
    """Warm-start from the encoder, train, and tell the dev questions' loss, which decides nothing here."""
    base, settings = params.encoder, params.dual_cross.generator
    model = QueryGenerator.from_encoder(
        Source(base.model, base.revision, base.trust_remote_code), base, seed=params.seed
    )
    check_length(model.model.encoder, "dual_cross.generator.passage_length", settings.passage_length)
    check_length(model.model.encoder, "dual_cross.generator.query_length", settings.query_length)
    model.freeze_lower(base.frozen_layers)
    texts = read_pairs("train", model, params)
    set_word_frequencies(model.model, texts.token_counts(model.model.config.decoder.vocab_size))
    task = GeneratorTask(model, texts, epochs=settings.epochs, batch_size=settings.batch_size, seed=params.seed)
    how = Settings(name="generator", warmup=settings.warmup, seed=params.seed)
    history = fit(task, parameter_groups(model, settings.learning_rate), how, scratch / WORK)
    if distributed.is_first():
        dev = mean_loss(model, read_pairs("dev", model, params))
        log.info("generator: %d training pairs, dev loss %.3f nats a token", len(texts), dev)
        write_json(scratch / "statistics.json", {"train_pairs": len(texts), "dev_loss": dev})
        model.save(scratch)
        write_history(scratch / "history.csv", history)


def read_pairs(split: str, model: QueryGenerator, params: Params) -> PairTexts:
    """A split's judged-relevant pairs."""
    pairs = relevant_pairs(project.queries(split), QRELS[split], project.PASSAGES)
    lengths = params.dual_cross.generator
    return PairTexts(
        model,
        pairs,
        open_queries(project.queries(split), model),
        open_passages(model),
        query_length=lengths.query_length,
        passage_length=lengths.passage_length,
    )


if __name__ == "__main__":
    run(main)
