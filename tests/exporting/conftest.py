"""A built system over the tiny corpus, as `dvc repro` leaves one: what is exported, and what exports must equal."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import yaml

from gnn_encoder import Searcher
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.arrays import ArrayManifest, ArrayWriter
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source
from gnn_encoder.index.build import build
from gnn_encoder.models.dual_encoder import DualEncoder, DualEncoderSettings
from gnn_encoder.models.pretrained import Source, load_model, load_tokenizer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

ROOT = Path(__file__).parents[2]
VIEWS = {"gnn_encoder": 1, "dual_encoder": 1, "dual_cross": 3}  # vectors a passage


def save_encoder(folder: Path, model: Path, pooling: str = "mean", similarity: str = "cosine") -> DualEncoder:
    """Save the model as a dual-encoder that reads 16 tokens of a query."""
    source = Source(str(model))
    network = load_model(source, dropout=0.0)
    settings = DualEncoderSettings(
        pooling=pooling, similarity=similarity, temperature=1.0, shared=True, query_length=16, passage_length=32
    )
    tokenizer = load_tokenizer(source)
    encoder = DualEncoder(query=network, passage=network, tokenizer=tokenizer, settings=settings, precision="fp32")
    encoder.save(folder)
    return encoder.for_inference()


def save_index(system: str, encoder: DualEncoder, views: int) -> None:
    """Passages as the encoder has them, moved towards every other query that asks for them; length 1 in float16."""
    texts = np.repeat(read_column(project.PASSAGES, "text").to_pylist(), views).tolist()
    vectors = encoder.embed_queries(texts)
    for split in ("dev", "test"):
        asked = encoder.embed_queries(read_column(project.queries(split), "text").to_pylist())
        pairs = relevant_pairs(project.queries(split), project.qrels(split), project.PASSAGES)
        for query, passage in pairs.rows()[::2]:
            vectors[passage * views] += asked[query]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    names = {"model_fingerprint": "", "input_fingerprint": "", "fingerprint": system}
    with ArrayWriter(project.embeddings(system), vectors.shape, "float16") as writer:
        writer.write(0, vectors)
        writer.finish(ArrayManifest(shape=vectors.shape, dtype="float16", views=views, **names))
    folders = project.embeddings(system), project.index(system)
    build(*folders, factory="Flat", pids=project.PASSAGES, system=system, seed=0)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, tiny_params: Params, tiny_model: Path, tiny_corpus: Path) -> Path:
    """The project's folder."""
    root = tmp_path_factory.mktemp("built")
    data = tiny_params.data.model_copy(update={"path": str(tiny_corpus)})
    params = tiny_params.model_copy(update={"data": data})
    with chdir(root):
        Path("systems.yaml").write_bytes((ROOT / "systems.yaml").read_bytes())
        Path("params.yaml").write_text(yaml.safe_dump(params.model_dump()), encoding="utf-8")
        prepare(data, open_source(data), project.PREPARED, seed=params.seed)
        made = {"data": data.model_dump(), "seed": params.seed}
        write_json(project.PREPARED / "manifest.json", {"fingerprint": "", "params": made})
        for system, views in VIEWS.items():
            save_index(system, save_encoder(project.encoder(system), tiny_model), views)
    return root


@pytest.fixture
def root(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The built project as the current folder; tests leave it as it is."""
    monkeypatch.chdir(built)
    return built


@pytest.fixture
def asked(root: Path) -> list[str]:
    """The texts of the dev queries."""
    texts: list[str] = read_column(project.queries("dev"), "text").to_pylist()
    return texts


@pytest.fixture
def searcher(root: Path) -> Iterator[Searcher]:
    """GNN-encoder, opened."""
    yield Searcher.open(project.index("gnn_encoder"))


def top(searcher: Searcher, text: str, k: int = 10) -> list[str]:
    """Ids of the best passages."""
    return [hit.pid for hit in searcher.search(text, k)]
