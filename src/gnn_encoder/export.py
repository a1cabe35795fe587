"""`gnn-encoder export`: trained systems and their data in other tools' formats."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer
from transformers import AutoConfig

from gnn_encoder import __version__
from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import check_undamaged, read_json, replacing, write_json, write_text
from gnn_encoder.base.matrix import Matrix, open_matrix, read_manifest, release
from gnn_encoder.base.tables import PASSAGES, SPLITS, count_rows, open_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import registry
from gnn_encoder.search.faiss_index import INDEX, PID_TABLE, PIDS, PassageIndex, check_ids
from gnn_encoder.text.encoder import SETTINGS, DualEncoderSettings
from gnn_encoder.text.pretrained import MODULES, POOLING

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
OWN = (SETTINGS, "history.csv", "manifest.json", TOKENIZER, TOKENIZER_CONFIG)  # those that are not copied
IDS = "ids.txt"
ROWS = 4096  # vectors that are written together
CARD = """---
library_name: sentence-transformers
pipeline_tag: feature-extraction
tags: [dense-retrieval, query-encoder, gnn-encoder]
---

# Query encoder of {title}

This model embeds **search queries** of at most {settings.query_length} tokens for the retrieval system *{title}*. A
passage's score for a query is the inner product of both vectors. It ranks the passages of one query. It is no
probability, and scores of two queries do not compare. Measure it before you use it on subjects or languages other than
its training data's.

`sentence_transformers.SentenceTransformer("folder/of/this/file").encode(["a query"])` cuts, pools and scales queries
as training did, and so does a text-embedding server.{also}

{passages} Take the passages' vectors from `gnn-encoder export --to parquet` or `faiss`.

Written by gnn-encoder {version}, with these settings: `{told}`.

The code that trained this model is under the Apache License 2.0. Its weights derive from data and a base model, whose
terms apply; NOTICE in the project names those of its default experiment.
"""
DOT = " Tell the server not to normalise (`normalize: false`), since these vectors have lengths that matter."
PREFIX = " Before every query stands {!r}; a text-embedding server needs `--default-prompt-name query` to put it there."


def export_system(system: str, to: str, folder: Path) -> list[Path]:
    """Write a built system to a new folder, whole, and name the files."""
    if to not in FORMATS:
        raise UserError(f"--to is {to!r}: must be one of {', '.join(FORMATS)}")
    with replacing(folder) as beside:
        FORMATS[to](system, beside)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def export_sentence_transformer(system: str, folder: Path) -> None:
    """The query side of a dual-encoder, with the files by which sentence-transformers and servers make an embedding."""
    encoder = project.encoder(system)
    settings = read_json(encoder / SETTINGS, DualEncoderSettings)
    check_undamaged(encoder)
    for file in encoder.iterdir():  # configuration and weights, and whatever else the model was saved with
        if file.is_file() and file.name not in OWN:
            shutil.copyfile(file, folder / file.name)
    write_tokenizer(encoder, folder, settings.query_length)
    is_cosine, prefix = settings.similarity == "cosine", settings.query_prefix
    modules: list[dict[str, object]] = []
    for i, kind in enumerate(MODULES if is_cosine else MODULES[:2]):
        path = f"{i}_{kind}" if i else ""
        modules.append({"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"})
        (folder / path).mkdir(exist_ok=True)
    pooling: dict[str, object] = {switch: kind == settings.pooling for kind, switch in POOLING.items()}
    pooling["word_embedding_dimension"] = AutoConfig.from_pretrained(encoder).hidden_size
    prompts = {"prompts": {"query": prefix}, "default_prompt_name": "query" if prefix else None}
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": settings.query_length, "do_lower_case": False})
    # The similarity is dot, since passages' vectors may have any length, which counts.
    write_json(folder / "config_sentence_transformers.json", prompts | {"similarity_fn_name": "dot"})
    also = ("" if is_cosine else DOT) + (PREFIX.format(prefix) if prefix else "")
    write_text(folder / "README.md", card(system, settings, also))


def write_tokenizer(encoder: Path, target: Path, length: int) -> None:
    """Copy the tokenizer, and let it cut queries at `length` tokens, as training did, and pad a batch, by itself."""
    config = read_json(encoder / TOKENIZER_CONFIG, dict[str, Any])
    config.pop("max_length", None)  # that of a call, which some models were saved with
    write_json(target / TOKENIZER_CONFIG, config | {"model_max_length": length, "padding_side": "right"})
    tokenizer, pad = Tokenizer.from_file(str(encoder / TOKENIZER)), config["pad_token"]
    name = pad["content"] if isinstance(pad, dict) else pad
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(name), pad_token=name)
    tokenizer.save(str(target / TOKENIZER))


def card(system: str, settings: DualEncoderSettings, also: str) -> str:
    """The model card as Markdown with the front matter of a model hub."""
    entry = registry().dense[system]
    passages = "**Do not embed passages with this model**: the system's passage vectors were made otherwise."
    if entry.kind == "plain" and settings.shared:
        prefix = f" and with {settings.passage_prefix!r} before each" if settings.passage_prefix else ""
        passages = f"Passages were embedded by these same weights, cut at {settings.passage_length} tokens{prefix}."
    told = {"title": entry.title, "passages": passages, "version": __version__, "told": json.dumps(asdict(settings))}
    return CARD.format(settings=settings, also=also, **told)


def export_parquet(system: str, folder: Path) -> None:
    """`vectors.parquet`: columns pid, title, text, vector (a list of float32 of fixed size)."""
    columns = read_manifest(project.embeddings(system)).shape[1]
    schema = pa.schema([*PASSAGES, ("vector", pa.list_(pa.float32(), columns))])
    with pq.ParquetWriter(folder / "vectors.parquet", schema) as writer:
        for passages, vectors in passage_parts(system):
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), columns)
            writer.write_table(pa.table([*passages.columns, column], schema=schema))


def export_faiss(system: str, folder: Path) -> None:
    """`index.faiss`, the index that is searched, and `ids.txt`: FAISS's id i is the passage of line i."""
    index = PassageIndex.open(project.index(system))
    index.check_encoder(project.encoder(system))
    check_undamaged(index.folder)
    shutil.copyfile(index.folder / INDEX, folder / INDEX)
    with (folder / IDS).open("w", encoding="utf-8") as ids:
        for batch in open_table(index.folder / PIDS, PID_TABLE).iter_batches():
            ids.writelines(f"{pid}\n" for pid in batch["pid"].to_pylist() for _ in range(index.views))


def passage_parts(system: str) -> Iterator[tuple[pa.Table, Matrix]]:
    """Passages and their vectors, in the passages' order; a passage with several views stands before each of them."""
    folder = project.embeddings(system)
    PassageIndex.open(project.index(system)).check_encoder(project.encoder(system))
    check_ids(project.index(system), project.PASSAGES)
    check_undamaged(project.PASSAGES)
    matrix, views, first = open_matrix(folder), read_manifest(folder).views, 0
    batches = open_table(project.PASSAGES, PASSAGES).iter_batches(batch_size=max(1, ROWS // views))
    for batch in tqdm(batches, total=-(-len(matrix) // ROWS), desc="vectors", unit=" parts"):
        last, at = first + len(batch) * views, np.repeat(np.arange(len(batch)), views)
        yield pa.Table.from_batches([batch]).take(pa.array(at)), matrix[first:last].astype(np.float32)
        release(matrix)
        first = last


def export_beir(system: str, folder: Path) -> None:
    """`corpus.jsonl`, `queries.jsonl` and `qrels/{train,dev,test}.tsv`. It is the same for every system.

    If an id means two queries, or a query and a passage, which BEIR's evaluation drops, every query's id gets its split
    in front: `dev-17`.
    """
    check_undamaged(project.PREPARED)
    for split in SPLITS:
        if not count_rows(project.qrels(split)):
            raise UserError(f"{project.qrels(split)}: holds no judgements, by which alone BEIR judges a split")
    passages = pl.scan_parquet(project.PASSAGES)
    queries = pl.concat([pl.read_parquet(project.queries(split)).with_columns(split=pl.lit(split)) for split in SPLITS])
    shared = passages.select("pid").filter(pl.col("pid").is_in(queries["qid"].implode())).collect(engine="streaming")
    is_shared = len(shared) > 0 or queries["qid"].is_duplicated().any()
    name = pl.format("{}-{}", "split", "qid") if is_shared else pl.col("qid")
    passages.select(pl.col("pid").alias("_id"), "title", "text").sink_ndjson(folder / "corpus.jsonl")
    queries.select(name.alias("_id"), "text").write_ndjson(folder / "queries.jsonl")
    (folder / "qrels").mkdir()
    for split in SPLITS:
        columns = {"query-id": name, "corpus-id": pl.col("pid"), "score": pl.col("grade")}
        judged = pl.read_parquet(project.qrels(split)).with_columns(split=pl.lit(split)).select(**columns)
        judged.write_csv(folder / "qrels" / f"{split}.tsv", separator="\t", quote_style="never")


FORMATS: dict[str, Callable[[str, Path], None]] = {
    "sentence-transformers": export_sentence_transformer,
    "parquet": export_parquet,
    "faiss": export_faiss,
    "beir": export_beir,
}
