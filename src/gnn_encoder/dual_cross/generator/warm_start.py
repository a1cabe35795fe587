"""An encoder-decoder made of an encoder alone, set up so that few pairs teach it to write queries.

With some thousand pairs a decoder whose new parts are drawn at random hardly learns to look at the passage. So:
every decoder layer begins as the encoder's layer, its cross-attention as that layer's self-attention; the transform
before the output begins near the identity, so that a state begins by naming the token whose embedding it resembles;
one table of embeddings serves encoder, decoder and output.
"""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, EncoderDecoderConfig, EncoderDecoderModel

from gnn_encoder.core.errors import UserError
from gnn_encoder.models.batch import Template
from gnn_encoder.models.device import attention_implementation
from gnn_encoder.models.pretrained import Source, load_model

# gelu(x + 4) = x + 4 nearly, where |x| < 2, and the layer norm after it takes the 4 away again.
LINEAR_PART_OF_GELU = 4.0
Transformer = Any  # parts of transformers' models are typed as Tensor | Module


def warm_start(source: Source, template: Template, *, dropout: float, seed: int) -> Transformer:
    """An encoder-decoder whose two halves begin as the encoder `source`.

    Args:
        template: of the encoder's tokenizer; its [CLS] begins a query, its [SEP] ends it.
        seed: of the weights that neither half has.

    Raises:
        UserError: transformers has no decoder of the encoder's kind, or one that is not built like BERT's.
    """
    encoder: Transformer = load_model(source, dropout=dropout, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        decoder = _fresh_decoder(source, encoder)
    _copy_layers(encoder, decoder)
    _near_identity(prediction_head(decoder))
    config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder.config, decoder.config)
    config.decoder_start_token_id, config.eos_token_id = template.prefix[-1], template.single_suffix[0]
    config.pad_token_id = template.pad
    model = EncoderDecoderModel(config=config, encoder=encoder, decoder=decoder)
    share_embeddings(model)
    return model


def share_embeddings(model: Transformer) -> None:
    """Make the decoder read, and write, with the encoder's embeddings."""
    model.decoder.base_model.embeddings = model.encoder.embeddings
    model.decoder.get_output_embeddings().weight = model.encoder.get_input_embeddings().weight


def prediction_head(decoder: Transformer) -> nn.Module:
    """What turns a decoder's states into logits: BERT's and ERNIE's `cls`, RoBERTa's `lm_head`."""
    head: nn.Module = decoder.cls if hasattr(decoder, "cls") else decoder.lm_head
    return head


def set_word_frequencies(model: Transformer, counts: torch.Tensor) -> None:
    """Begin the output's bias at the log-frequencies of the queries' tokens, against equal frequencies.

    Args:
        counts: how often each token occurs in the training queries. *Shape:* (vocabulary,).
    """
    smoothed = counts.float() + 0.05  # a token that no query holds must stay within reach of attention
    bias = torch.log(smoothed / smoothed.mean())
    with torch.no_grad():
        model.decoder.get_output_embeddings().bias.copy_(bias)


def _fresh_decoder(source: Source, encoder: Transformer) -> Transformer:
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.is_decoder, config.add_cross_attention = True, True
    try:
        decoder: Transformer = AutoModelForCausalLM.from_config(config, attn_implementation=attention_implementation())
        built_alike = all(hasattr(layer, "crossattention") for layer in decoder.base_model.encoder.layer)
    except (ValueError, AttributeError):
        built_alike = False
    if not built_alike:
        raise UserError(
            f"encoder.model is {source.model!r}: transformers makes no decoder of a {config.model_type} model; name a "
            "sequence-to-sequence model in dual_cross.generator.model, or use an encoder of BERT's kind"
        )
    return decoder


def _copy_layers(encoder: Transformer, decoder: Transformer) -> None:
    pairs = zip(encoder.encoder.layer, decoder.base_model.encoder.layer, strict=True)
    for source, target in pairs:
        target.load_state_dict(source.state_dict(), strict=False)  # but for the cross-attention, which it has not
        target.crossattention.load_state_dict(source.attention.state_dict())


def _near_identity(head: Transformer) -> None:
    transform = head.predictions.transform if hasattr(head, "predictions") else head
    with torch.no_grad():
        transform.dense.weight.copy_(torch.eye(len(transform.dense.weight)))
        transform.dense.bias.fill_(LINEAR_PART_OF_GELU)
