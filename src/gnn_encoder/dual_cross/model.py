"""The query generation model P_QG(q|d) (Dual-Cross-Encoder, section 3.4): it reads a passage and writes a query."""

from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from gnn_encoder.base import distributed
from gnn_encoder.dual_cross.warm_start import prediction_head, warm_start
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.device import autocast, device
from gnn_encoder.text.encoder import TextModel
from gnn_encoder.text.pretrained import Source, load_model, load_tokenizer
from gnn_encoder.text.tokens import Template

IGNORED = -100  # label of padding, which the loss leaves out
DECODER = "decoder."


class QueryGenerator(TextModel):
    """A sequence-to-sequence transformer with its tokenizer: warm-started from an encoder, or T5, BART and the like."""

    model: Any  # parts of transformers' models are typed as Tensor | Module

    def __init__(self, *, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, precision: str) -> None:
        super().__init__(tokenizer, precision)
        self.model = model

    @classmethod
    def from_encoder(cls, source: Source, params: Encoder, *, seed: int) -> Self:
        """An untrained encoder-decoder whose two halves start from the weights of an encoder (`warm_start`)."""
        tokenizer = load_tokenizer(source)
        model = warm_start(source, Template(tokenizer), dropout=params.dropout, seed=seed)
        return cls(model=model, tokenizer=tokenizer, precision=params.precision).to(device())

    @classmethod
    def load(cls, source: Source, *, precision: str = "auto") -> Self:
        """A trained model: a folder written by `save`, or any model that `AutoModelForSeq2SeqLM` opens."""
        model = load_model(source, dropout=0.0, kind=AutoModelForSeq2SeqLM)
        return cls(model=model, tokenizer=load_tokenizer(source), precision=precision).to(device())

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoModelForSeq2SeqLM` opens."""
        if not distributed.is_first():
            return
        self.model.save_pretrained(folder, state_dict=_unshared(self.model))
        self.tokenizer.save_pretrained(folder)

    def freeze_lower(self, layers: int) -> None:
        """Exclude the encoder's lowest `layers` layers from training; the embeddings, shared by the decoder, learn."""
        for layer in self.model.encoder.encoder.layer[:layers]:
            layer.requires_grad_(False)

    def fresh_modules(self) -> list[nn.Module]:
        """The parts of a warm-started model that are new to their task: cross-attention and prediction head."""
        layers = self.model.decoder.base_model.encoder.layer
        head = prediction_head(self.model.decoder)
        return [*(layer.crossattention for layer in layers), head]

    @property
    def start(self) -> int:
        """The token that the decoder starts a query with."""
        return int(self.model.config.decoder_start_token_id)

    @property
    def end(self) -> int:
        """The token that ends a query."""
        found = self.model.config.eos_token_id
        return int(found[0] if isinstance(found, list) else found)

    def loss(self, passages: Batch, queries: Batch) -> Tensor:
        """Negative log-likelihood of queries given passages, in nats, summed over tokens.

        - sum_t log P_QG(q_t | q_<t, d)        over a query's tokens and [SEP]

        *Shape:* both (n, tokens), as from `single_batch`: a query is [CLS] tokens [SEP].
        """
        inputs, labels = shifted(queries.to(self.device))
        passages = passages.to(self.device)
        written = labels != IGNORED
        with autocast(self.dtype):
            states = self.model.encoder(input_ids=passages.input_ids, attention_mask=passages.attention_mask)
            hidden = self.model.decoder.base_model(
                input_ids=inputs,
                encoder_hidden_states=states.last_hidden_state,
                encoder_attention_mask=passages.attention_mask,
                use_cache=False,
            ).last_hidden_state
            logits = prediction_head(self.model.decoder)(hidden[written])  # no logits are computed for padding
        return F.cross_entropy(logits.float(), labels[written], reduction="sum")

    def encode(self, passages: Batch, batch_tokens: int) -> Tensor:
        """The encoder's states of passages, in the working dtype; at most `batch_tokens` padded tokens at a time.

        *Shape:* (n, tokens) -> (n, tokens, d).
        """
        size = max(1, batch_tokens // passages.input_ids.shape[1])
        ids, masks = (part.to(self.device).split(size) for part in (passages.input_ids, passages.attention_mask))
        encoder = self.model.get_encoder()
        with autocast(self.dtype):
            parts = [encoder(i, attention_mask=m).last_hidden_state for i, m in zip(ids, masks, strict=True)]
        return torch.cat(parts)

    def empty_cache(self) -> EncoderDecoderCache:
        """A cache without keys and values, with which decoding starts."""
        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    def next_logits(self, states: Tensor, mask: Tensor, tokens: Tensor, cache: EncoderDecoderCache) -> Tensor:
        """Logits of the token that follows `tokens`. The keys and values of `tokens` are added to `cache`.

        *Shape:* states (n, passage tokens, d), mask (n, passage tokens), tokens (n, t) -> (n, vocabulary).
        """
        with autocast(self.dtype):
            logits: Tensor = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=states),
                attention_mask=mask,
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            ).logits
        return logits[:, -1]

    @property
    def device(self) -> torch.device:
        """The device that the weights are on."""
        return next(self.parameters()).device


def shifted(queries: Batch) -> tuple[Tensor, Tensor]:
    """The decoder's inputs, and its labels: the token that follows each input, or IGNORED for padding.

    *Shape:* (n, tokens) -> (n, tokens - 1), (n, tokens - 1).
    """
    labels = queries.input_ids[:, 1:].masked_fill(queries.attention_mask[:, 1:] == 0, IGNORED)
    return queries.input_ids[:, :-1], labels


def _unshared(model: Any) -> dict[str, Tensor]:
    """The weights in the form that `from_pretrained` reads.

    In an encoder-decoder, encoder and decoder each get a copy of the embeddings that they share. The decoder's output
    layer is left out, since the decoder's own configuration ties it to the embeddings. Other models stay as they are.
    """
    state: dict[str, Tensor] = model.state_dict()
    if model.config.model_type != "encoder-decoder":
        return state
    output = model.decoder.get_output_embeddings()
    tied = {f"{DECODER}{name}" for name, value in model.decoder.named_modules() if value is output}
    kept = {name: value for name, value in state.items() if name.rpartition(".")[0] not in tied}
    return {name: value.clone() if name.startswith(DECODER) else value for name, value in kept.items()}
