"""Training of Dual-Cross-Encoder and of its DPR baseline: generated queries first, then labelled ones (section 3.5).

Both systems see the same batches in the same order; what differs is whether E_P reads the query too.
"""

from pathlib import Path

import numpy as np

from gnn_encoder.core import project
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.params import Params
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.texts import open_queries
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.training.contrastive import Generated
from gnn_encoder.training.dual_encoder import train_dual_encoder
from gnn_encoder.training.examples import Examples, Ragged, read_examples

QUERIES = project.GENERATED / "queries.parquet"


def new_encoder(params: Params, *, paired: bool) -> DualEncoder:
    """The base model as a system begins; `paired`: it reads passages with a query, else alone, as the DPR baseline."""
    section = params.dual_cross
    encoder = params.encoder.model_copy(update={"shared": section.shared})
    return DualEncoder.from_pretrained(encoder, pair_length=section.max_length if paired else None)


def pretrain(params: Params, scratch: Path, *, paired: bool) -> None:
    """Train the base model on generated queries and write its folder into `scratch`."""
    encoder = new_encoder(params, paired=paired)
    section, n_passages = params.dual_cross, count_rows(project.PASSAGES)
    beside = queries_beside(encoder, params)
    examples = generated_examples(n_passages, section.views, section.queries, params.seed)
    train_dual_encoder(encoder, examples, section.pretrain, params, scratch, queries=QUERIES, beside=beside)


def finetune(params: Params, scratch: Path, *, start: Path, examples: Path) -> None:
    """Train the pre-trained model `start` on labelled queries and denoised hard negatives, as M_de is."""
    dropout, precision = params.encoder.dropout, params.encoder.precision
    encoder = DualEncoder.load(start, dropout=dropout, precision=precision)
    labelled = read_examples(examples, count_rows(project.PASSAGES))
    beside, settings = queries_beside(encoder, params), params.dual_cross.finetune
    train_dual_encoder(encoder, labelled, settings, params, scratch, queries=project.queries("train"), beside=beside)


def queries_beside(encoder: DualEncoder, params: Params) -> Generated | None:
    """What passages stand beside in training: None for the query that is asked, the paper's mapping.

    Raises:
        UserError: the generated queries are of other passages, or of another number of views.
    """
    section = params.dual_cross
    generated = Generated(open_queries(QUERIES, encoder), section.views)
    check_queries(generated.tokens, count_rows(project.PASSAGES), section.views)
    return generated if section.beside == "generated" else None


def generated_examples(n_passages: int, views: int, queries: int | None, seed: int) -> Examples:
    """Generated query r with the passage that it was generated from, r // views; no hard negatives.

    The other queries of that passage are known to be relevant for it by their own rows, so that in a batch with
    several of them none is the other's negative.
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


def check_queries(queries: TextTokens, n_passages: int, views: int) -> None:
    """Refuse generated queries of other passages, or of another number of views.

    Raises:
        UserError: there are not `views` a passage.
    """
    if len(queries) != n_passages * views:
        raise UserError(
            f"{QUERIES}: {len(queries)} queries, expected dual_cross.views = "
            f"{views} for each of {n_passages} passages; generate them again (`dvc repro`)"
        )
