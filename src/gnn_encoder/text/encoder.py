"""The dual-encoder E_Q, E_P (section 3.1): queries and passages become vectors whose dot product is the score."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint, read_json, write_json
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.batches import Batch, Inputs, encode_rows, single_batch
from gnn_encoder.text.device import autocast, device, embedding, pack_where_possible, token_states, working_dtype
from gnn_encoder.text.pretrained import explained, load_model, load_tokenizer, positions, read_stated
from gnn_encoder.text.tokens import Template, TextTokens, holds_passages

log = logging.getLogger(__name__)
SETTINGS = "dual_encoder.json"
OF_QUERIES = ("shared", "temperature", "query_length", "query_prefix")  # settings that change no passage embedding
ROUNDING = 1e-3  # most difference of two vectors of length 1 that are the same but for rounding
AT_ONCE = 2_048  # padded tokens of a batch of queries that are given as texts


class TextModel(nn.Module):
    """A transformer, or two, with the tokenizer of its texts. `precision` is one of `encoder.precision`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, precision: str) -> None:
        super().__init__()
        self.tokenizer, self.template, self.dtype = tokenizer, Template(tokenizer), working_dtype(precision)

    def for_inference(self) -> Self:
        """Drop gradients and hold the weights in the working dtype, so that no batch has to cast them."""
        self.eval().requires_grad_(False).to(self.dtype)
        for model in self.children():
            pack_where_possible(model)
        return self

    def freeze_lower(self, layers: int) -> None:
        """Exclude the embeddings and the lowest `layers` layers from training. With 0 layers nothing is frozen."""
        for model in self.children() if layers else ():
            freeze_lower(model, layers)

    @property
    def dimension(self) -> int:
        """Columns of what it makes of a text: d of an embedding, or d_e of an edge feature."""
        return int(next(self.children()).config.hidden_size)  # type: ignore[union-attr,arg-type]

    def prefix_of(self, table: Path) -> str:
        """What is put before each text of a table."""
        return ""


class HeadedModel(TextModel):
    """One transformer with a head, of the class `kind` of transformers."""

    kind: ClassVar[Any]

    def __init__(self, *, model: Any, tokenizer: PreTrainedTokenizerBase, precision: str) -> None:
        super().__init__(tokenizer, precision)
        self.model = model

    @classmethod
    def load(cls, model: str | Path, *, precision: str = "auto") -> Self:
        """A trained model: a folder written by `save`, or any other that `kind` opens."""
        source = str(model)
        opened = load_model(source, dropout=0.0, kind=cls.kind)
        return cls(model=opened, tokenizer=load_tokenizer(source), precision=precision).to(device())

    def save(self, folder: Path, **how: Any) -> None:
        """Write a folder that `kind` opens."""
        if distributed.is_first():
            self.model.save_pretrained(folder, **how)
            self.tokenizer.save_pretrained(folder)


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


class DualEncoder(TextModel):
    """One transformer for queries and passages, or one for each; the score of two embeddings is their dot product.

    With `similarity: cosine` embeddings have length 1. The temperature belongs to the loss, not to the embeddings. With
    `pair_length` it is a Dual-Cross-Encoder (Eq. 4, 5): E_P reads a query and a passage, `[CLS] q [SEP] p [SEP]`.
    """

    def __init__(
        self,
        query: nn.Module,
        passage: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        settings: DualEncoderSettings,
        precision: str,
    ) -> None:
        super().__init__(tokenizer, precision)
        self.query, self.passage, self.settings = query, passage, settings

    @classmethod
    def from_pretrained(cls, params: Encoder) -> Self:
        """Start from the base model of `params.yaml`, which is used as its own files state where that says nothing."""
        source = params.model
        stated = read_stated(source)
        log.info(stated.description(params))
        params = stated.complete(params)
        model, tokenizer = load_model(source, dropout=params.dropout), load_tokenizer(source)
        check_model(params.model, model, tokenizer)
        for name in ("query_length", "passage_length"):
            allow_length(model, tokenizer, f"encoder.{name}", getattr(params, name))
        settings = DualEncoderSettings(**params.model_dump(include={*DualEncoderSettings.__annotations__}))
        passage = model if params.shared else load_model(source, dropout=params.dropout)
        return cls(model, passage, tokenizer, settings, params.precision).to(device())

    @classmethod
    def untouched(cls, params: Encoder) -> Self:
        """The base model as it comes, used as its own files say, or else `params`; lengths are those of all systems."""
        return cls.from_pretrained(params.model_copy(update=read_stated(params.model).use | {"shared": True}))

    @classmethod
    def load(cls, folder: Path, *, precision: str = "auto", dropout: float = 0.0) -> Self:
        """Read a folder written by `save`."""
        settings = read_json(folder / SETTINGS, DualEncoderSettings)
        query = load_model(str(folder), dropout=dropout)
        passage = query if settings.shared else load_model(str(folder / "passage"), dropout=dropout)
        return cls(query, passage, load_tokenizer(str(folder)), settings, precision).to(device())

    def read_pairs(self, length: int) -> None:
        """Let E_P read a query and a passage from now on, of at most so many tokens together."""
        self.settings = replace(self.settings, pair_length=length)

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoModel` opens as the query encoder (passage encoder in `passage/` if separate)."""
        if not distributed.is_first():
            return
        self.query.save_pretrained(folder)  # type: ignore[operator]
        self.tokenizer.save_pretrained(folder)
        if not self.settings.shared:
            self.passage.save_pretrained(folder / "passage")  # type: ignore[operator]
        # A prefix that is not there is left out, so that a folder without one needs to know of none.
        write_json(folder / SETTINGS, {name: value for name, value in asdict(self.settings).items() if value != ""})

    @staticmethod
    def passage_fingerprint(folder: Path) -> str:
        """Hash of what a saved dual-encoder's passage embeddings depend on. Equal hashes mean equal embeddings."""
        settings = read_json(folder / SETTINGS, dict[str, Any])
        weights = folder if settings.get("shared") else folder / "passage"
        read = {name: value for name, value in settings.items() if name not in OF_QUERIES}
        return fingerprint(*sorted(weights.glob("*.safetensors")), **read)

    @property
    def scale(self) -> float:
        """The factor that scores have in the loss, 1 / temperature."""
        return 1.0 / self.settings.temperature

    def prefix_of(self, table: Path) -> str:
        """The queries' or the passages' prefix."""
        return self.settings.passage_prefix if holds_passages(table) else self.settings.query_prefix

    def encode_queries(self, batch: Batch) -> Tensor:
        """E_Q. *Shape:* (n, tokens) -> (n, d) float32."""
        return self._encode(self.query, batch)

    def encode_passages(self, batch: Batch) -> Tensor:
        """E_P; the batch holds single passages, or pairs with `pair_length`. *Shape:* (n, tokens) -> (n, d) float32."""
        return self._encode(self.passage, batch)

    def _encode(self, model: nn.Module, batch: Batch) -> Tensor:
        with autocast(self.dtype):
            found, mask = token_states(model, batch)
        return embedding(found, mask, pooling=self.settings.pooling, similarity=self.settings.similarity)

    def fix_passages(self) -> None:
        """Exclude E_P from training; where it shared its weights with E_Q it gets a copy of them."""
        if self.settings.shared:
            self.passage, self.settings = deepcopy(self.query), replace(self.settings, shared=False)
        self.passage.requires_grad_(False)

    def read_queries(self, texts: Sequence[str]) -> tuple[Matrix, NDArray[np.bool_]]:
        """Embed queries that are given as texts, and tell which are longer than is read. *Shape:* (n, d), (n,)."""
        tokens = TextTokens.of([self.settings.query_prefix + text for text in texts], self.tokenizer)
        inputs, rows = Inputs.singles(tokens, self.template, self.settings.query_length), np.arange(len(texts))
        vectors = encode_rows(inputs, rows, self.encode_queries, AT_ONCE, self.dimension)
        return vectors, inputs.is_cut(rows)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """The vectors of `read_queries`. *Shape:* (n, d)."""
        return self.read_queries(texts)[0]


@torch.no_grad()
def check_model(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make sure that a model has an embedding for every token, and reads no padding, as a convolution does."""
    table: Any = model.get_input_embeddings()
    largest, rows = max(tokenizer.get_vocab().values()), len(table.weight)
    if largest >= rows:
        told = f"its tokenizer numbers tokens up to {largest}, but it has {rows} embeddings"
        raise UserError(f"model {name!r}: {told}; name files that belong together, or call its resize_token_embeddings")
    vectors = []
    with explained(name):  # it reads a text for the first time
        for texts in (["a"], ["a", "a " * 8]):
            tokens, both = TextTokens.of(texts, tokenizer), np.arange(len(texts))
            found, mask = token_states(model.base_model, single_batch(tokens, both, Template(tokenizer), 10))
            vectors.append(embedding(found, mask, pooling="mean", similarity="cosine")[0])
    off = float((vectors[0] - vectors[1]).norm())
    if not off <= ROUNDING:  # also where it is NaN
        told = f"its vector of a text beside a longer one is another than of the text alone, by {off:.2g} of its length"
        raise UserError(f"model {name!r}: {told}, so that it reads padding; take another encoder.model")


def allow_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, tokens: int) -> None:
    """Make sure that model and tokenizer take the `tokens` tokens that the parameter `name` sets."""
    limit = positions(model)
    if limit is not None and tokens > limit:
        raise UserError(f"{name} is {tokens}: the model has {limit} positions; set it to at most {limit}")
    tokenizer.model_max_length = max(tokenizer.model_max_length, tokens)


def freeze_lower(model: nn.Module, layers: int) -> None:
    """Exclude the lowest `layers` layers from training, and what comes before them: the embeddings and what maps them.

    The layers are the first list of as many modules as there are layers, and parameters are in a text's order.
    """
    total = cast(Any, model.config).num_hidden_layers
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    stack = next((one for one in lists if len(one) == total), None)
    if stack is None:
        raise UserError(f"encoder.frozen_layers is {layers}: the layers of this model share their weights; set it to 0")
    if layers > total:
        raise UserError(f"encoder.frozen_layers is {layers}: the model has {total} layers; lower it")
    last = list(stack[layers - 1].parameters())[-1]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if parameter is last:
            return
