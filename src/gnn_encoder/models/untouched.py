"""The base model as a dual-encoder as it comes: its own pooling and similarity, at the lengths that it can read.

A model of sentence-transformers says these in files beside its weights: `modules.json` lists a Pooling module, with its
config, and a Normalize module if embeddings have length 1; `sentence_bert_config.json` holds the most tokens of a text,
and `config_sentence_transformers.json` may name what it wants before a query and before a passage.
"""

import json
import logging
import sys
from dataclasses import dataclass, field, replace
from typing import Any, cast

from transformers import PreTrainedModel
from transformers.utils.hub import cached_file

from gnn_encoder.core.errors import UserError
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.params import Encoder, Untouched
from gnn_encoder.models.pretrained import Source, explained, resolve
from gnn_encoder.models.structure import positions

log = logging.getLogger(__name__)
UNLIMITED = sys.maxsize
POOLING = {"cls": "cls", "mean": "mean"} | {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


@dataclass(frozen=True)
class OwnSettings:
    """What a model says about its use; None where it does not say, or says something that a dual-encoder cannot do."""

    pooling: str | None = None
    similarity: str | None = None
    length: int | None = None  # most tokens of a text, special ones included
    prompts: dict[str, str] = field(default_factory=dict)  # what it was trained to read before a text of a kind


def untouched(params: Encoder, limits: Untouched) -> DualEncoder:
    """The base model of `params`. What it does not say itself is taken from `params`.

    Args:
        limits: the most tokens that it may read; null: all it can.
    """
    own = own_settings(Source(params.model, params.revision, params.trust_remote_code))
    _warn_of_prompts(own.prompts, params)
    how = {"pooling": own.pooling or params.pooling, "similarity": own.similarity or params.similarity}
    encoder = DualEncoder.from_pretrained(params.model_copy(update=how | {"shared": True}))
    most = readable(cast(PreTrainedModel, encoder.query), own)
    settings = replace(
        encoder.settings,
        query_length=min(most or params.query_length, limits.query_length or UNLIMITED),
        passage_length=min(most or params.passage_length, limits.passage_length or UNLIMITED),
    )
    encoder.settings = settings
    names = ("pooling", "similarity", "query_length", "passage_length")
    said = [f"{name.replace('_', ' ')} {getattr(settings, name)}" for name in names]
    log.info("the base model as it comes: %s", ", ".join(said))
    return encoder


def own_settings(source: Source) -> OwnSettings:
    """Read the files of sentence-transformers; a model without them says nothing."""
    length = (_read(source, "sentence_bert_config.json") or {}).get("max_seq_length")
    modules = _read(source, "modules.json")
    stated = _read(source, "config_sentence_transformers.json") or {}
    prompts = {kind: text for kind, text in (stated.get("prompts") or {}).items() if text}
    if not modules:
        return OwnSettings(length=length, prompts=prompts)
    kinds = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
    pooling = _pooling(_read(source, f"{kinds['Pooling']}/config.json") or {}) if "Pooling" in kinds else None
    similarity = "cosine" if "Normalize" in kinds else stated.get("similarity_fn_name")
    return OwnSettings(pooling, similarity if similarity in ("cosine", "dot") else None, length, prompts)


def _warn_of_prompts(prompts: dict[str, str], params: Encoder) -> None:
    for name, kinds in (("query_prefix", ("query",)), ("passage_prefix", ("passage", "document"))):
        own, used = next((prompts[kind] for kind in kinds if kind in prompts), ""), getattr(params, name)
        if own and own != used:
            log.warning("the base model was trained with %r there, but encoder.%s is %r", own, name, used)


def _pooling(config: dict[str, Any]) -> str | None:
    """The pooling if it is one of ours; newer files name it, older ones have a switch for each kind."""
    mode = config.get("pooling_mode")
    chosen = [mode] if mode else [name for name, on in config.items() if name.startswith("pooling_mode_") and on]
    return POOLING.get(chosen[0]) if len(chosen) == 1 and isinstance(chosen[0], str) else None


def readable(model: PreTrainedModel, own: OwnSettings) -> int | None:
    """The most tokens that the model can read; None if nothing says it."""
    stated = positions(model) or getattr(model.config, "max_position_embeddings", None)
    return min((length for length in (own.length, stated) if length), default=None)


def _read(source: Source, name: str) -> Any:
    """A JSON file of the model's folder or repository; None if there is no such file."""
    missing_is_none = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors")}
    with explained(source.model):
        path = cached_file(resolve(source.model), name, revision=source.revision, **missing_is_none)
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise UserError(
            f"{path}: not valid JSON ({error}); copy the file again from where the model is from"
        ) from error
