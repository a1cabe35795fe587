"""Tokens of a text table on disk, made once and mapped: `ids.npy`, all texts' one after another, and `offsets.npy`.

They are without a model's special tokens, which batches add (`Template`): single texts and pairs come of the same ids.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import cached, fingerprint
from gnn_encoder.base.matrix import Rows, release, spans, write_header
from gnn_encoder.base.tables import PASSAGES, QUERIES, count_rows, iterate_texts, with_title
from gnn_encoder.text.pretrained import uncut

KEPT = 8  # tokens of one table that are kept: encoders differ in what they read of a text


class Template:
    """Where a tokenizer puts its special tokens. It is read off the tokenizer's own encoding of "a" and of ("a", "a").

    The texts of `special` are what stands before, between and behind a pair (a, b), and around a single text, where
    nothing is between. The token type of b, and of what is behind it, is `second_type`, that of all before them is 0.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        single, pair = tokenizer._tokenizer.encode("a"), tokenizer._tokenizer.encode("a", "a")
        first, second = (_span(pair.sequence_ids, number) for number in (0, 1))
        alone = _span(single.sequence_ids, 0)
        self.single_prefix, self.single_suffix = single.ids[: alone.start], single.ids[alone.stop :]
        of_pair = pair.ids[: first.start], pair.ids[first.stop : second.start], pair.ids[second.stop :]
        self.special = TextTokens.of_ids([*of_pair, self.single_prefix, [], self.single_suffix])
        self.second_type = pair.type_ids[second.start]
        if tokenizer.pad_token_id is None:
            told = "its tokenizer has no padding token, which batches need; set pad_token in its tokenizer_config.json"
            raise UserError(f"{tokenizer.name_or_path}: {told}")
        self.pad = int(tokenizer.pad_token_id)


def _span(sequence_ids: list[int | None], number: int) -> slice:
    first = sequence_ids.index(number)
    return slice(first, first + sequence_ids.count(number))


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
        return cls.of_ids(_ids(texts, tokenizer, tokenizer.model_max_length))

    @classmethod
    def of_ids(cls, ids: list[list[int]]) -> Self:
        """The same of texts whose ids are known."""
        return cls(np.array([token for text in ids for token in text], dtype=np.int64), np.cumsum([0, *map(len, ids)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, rows: Rows) -> NDArray[np.int64]:
        """Tokens of each text, special ones left out. *Shape:* any -> the same."""
        return np.asarray(self.offsets[rows + 1] - self.offsets[rows])

    def fill(self, matrix: NDArray[np.int64], rows: Rows, lengths: NDArray[np.int64], at: NDArray[np.int64]) -> None:
        """Write the first `lengths[i]` tokens of text `rows[i]` into row i of `matrix` from column `at[i]` on."""
        places, row = spans(self.offsets[rows], lengths)
        columns, _ = spans(at, lengths)
        matrix[row, columns] = self.ids[places]

    def release(self) -> None:
        """Give back the memory of what was read. Called after each window, so that it does not grow with the corpus."""
        release(self.ids, self.offsets)


def open_tokens(
    table: Path, tokenizer: PreTrainedTokenizerBase, folder: Path, max_tokens: int | None = None, *, prefix: str = ""
) -> TextTokens:
    """Tokens of a table of passages or queries, made on first use and shared by all models with this tokenizer.

    They are kept in `folder`, and cut to `max_tokens` (None: to what the tokenizer's model takes). `prefix` is put
    before every text and tokenised with it, since some tokenizers read a word otherwise after a space.
    """
    max_tokens = max_tokens or tokenizer.model_max_length
    uncut(tokenizer)
    state = tokenizer._tokenizer.to_str(), tokenizer.sep_token  # which stands between title and text
    key = fingerprint(table, Path(__file__), tokenizer=state, max_tokens=max_tokens, prefix=prefix)
    make = partial(_tokenise, table, tokenizer, max_tokens, prefix)
    return TextTokens.open(cached(folder, table.stem, key, make, keep=KEPT))


def holds_passages(table: Path) -> bool:
    """Whether a table of texts is the passages', and not one of queries."""
    return table.stem == "passages"


def titled(titles: Iterable[str], texts: Iterable[str], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Passages as one text each: what stands between title and text is [SEP], as in DPR."""
    return list(map(partial(with_title, separator=f" {tokenizer.sep_token or ' '} "), titles, texts))


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
        return (rows["text"] for rows in iterate_texts(table, QUERIES, ["text"]))
    parts = iterate_texts(table, PASSAGES, ["title", "text"])
    return (titled(rows["title"], rows["text"], tokenizer) for rows in parts)
