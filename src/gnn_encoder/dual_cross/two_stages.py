"""Training of Dual-Cross-Encoder and its DPR baseline, first on generated queries, then on labelled ones (section 3.5).

Both systems train on the same batches in the same order. They differ only in what E_P reads: a passage together with a
query, or the passage alone.
"""

from pathlib import Path
from typing import Literal

import numpy as np

from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.dual_cross.views import QUERIES, check_queries, pool_of, view_inputs
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.training import logged_counts, open_dev
from gnn_encoder.training.contrastive import Generated, Texts
from gnn_encoder.training.dev_score import Views
from gnn_encoder.training.dual_encoder import ContrastiveTask, dev_score
from gnn_encoder.training.examples import Examples, Ragged, read_examples, stream
from gnn_encoder.training.loop import fit_evenly, write_history


def new_encoder(params: Params, *, paired: bool) -> DualEncoder:
    """The base model as a dual-encoder.

    Args:
        paired: True: E_P reads a passage together with a query; False: alone, as in the DPR baseline.
    """
    section = params.dual_cross
    encoder = params.encoder.model_copy(update={"shared": section.shared})
    return DualEncoder.from_pretrained(encoder, pair_length=section.max_length if paired else None)


def pretrain(params: Params, scratch: Path, *, paired: bool, title: str) -> None:
    """Train the base model on generated queries and write it into `scratch`.

    Args:
        paired: as in `new_encoder`.
        title: what is trained, in the log.
    """
    encoder = new_encoder(params, paired=paired)
    section, n_passages = params.dual_cross, count_rows(project.PASSAGES)
    examples = generated_examples(n_passages, section.views, section.queries, params.seed)
    _train(encoder, examples, "pretrain", params, scratch, QUERIES, title)


def finetune(params: Params, scratch: Path, *, start: Path, examples: Path, title: str) -> None:
    """Train the pre-trained model `start` on labelled queries and denoised hard negatives, like M_de.

    Args:
        start: folder of the pre-trained model.
        examples: an EXAMPLES table of the training queries.
        title: what is trained, in the log.
    """
    dropout, precision = params.encoder.dropout, params.encoder.precision
    encoder = DualEncoder.load(start, dropout=dropout, precision=precision)
    labelled = read_examples(examples, count_rows(project.PASSAGES))
    _train(encoder, labelled, "finetune", params, scratch, project.queries("train"), title)


def _train(
    encoder: DualEncoder,
    examples: Examples,
    stage: Literal["pretrain", "finetune"],
    params: Params,
    scratch: Path,
    queries: Path,
    title: str,
) -> None:
    section = f"dual_cross.{stage}"
    settings, size = params.value(section), params.encoder.batch_tokens
    encoder.freeze_lower(params.encoder.frozen_layers)
    tables, beside = (open_queries(queries, encoder), open_passages(encoder)), queries_beside(encoder, params)
    texts = Texts(encoder, *tables, beside, plain_share=settings.plain_share, batch_tokens=size)
    task = ContrastiveTask(
        encoder,
        texts,
        examples.weighed(logged_counts(queries)),
        settings,
        seed=stream(params.seed, section),
        score=dev_score(encoder, texts, open_dev(encoder, params.dev), size, views_searched(encoder, params)),
    )
    history = fit_evenly(
        task,
        encoder,
        scratch / WORK,
        settings,
        name="contrastive",
        title=title,
        seed=params.seed,
        evaluations=params.dev.evaluations,
    )
    encoder.save(scratch)
    write_history(scratch / "history.csv", history)


def queries_beside(encoder: DualEncoder, params: Params) -> Generated | None:
    """The generated queries that E_P reads together with passages in training, if `dual_cross.beside` is "generated".

    None if it is "asked": E_P then reads a passage together with the training query, which is the paper's mapping.

    Raises:
        UserError: the generated queries are of other passages, or of another number of views.
    """
    section = params.dual_cross
    generated = Generated(open_queries(QUERIES, encoder), section.views)
    check_queries(generated.tokens, count_rows(project.PASSAGES), section.views)
    return generated if section.beside == "generated" else None


def views_searched(encoder: DualEncoder, params: Params) -> Views | None:
    """What E_P reads in search; None if it reads passages alone."""
    if encoder.settings.pair_length is None:
        return None
    section, passages = params.dual_cross, open_passages(encoder)
    inputs = view_inputs(encoder, open_queries(QUERIES, encoder), passages, section.views, plain=section.plain_view)
    return Views(inputs=inputs, count=section.vectors, pool=pool_of(section))


def generated_examples(n_passages: int, views: int, queries: int | None, seed: int) -> Examples:
    """Examples of generated queries: the positive of query r is the passage that it was generated from, r // views.

    There are no hard negatives. If a batch holds several queries of one passage, the passage counts as relevant for
    each of them, so that it is not a negative for any.

    Args:
        queries: number of generated queries to draw at random; None: all.
    """
    total = n_passages * views
    rows = np.arange(total)
    if queries is not None and queries < total:
        rows = np.sort(np.random.default_rng(seed).choice(total, size=queries, replace=False))
    passages = rows // views
    return Examples(
        queries=rows,
        positives=Ragged(passages, np.arange(len(rows) + 1)),
        negatives=Ragged(np.empty(0, dtype=np.int64), np.zeros(len(rows) + 1, dtype=np.int64)),
        known=rows * n_passages + passages,
        n_passages=n_passages,
    )
