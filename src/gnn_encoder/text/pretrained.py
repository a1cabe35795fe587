"""Pretrained models: loaded from a folder, a hub name or an installed package, and what their own files state.

What a model's files state of its use holds where params.yaml leaves it open: how states become a vector, and whether
this gets length 1 (`modules.json` of sentence-transformers, and its Pooling's config), the most tokens of a text
(`sentence_bert_config.json`, or else the tokenizer's), and what comes before it (`config_sentence_transformers.json`).
"""

import importlib.util
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import _CACHED_NO_EXIST as NOT_THERE
from huggingface_hub import try_to_load_from_cache
from torch import nn
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
from transformers.utils.hub import cached_file

from gnn_encoder.base.errors import UserError, told_of_machine
from gnn_encoder.pipeline.params import Encoder

transformers_logging.disable_progress_bar()
logging.getLogger("transformers").setLevel(logging.ERROR)
PACKAGE = "package:"
HUB_NAME = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:@(\w[\w./-]*))?")
POOLING = {  # our names, which newer files have too -> the switches of older files
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
MODULES = ["Transformer", "Pooling", "Normalize"]  # in this order; the later ones may be missing
UNSAID = {"pooling": "mean", "similarity": "cosine", "query_prefix": "", "passage_prefix": ""}  # where nobody says it
TEMPERATURES = {"cosine": 0.05, "dot": 1.0}
NO_LIMIT = 1_000_000  # tokens; a tokenizer without a limit states a larger number
FOR_QUERIES, FOR_PASSAGES = ("query",), ("document", "passage", "corpus")  # words in the names of prompts


def resolve(model: str) -> tuple[str, str | None]:
    """What a model's name means: a folder, which `package:NAME/FOLDER` names too, or a hub's NAME or NAME@COMMIT.

    Returns the folder or the hub's name, and the commit, which is None for a folder and for the newest.
    """
    told = f"model {model!r}"
    if model.startswith(PACKAGE):
        name, _, inner = model.removeprefix(PACKAGE).partition("/")
        found = None if "." in name else importlib.util.find_spec(name)  # without importing the package
        if found is None or found.origin is None:
            raise UserError(f"{told}: no package {name} is installed; `pip install {name.replace('_', '-')}`")
        folder = Path(found.origin).parent / inner
        if not (folder / "config.json").is_file():
            raise UserError(f"{told}: {folder} holds no config.json; correct the folder after the slash")
        return str(folder), None
    if Path(model).is_dir():
        return model, None
    if not (named := HUB_NAME.fullmatch(model)):
        raise UserError(f"{told}: no such folder, and a hub's names are OWNER/NAME or OWNER/NAME@COMMIT; correct it")
    return named[1], named[2]


def own_folder(params: Encoder) -> list[Path]:
    """The base model's folder, if it is one: what goes on with another's vectors would mix both."""
    folder = Path(resolve(params.model)[0])
    return [folder] if folder.is_dir() else []


def open_model(model: str, kind: Any, **options: Any) -> Any:
    """What transformers' class `kind` makes of a model; code that comes with it is refused."""
    with explained(model):
        name, commit = resolve(model)
        return kind.from_pretrained(name, revision=commit, trust_remote_code=False, **options)


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """The fast tokenizer of a model, without its own truncation and padding, as batches are built of tokens on disk."""
    tokenizer: PreTrainedTokenizerBase = open_model(model, AutoTokenizer, use_fast=True)
    if not tokenizer.is_fast or tokenizer._tokenizer is None:
        raise UserError(f"model {model!r}: has no fast tokenizer (tokenizer.json); convert it with transformers")
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes of a folder without files
        raise UserError(f"model {model!r}: has no tokenizer files; copy them from the model it was trained from")
    uncut(tokenizer)
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    for name in ("is_local", "local_files_only"):  # these say how it was found, which no saved copy should record
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def uncut(tokenizer: PreTrainedTokenizerBase) -> None:
    """Switch off truncation and padding, which a model's files may set, and calling a tokenizer on texts does too."""
    tokenizer._tokenizer.no_truncation()
    tokenizer._tokenizer.no_padding()


def load_model(name: str, *, dropout: float, kind: Any = None, seed: int = 0, **options: object) -> PreTrainedModel:
    """A transformer in float32 with its dropout set, from safetensors only; `options` are fields of its configuration.

    It is of the class `kind`, or else encodes texts. `seed` draws the weights that the folder does not hold: a new
    head's, or a pooler's, which nothing reads.
    """
    config = open_model(name, AutoConfig)
    # Dropouts have other names in each family; one that is None there follows another.
    found = config.to_dict().items()
    dropouts = {key: dropout for key, value in found if "dropout" in key and isinstance(value, int | float)}
    for key, value in (dropouts | options).items():
        setattr(config, key, value)
    kind, folder = kind or _encoding(name, config), resolve(name)[0]
    if any(Path(folder).glob("pytorch_model*.bin")) and not any(Path(folder).glob("*.safetensors")):
        convert = f"M.from_pretrained({folder!r}, weights_only=True).save_pretrained({folder!r})"
        raise UserError(  # a pickle can hold code; this converts it without running any
            f"model {folder!r}: its weights are a pickle (pytorch_model.bin), not safetensors; convert them once: "
            f'python -c "from transformers import {kind.__name__} as M; {convert}"'
        )
    how = {"attn_implementation": attention_implementation(), "use_safetensors": True, "output_loading_info": True}
    model: PreTrainedModel
    with fork_rng():
        torch.manual_seed(seed)
        model, report = open_model(name, kind, config=config, dtype=torch.float32, **how)
    _check_complete(name, model, set(report["missing_keys"]), new_head=bool(options))
    model.config.name_or_path = ""  # else a saved encoder-decoder would hold a path of this machine
    return model


def fork_rng() -> AbstractContextManager[None]:
    """A block after which torch's generators are as before; it names the GPUs, since torch warns of several."""
    return torch.random.fork_rng(range(torch.cuda.device_count()))


def _encoding(name: str, config: PretrainedConfig) -> Any:
    """The `AutoModel...` class of what gives the states of a text's tokens."""
    if type(config) in AutoModelForTextEncoding._model_mapping and not hasattr(config, "auto_map"):
        return AutoModelForTextEncoding
    if config.is_encoder_decoder:
        told = f"is an encoder-decoder, and transformers has no encoder alone of type {config.model_type}"
        raise UserError(f"model {name!r} {told}; take an encoder, or T5's")
    return AutoModel


def _check_complete(name: str, model: PreTrainedModel, missing: set[str], *, new_head: bool) -> None:
    """Refuse missing weights, which transformers would draw at random, except a pooler's or a new head's."""
    base = "" if model.base_model is model else f"{model.base_model_prefix}."
    needed = sorted(key for key in missing if "pooler" not in key and (key.startswith(base) or not new_head))
    if needed:
        told = f"holds no weights for {len(needed)} parameters of its configuration, such as {needed[0]}"
        raise UserError(f"model {name!r} {told}; name a folder whose files belong together")


def attention_implementation() -> str | None:
    """Plain attention on a CPU, where SDPA's backward pass took 45% of a training step; on a GPU the usual."""
    return None if torch.cuda.is_available() else "eager"


@contextmanager
def explained(model: str) -> Iterator[None]:
    """A block in which an error of transformers or safetensors becomes a UserError of one line."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # odd values in a folder's files raise errors of any kind
        if told_of_machine(error):
            raise
        reason = " ".join(str(error).split())[:300]
        cure = "name a save_pretrained folder with safetensors, a hub name, or package:NAME/FOLDER (see encoder.model)"
        raise UserError(f"model {model!r} cannot be loaded: {reason}; {cure}") from error


def positions(model: PreTrainedModel) -> int | None:
    """The most tokens that the model has positions for; None for relative and rotary ones, which have no limit."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        return None
    # RoBERTa numbers positions from padding_idx + 1 on.
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


# --- what the files of a model state ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """What a model's files state: values of some parameters, and the most tokens of a text, special ones included."""

    use: dict[str, str]
    length: int | None

    def complete(self, params: Encoder) -> Encoder:
        """The section with a value for everything that it leaves open."""
        given = {name: value for name in UNSAID if (value := getattr(params, name)) is not None}
        chosen = UNSAID | self.use | given
        temperature = params.temperature or TEMPERATURES[chosen["similarity"]]
        return params.model_copy(update=chosen | {"temperature": temperature})

    def description(self, params: Encoder) -> str:
        """How the model is used, and what its files say where params.yaml says something else."""
        told = []
        for name in UNSAID:
            own, value = self.use.get(name), getattr(self.complete(params), name)
            if value or own:
                told.append(f"{name} {value!r}" + ("" if own in (None, value) else f" (its own files say {own!r})"))
        return f"the base model: {', '.join(told)}"

    def readable(self, model: PreTrainedModel) -> int | None:
        """The most tokens that the model can read; None if nothing says it."""
        found = positions(model) or getattr(model.config, "max_position_embeddings", None)
        return min((length for length in (self.length, found) if length), default=None)


def read_stated(model: str) -> Stated:
    """Read a model's files; what a dual-encoder cannot do is a UserError."""
    with explained(model):  # which have any keys, of any types
        return _stated(model)


def _stated(model: str) -> Stated:
    modules = _read_file(model, "modules") or []
    names = ("config_sentence_transformers", "sentence_bert_config", "tokenizer_config")
    config, texts, tokenizer = (_read_file(model, name) or {} for name in names)
    kinds = [one["type"].rpartition(".")[2] for one in modules]
    if kinds != MODULES[: len(kinds)]:
        raise _refused(model, f"modules.json has {', '.join(kinds)}, where {', '.join(MODULES)} can be had")
    similarity = "cosine" if "Normalize" in kinds else config.get("similarity_fn_name") if kinds else None
    if similarity not in (None, *TEMPERATURES):
        raise _refused(model, f"config_sentence_transformers.json has the similarity {similarity}")
    if kinds and config.get("truncate_dim") is not None:
        raise _refused(model, f"config_sentence_transformers.json has truncate_dim {config['truncate_dim']}")
    length = texts.get("max_seq_length") or tokenizer.get("model_max_length") or NO_LIMIT
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name") or ""
    use = {
        "pooling": _pooling(model, modules[1]["path"]) if "Pooling" in kinds else None,
        "similarity": similarity,
        "query_prefix": _prompt(prompts, default, FOR_QUERIES, FOR_PASSAGES),
        "passage_prefix": _prompt(prompts, default, FOR_PASSAGES, FOR_QUERIES),
    }
    stated = {name: value for name, value in use.items() if value is not None}
    return Stated(stated, int(length) if length < NO_LIMIT else None)


def _read_file(model: str, name: str) -> Any:
    """A JSON file of a model; None if there is none, which of a hub's model the hub must have said."""
    (folder, commit), file = resolve(model), f"{name}.json"
    absent: Any = {f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors")}
    if (path := cached_file(folder, file, revision=commit, **absent)) is None:
        if Path(folder).is_dir() or try_to_load_from_cache(folder, file, revision=commit) is NOT_THERE:
            return None
        cure = "ask again with a network, or fetch the model into a folder and name that"
        raise UserError(f"model {model!r}: the hub could not be asked whether it has {file}; {cure}")
    with explained(str(path)):
        return json.loads(Path(path).read_bytes())


def _pooling(model: str, folder: str) -> str:
    """The pooling of a Pooling module; newer files name it, older ones have a switch for each kind."""
    names, config = {switch: kind for kind, switch in POOLING.items()}, _read_file(model, f"{folder}/config") or {}
    on = [names.get(key, key) for key, value in config.items() if key.startswith("pooling_mode_") and value]
    mode = config.get("pooling_mode") or on or "mean"
    kinds = [mode] if isinstance(mode, str) else mode
    if len(kinds) != 1 or kinds[0] not in POOLING:
        has = f"{folder}/config.json pools by {' and '.join(kinds)}"
        raise _refused(model, f"{has}, where one of {', '.join(POOLING)} can be had")
    if config.get("include_prompt") is False:
        raise _refused(model, f"{folder}/config.json leaves prompts out of what is pooled (include_prompt)")
    return str(kinds[0])


def _prompt(prompts: dict[str, str | None], default: str, words: Sequence[str], others: Sequence[str]) -> str | None:
    """The prompt whose name is one of these words, or has one in it, or else the default one, if not of `others`."""
    named = [name for word in words for name in prompts if word in name.lower()]
    wanted = [*words, *named, *([] if any(word in default.lower() for word in others) else [default])]
    return next((found for name in wanted if (found := prompts.get(name))), None)


def _refused(model: str, what: str) -> UserError:
    plain = "a copy of its folder without modules.json, which then is a plain transformer"
    return UserError(f"model {model!r}: its {what}; take another encoder.model, or {plain}")
