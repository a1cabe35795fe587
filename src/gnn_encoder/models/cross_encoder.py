"""The cross-encoder M_ce: it reads query and passage together, and the vector of both is the feature of their edge."""

from pathlib import Path
from typing import Literal, Self

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.models.batch import Batch, pool
from gnn_encoder.models.device import autocast, device
from gnn_encoder.models.packing import states
from gnn_encoder.models.pretrained import Source, load_model, load_tokenizer
from gnn_encoder.models.structure import check_padding, check_vocabulary
from gnn_encoder.models.text_model import TextModel
from gnn_encoder.pipeline.params import Encoder

HEAD = "head.safetensors"  # in the folder of a model that pools by the mean
HEAD_DEVIATION = 0.02  # of the weights of a new head, as transformers draws them


class CrossEncoder(TextModel):
    """A transformer with one logit for a query and a passage. What its score means: `training/teacher.py`.

    Args:
        head: reads the mean of the states of both texts, in a model without a head of its own; None: `model` has one,
            which reads the [CLS] state.
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
        if pooling == "cls":
            kind = AutoModelForSequenceClassification
            model = load_model(source, dropout=params.dropout, kind=kind, seed=seed, num_labels=1)
        else:
            model = load_model(source, dropout=params.dropout, seed=seed)
            head = nn.Linear(int(model.config.hidden_size), 1)
            nn.init.normal_(head.weight, std=HEAD_DEVIATION, generator=torch.Generator().manual_seed(seed))
            nn.init.zeros_(head.bias)
        check_vocabulary(source.model, model, tokenizer)
        check_padding(source.model, model, tokenizer)
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
            found, mask = states(self.model.base_model, batch)
        return pool(found, mask, "cls" if self.head is None else "mean")
