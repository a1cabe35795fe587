"""A project as the pipeline leaves it, over the tiny corpus, with models of random weights: nothing is trained."""

import shutil
from pathlib import Path

import torch

from gnn_encoder.gnn.train import new_gnn
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.experiment import lay_over
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import CONTROL
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder

from .project import ROOT, call_stage, declare

SYSTEM, BASE, MOVED = "gnn_encoder", "dual_encoder", "gnn_encoder_plus"


def build(folder: Path) -> None:
    """Build M_de, a GNN-encoder, and a copy of it as what closed forms make of it, in the current folder `folder`."""
    shutil.copytree(ROOT / "tests" / "tiny", folder / "tests" / "tiny")
    declare(folder)
    more = "cache_passages.dtype=float32", "encoder.dropout=0.0", "mgt.edge_features=none", "mgt.labels=true"
    lay_over(["tests/tiny/params.yaml", *more])
    call_stage("prepare")
    _save_models(load_params())
    project.embeddings("untouched").mkdir(parents=True)  # which the stage names, for a start that changed no weight
    call_stage("cache_passages", BASE)
    call_stage("build_graph")
    call_stage("embed_edges")
    assert not any(project.EDGE_FEATURES.rglob("*.parquet")), "only what the GNN reads"
    call_stage("encode_corpus")
    for system in (BASE, SYSTEM):
        call_stage("build_index", system)
    for place in (project.embeddings, project.index):
        shutil.copytree(place(SYSTEM), place(MOVED))


def _save_models(params: Params) -> None:
    encoder = DualEncoder.from_pretrained(params.encoder)
    _disturb(encoder, seed=1)
    for system in (BASE, CONTROL):  # from the control no_gnn_plus has its E_Q
        encoder.save(project.encoder(system))
    encoder.save(project.GNN / "encoder")
    CrossEncoder.from_pretrained(params.encoder.model, params.encoder).save(project.CROSS_ENCODER)
    d, similarity = encoder.dimension, encoder.settings.similarity
    gnn = new_gnn(params.mgt, (d, d), similarity, seed=params.seed)
    _disturb(gnn, seed=3, by=0.3)
    gnn.save(project.GNN)


@torch.no_grad()
def _disturb(model: torch.nn.Module, *, seed: int, by: float = 0.02) -> None:
    """Move every weight, so that no part of a model is without effect."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += by * torch.randn(parameter.shape, generator=generator)
