"""A query log: what is one query, what is counted, and how queries are divided."""

import polars as pl
import pytest

from gnn_encoder.data.prepare import open_source
from gnn_encoder.data.queries import normal_form, split_of, stable_hash

from .conftest import Refused, Write, data_of
from .sources import LOG, LOGGED, SOURCES, YEW, lines


def test_a_floor_for_counts(folder: Write, refused: Refused) -> None:
    keys, files, *_ = SOURCES["log"]
    path = str(folder(files | {"log.tsv": files["log.tsv"] + "lime\tp2\t2\n"}))
    source = open_source(data_of(path=path, min_count=2, **keys))
    found = {split: [row for _, row in read()] for split, read in source.judgements.items()}
    assert found["train"] == [(YEW, "p2", 1, 5)] and found["test"] == [(stable_hash("lime"), "p2", 1, 2)]
    assert source.dropped() == {"rows_without_a_word": 1, "pairs_below_min_count": 4}  # yew p1, oars, oak tree, bud
    told = "log.tsv: no query and passage were logged 9 times or more; log more, or lower data.min_count"
    refused(told, path=path, min_count=9, **keys)


def test_without_counts_each_row_is_one(folder: Write) -> None:
    table = lines("user\tpid\tquery", *(f"x\t{pid}\t{query}" for query, pid, _ in LOGGED))
    source = open_source(data_of(path=str(folder(LOG | {"log.tsv": table})), **SOURCES["log"].keys))
    assert [row for _, row in source.judgements["train"]()][1:] == [(YEW, "p1", 1, 1), (YEW, "p2", 1, 2)]


def test_hash_splits_have_their_shares_and_do_not_move() -> None:
    keys = [stable_hash(str(i)) for i in range(20_000)]
    found = [split_of(key, dev=0.1, test=0.2) for key in keys]
    shares = {split: found.count(split) / len(keys) for split in ("train", "dev", "test")}
    assert shares == pytest.approx({"train": 0.72, "dev": 0.08, "test": 0.2}, abs=0.01)
    more = [split_of(key, dev=0.1, test=0.3) for key in keys]
    assert all(b == "test" for a, b in zip(found, more, strict=True) if a == "test")
    assert stable_hash("ash") == "a022a22c1a1a6a37"  # of another process, and of every other machine


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Is yew poisonous?", "is YEW\tpoisonous", True),
        ("e-mail", "e mail", True),
        ("Straße", "STRASSE", True),
        ("\u0130stanbul", "istanbul", True),
        ("pass\u00adword", "PASS\u200bword", True),  # a soft hyphen, and a blank of no width
        ("cafe\u0301", "CAFÉ", True),  # NFKC
        ("c#", "c", False),
        ("50%", "50", False),
    ],
)
def test_what_is_one_query(one: str, other: str, same: bool) -> None:
    a, b = pl.DataFrame({"text": [one, other]}).select(normal_form(pl.col("text")))["text"]
    assert (a == b) is same
