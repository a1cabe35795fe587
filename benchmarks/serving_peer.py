"""The peer of serving.py: a plain FastAPI around `SentenceTransformer.encode` and FAISS, as tutorials write it.

python benchmarks/serving_peer.py MODEL PORT
"""

import sys
from pathlib import Path

import faiss
import polars as pl
import uvicorn
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer

SYSTEM = "gnn_encoder"


def make(model: str) -> FastAPI:
    app = FastAPI()
    encoder = SentenceTransformer(model, device="cpu")
    index = faiss.read_index(str(Path("data") / "indexes" / SYSTEM / "index.faiss"))
    passages = pl.read_parquet(Path("data") / "prepared" / "passages.parquet").to_dicts()

    @app.get("/search")
    def search(query: str, k: int = 10) -> dict[str, object]:
        vectors = encoder.encode([query])
        scores, rows = index.search(vectors, k)
        found = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        hits = [{"rank": rank, "score": score, **passages[row]} for rank, (row, score) in enumerate(found, 1)]
        return {"query": query, "hits": hits}

    return app


if __name__ == "__main__":
    uvicorn.run(make(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)
