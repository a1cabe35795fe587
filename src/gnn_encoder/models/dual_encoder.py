"""The dual-encoder E_Q, E_P (section 3.1): queries and passages become vectors whose dot product is the score."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint, read_json, write_json
from gnn_encoder.models.batch import Batch, embedding
from gnn_encoder.models.device import autocast, device
from gnn_encoder.models.packing import states
from gnn_encoder.models.pretrained import Source, load_model, load_tokenizer
from gnn_encoder.models.stated import read_stated, readable
from gnn_encoder.models.structure import allow_length, check_letters, check_padding, check_vocabulary, freeze_lower
from gnn_encoder.models.text_model import TextModel
from gnn_encoder.pipeline.params import Encoder, Untouched

log = logging.getLogger(__name__)
SETTINGS = "dual_encoder.json"
OF_QUERIES = ("shared", "temperature", "query_length", "query_prefix")  # settings that change no passage embedding


@dataclass(frozen=True, kw_only=True)
class DualEncoderSettings:
    """How a dual-encoder was trained to read and to score texts; at inference it must be used in the same way."""

    pooling: str
    similarity: str
    temperature: float
    shared: bool
    query_length: int
    passage_length: int
    pair_length: int | None = None  # most tokens of a query and passage read together; None: passages are read alone
    query_prefix: str = ""
    passage_prefix: str = ""

    def as_json(self) -> dict[str, object]:
        """What is saved. A prefix that is not there is left out, so that a folder without one needs to know of none."""
        return {name: value for name, value in asdict(self).items() if value != ""}


class DualEncoder(TextModel):
    """One transformer for queries and passages, or one for each.

    With `pair_length` it is a Dual-Cross-Encoder (Eq. 4, 5): E_Q reads the query alone as before, and E_P reads a query
    and a passage together, `[CLS] q [SEP] p [SEP]`. The score of two embeddings is always their dot product (Eq. 1):
    with `similarity: cosine` embeddings have length 1. The temperature belongs to the loss, not to the embeddings.
    """

    def __init__(
        self,
        *,
        query: nn.Module,
        passage: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        settings: DualEncoderSettings,
        precision: str,
    ) -> None:
        super().__init__(tokenizer, precision)
        self.query, self.passage, self.settings = query, passage, settings

    @classmethod
    def from_pretrained(cls, params: Encoder, *, pair_length: int | None = None) -> Self:
        """Start from the base model of `params.yaml`, which is used as its own files state where that says nothing."""
        source = Source.of(params)
        stated = read_stated(source)
        log.info(stated.description(params))
        params = stated.complete(params)
        model, tokenizer = load_model(source, dropout=params.dropout), load_tokenizer(source)
        check_vocabulary(params.model, model, tokenizer)
        check_padding(params.model, model, tokenizer)
        if stated.small:
            check_letters(params.model, tokenizer)
        for name in ("query_length", "passage_length"):
            allow_length(model, tokenizer, f"encoder.{name}", getattr(params, name))
        allow_length(model, tokenizer, "dual_cross.max_length", pair_length or 0)
        taken = DualEncoderSettings.__annotations__.keys() - {"pair_length"}
        settings = DualEncoderSettings(**{name: getattr(params, name) for name in taken}, pair_length=pair_length)
        return cls(
            query=model,
            passage=model if params.shared else load_model(source, dropout=params.dropout),
            tokenizer=tokenizer,
            settings=settings,
            precision=params.precision,
        ).to(device())

    @classmethod
    def untouched(cls, params: Encoder, limits: Untouched) -> Self:
        """The base model as it comes: used as its own files state, at the lengths that it can read.

        What the files do not state is taken from `params`, and `limits` has the most tokens that it may read.
        """
        stated = read_stated(Source.of(params))
        encoder = cls.from_pretrained(params.model_copy(update=stated.use | {"shared": True}))
        most = readable(cast(PreTrainedModel, encoder.query), stated)
        query, passage = most or params.query_length, most or params.passage_length
        encoder.settings = replace(
            encoder.settings,
            query_length=min(query, limits.query_length or query),
            passage_length=min(passage, limits.passage_length or passage),
        )
        return encoder

    @classmethod
    def load(cls, folder: Path, *, precision: str = "auto", dropout: float = 0.0) -> Self:
        """Read a folder written by `save`."""
        path = folder / SETTINGS
        if not path.is_file():
            raise UserError(f"{folder}: is not a dual-encoder: it has no {SETTINGS}; run the stage that trains it")
        settings = read_json(path, DualEncoderSettings)
        query = load_model(Source(str(folder)), dropout=dropout)
        return cls(
            query=query,
            passage=query if settings.shared else load_model(Source(str(folder / "passage")), dropout=dropout),
            tokenizer=load_tokenizer(Source(str(folder))),
            settings=settings,
            precision=precision,
        ).to(device())

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoModel` opens as the query encoder (passage encoder in `passage/` if separate)."""
        if not distributed.is_first():
            return
        self.query.save_pretrained(folder)  # type: ignore[operator]
        self.tokenizer.save_pretrained(folder)
        if not self.settings.shared:
            self.passage.save_pretrained(folder / "passage")  # type: ignore[operator]
        write_json(folder / SETTINGS, self.settings.as_json())

    @staticmethod
    def passage_fingerprint(folder: Path) -> str:
        """Hash of what a saved dual-encoder's passage embeddings depend on. Equal hashes mean equal embeddings."""
        settings = read_json(folder / SETTINGS, dict[str, Any])
        weights = folder if settings.get("shared") else folder / "passage"
        read = {name: value for name, value in settings.items() if name not in OF_QUERIES}
        return fingerprint(*sorted(weights.glob("*.safetensors")), **read)

    @property
    def dimension(self) -> int:
        """Columns of an embedding, d."""
        return int(self.query.config.hidden_size)  # type: ignore[union-attr,arg-type]

    @property
    def scale(self) -> float:
        """The factor that scores have in the loss, 1 / temperature."""
        return 1.0 / self.settings.temperature

    def encode_queries(self, batch: Batch) -> Tensor:
        """E_Q. *Shape:* (n, tokens) -> (n, d) float32."""
        return self._encode(self.query, batch)

    def encode_passages(self, batch: Batch) -> Tensor:
        """E_P; the batch holds single passages, or pairs with `pair_length`. *Shape:* (n, tokens) -> (n, d) float32."""
        return self._encode(self.passage, batch)

    def _encode(self, model: nn.Module, batch: Batch) -> Tensor:
        with autocast(self.dtype):
            found, mask = states(model, batch)
        return embedding(found, mask, pooling=self.settings.pooling, similarity=self.settings.similarity)

    def freeze_lower(self, layers: int) -> None:
        """Exclude the embeddings and the lowest `layers` layers from training. With 0 layers nothing is frozen."""
        if layers == 0:
            return
        for model in {self.query, self.passage}:
            freeze_lower(model, layers)

    def fix_passages(self) -> None:
        """Let E_P stay as it is, whatever E_Q learns from now on."""
        if self.settings.shared:
            self.passage = deepcopy(self.query)
            self.settings = replace(self.settings, shared=False)
        self.passage.requires_grad_(False)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed a few queries given as texts, in one batch. *Shape:* (n, d)."""
        settings = self.settings
        whole = [settings.query_prefix + text for text in texts]
        with torch.inference_mode():
            vectors = self.encode_queries(Batch.of(self.tokenizer, whole, length=settings.query_length))
        return vectors.float().cpu().numpy()
