"""BM25 in Lucene's form over titles and texts (bm25s): the first candidates, and the lexical system to compare with.

What a word is says `base.words`. A passage d scores, for a query q (Kamphuis et al. 2020, "Lucene (accurate)"):

    sum over the words t of q:  log(1 + (N - df_t + 0.5) / (df_t + 0.5)) * tf / (tf + k1 * (1 - b + b * |d| / avgdl))
"""

import json
import logging
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import bm25s
import numpy as np
from bm25s import stopwords

from gnn_encoder.base.distributed import cores, tqdm
from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.files import write_json
from gnn_encoder.base.matrix import Scores
from gnn_encoder.base.tables import PASSAGES, count_rows, iterate_texts, with_title
from gnn_encoder.base.words import CHARACTER, words
from gnn_encoder.pipeline.params import BM25, Stemmer, StopWords
from gnn_encoder.search.exact import Ranking, top

ANALYSIS = "analysis.json"
K1, B = 0.9, 0.4
FEWEST = 64  # queries of a thread
WORDS_KEPT = 2**20  # whose stems stay in memory
BLOCK = 2**20  # passages whose scores are in memory at a time, which a processor caches
logging.getLogger("bm25s").setLevel(logging.WARNING)  # importing bm25s sets DEBUG


def word_splitter(stop_words: StopWords | None, stemmer: Stemmer | None) -> Callable[[str], list[str]]:
    """What cuts a text into words, without a language's stop words, or into a language's Snowball stems of them."""
    unwanted, stem = frozenset[str](), None
    if stop_words is not None:
        name = "EN" if stop_words == "english" else stop_words.upper()
        unwanted = frozenset(getattr(stopwords, f"STOPWORDS_{name}"))
    if stemmer is not None:
        from nltk.stem.snowball import SnowballStemmer  # takes half a second to import

        stem = lru_cache(WORDS_KEPT)(SnowballStemmer(stemmer).stem)

    def split(text: str) -> list[str]:
        kept = [word for word in words(text) if word not in unwanted]
        return kept if stem is None else [stem(word) for word in kept]

    return split


@dataclass(frozen=True)
class BM25Index:
    """A searchable index, just built or mapped from disk: 8 bytes for each pair of a passage and a word in it."""

    analysis: dict[str, Any]  # the arguments of `word_splitter`
    split: Callable[[str], list[str]]
    index: bm25s.BM25

    @classmethod
    def build(cls, passages: Path, section: BM25) -> Self:
        """Index the passages table in memory: 7.1 GiB at the peak for 8.8 million passages of 30 words."""
        how: dict[str, Any] = {"stop_words": section.stop_words, "stemmer": section.stemmer}
        split, numbers, found = word_splitter(**how), dict[str, int](), []
        with tqdm(total=count_rows(passages), desc="bm25: index", unit=" passages") as bar:
            for batch in iterate_texts(passages, PASSAGES, ["title", "text"]):
                for text in map(with_title, batch["title"], batch["text"]):
                    found.append(array("i", [numbers.setdefault(word, len(numbers)) for word in split(text)]))
                bar.update(len(batch["title"]))
        if not numbers:
            raise UserError(f"{passages}, text: no passage has a word besides stop words; bm25 cannot index the corpus")
        index = bm25s.BM25(k1=K1, b=B, method="lucene", csc_backend="scipy")
        index.index((found, numbers), create_empty_token=False, show_progress=False)
        return cls(how, split, index)

    def save(self, folder: Path) -> None:
        """Write the index in bm25s's own form, arrays to map and the words as JSON; and how words are cut."""
        self.index.save(folder, show_progress=False)
        write_json(folder / ANALYSIS, self.analysis)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map a saved index: only its words are read, and of its postings those of a query's words."""
        try:
            index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
            how = json.loads((folder / ANALYSIS).read_text(encoding="utf-8"))
            return cls(how, word_splitter(**how), index)
        except FileNotFoundError as error:
            raise not_built(error.filename) from error
        except (ValueError, TypeError, EOFError) as error:  # of JSON and of numpy
            raise UserError(f"{folder}: damaged ({error}); make it again (`dvc repro -f first_retrievers`)") from error

    @property
    def passages(self) -> int:
        """Passages indexed."""
        return int(self.index.scores["num_docs"])

    def search(self, texts: Sequence[str], depth: int) -> Ranking:
        """Rows of the best passages that share a word with each query, padded with -1, and scores, padded with 0.

        *Shape:* (texts, depth) both, best first; passages with equal scores stand in the order of the table.
        """
        passages = np.full((len(texts), depth), -1, dtype=np.int32)
        scores = np.zeros((len(texts), depth), dtype=np.float32)
        words_of = [self._numbers(text) for text in texts]
        threads = max(1, min(cores(), len(texts) // FEWEST))
        bar = tqdm(total=len(texts), desc="bm25: search", unit=" queries", delay=2)

        def search_some(first: int) -> None:
            room = np.zeros(BLOCK, dtype=np.float32)
            for i in range(first, len(texts), threads):
                rows, values = self._best(words_of[i], depth, room)
                passages[i, : len(rows)], scores[i, : len(rows)] = rows, values
                bar.update()

        with bar, ThreadPoolExecutor(threads) as pool:  # NumPy lets other threads run while it works on whole lists
            list(pool.map(search_some, range(threads)))
        return passages, scores

    def _numbers(self, text: str) -> list[int]:
        """Numbers of a query's words. One character of a script without spaces asks for all words that hold it."""
        found, known = self.split(text), self.index.vocab_dict
        if len(found) == 1 and CHARACTER.fullmatch(found[0]):
            return [number for word, number in known.items() if found[0] in word]
        return [known[word] for word in found if word in known]

    def _best(self, ids: list[int], depth: int, room: Scores) -> Ranking:
        """Rows and scores of the best passages of those in the lists of a query's words.

        A list's passages bound the last place from below, so that few of the next are kept; the rarest word comes
        first. `room` holds zeros, before and afterwards. *Shape:* (BLOCK,) -> (<= depth,) both, best first.
        """
        data, indices, ends = (np.asarray(self.index.scores[name]) for name in ("data", "indices", "indptr"))
        firsts = np.arange(0, self.passages + BLOCK, BLOCK, dtype=indices.dtype)
        cuts = [ends[word] + np.searchsorted(indices[ends[word] : ends[word + 1]], firsts) for word in ids]
        lowest, found = np.float32(0), [(np.empty(0, dtype=np.intp), room[:0])]
        for number, first in enumerate(firsts[:-1]):
            parts = [slice(*cut[number : number + 2]) for cut in cuts]
            lists = [indices[part].astype(np.intp) - first for part in parts]
            for part, rows in zip(parts, lists, strict=True):
                room[rows] = room.take(rows) + data[part]
            for rows in sorted(lists, key=len):
                scores = room.take(rows)
                room[rows] = 0  # a passage in a later list too is found once
                kept = np.flatnonzero(scores >= lowest) if lowest else np.flatnonzero(scores)
                found.append((rows[kept] + first, scores[kept]))
                if len(kept) > depth:
                    lowest = np.partition(found[-1][1], -depth)[-depth]
        of_lists = [np.concatenate(parts)[None] for parts in zip(*found, strict=True)]
        best = top(of_lists[0], of_lists[1], depth)
        return best[0][0], best[1][0]
