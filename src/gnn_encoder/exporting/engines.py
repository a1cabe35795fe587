"""A system's passages for search engines, with what the engine has to be told before it takes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.exporting.vectors import passage_parts
from gnn_encoder.growing.versions import current

MAPPING, BULK = "mapping.json", "bulk-{:05d}.ndjson"
COLLECTION, POINTS = "collection.json", "points.jsonl"
REQUEST_BYTES = 32 * 2**20  # Elasticsearch takes at most 100 MB a request, and advises less
ID_BYTES, DIMENSIONS = 512, 4096  # that Elasticsearch takes at most


def export_elasticsearch(system: str, folder: Path) -> None:
    """`mapping.json` makes the index; each `bulk-*.ndjson` is one request to `_bulk`: title, text and vector.

    Scores are inner products, as the system ranks. Elasticsearch's `dot_product` would not do: it refuses vectors whose
    length is not quite 1, as that of vectors is that are stored in 16 bits.

    Raises:
        UserError: the system has several vectors a passage, or Elasticsearch would refuse an id or the dimension.
    """
    manifest = read_manifest(current(system).embeddings)
    if manifest.views > 1:
        raise UserError(
            f"{system} has several vectors a passage, which one document cannot hold; take qdrant or parquet"
        )
    if manifest.shape[1] > DIMENSIONS:
        raise UserError(
            f"{system}: vectors have {manifest.shape[1]} dimensions, Elasticsearch takes at most {DIMENSIONS}; "
            "take qdrant or parquet"
        )
    vector = {"type": "dense_vector", "dims": manifest.shape[1], "index": True, "similarity": "max_inner_product"}
    vector["index_options"] = {"type": "hnsw"}  # the default rounds vectors to 8 bits
    fields = {"title": {"type": "text"}, "text": {"type": "text"}, "vector": vector}
    write_json(folder / MAPPING, {"mappings": {"dynamic": "strict", "properties": fields}})
    for number, request in enumerate(_requests(_actions(system))):
        (folder / BULK.format(number)).write_bytes(request)


def export_qdrant(system: str, folder: Path) -> None:
    """`collection.json` makes the collection; `points.jsonl` has a point a line: id (the row), vector and payload.

    A passage is one point. Several views are its multivector, whose score is that of the best view, as in our index.
    """
    manifest = read_manifest(current(system).embeddings)
    vectors: dict[str, Any] = {"size": manifest.shape[1], "distance": "Dot"}
    if manifest.views > 1:
        vectors["multivector_config"] = {"comparator": "max_sim"}
    write_json(folder / COLLECTION, {"vectors": vectors})
    with (folder / POINTS).open("w", encoding="utf-8") as file:
        for number, (payload, views) in enumerate(_passages(system, manifest.views)):
            vector = views if manifest.views > 1 else views[0]
            file.write(json.dumps({"id": number, "vector": vector, "payload": payload}, ensure_ascii=False) + "\n")


def _passages(system: str, views: int) -> Iterator[tuple[dict[str, str], list[list[float]]]]:
    """Each passage with its views. *Shape:* (views, d)."""
    for passages, vectors in passage_parts(system):
        rows, columns = passages.to_pylist()[::views], vectors.tolist()
        for number, row in enumerate(rows):
            yield row, columns[number * views : (number + 1) * views]


def _actions(system: str) -> Iterator[bytes]:
    """What `_bulk` takes for one passage: a line that names it, and a line with its fields."""
    for row, (vector,) in _passages(system, 1):
        if len(row["pid"].encode()) > ID_BYTES:
            raise UserError(
                f"passage {row['pid'][:40]!r}...: its id has {len(row['pid'].encode())} bytes, Elasticsearch takes at "
                f"most {ID_BYTES}; give shorter ids, or take qdrant or parquet"
            )
        document = {"title": row["title"], "text": row["text"], "vector": vector}
        lines = ({"index": {"_id": row["pid"]}}, document)
        yield "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def _requests(actions: Iterator[bytes]) -> Iterator[bytes]:
    """Join actions to requests of at most `REQUEST_BYTES`, unless a single one is longer."""
    joined = bytearray()
    for action in actions:
        if joined and len(joined) + len(action) > REQUEST_BYTES:
            yield bytes(joined)
            joined.clear()
        joined += action
    if joined:
        yield bytes(joined)
