"""The cross-encoder M_ce: it reads query and passage together, and its [CLS] state is the feature of their edge."""

from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase

from gnn_encoder.core import distributed
from gnn_encoder.core.params import Encoder
from gnn_encoder.models.batch import Batch, Template
from gnn_encoder.models.device import autocast, device, working_dtype
from gnn_encoder.models.pretrained import Source, load_model, load_tokenizer


class CrossEncoder(nn.Module):
    """A transformer with one logit, whose sigmoid is the score in 0..1 that the thresholds 0.9 and 0.1 apply to."""

    def __init__(self, *, model: nn.Module, tokenizer: PreTrainedTokenizerBase, precision: str) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.template = Template(tokenizer)
        self.dtype = working_dtype(precision)

    @classmethod
    def from_pretrained(cls, source: Source, params: Encoder, *, seed: int = 0) -> Self:
        """Start from a base model, with a new head whose weights are drawn at random with `seed`."""
        return cls(
            model=load_model(
                source, dropout=params.dropout, kind=AutoModelForSequenceClassification, seed=seed, num_labels=1
            ),
            tokenizer=load_tokenizer(source),
            precision=params.precision,
        ).to(device())

    @classmethod
    def load(cls, folder: Path, *, precision: str = "auto") -> Self:
        """Read a folder written by `save`."""
        return cls(
            model=load_model(Source(str(folder)), dropout=0.0, kind=AutoModelForSequenceClassification),
            tokenizer=load_tokenizer(Source(str(folder))),
            precision=precision,
        ).to(device())

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoModelForSequenceClassification` opens."""
        if not distributed.is_first():
            return
        self.model.save_pretrained(folder)  # type: ignore[operator]
        self.tokenizer.save_pretrained(folder)

    @property
    def dimension(self) -> int:
        """Columns of an edge feature, d_e."""
        return int(self.model.config.hidden_size)  # type: ignore[union-attr,arg-type]

    def logits(self, batch: Batch) -> Tensor:
        """Relevance logits. *Shape:* (n, tokens) -> (n,)."""
        with autocast(self.dtype):
            logits: Tensor = self.model(**batch.arguments(self.model)).logits
        return logits.squeeze(-1).float()

    def scores(self, batch: Batch) -> Tensor:
        """Relevance in 0..1. *Shape:* (n, tokens) -> (n,)."""
        return torch.sigmoid(self.logits(batch))

    def embed(self, batch: Batch) -> Tensor:
        """[CLS] states of pairs: edge features h_{x-y} of section 3.2. *Shape:* (n, tokens) -> (n, d_e)."""
        with autocast(self.dtype):
            states: Tensor = self.model.base_model(**batch.arguments(self.model)).last_hidden_state  # type: ignore[operator]
        return states[:, 0].float()

    def for_inference(self) -> Self:
        """Drop gradients and hold the weights in the working dtype."""
        return self.eval().requires_grad_(False).to(self.dtype)
