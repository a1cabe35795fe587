"""Loading pretrained models: from a folder, by hub name and revision, or from inside an installed package."""

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from gnn_encoder.core.errors import UserError
from gnn_encoder.models.device import attention_implementation

transformers_logging.disable_progress_bar()
logging.getLogger("transformers").setLevel(logging.ERROR)
PACKAGE = "package:"


def resolve(model: str) -> str:
    """The folder that `package:NAME/FOLDER` names, without importing the package; any other name unchanged."""
    if not model.startswith(PACKAGE):
        return model
    name, _, inner = model.removeprefix(PACKAGE).partition("/")
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise UserError(
            f"encoder.model is {model!r}: no package {name} is installed; `pip install {name.replace('_', '-')}`"
        )
    folder = Path(found.origin).parent / inner
    if not (folder / "config.json").is_file():
        raise UserError(
            f"encoder.model is {model!r}: {folder} holds no config.json; correct the folder after the slash"
        )
    return str(folder)


@dataclass(frozen=True)
class Source:
    """Where a pretrained model comes from: `encoder.model`, `encoder.revision` and `encoder.trust_remote_code`."""

    model: str
    revision: str | None = None
    trust_remote_code: bool = False


def load_tokenizer(source: Source) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a model, with its own truncation and padding switched off."""
    with explained(source.model):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            resolve(source.model), revision=source.revision, trust_remote_code=source.trust_remote_code, use_fast=True
        )
    if not tokenizer.is_fast or tokenizer._tokenizer is None:
        raise UserError(f"model {source.model!r}: has no fast tokenizer (tokenizer.json); convert it with transformers")
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of a folder without files
        raise UserError(f"model {source.model!r}: has no tokenizer files; copy them from the model it was trained from")
    tokenizer._tokenizer.no_truncation()
    tokenizer._tokenizer.no_padding()
    for name in ("is_local", "local_files_only"):  # these say how it was found, which no saved copy should record
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def load_model(
    source: Source, *, dropout: float, kind: Any = AutoModel, seed: int = 0, **options: object
) -> PreTrainedModel:
    """A transformer in float32 with its dropout set, from safetensors only.

    Args:
        kind: the `AutoModel...` class.
        seed: decides the weights that the folder does not hold and that are drawn at random (a new head, or a pooler
            that nothing reads).
        options: fields of the model's configuration to set.
    """
    with explained(source.model):
        origin = {"revision": source.revision, "trust_remote_code": source.trust_remote_code}
        config = AutoConfig.from_pretrained(resolve(source.model), **origin)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"):
            if hasattr(config, name):
                setattr(config, name, dropout)
        for name, value in options.items():
            setattr(config, name, value)
        model: PreTrainedModel
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model, report = kind.from_pretrained(
                resolve(source.model),
                config=config,
                use_safetensors=True,
                dtype=torch.float32,
                attn_implementation=attention_implementation(),
                output_loading_info=True,
                **origin,
            )
    _check_complete(source.model, model, set(report["missing_keys"]), new_head=bool(options))
    model.config.name_or_path = ""  # else a saved encoder-decoder would hold a path of this machine
    return model


def check_length(model: PreTrainedModel, name: str, tokens: int) -> None:
    """Make sure that the model has a position for each of `tokens` tokens.

    Args:
        name: the parameter that sets `tokens`.
    """
    limit = positions(model)
    if limit is not None and tokens > limit:
        raise UserError(f"{name} is {tokens}: the model has {limit} positions; set it to at most {limit}")


def positions(model: PreTrainedModel) -> int | None:
    """The most tokens that the model has positions for; None for relative and rotary ones, which have no limit."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        return None
    # RoBERTa numbers positions from padding_idx + 1 on.
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


def _check_complete(name: str, model: PreTrainedModel, missing: set[str], *, new_head: bool) -> None:
    """Refuse missing weights, which transformers would silently draw at random, except a pooler's or a new head's."""
    base = "" if model.base_model is model else f"{model.base_model_prefix}."
    needed = sorted(key for key in missing if "pooler" not in key and (key.startswith(base) or not new_head))
    if needed:
        raise UserError(
            f"model {name!r} holds no weights for {len(needed)} parameters of its configuration, such as {needed[0]}; "
            "it is a model of another kind or its config.json was changed: name a folder whose files belong together"
        )


@contextmanager
def explained(model: str) -> Iterator[None]:
    """A block in which an error of transformers or safetensors becomes a UserError of one line."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(
            f"model {model!r} cannot be loaded: {reason}; it must be a save_pretrained folder with safetensors, a hub "
            "name, or package:NAME/FOLDER (see encoder.model)"
        ) from error
