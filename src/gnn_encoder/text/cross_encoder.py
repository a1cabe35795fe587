"""The cross-encoder M_ce: it reads query and passage together, and the vector of both is the feature of their edge."""

from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import check_room
from gnn_encoder.base.matrix import Matrix, Rows, resume_windows
from gnn_encoder.base.tables import feature_schema, write_part
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.batches import WINDOW, Batch, Inputs, encode_windows
from gnn_encoder.text.device import autocast, device, pool, token_states
from gnn_encoder.text.encoder import HeadedModel, check_model
from gnn_encoder.text.pretrained import load_model, load_tokenizer

PART = "part-{:06d}.parquet"


class CrossEncoder(HeadedModel):
    """A transformer with a head that gives a query and a passage one logit, of which the sigmoid is the score."""

    kind = AutoModelForSequenceClassification

    @classmethod
    def from_pretrained(cls, source: str, params: Encoder, *, seed: int = 0) -> Self:
        """Start from a base model, with a new head whose weights are drawn at random with `seed`."""
        tokenizer = load_tokenizer(source)
        if tokenizer.cls_token is None:
            raise UserError(f"model {source!r} has no [CLS] token, which M_ce reads: name another one")
        model = load_model(source, dropout=params.dropout, seed=seed, kind=cls.kind, num_labels=1)
        check_model(source, model, tokenizer)
        return cls(model=model, tokenizer=tokenizer, precision=params.precision).to(device())

    def logits(self, batch: Batch) -> Tensor:
        """Relevance logits. *Shape:* (n, tokens) -> (n,)."""
        with autocast(self.dtype):
            logits: Tensor = self.model(**batch.arguments(self.model)).logits
        return logits.squeeze(-1).float()

    def embed(self, batch: Batch) -> Tensor:
        """Edge features h_{x-y} (section 3.2): pairs' [CLS] states. *Shape:* (n, tokens) -> (n, d_e)."""
        with autocast(self.dtype):
            found, mask = token_states(self.model.base_model, batch)
        return pool(found, mask, "cls")


def score_pairs(model: CrossEncoder, pairs: Inputs, folder: Path, batch_tokens: int) -> Matrix:
    """M_ce's logit of each pair, resumable in `folder`, shared by all devices, and of no pairs too. *Shape:* (n,)."""

    def write(path: Path, window: int, scores: Matrix) -> None:
        np.save(path, scores)

    work = partial(encode_windows, pairs, model.logits, batch_tokens, WINDOW)
    how = {"label": "score pairs", "unit": "pairs"}
    files = resume_windows(folder, "scores-{:06d}.npy", len(pairs), WINDOW, work, write, **how)
    return np.concatenate([np.empty(0, dtype=np.float32), *map(np.load, files)])


def embed_pairs(model: CrossEncoder, pairs: Inputs, folder: Path, ends: dict[str, Rows], *, batch_tokens: int) -> None:
    """[CLS] embeddings of pairs as Parquet parts in their order, resumable by part; `ends`: the columns before them."""
    schema = feature_schema(model.dimension, *ends)

    def write(path: Path, window: int, vectors: Matrix) -> None:
        part = slice(window * WINDOW, (window + 1) * WINDOW)
        feature = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float16).reshape(-1)), vectors.shape[1])
        columns = [pa.array(column[part].astype(np.int32)) for column in ends.values()]
        write_part(path, schema, [pa.table([*columns, feature], schema=schema)])

    folder.mkdir(parents=True, exist_ok=True)
    check_room(folder, 2 * len(pairs) * model.dimension, "lower build_graph.k")
    work = partial(encode_windows, pairs, model.embed, batch_tokens, WINDOW)
    resume_windows(folder, PART, len(pairs), WINDOW, work, write, label=f"embed {folder.name}", unit="pairs")
