"""The base model as a dual-encoder as it comes: used as its own files state, at the lengths that it can read."""

import logging
import sys
from dataclasses import replace
from typing import cast

from transformers import PreTrainedModel

from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.params import Encoder, Untouched
from gnn_encoder.models.pretrained import Source
from gnn_encoder.models.stated import read_stated, readable

log = logging.getLogger(__name__)
UNLIMITED = sys.maxsize
SHOWN = ("pooling", "similarity", "query_length", "passage_length")


def untouched(params: Encoder, limits: Untouched) -> DualEncoder:
    """The base model of `params`. What its files do not state is taken from `params`.

    Args:
        limits: the most tokens that it may read; null: all it can.
    """
    stated = read_stated(Source.of(params))
    encoder = DualEncoder.from_pretrained(params.model_copy(update=stated.use | {"shared": True}))
    most = readable(cast(PreTrainedModel, encoder.query), stated)
    encoder.settings = replace(
        encoder.settings,
        query_length=min(most or params.query_length, limits.query_length or UNLIMITED),
        passage_length=min(most or params.passage_length, limits.passage_length or UNLIMITED),
    )
    told = [f"{name.replace('_', ' ')} {getattr(encoder.settings, name)}" for name in SHOWN]
    log.info("the base model as it comes: %s", ", ".join(told))
    return encoder
