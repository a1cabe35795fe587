"""The query generation model P_QG(q|d) (Dual-Cross-Encoder, section 3.4): it reads a passage and writes a query.

One is trained on labelled pairs, or a model of a hub is taken. The trained one is an encoder-decoder whose weights all
start from a pretrained encoder. With some thousand pairs, a decoder whose new parts are drawn at random hardly learns
to attend to the passage. Therefore every decoder layer starts as the encoder's layer, and its cross-attention as that
layer's self-attention. The transform before the output starts near the identity, so that a state at first predicts the
token whose embedding it resembles. Encoder, decoder and output share one table of embeddings.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, EncoderDecoderConfig, EncoderDecoderModel

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import WORK
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import Rows
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Encoder, Params
from gnn_encoder.text.batches import Batch, single_batch
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.device import autocast, device
from gnn_encoder.text.encoder import HeadedModel, allow_length
from gnn_encoder.text.pretrained import attention_implementation, load_model, load_tokenizer
from gnn_encoder.text.tokens import Template, TextTokens
from gnn_encoder.train.examples import BatchSampler, local_share
from gnn_encoder.train.loop import HISTORY, fit, sum_value, write_history

log = logging.getLogger(__name__)
# For |x| < 2, gelu(x + 4) is nearly x + 4, and the layer norm after it subtracts the 4 again.
LINEAR_PART_OF_GELU = 4.0
BATCH = 32  # pairs of a step
FRESH_RATE = 3.0  # factor on the learning rate of what is new to its task: cross-attention and prediction head
Transformer = Any  # parts of transformers' models are typed as Tensor | Module


class QueryGenerator(HeadedModel):
    """A sequence-to-sequence transformer with its tokenizer: warm-started from an encoder, or T5, BART and the like."""

    kind = AutoModelForSeq2SeqLM

    @classmethod
    def from_encoder(cls, source: str, params: Encoder, *, seed: int) -> Self:
        """An untrained encoder-decoder, made by `warm_start`."""
        tokenizer = load_tokenizer(source)
        model = warm_start(source, Template(tokenizer), dropout=params.dropout, seed=seed)
        return cls(model=model, tokenizer=tokenizer, precision=params.precision).to(device())

    def save(self, folder: Path, **how: Any) -> None:
        """As of other models; nothing that is stored is shared."""
        super().save(folder, state_dict=_unshared(self.model), **how)

    def freeze_lower(self, layers: int) -> None:
        """Exclude the encoder's lowest `layers` layers from training; the embeddings, shared by the decoder, learn."""
        for layer in self.model.encoder.encoder.layer[:layers]:
            layer.requires_grad_(False)

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
        read, asked = (batch.arguments(self.model) for batch in (passages, queries))
        ids, written = asked["input_ids"], asked["attention_mask"][:, 1:] == 1
        with autocast(self.dtype):
            hidden = self.model.decoder.base_model(
                input_ids=ids[:, :-1],
                encoder_hidden_states=self.model.encoder(**read).last_hidden_state,
                encoder_attention_mask=read["attention_mask"],
                use_cache=False,
            ).last_hidden_state
            logits = prediction_head(self.model.decoder)(hidden[written])  # no logits are computed for padding
        return F.cross_entropy(logits.float(), ids[:, 1:][written], reduction="sum")


def _unshared(model: Transformer) -> dict[str, Tensor]:
    """The weights in the form that `from_pretrained` reads.

    In an encoder-decoder, encoder and decoder each get a copy of the embeddings that they share. The decoder's output
    layer is left out, since the decoder's own configuration ties it to the embeddings. Other models stay as they are.
    """
    state: dict[str, Tensor] = model.state_dict()
    if model.config.model_type != "encoder-decoder":
        return state
    output = model.decoder.get_output_embeddings()
    tied = {name for name, module in model.named_modules() if module is output}
    kept = {name: value for name, value in state.items() if name.rpartition(".")[0] not in tied}
    return {name: value.clone() if name.startswith("decoder.") else value for name, value in kept.items()}


def warm_start(source: str, template: Template, *, dropout: float, seed: int) -> Transformer:
    """The encoder-decoder; the template's [CLS] begins a query, and its [SEP] ends it.

    `seed` decides the weights that the folder of the encoder `source` lacks.
    """
    encoder: Transformer = load_model(source, dropout=dropout, seed=seed)
    decoder = _fresh_decoder(source, encoder)
    for of_encoder, layer in zip(encoder.encoder.layer, decoder.base_model.encoder.layer, strict=True):
        layer.load_state_dict(of_encoder.state_dict(), strict=False)  # the encoder's layer has no cross-attention
        layer.crossattention.load_state_dict(of_encoder.attention.state_dict())
    head: Transformer = prediction_head(decoder)
    transform: Transformer = head.predictions.transform if hasattr(head, "predictions") else head
    with torch.no_grad():
        transform.dense.weight.copy_(torch.eye(len(transform.dense.weight)))
        transform.dense.bias.fill_(LINEAR_PART_OF_GELU)
    config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder.config, decoder.config)
    config.decoder_start_token_id, config.eos_token_id = template.single_prefix[-1], template.single_suffix[0]
    config.pad_token_id = template.pad
    model: Transformer = EncoderDecoderModel(config=config, encoder=encoder, decoder=decoder)
    model.decoder.base_model.embeddings = model.encoder.embeddings
    model.decoder.get_output_embeddings().weight = model.encoder.get_input_embeddings().weight
    return model


def _fresh_decoder(source: str, encoder: Transformer) -> Transformer:
    """A decoder as deep as the encoder; no weight that it draws at random remains in `warm_start`."""
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.is_decoder, config.add_cross_attention = True, True
    try:
        decoder: Transformer = AutoModelForCausalLM.from_config(config, attn_implementation=attention_implementation())
        built_alike = all(hasattr(layer, "crossattention") for layer in decoder.base_model.encoder.layer)
    except (ValueError, AttributeError):
        built_alike = False
    if not built_alike:
        cure = "name a sequence-to-sequence model in dual_cross.generator.model, or use an encoder of BERT's kind"
        told = f"encoder.model is {source!r}: transformers makes no decoder of a {config.model_type} model"
        raise UserError(f"{told}; {cure}")
    return decoder


def prediction_head(decoder: Transformer) -> nn.Module:
    """The module that turns a decoder's states into logits: `cls` in BERT and ERNIE, `lm_head` in RoBERTa."""
    head: nn.Module = decoder.cls if hasattr(decoder, "cls") else decoder.lm_head
    return head


def set_word_frequencies(model: Transformer, counts: Tensor) -> None:
    """Set the output layer's bias to the logarithm of each token's frequency, relative to the mean frequency.

    *Shape:* counts (vocabulary,).
    """
    smoothed = counts.float() + 0.05  # the model must still be able to write a token that no training query holds
    with torch.no_grad():
        model.decoder.get_output_embeddings().bias.copy_(torch.log(smoothed / smoothed.mean()))


@dataclass
class GeneratorTask:
    """The model reads the positive passage and learns to write its query, by the mean loss of a token."""

    model: QueryGenerator
    pairs: pl.DataFrame  # that are relevant, columns query, passage
    sides: dict[str, tuple[TextTokens, int]]  # "query" and "passage": texts, and how many tokens of one are read
    steps: int
    seed: int
    batch_size: int = BATCH

    def __post_init__(self) -> None:
        self.modules: dict[str, nn.Module] = {"generator": self.model}
        self._batches = BatchSampler(len(self.pairs), self.batch_size, self.seed)
        self.model.train()

    def batch(self, side: str, items: Rows) -> Batch:
        """The queries or the passages of some pairs, padded; `side` is their column."""
        tokens, length = self.sides[side]
        return single_batch(tokens, self.pairs[side].to_numpy()[items], self.model.template, length)

    def token_counts(self, vocabulary: int) -> Tensor:
        """How often each token occurs in the queries, over all pairs. *Shape:* (vocabulary,)."""
        counts = torch.zeros(vocabulary)
        for items in np.split(np.arange(len(self.pairs)), range(4096, len(self.pairs), 4096)):
            written = self.batch("query", items)
            counts += torch.bincount(written.input_ids[:, 1:][written.attention_mask[:, 1:] == 1], minlength=vocabulary)
        return counts

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        items = local_share(self._batches.items(number))
        queries = self.batch("query", items)
        loss = self.model.loss(self.batch("passage", items), queries)
        share = loss / sum_value(int(queries.attention_mask[:, 1:].sum()))  # of the mean over all ranks' tokens
        share.backward()
        return share.item()

    def evaluate(self) -> float:
        """Never called: the generator trains for all its epochs and keeps its last weights."""
        raise NotImplementedError


def parameter_groups(model: QueryGenerator, learning_rate: float) -> list[dict[str, object]]:
    """Parameter groups of AdamW: cross-attention and prediction head learn FRESH_RATE times as fast as all others.

    The output layer shares the embeddings' weights, which are pretrained and learn at `learning_rate`.
    """
    decoder: Transformer = model.model.decoder
    modules = [*(layer.crossattention for layer in decoder.base_model.encoder.layer), prediction_head(decoder)]
    embeddings = {id(parameter) for parameter in model.model.get_input_embeddings().parameters()}
    fresh = {id(parameter) for module in modules for parameter in module.parameters()} - embeddings
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [one for one in learning if id(one) not in fresh], "lr": learning_rate},
        {"params": [one for one in learning if id(one) in fresh], "lr": learning_rate * FRESH_RATE},
    ]


def make_generator(params: Params, folder: Path) -> None:
    """Write the generator that section `dual_cross.generator` names, or else one that is trained on labelled pairs.

    No dev score stops training or selects weights. `folder` also gets what a killed run resumes from.
    """
    section, base, seed = params.dual_cross.generator, params.encoder, params.seed
    if section.model is not None:
        QueryGenerator.load(section.model, precision=base.precision).save(folder)
        log.info("%s: used as it is, nothing is trained", section.model)
        return
    model = QueryGenerator.from_encoder(base.model, base, seed=seed)
    for name in ("encoder.passage_length", "dual_cross.generator.query_length"):
        allow_length(model.model.encoder, model.tokenizer, name, params.value(name))
    asked = open_queries(project.queries("train"), model)
    sides = {"query": (asked, section.query_length), "passage": (open_passages(model), base.passage_length)}
    task = GeneratorTask(model, relevant_pairs(*project.tables("train")), sides, steps=section.steps, seed=seed)
    model.freeze_lower(base.frozen_layers)
    set_word_frequencies(model.model, task.token_counts(model.model.config.decoder.vocab_size))
    groups = parameter_groups(model, section.learning_rate)
    history = fit(task, groups, folder / WORK, name="generator", title="generator", seed=seed)
    model.save(folder)
    write_history(folder / HISTORY, history)
