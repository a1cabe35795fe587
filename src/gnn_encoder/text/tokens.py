"""Tokens of a text table on disk: the table is tokenised once, and every later stage maps the files into memory.

There are two files: `ids.npy`, the token ids of all texts without special tokens, one text after another, and
`offsets.npy`, where each text begins. Batches add a model's special tokens (`Template`), so that a query, a passage
and a pair for the cross-encoder all come from the same ids.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import cached, fingerprint
from gnn_encoder.base.matrix import Rows, release, spans, write_header
from gnn_encoder.base.tables import PASSAGES, QUERIES, count_rows, iterate_texts, with_title
from gnn_encoder.text.batches import Batch, padded
from gnn_encoder.text.pretrained import uncut

KEPT = 8  # tokens of one table that are kept: encoders differ in what they read of a text


class Template:
    """Where a tokenizer puts its special tokens. It is read off the tokenizer's own encoding of "a" and of ("a", "a").

    A single text a becomes `prefix a single_suffix`, a pair (a, b) becomes `prefix a middle b suffix`. The token type
    of b and of the suffix is `second_type`, that of all before them is 0.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        single, pair = tokenizer._tokenizer.encode("a"), tokenizer._tokenizer.encode("a", "a")
        first, second = (_span(pair.sequence_ids, number) for number in (0, 1))
        self.prefix = pair.ids[: first.start]
        self.middle = pair.ids[first.stop : second.start]
        self.suffix = pair.ids[second.stop :]
        self.single_suffix = single.ids[_span(single.sequence_ids, 0).stop :]
        self.second_type = pair.type_ids[second.start]
        if tokenizer.pad_token_id is None:
            raise UserError(
                f"{tokenizer.name_or_path}: its tokenizer has no padding token, which batches need; set pad_token in "
                "its tokenizer_config.json"
            )
        self.pad = int(tokenizer.pad_token_id)


def _span(sequence_ids: list[int | None], number: int) -> slice:
    at = [i for i, sequence in enumerate(sequence_ids) if sequence == number]
    return slice(at[0], at[-1] + 1)


class TextTokens:
    """Token ids of texts without special ones: text i has ids[offsets[i]:offsets[i + 1]]."""

    def __init__(self, ids: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the tokens of a table."""
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets")))

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Self:
        """Tokens of a few texts, in memory."""
        ids = _ids(texts, tokenizer, tokenizer.model_max_length)
        return cls(np.array([token for text in ids for token in text], dtype=np.int64), np.cumsum([0, *map(len, ids)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """Tokens of each text, special ones left out. *Shape:* (n,)."""
        return np.asarray(self.offsets[rows + 1] - self.offsets[rows])

    def fill(self, matrix: NDArray[np.int64], rows: Rows, lengths: NDArray[np.int64], at: NDArray[np.int64]) -> None:
        """Write the first `lengths[i]` tokens of text `rows[i]` into row i of `matrix` from column `at[i]` on."""
        places, row = spans(self.offsets[rows], lengths)
        columns, _ = spans(at, lengths)
        matrix[row, columns] = self.ids[places]

    def release(self) -> None:
        """Give back the memory of what was read. Called after each window, so that it does not grow with the corpus."""
        release(self.ids, self.offsets)


def pair_lengths(
    first: NDArray[np.int64], second: NDArray[np.int64], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token counts of both texts of each pair, cut to `budget` tokens together.

    The longer text is cut first, as by `longest_first` of the tokenizers library. If the budget is odd, its last token
    goes to the longer text, or to the second of two equally long ones.

    *Shape:* (n,), (n,) -> (n,), (n,).
    """
    shorter = np.minimum(np.minimum(first, second), budget // 2)
    longer = np.minimum(np.maximum(first, second), budget - shorter)
    return np.where(first > second, longer, shorter), np.where(first > second, shorter, longer)


def text_batch(
    first: TextTokens,
    first_rows: Rows,
    second: TextTokens,
    second_rows: Rows,
    template: Template,
    length: int,
    single_length: int | None = None,
) -> Batch:
    """Pairs of texts with their special tokens; where `first_rows` is -1 the second text alone.

    A pair is cut to `length` tokens in all, the longer text first; a text alone to `single_length`, or the same.

    *Shape:* rows (n,), (n,) -> (n, tokens).
    """
    is_pair, begin, single_length = first_rows >= 0, len(template.prefix), single_length or length
    middle, suffix, alone = (len(ids) for ids in (template.middle, template.suffix, template.single_suffix))
    first_rows = np.maximum(first_rows, 0)
    whole = second.lengths(second_rows)
    a, b = pair_lengths(first.lengths(first_rows), whole, length - begin - middle - suffix)
    a, b = np.where(is_pair, a, 0), np.where(is_pair, b, np.minimum(whole, single_length - begin - alone))
    at = begin + a + np.where(is_pair, middle, 0)
    end = at + b + np.where(is_pair, suffix, alone)
    kinds = ((is_pair, length), (~is_pair, single_length))
    width = max(min(most, padded(int(end[kind].max()))) for kind, most in kinds if kind.any())
    matrix = np.full((len(is_pair), width), template.pad, dtype=np.int64)
    matrix[:, :begin] = template.prefix
    first.fill(matrix, first_rows, a, np.full(len(a), begin))
    second.fill(matrix, second_rows, b, at)
    pairs, singles = np.flatnonzero(is_pair), np.flatnonzero(~is_pair)
    for rows, place, ids in (
        (pairs, begin + a, template.middle),
        (pairs, at + b, template.suffix),
        (singles, at + b, template.single_suffix),
    ):
        for i, token in enumerate(ids):
            matrix[rows, place[rows] + i] = token
    column = np.arange(width)
    mask = column < end[:, None]
    types = np.where(is_pair[:, None] & mask & (column >= at[:, None]), template.second_type, 0)
    return Batch(torch.from_numpy(matrix), torch.from_numpy(mask.astype(np.int64)), torch.from_numpy(types))


def single_batch(tokens: TextTokens, rows: Rows, template: Template, max_length: int) -> Batch:
    """Texts alone with their special tokens, cut to `max_length` tokens in all. *Shape:* rows (n,) -> (n, tokens)."""
    return text_batch(tokens, np.full(len(rows), -1), tokens, rows, template, max_length)


def open_tokens(
    table: Path, tokenizer: PreTrainedTokenizerBase, folder: Path, max_tokens: int | None = None, *, prefix: str = ""
) -> TextTokens:
    """Tokens of a table of passages or queries, made on first use and shared by all models with this tokenizer.

    Args:
        table: passages.parquet or a queries table.
        folder: where tokens are kept; of a table's, those used last stay.
        max_tokens: longer texts are cut to this length; None: to what the tokenizer's model takes.
        prefix: put before every text, and tokenised with it, since some tokenizers read a word otherwise after a space.
    """
    max_tokens = max_tokens or tokenizer.model_max_length
    uncut(tokenizer)
    state = tokenizer._tokenizer.to_str()
    key = fingerprint(table, Path(__file__), tokenizer=state, max_tokens=max_tokens, prefix=prefix)
    make = partial(_tokenise, table, tokenizer, max_tokens, prefix)
    return TextTokens.open(cached(folder, table.stem, key, make, keep=KEPT))


def holds_passages(table: Path) -> bool:
    """Whether a table of texts is the passages', and not one of queries."""
    return table.stem == "passages"


def title_separator(tokenizer: PreTrainedTokenizerBase) -> str:
    """What stands between a passage's title and its text: [SEP], as in DPR."""
    return f" {tokenizer.sep_token or ' '} "


def _ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> list[list[int]]:
    uncut(tokenizer)
    encoded = tokenizer._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [one.ids[:max_tokens] for one in encoded]


def _tokenise(table: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int, prefix: str, folder: Path) -> None:
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.int32)
    offsets = [np.zeros(1, dtype=np.int64)]
    bar = tqdm(total=count_rows(table), desc=f"tokenise {table.stem}", unit=" texts")
    with (folder / "ids.npy").open("wb") as file, bar:
        write_header(file, dtype, (0,))
        for texts in _texts(table, tokenizer):
            ids = [np.asarray(one, dtype) for one in _ids([prefix + text for text in texts], tokenizer, max_tokens)]
            offsets.append(offsets[-1][-1] + np.cumsum([len(one) for one in ids]))
            file.write(np.concatenate(ids).tobytes())
            bar.update(len(texts))
        file.seek(0)
        write_header(file, dtype, (int(offsets[-1][-1]),))  # as long as the first one: numpy leaves room in it
    np.save(folder / "offsets.npy", np.concatenate(offsets))


def _texts(table: Path, tokenizer: PreTrainedTokenizerBase) -> Iterator[list[str]]:
    if not holds_passages(table):
        yield from (rows["text"] for rows in iterate_texts(table, QUERIES, ["text"]))
        return
    separator = title_separator(tokenizer)
    for rows in iterate_texts(table, PASSAGES, ["title", "text"]):
        yield [with_title(t, x, separator) for t, x in zip(rows["title"], rows["text"], strict=True)]
