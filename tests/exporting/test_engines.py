"""Search engines that load an export find the ten passages that the system itself finds."""

import json
from pathlib import Path
from typing import Any

import duckdb
import faiss
import lancedb
import numpy as np
import pyarrow.parquet as pq
import pytest
from qdrant_client import QdrantClient, models

from gnn_encoder import Searcher
from gnn_encoder.core.errors import UserError
from gnn_encoder.exporting import command, engines
from gnn_encoder.pipeline import project

from .conftest import VIEWS, top

K = 10
SYSTEMS = ["gnn_encoder", "dual_cross"]


@pytest.fixture(params=SYSTEMS)
def system(root: Path, request: pytest.FixtureRequest) -> str:
    return str(request.param)


def expected(system: str, texts: list[str]) -> tuple[list[list[str]], list[np.ndarray]]:
    """The ids that the system finds for each text, and the texts' vectors."""
    opened = Searcher.open(project.index(system))
    return [top(opened, text, K) for text in texts], list(opened.encoder.embed_queries(texts))


def distinct(pids: list[str]) -> list[str]:
    """The first `K` of them, each once."""
    return list(dict.fromkeys(pids))[:K]


def test_qdrant(system: str, asked: list[str], tmp_path: Path) -> None:
    command.export(system, "qdrant", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "collection.json").read_text())["vectors"]
    points = [json.loads(line) for line in (tmp_path / "out" / "points.jsonl").read_text().splitlines()]
    client = QdrantClient(":memory:")
    client.create_collection("passages", vectors_config=models.VectorParams(**config))
    client.upload_points("passages", [models.PointStruct(**point) for point in points])
    assert client.count("passages").count == 120
    found, vectors = expected(system, asked)
    for pids, vector in zip(found, vectors, strict=True):
        query = vector.tolist() if VIEWS[system] == 1 else [vector.tolist()]  # a multivector of one
        answer = client.query_points("passages", query=query, limit=K).points
        assert [point.payload["pid"] for point in answer] == pids


def test_duckdb_reads_the_parquet_file(system: str, asked: list[str], tmp_path: Path) -> None:
    command.export(system, "parquet", tmp_path / "out")
    database = duckdb.connect()
    statement = f"""
        SELECT pid, max(array_inner_product(vector::FLOAT[32], $query::FLOAT[32])) AS score
        FROM read_parquet('{tmp_path}/out/vectors.parquet') GROUP BY pid ORDER BY score DESC LIMIT {K}
    """
    found, vectors = expected(system, asked)
    for pids, vector in zip(found, vectors, strict=True):
        assert [row[0] for row in database.execute(statement, {"query": vector.tolist()}).fetchall()] == pids


def test_lancedb_takes_the_parquet_file(system: str, asked: list[str], tmp_path: Path) -> None:
    command.export(system, "parquet", tmp_path / "out")
    table = lancedb.connect(tmp_path / "lance").create_table("passages", pq.read_table(tmp_path / "out"))
    found, vectors = expected(system, asked)
    for pids, vector in zip(found, vectors, strict=True):
        answer = table.search(vector).distance_type("dot").limit(K * VIEWS[system]).to_list()
        assert distinct([row["pid"] for row in answer]) == pids


def test_faiss(system: str, asked: list[str], tmp_path: Path) -> None:
    command.export(system, "faiss", tmp_path / "out")
    index = faiss.read_index(str(tmp_path / "out" / "index.faiss"))
    ids = (tmp_path / "out" / "ids.txt").read_text().split()
    assert len(ids) == index.ntotal == 120 * VIEWS[system]
    found, vectors = expected(system, asked)
    _, rows = index.search(np.stack(vectors), K * VIEWS[system])
    assert [distinct([ids[row] for row in line]) for line in rows] == found


def test_pgvector(system: str, asked: list[str], tmp_path: Path, postgres: str) -> None:
    """With all vectors compared, and through its HNSW index."""
    import psycopg

    command.export(system, "parquet", tmp_path / "out")
    statement = "SELECT pid FROM passages ORDER BY vector <#> %s::vector LIMIT %s"
    found, vectors = expected(system, asked)
    with psycopg.connect(postgres) as database:
        database.execute("CREATE EXTENSION IF NOT EXISTS vector")
        database.execute("CREATE TEMPORARY TABLE passages (pid text, vector vector(32))")
        with database.cursor().copy("COPY passages FROM STDIN") as copy:
            for row in pq.read_table(tmp_path / "out", columns=["pid", "vector"]).to_pylist():
                copy.write_row((row["pid"], str(row["vector"])))

        def top_ten(vector: np.ndarray) -> list[str]:
            limits = str(vector.tolist()), K * VIEWS[system]
            return distinct([pid for (pid,) in database.execute(statement, limits)])

        assert [top_ten(vector) for vector in vectors] == found
        database.execute("CREATE INDEX ON passages USING hnsw (vector vector_ip_ops)")
        database.execute("SET LOCAL enable_seqscan = off")
        database.execute("SET LOCAL hnsw.ef_search = 400")
        plan = database.execute(f"EXPLAIN {statement}", (str(vectors[0].tolist()), K)).fetchall()
        assert any("Index Scan using passages_vector_idx" in line for (line,) in plan)
        assert [top_ten(vector) for vector in vectors] == found


def elasticsearch(folder: Path) -> dict[str, Any]:
    """Index the bulk files as the mapping says, and refuse what Elasticsearch would refuse."""
    mapping = json.loads((folder / "mapping.json").read_text())["mappings"]
    fields, documents = mapping["properties"], {}
    for file in sorted(folder.glob("bulk-*.ndjson")):
        content = file.read_bytes()
        assert content.endswith(b"\n") and b"\n\n" not in content and len(content) < 100e6
        lines = [json.loads(line) for line in content.splitlines()]
        assert len(lines) % 2 == 0
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            assert list(action) == ["index"] and list(action["index"]) == ["_id"]
            assert 0 < len(action["index"]["_id"].encode()) <= 512
            assert mapping["dynamic"] == "strict" and set(document) <= set(fields)
            for name, value in document.items():
                check = {"text": lambda v, f: isinstance(v, str), "dense_vector": is_vector}[fields[name]["type"]]
                assert check(value, fields[name]), name
            documents[action["index"]["_id"]] = document
    return documents


def is_vector(value: Any, field: dict[str, Any]) -> bool:
    """Dimensions are as the mapping says, and `dot_product` takes vectors of length 1 alone, as Lucene checks it."""
    unit = abs(float(np.dot(value, value)) - 1) <= 1e-4
    return len(value) == field["dims"] and np.isfinite(value).all() and (unit or field["similarity"] != "dot_product")


def test_elasticsearch(root: Path, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "REQUEST_BYTES", 20_000)
    command.export("gnn_encoder", "elasticsearch", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("bulk-*.ndjson"))) > 3
    documents = elasticsearch(tmp_path / "out")
    assert len(documents) == 120
    matrix = np.array([document["vector"] for document in documents.values()], np.float32)
    found, vectors = expected("gnn_encoder", asked)
    for pids, vector in zip(found, vectors, strict=True):
        assert [list(documents)[row] for row in np.argsort(-(matrix @ vector), kind="stable")[:K]] == pids


def test_elasticsearch_s_mapping(root: Path, tmp_path: Path) -> None:
    """Every word of it is one that Elasticsearch 8.11 and newer documents."""
    command.export("gnn_encoder", "elasticsearch", tmp_path / "out")
    vector = {"type": "dense_vector", "dims": 32, "index": True, "similarity": "max_inner_product"}
    assert json.loads((tmp_path / "out" / "mapping.json").read_text()) == {
        "mappings": {
            "dynamic": "strict",
            "properties": {
                "title": {"type": "text"},
                "text": {"type": "text"},
                "vector": vector | {"index_options": {"type": "hnsw"}},
            },
        }
    }


def test_what_elasticsearch_would_refuse(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ID_BYTES", 5)
    with pytest.raises(
        UserError, match=r"'bread-7'\.\.\.: its id has 7 bytes, Elasticsearch takes at most 5; give shorter"
    ):
        command.export("gnn_encoder", "elasticsearch", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(engines, "DIMENSIONS", 31)
    with pytest.raises(UserError, match="gnn_encoder: vectors have 32 dimensions, Elasticsearch takes at most 31"):
        command.export("gnn_encoder", "elasticsearch", tmp_path / "out")


def test_dot_product_would_be_refused(root: Path, tmp_path: Path) -> None:
    """Why the mapping asks for `max_inner_product`: vectors of 16 bits are not of length 1 as Lucene checks it."""
    matrix = np.load(project.embeddings("gnn_encoder") / "embeddings.npy").astype(np.float32)
    assert not all(is_vector(vector, {"dims": 32, "similarity": "dot_product"}) for vector in matrix)
