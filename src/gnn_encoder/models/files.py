"""The JSON files of a model's folder or repository that state its use: the keys that are read, of checked types."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from transformers.utils.hub import cached_file

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.models.pretrained import Source, explained, resolve
from gnn_encoder.pipeline.params import Count

T = TypeVar("T")


class File(BaseModel):
    """Keys that are read; others are allowed, and so is null."""

    model_config = ConfigDict(frozen=True, strict=True)


class Module(File):
    """One of `modules.json`."""

    path: str
    type: str


class Config(File):
    """`config_sentence_transformers.json`."""

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    similarity_fn_name: str | None = None
    truncate_dim: int | None = None


class Texts(File):
    """`sentence_bert_config.json`."""

    max_seq_length: Count | None = None
    do_lower_case: bool | None = None


class TokenizerConfig(File):
    """`tokenizer_config.json`; a tokenizer without a limit states a number above those of int64, or 1e30."""

    model_max_length: Annotated[float, Field(ge=1)] | None = None


def _listed(kind: Any) -> Any:
    return [kind] if isinstance(kind, str) else kind


class Pooling(File):
    """The Pooling's `config.json`; older ones have a switch for each kind, which are the other keys."""

    model_config = ConfigDict(extra="allow")

    pooling_mode: Annotated[list[str] | None, BeforeValidator(_listed)] = None
    include_prompt: bool | None = None

    def has(self, switch: str) -> bool:
        """Whether a switch is on."""
        return bool((self.model_extra or {}).get(switch))


def read_file(source: Source, kind: type[T], *names: str) -> T | None:
    """The first file that there is of these names; None if there is none."""
    missing_is_none: dict[str, Any] = {
        f"_raise_exceptions_for_{what}": False for what in ("missing_entries", "connection_errors")
    }
    for name in names:
        with explained(source.model):
            path = cached_file(resolve(source.model), name, revision=source.revision, **missing_is_none)
        if path is not None:
            return _parsed(path, kind)
    return None


def _parsed(path: str, kind: type[T]) -> T:
    with open(path, "rb") as file:
        content = file.read()
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "the file"
        said = f"{at} is {shorten(first['input'])}: {first['msg']}"
        raise UserError(f"{path}: {said}; copy the file again from where the model is from") from error
