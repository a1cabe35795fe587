"""What a model's own files state about its use, which holds where params.yaml leaves it open.

A model of sentence-transformers states in `modules.json` and in its Pooling's config how states become a vector, and
whether this gets length 1 (Normalize). `sentence_bert_config.json`, or else the tokenizer's config, has the most tokens
of a text, and `config_sentence_transformers.json` what the model wants before a query and before a passage.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel
from transformers.utils.hub import cached_file

from gnn_encoder.core.errors import UserError
from gnn_encoder.models.params import Encoder
from gnn_encoder.models.pretrained import Source, explained, resolve
from gnn_encoder.models.structure import positions

POOLING = {  # our names, which newer files have too -> the switches of older files
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
MODULES = ["Transformer", "Pooling", "Normalize"]  # in this order; the later ones may be missing
SIMILARITIES = ("cosine", "dot")
UNSAID = {"pooling": "mean", "similarity": "cosine", "query_prefix": "", "passage_prefix": ""}  # where nobody says it
TEMPERATURES = {"cosine": 0.05, "dot": 1.0}
NO_LIMIT = 1_000_000  # tokens; a tokenizer without a limit states a larger number
FOR_QUERIES, FOR_PASSAGES = ("query",), ("document", "passage", "corpus")  # names of prompts


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a model's files state; None where they do not.

    Attributes:
        length: most tokens of a text, special ones included.
        small: whether texts are written in small letters first.
    """

    pooling: str | None
    similarity: str | None
    query_prefix: str | None
    passage_prefix: str | None
    length: int | None
    small: bool

    @property
    def use(self) -> dict[str, str]:
        """The parameters of which they state a value, with it."""
        return {name: value for name in UNSAID if (value := getattr(self, name)) is not None}

    def complete(self, params: Encoder) -> Encoder:
        """The section with a value for everything that it leaves open."""
        given = {name: value for name in UNSAID if (value := getattr(params, name)) is not None}
        chosen: dict[str, Any] = UNSAID | self.use | given
        chosen["temperature"] = params.temperature or TEMPERATURES[chosen["similarity"]]
        return params.model_copy(update=chosen)

    def description(self, params: Encoder) -> str:
        """How the model is used, who says so, and what its files say where params.yaml says something else."""
        told = []
        for name, usual in UNSAID.items():
            own, given = self.use.get(name), getattr(params, name)
            by = "params.yaml" if given is not None else "usual" if own is None else "its own files"
            if own not in (None, given) and given is not None:
                by += f", where its own files say {own!r}; null takes theirs"
            if usual or by != "usual":
                told.append(f"{name} {getattr(self.complete(params), name)!r} ({by})")
        return f"the base model: {', '.join(told)}"


def read_stated(source: Source) -> Stated:
    """Read a model's files; what a dual-encoder cannot do is a UserError."""
    modules, config = _read(source, "modules.json") or [], _read(source, "config_sentence_transformers.json") or {}
    texts, tokenizer = (_read(source, name) or {} for name in ("sentence_bert_config.json", "tokenizer_config.json"))
    kinds = [one["type"].rpartition(".")[2] for one in modules]
    if kinds != MODULES[: len(kinds)]:
        raise _refused(source, f"modules.json has {', '.join(kinds)}, where {', '.join(MODULES)} can be had")
    similarity = "cosine" if "Normalize" in kinds else config.get("similarity_fn_name") if kinds else None
    if similarity not in (None, *SIMILARITIES):
        raise _refused(source, f"config_sentence_transformers.json has the similarity {similarity}")
    length = texts.get("max_seq_length") or tokenizer.get("model_max_length") or NO_LIMIT
    return Stated(
        pooling=_pooling(source, modules[1]["path"]) if "Pooling" in kinds else None,
        similarity=similarity,
        query_prefix=_prompt(config, FOR_QUERIES, FOR_PASSAGES),
        passage_prefix=_prompt(config, FOR_PASSAGES, FOR_QUERIES),
        length=length if length < NO_LIMIT else None,
        small=bool(texts.get("do_lower_case")),
    )


def readable(model: PreTrainedModel, stated: Stated) -> int | None:
    """The most tokens that the model can read; None if nothing says it."""
    found = positions(model) or getattr(model.config, "max_position_embeddings", None)
    return min((length for length in (stated.length, found) if length), default=None)


def _pooling(source: Source, folder: str) -> str:
    """The pooling of a Pooling module; newer files name it, older ones have a switch for each kind."""
    config = _read(source, f"{folder}/config.json") or {}
    named = config.get("pooling_mode") or [name for name, switch in POOLING.items() if config.get(switch)] or "mean"
    kinds = [named] if isinstance(named, str) else named
    if len(kinds) != 1 or kinds[0] not in POOLING:
        can = f"where one of {', '.join(POOLING)} can be had"
        raise _refused(source, f"{folder}/config.json pools by {' and '.join(kinds)}, {can}")
    if not config.get("include_prompt", True):
        raise _refused(source, f"{folder}/config.json leaves prompts out of what is pooled (include_prompt)")
    return kinds[0]


def _prompt(config: dict[str, Any], names: Sequence[str], others: Sequence[str]) -> str | None:
    """The first prompt of these names, or else the default one, if it is not that of the other kind of text."""
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    wanted = [*names, *([default] if default not in others else [])]
    return next((prompts[name] for name in wanted if prompts.get(name)), None)


def _refused(source: Source, what: str) -> UserError:
    cure = "take another encoder.model, or a copy of its folder without modules.json, which then is a plain transformer"
    return UserError(f"model {source.model!r}: its {what}; {cure}")


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
