"""The cross-encoder M_ce: it reads query and passage together, and the vector of both is the feature of their edge.

Many pairs go through it in windows sorted by length; results keep the pairs' order and survive a kill.
"""

from functools import partial
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import check_room
from gnn_encoder.base.matrix import Matrix, Rows, resume_windows
from gnn_encoder.base.tables import write_part
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.batches import WINDOW, Batch, Inputs, encode_windows
from gnn_encoder.text.device import autocast, device, pool, token_states
from gnn_encoder.text.encoder import TextModel, check_model
from gnn_encoder.text.pretrained import Source, load_model, load_tokenizer

PART = "part-{:06d}.parquet"
HEAD = "head.safetensors"  # in the folder of a model that pools by the mean
HEAD_DEVIATION = 0.02  # of the weights of a new head, as transformers draws them


class CrossEncoder(TextModel):
    """A transformer with one logit for a query and a passage. What its score means: `train/candidates.py`.

    `head` reads the mean of both texts' states; without it `model` has a head of its own, which reads the [CLS] state.
    """

    def __init__(
        self, *, model: nn.Module, tokenizer: PreTrainedTokenizerBase, precision: str, head: nn.Linear | None = None
    ) -> None:
        super().__init__(tokenizer, precision)
        self.model, self.head = model, head

    @classmethod
    def from_pretrained(
        cls, source: Source, params: Encoder, *, pooling: Literal["cls", "mean"] = "cls", seed: int = 0
    ) -> Self:
        """Start from a base model, with a new head whose weights are drawn at random with `seed`."""
        head, tokenizer = None, load_tokenizer(source)
        if pooling == "cls" and tokenizer.cls_token is None:
            raise UserError(f"model {source.model!r} has no [CLS] token: set train_cross_encoder.pooling to mean")
        own = {"kind": AutoModelForSequenceClassification, "num_labels": 1} if pooling == "cls" else {}
        model = load_model(source, dropout=params.dropout, seed=seed, **own)
        if pooling == "mean":
            head = nn.Linear(int(model.config.hidden_size), 1)
            nn.init.normal_(head.weight, std=HEAD_DEVIATION, generator=torch.Generator().manual_seed(seed))
            nn.init.zeros_(head.bias)
        check_model(source.model, model, tokenizer)
        return cls(model=model, head=head, tokenizer=tokenizer, precision=params.precision).to(device())

    @classmethod
    def load(cls, folder: Path, *, precision: str = "auto") -> Self:
        """Read a folder written by `save`."""
        source, weights, head = Source(str(folder)), folder / HEAD, None
        if weights.exists():
            found = load_file(weights)
            head = nn.Linear(found["weight"].shape[1], 1)
            head.load_state_dict(found)
        kind = AutoModelForSequenceClassification if head is None else None
        model = load_model(source, dropout=0.0, kind=kind)
        return cls(model=model, head=head, tokenizer=load_tokenizer(source), precision=precision).to(device())

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoModelForSequenceClassification` opens, or `AutoModel` and a file with the head."""
        if not distributed.is_first():
            return
        self.model.save_pretrained(folder)  # type: ignore[operator]
        self.tokenizer.save_pretrained(folder)
        if self.head is not None:
            save_file(self.head.state_dict(), folder / HEAD)

    @property
    def dimension(self) -> int:
        """Columns of an edge feature, d_e."""
        return int(self.model.config.hidden_size)  # type: ignore[union-attr,arg-type]

    def logits(self, batch: Batch) -> Tensor:
        """Relevance logits. *Shape:* (n, tokens) -> (n,)."""
        if self.head is not None:  # in float32, since a logit of 16 bits has three digits
            head = self.head.weight.float(), self.head.bias.float()
            return F.linear(self.embed(batch), *head).squeeze(-1)
        with autocast(self.dtype):
            logits: Tensor = self.model(**batch.arguments(self.model)).logits
        return logits.squeeze(-1).float()

    def column_of_logits(self, batch: Batch) -> Tensor:
        """The same as a matrix. *Shape:* (n, tokens) -> (n, 1)."""
        return self.logits(batch).unsqueeze(1)

    def embed(self, batch: Batch) -> Tensor:
        """Edge features h_{x-y} (section 3.2): pairs' [CLS] states or means. *Shape:* (n, tokens) -> (n, d_e)."""
        with autocast(self.dtype):
            found, mask = token_states(self.model.base_model, batch)
        return pool(found, mask, "cls" if self.head is None else "mean")


def score_pairs(model: CrossEncoder, pairs: Inputs, folder: Path, batch_tokens: int) -> Matrix:
    """M_ce's logit of each pair, resumable in `folder`, shared by all devices, and of no pairs too. *Shape:* (n,)."""

    def write(path: Path, window: int, scores: Matrix) -> None:
        np.save(path, scores[:, 0])

    work = partial(encode_windows, pairs, model.column_of_logits, batch_tokens, WINDOW)
    how = {"label": "score pairs", "unit": "pairs"}
    files = resume_windows(folder, "scores-{:06d}.npy", len(pairs), WINDOW, work, write, **how)
    return np.concatenate([np.empty(0, dtype=np.float32), *map(np.load, files)])


def embed_pairs(
    model: CrossEncoder, pairs: Inputs, folder: Path, keys: dict[str, Rows], schema: pa.Schema, *, batch_tokens: int
) -> None:
    """[CLS] embeddings of pairs as Parquet parts in their order, resumable by part; `keys`: the columns before them."""

    def write(path: Path, window: int, vectors: Matrix) -> None:
        part = slice(window * WINDOW, (window + 1) * WINDOW)
        feature = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float16).reshape(-1)), vectors.shape[1])
        columns = [pa.array(column[part].astype(np.int32)) for column in keys.values()]
        write_part(path, schema, [pa.table([*columns, feature], schema=schema)])

    folder.mkdir(parents=True, exist_ok=True)
    check_room(folder, 2 * len(pairs) * model.dimension, "lower build_graph.k")
    work = partial(encode_windows, pairs, model.embed, batch_tokens, WINDOW)
    resume_windows(folder, PART, len(pairs), WINDOW, work, write, label=f"embed {folder.name}", unit="pairs")
