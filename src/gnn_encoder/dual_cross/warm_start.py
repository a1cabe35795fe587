"""An encoder-decoder whose weights all start from a pretrained encoder, so that few pairs teach it to write queries.

With some thousand pairs, a decoder whose new parts are drawn at random hardly learns to attend to the passage.
Therefore every decoder layer starts as the encoder's layer, and its cross-attention as that layer's self-attention.
The transform before the output starts near the identity, so that a state at first predicts the token whose embedding
it resembles. Encoder, decoder and output share one table of embeddings.
"""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, EncoderDecoderConfig, EncoderDecoderModel

from gnn_encoder.base.errors import UserError
from gnn_encoder.text.device import attention_implementation
from gnn_encoder.text.pretrained import Source, load_model
from gnn_encoder.text.tokens import Template

# For |x| < 2, gelu(x + 4) is nearly x + 4, and the layer norm after it subtracts the 4 again.
LINEAR_PART_OF_GELU = 4.0
Transformer = Any  # parts of transformers' models are typed as Tensor | Module


def warm_start(source: Source, template: Template, *, dropout: float, seed: int) -> Transformer:
    """An encoder-decoder whose two halves start from the encoder `source`.

    Args:
        template: of the encoder's tokenizer; its [CLS] begins a query, and its [SEP] ends it.
        seed: decides the weights that the encoder has no counterpart for.
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
    """Make the decoder's input and its output layer use the encoder's embeddings."""
    model.decoder.base_model.embeddings = model.encoder.embeddings
    model.decoder.get_output_embeddings().weight = model.encoder.get_input_embeddings().weight


def prediction_head(decoder: Transformer) -> nn.Module:
    """The module that turns a decoder's states into logits: `cls` in BERT and ERNIE, `lm_head` in RoBERTa."""
    head: nn.Module = decoder.cls if hasattr(decoder, "cls") else decoder.lm_head
    return head


def set_word_frequencies(model: Transformer, counts: torch.Tensor) -> None:
    """Set the output layer's bias to the logarithm of each token's frequency, relative to the mean frequency.

    Args:
        counts: how often each token occurs in the training queries. *Shape:* (vocabulary,).
    """
    smoothed = counts.float() + 0.05  # the model must still be able to write a token that no training query holds
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
        target.load_state_dict(source.state_dict(), strict=False)  # the encoder's layer has no cross-attention
        target.crossattention.load_state_dict(source.attention.state_dict())


def _near_identity(head: Transformer) -> None:
    transform = head.predictions.transform if hasattr(head, "predictions") else head
    with torch.no_grad():
        transform.dense.weight.copy_(torch.eye(len(transform.dense.weight)))
        transform.dense.bias.fill_(LINEAR_PART_OF_GELU)
