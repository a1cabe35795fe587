"""The model card: its front matter is a hub's, and what it says is the project's own record."""

import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import polars as pl
import pytest
from huggingface_hub import ModelCard

from gnn_encoder.base.files import write_json
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.query_encoder import read_settings
from gnn_encoder.pipeline import project

from ..project import ROOT, set_params

TINY = ROOT / "tests" / "tiny"


@pytest.fixture(autouse=True)
def own(built: Path, tmp_path: Path) -> Iterator[None]:
    """A copy of the project, free to be changed, as the current folder."""
    shutil.copytree(built, tmp_path / "own")
    with chdir(tmp_path / "own"):
        shutil.copytree(project.encoder("dual_encoder"), project.encoder("dual_cross"))
        yield


def card(system: str = "gnn_encoder") -> str:
    return model_card(system, read_settings(project.encoder(system)), library="onnx", loading="CODE")


@pytest.mark.parametrize(
    ("system", "shared", "text"),
    [
        ("gnn_encoder", True, "**Do not embed passages with this model.** The system's passage vectors were made from"),
        ("dual_cross", True, "**Do not embed passages with this model.** The system's passage vectors were made from"),
        (
            "labels_alone",
            True,
            "from those of the system `dual_encoder`, moved by a closed form of the passage's labelled",
        ),
        ("dual_encoder", True, "Passages were embedded alone by these same weights"),
        ("dual_encoder", False, "were made by another encoder of the same system"),
    ],
)
def test_how_the_passages_were_made(system: str, shared: bool, text: str) -> None:
    path = project.encoder(system) / "dual_encoder.json"
    path.write_text(path.read_text().replace('"shared": true', f'"shared": {str(shared).lower()}'))
    assert text in card(system)


def test_parameters_are_those_that_trained_it() -> None:
    """And not what params.yaml has been changed to since."""
    made = {"mgt": {"beta": 0.125}, "build_graph.k": 3, "encoder": {"model": str(TINY / "model")}}
    write_json(project.gnn("gnn_encoder") / "manifest.json", {"params": made})
    set_params(Path(), mgt__beta=0.25, build_graph__k=9)
    text = card()
    assert ModelCard(text).data.to_dict() == {
        "library_name": "onnx",
        "pipeline_tag": "feature-extraction",
        "tags": ["dense-retrieval", "query-encoder", "gnn-encoder"],
    }
    assert "at most 16 tokens for the" in text and '| `similarity` | `"cosine"` |' in text
    assert "| `mgt.beta` | `0.125` |" in text and "| `build_graph.k` | `3` |" in text
    assert "a folder on the machine that trained it" in text and str(TINY) not in text


def test_measures_are_those_of_the_branch_if_it_ran_on_these_data() -> None:
    for split, value in (("dev", 0.5), ("test", 0.25)):
        means = {"dual_encoder": {"RR@10": value / 2}, "gnn_encoder": {"RR@10": value}}
        write_json(project.METRICS / "gnn_encoder" / f"{split}.json", means)
    assert "had not been evaluated on these data" in card()  # the figures of a clone, perhaps of other data
    asked = pl.read_parquet(project.queries("test")).select("qid", split=pl.lit("test"))
    for system in means:
        project.measured(system).mkdir(parents=True)
        asked.write_parquet(project.measured(system) / project.VALUES)
    lines = [line.split() for line in card().splitlines() if line.startswith(("| M_de", "| GNN-encoder"))]
    assert [(line[1], line[3]) for line in lines] == [
        *(("M_de", "12.5"), ("GNN-encoder", "25.0")),
        *(("M_de", "25.0"), ("GNN-encoder", "50.0")),
    ]
    set_params(Path(), data__train_queries=5)
    assert "had not been evaluated on these data" in card()
