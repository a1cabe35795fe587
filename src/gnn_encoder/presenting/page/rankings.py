"""The first passages of some queries in a run, read in one pass over the file, block by block."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv

BLOCK = 8 << 20  # bytes of a block
FIELDS = {
    "qid": pa.string(),
    "Q0": pa.string(),
    "pid": pa.string(),
    "rank": pa.int32(),
    "score": pa.float32(),
    "tag": pa.string(),
}


def first_passages(run: Path, qids: pl.Series, top: int) -> pl.DataFrame:
    """The best `top` passages of the queries `qids`: columns qid, pid, rank, sorted by qid and rank.

    Args:
        run: a file that `write_run` wrote.
    """
    wanted = pl.col("qid").is_in(qids.implode()) & (pl.col("rank") <= top)
    kept = [block.filter(wanted) for block in _blocks(run)]
    return pl.concat(kept).sort("qid", "rank")


def _blocks(run: Path) -> Iterator[pl.DataFrame]:
    with pa.CompressedInputStream(pa.OSFile(str(run)), "gzip") as lines:
        reader = pa.csv.open_csv(
            lines,
            read_options=pa.csv.ReadOptions(column_names=list(FIELDS), block_size=BLOCK, use_threads=False),
            parse_options=pa.csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pa.csv.ConvertOptions(column_types=FIELDS, include_columns=["qid", "pid", "rank"]),
        )
        for batch in reader:
            yield pl.DataFrame(batch)
