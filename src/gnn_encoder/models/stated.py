"""What a model's own files state about its use, which holds where params.yaml leaves it open.

A model of sentence-transformers states in `modules.json` and in its Pooling's config how states become a vector, and
whether this gets length 1 (Normalize). `sentence_bert_config.json`, or one of its older names, or else the tokenizer's
config, has the most tokens of a text, and `config_sentence_transformers.json` what the model wants before a query and
before a passage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from gnn_encoder.base.errors import UserError
from gnn_encoder.models.files import Config, Module, Pooling, Texts, TokenizerConfig, read_file
from gnn_encoder.models.pretrained import Source
from gnn_encoder.models.structure import positions
from gnn_encoder.pipeline.params import Encoder

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
FOR_QUERIES, FOR_PASSAGES = ("query",), ("document", "passage", "corpus")  # words in the names of prompts
NAMED_AFTER = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
PLAIN = "a copy of its folder without modules.json, which then is a plain transformer"


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a model's files state; None where they do not.

    Attributes:
        length: most tokens of a text, special ones included.
        small: whether texts are written in small letters first.
        unused: names of prompts, where none is used.
    """

    pooling: str | None
    similarity: str | None
    query_prefix: str | None
    passage_prefix: str | None
    length: int | None
    small: bool
    unused: tuple[str, ...]

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
        if self.unused:
            told.append(f"without its own prompts {', '.join(self.unused)}: no name is of queries or of passages")
        return f"the base model: {', '.join(told)}"


def read_stated(source: Source) -> Stated:
    """Read a model's files; what a dual-encoder cannot do is a UserError."""
    modules = read_file(source, list[Module], "modules.json") or []
    config = read_file(source, Config, "config_sentence_transformers.json") or Config()
    inside = f"{modules[0].path}/" if modules and modules[0].path else ""
    texts = read_file(source, Texts, *(f"{inside}sentence_{kind}_config.json" for kind in NAMED_AFTER)) or Texts()
    tokenizer = read_file(source, TokenizerConfig, f"{inside}tokenizer_config.json") or TokenizerConfig()
    kinds = [one.type.rpartition(".")[2] for one in modules]
    if kinds != MODULES[: len(kinds)]:
        raise _refused(source, f"modules.json has {', '.join(kinds)}, where {', '.join(MODULES)} can be had")
    similarity = "cosine" if "Normalize" in kinds else config.similarity_fn_name if kinds else None
    if similarity not in (None, *SIMILARITIES):
        raise _refused(source, f"config_sentence_transformers.json has the similarity {similarity}")
    if kinds and config.truncate_dim is not None:
        said = f"config_sentence_transformers.json has truncate_dim {config.truncate_dim}, where all columns are taken"
        raise _refused(source, said, "remove it there, in a copy of its folder")
    length = texts.max_seq_length or tokenizer.model_max_length or NO_LIMIT
    query, passage = _prompt(config, FOR_QUERIES, FOR_PASSAGES), _prompt(config, FOR_PASSAGES, FOR_QUERIES)
    return Stated(
        pooling=_pooling(source, modules[1].path) if "Pooling" in kinds else None,
        similarity=similarity,
        query_prefix=query,
        passage_prefix=passage,
        length=int(length) if length < NO_LIMIT else None,
        small=bool(texts.do_lower_case),
        unused=() if query or passage else tuple(name for name, text in (config.prompts or {}).items() if text),
    )


def readable(model: PreTrainedModel, stated: Stated) -> int | None:
    """The most tokens that the model can read; None if nothing says it."""
    found = positions(model) or getattr(model.config, "max_position_embeddings", None)
    return min((length for length in (stated.length, found) if length), default=None)


def _pooling(source: Source, folder: str) -> str:
    """The pooling of a Pooling module; newer files name it, older ones have a switch for each kind."""
    config = read_file(source, Pooling, f"{folder}/config.json") or Pooling()
    kinds = config.pooling_mode or [name for name, switch in POOLING.items() if config.has(switch)] or ["mean"]
    if len(kinds) != 1 or kinds[0] not in POOLING:
        can = f"where one of {', '.join(POOLING)} can be had"
        raise _refused(source, f"{folder}/config.json pools by {' and '.join(kinds)}, {can}")
    if config.include_prompt is False:
        raise _refused(source, f"{folder}/config.json leaves prompts out of what is pooled (include_prompt)")
    return kinds[0]


def _prompt(config: Config, words: Sequence[str], others: Sequence[str]) -> str | None:
    """The first prompt with one of these words in its name, or else the default one, if its name has none of `others`.

    A name that is such a word goes before one that contains it, as `query` does before `sts_query`.
    """
    prompts, default = config.prompts or {}, config.default_prompt_name or ""
    named = [name for word in words for name in prompts if word in name.lower()]
    wanted = [*words, *named, *([] if any(word in default.lower() for word in others) else [default])]
    return next((found for name in wanted if (found := prompts.get(name))), None)


def _refused(source: Source, what: str, cure: str = PLAIN) -> UserError:
    return UserError(f"model {source.model!r}: its {what}; take another encoder.model, or {cure}")
