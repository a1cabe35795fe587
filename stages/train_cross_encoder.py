"""train_cross_encoder: M_ce on labelled positives against the first retriever's candidates (section 3.4)."""

import polars as pl

from gnn_encoder import distributed, project
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.pretrained import Source, check_length
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.judgements import relevant_pairs
from gnn_encoder.params import load_params
from gnn_encoder.stage import WORK, output, run
from gnn_encoder.storage.tables import count_rows, read_candidates
from gnn_encoder.training.cross_encoder import CrossEncoderTask
from gnn_encoder.training.examples import examples_from_candidates, to_examples
from gnn_encoder.training.history import write_history
from gnn_encoder.training.loop import Settings, fit, parameter_group


def main() -> None:
    """Train and save the cross-encoder."""
    params = load_params()
    settings = params.train_cross_encoder
    inputs = [project.PASSAGES, project.queries("train"), project.qrels("train"), project.CANDIDATES]
    sections = {"encoder": params.encoder, "train_cross_encoder": settings, "seed": params.seed}
    with output(project.CROSS_ENCODER, inputs, sections) as scratch:
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        candidates = pl.DataFrame(read_candidates(project.CANDIDATES / "candidates.parquet"))
        table = examples_from_candidates(pairs, candidates)
        base = params.encoder
        same = settings.model in (None, base.model)
        source = Source(settings.model or base.model, base.revision if same else None, base.trust_remote_code)
        model = CrossEncoder.from_pretrained(source, base, seed=params.seed)
        check_length(model.model, "train_cross_encoder.max_length", settings.max_length)
        task = CrossEncoderTask(
            model,
            open_queries("train", model, params),
            open_passages(model, params),
            to_examples(table, pairs, count_rows(project.PASSAGES)),
            max_length=settings.max_length,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            negatives=settings.negatives,
            seed=params.seed,
        )
        how = Settings(name="cross-encoder", warmup=settings.warmup, seed=params.seed)
        history = fit(task, [parameter_group(model, settings.learning_rate)], how, scratch / WORK)
        if distributed.is_first():
            model.save(scratch)
            write_history(scratch / "history.csv", history)


if __name__ == "__main__":
    run(main)
