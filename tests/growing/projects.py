"""Projects with a built index, made without training: the tiny corpus, random models, and the pipeline's own stages."""

import runpy
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
import yaml

from gnn_encoder.core.records import QUERIES
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.pretrained import Source
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage
from gnn_encoder.pipeline.systems import registry

ROOT = Path(__file__).parents[2]
SYSTEM, BASE = "gnn_encoder", "dual_encoder"


@dataclass(frozen=True)
class Kind:
    """What differs between the projects."""

    edge_features: str
    layers: int = 2
    joint: bool = False  # whether the GNN's encoder differs from M_de
    labelled: bool = True
    labelled_edges: bool = True
    max_neighbours: int | None = None
    generated: bool = False  # whether each passage's first words are a generated query, and a node


def make(folder: Path, params: Params, corpus: Path, kind: Kind, factory: str = "Flat") -> Params:
    """Build M_de and GNN-encoder in `folder`, which is the current folder, and write its params.yaml."""
    values = params.model_dump(mode="json")
    values["data"] |= {"path": str(corpus), "unlabelled": None}
    values["encoder"] |= {"model": str(ROOT / "tests" / "tiny" / "model"), "dropout": 0.0}
    values["cache_passages"]["dtype"] = "float32"
    values["index"]["factory"] = factory
    values["build_graph"]["labelled"] = kind.labelled
    values["encode_corpus"]["labelled_edges"] = kind.labelled_edges
    values["mgt"] |= {"edge_features": kind.edge_features, "max_neighbours": kind.max_neighbours}
    (folder / "params.yaml").write_text(yaml.safe_dump(values))
    shutil.copy(ROOT / "systems.yaml", folder)
    params = Params.model_validate(values)
    prepare(params.data, open_source(params.data), project.PREPARED, seed=1)
    _save_models(params, kind)
    build(params, kind)
    return params


def build(params: Params, kind: Kind) -> None:
    """Run the stages from the passages' embeddings by M_de to both indexes."""
    run_stage("cache_passages", params, BASE, registry().plain[BASE].model_dump(), project.embeddings(BASE))
    run_stage("build_index", params, BASE, None, project.index(BASE))
    build_graph(params, kind)


def build_graph(params: Params, kind: Kind) -> None:
    """Run the stages from the graph to GNN-encoder's index."""
    item = registry().built[SYSTEM].model_dump()
    if kind.generated:
        item |= {"nodes": "both", "generated": str(project.GENERATED)}
        _write_generated()
    run_stage("build_graph", params, SYSTEM, item, project.graph(SYSTEM))
    if kind.edge_features == "cross_encoder":
        run_stage("embed_edges", params, SYSTEM, item, project.edge_features(SYSTEM))
    run_stage("encode_corpus", params, SYSTEM, item, project.embeddings(SYSTEM))
    run_stage("build_index", params, SYSTEM, None, project.index(SYSTEM))


def _write_generated() -> None:
    passages = pl.read_parquet(project.PASSAGES)
    words = passages["text"].str.split(" ").list.head(4).list.join(" ")
    qids = [f"g{row}" for row in range(len(words))]
    table = pl.DataFrame({"qid": qids, "text": words, "answers": [[]] * len(words)}, pl.Schema(QUERIES))
    write_table(project.GENERATED / "queries.parquet", QUERIES, [table.to_arrow()])


def run_stage(name: str, params: Params, key: str, item: Any, folder: Path) -> None:
    """What a stage's script does, without what dvc.yaml declares."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    main = runpy.run_path(str(ROOT / "stages" / f"{name}.py"))["main"]
    main(Stage(key=key, item=item, params=params, inputs=[], scratch=folder))
    if not (folder / "manifest.json").exists():
        (folder / "manifest.json").write_text("{}")


def _save_models(params: Params, kind: Kind) -> None:
    encoder = DualEncoder.from_pretrained(params.encoder)
    _disturb(encoder, seed=1)
    encoder.save(project.encoder(BASE))
    if kind.joint:
        _disturb(encoder, seed=2)
    encoder.save(project.gnn(SYSTEM) / "encoder")
    CrossEncoder.from_pretrained(Source(params.encoder.model), params.encoder).save(project.CROSS_ENCODER)
    gnn = QueryPassageGNN(
        GNNConfig(
            dimension=encoder.dimension,
            edge_dimension=encoder.dimension,
            layers=kind.layers,
            heads=4,
            gate="learned",
            edge_features=kind.edge_features,
            graph="full",
            labelled=kind.labelled,
            similarity=params.encoder.similarity,
        )
    )
    _disturb(gnn, seed=3, by=0.3)
    gnn.save(project.gnn(SYSTEM))


@torch.no_grad()
def _disturb(model: torch.nn.Module, *, seed: int, by: float = 0.02) -> None:
    """Move every weight, so that no part of a model is without effect."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += by * torch.randn(parameter.shape, generator=generator)
