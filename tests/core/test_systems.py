"""The registry of systems: what it says of a small one by hand, what holds for the project's, and the mistakes in one.

The project's own may grow: what is said of its systems here is said of those that the papers name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gnn_encoder.core.errors import UserError
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.declared import read_stages
from gnn_encoder.pipeline.systems import (
    CEILING,
    HYBRID,
    LEXICAL,
    MAIN,
    REFERENCE,
    UNTOUCHED,
    read_registry,
    registry,
    title_of,
)
from gnn_encoder.presenting.figures import system_style

from ..project import ROOT

# --- a small one by hand ----------------------------------------------------------------------------------------------

SMALL = """
lexical:
  words: {title: Words, branch: main}
plain:
  base: {title: Base, branch: main, encoder: data/base, repeats: data/prepared/passages.parquet}
  other: {title: Other, branch: side, encoder: data/other, repeats: data/embeddings/base}
  better: {title: Better, branch: side, encoder: data/better, repeats: data/embeddings/other}
shifted:
  mean: {title: Mean, branch: main, encoder: data/base, base: base}
reordered:
  prior: {title: Prior, branch: main, base: base, one_vector: true}
  near: {title: Near, branch: main, base: base, one_vector: false}
graphs:
  graph: {title: Graph, branch: main, encoder: data/mgt/graph/encoder, base: base, nodes: training,
    generated: data/drafts, k: build_graph.k, around: graph, features: data/cross_encoder}
fused:
  both: {title: Both, branch: side}
views:
  many: {title: Many, branch: built, encoder: data/many}
reranking:
  sorted: {title: Sorted, branch: sample}
built:
  wide: {title: Graph, branch: main, encoder: data/mgt/graph/encoder, base: base, nodes: both,
    generated: data/drafts, k: evidence.k, around: graph, features: data/edge_features/graph}
branches:
  main: {baseline: base, against: main/base}
  side: {baseline: other, against: side/other}
  built: {baseline: better, against: side/better}
  sample: {baseline: base, against: main, beside: [words, graph], sampled: true}
"""


@pytest.fixture
def small(tmp_path: Path) -> Any:
    path = tmp_path / "systems.yaml"
    path.write_text(SMALL)
    return read_registry(path)


def test_order_is_by_branch_and_within_one_by_group(small: Any) -> None:
    main, side = ["words", "base", "mean", "prior", "near", "graph"], ["other", "better", "both"]
    assert list(small.systems) == [*main, *side, "many", "sorted"]
    assert small.of_branch("main") == tuple(main) and small.of_branch("side") == tuple(side)
    assert list(small.dense) == ["base", "mean", "graph", "other", "better", "many"]


def test_each_system_s_own_baseline(small: Any) -> None:
    of_main = dict.fromkeys(("words", "mean", "prior", "near", "graph"), "base")
    assert small.baselines == {**of_main, "better": "other", "both": "other", "many": "better"}
    assert [name for name in small.systems if small.is_sampled(name)] == ["sorted"]


def test_what_costs_one_vector_per_passage(small: Any) -> None:
    assert small.one_vector == ["base", "mean", "prior", "graph", "other", "better"]


def test_branches_and_what_their_tables_show(small: Any) -> None:
    assert small.independent_branches == ["main", "side"]
    assert small.shown_with("side") == ["other", "better", "both"]
    assert small.shown_with("built") == ["better", "many"]
    assert small.shown_with("sample") == ["base", "words", "graph", "sorted"]


# --- the project's ----------------------------------------------------------------------------------------------------


def test_the_systems_that_code_names_are_there() -> None:
    assert {MAIN, REFERENCE, LEXICAL, UNTOUCHED, HYBRID, CEILING} <= registry().systems.keys()
    assert "widest" in registry().built


def test_the_papers_systems_are_compared_with_their_own_baselines() -> None:
    assert {
        "gnn_encoder": "dual_encoder",
        "gnn_encoder_distilled": "dual_encoder_distilled",
        "pair": "pair_no_psr",
        "dual_cross": "dual_cross_dpr",
        "gnn_encoder_pair": "pair",
        "gnn_encoder_generated": "gnn_encoder",
    }.items() <= registry().baselines.items()
    assert registry().is_sampled("reranked")


def test_what_a_branch_reads_is_what_it_compares() -> None:
    """`against` is the folder of dvc.yaml; the systems that `evaluate` shows lie in the branch's own one or there."""
    for name, branch in registry().branches.items():
        folders = [Path("data/measures") / place for place in (name, branch.against)]
        for system in (branch.baseline, *branch.beside, *registry().of_branch(name)):
            measured = project.measured(system)
            assert any(folder in (measured, *measured.parents) for folder in folders), (name, system)


def test_graphs() -> None:
    found = {name: (one.base, one.nodes, one.k, one.around) for name, one in registry().built.items()}
    assert {
        "gnn_encoder": ("dual_encoder", "training", "build_graph.k", "gnn_encoder"),
        "gnn_encoder_distilled": ("dual_encoder_distilled", "training", "build_graph.k", "gnn_encoder"),
        "gnn_encoder_pair": ("pair", "training", "build_graph.k", "gnn_encoder_pair"),
        "gnn_encoder_generated": ("dual_encoder", "both", "build_graph.k", "gnn_encoder"),
        "widest": ("dual_encoder", "training", "evidence.k", "gnn_encoder"),
    }.items() <= found.items()


def test_the_hybrid_chooses_among_all_dense_systems_of_its_branch() -> None:
    (fuse,) = (stage for stage in read_stages(ROOT) if stage.name == "fuse")
    runs = {path.name for path in fuse.inputs if path.parent == project.RUNS}
    assert runs == {"bm25", *(name for name, one in registry().dense.items() if one.branch == "gnn_encoder")}


def test_no_two_systems_look_the_same() -> None:
    looks = [tuple(system_style(name).values()) for name in registry().systems]
    assert len(set(looks)) == len(looks)


def test_the_encoders() -> None:
    expected = {
        "untouched": "data/untouched",
        "retriever": "data/retriever",
        "dual_encoder": "data/dual_encoder",
        "no_gnn": "data/no_gnn",
        "query_mean": "data/dual_encoder",
        "gnn_encoder": "data/mgt/gnn_encoder/encoder",
        "dual_encoder_distilled": "data/dual_encoder_distilled",
        "gnn_encoder_distilled": "data/mgt/gnn_encoder_distilled/encoder",
        "pair_no_psr": "data/pair_no_psr",
        "pair": "data/pair",
        "dual_cross_dpr": "data/dual_cross_dpr",
        "dual_cross": "data/dual_cross",
        "gnn_encoder_pair": "data/mgt/gnn_encoder_pair/encoder",
        "gnn_encoder_generated": "data/mgt/gnn_encoder_generated/encoder",
    }
    assert {name: project.encoder(name).as_posix() for name in expected} == expected


def test_the_groups_that_dvc_puts_together_are_those_of_the_registry() -> None:
    values = yaml.safe_load((ROOT / "systems.yaml").read_text())
    assert set(values["dense"]) == set(registry().dense)
    assert {name: one["branch"] for name, one in values["systems"].items()} == {
        name: one.branch for name, one in registry().systems.items()
    }
    assert set(values["built"]) == {*values["graphs"], "widest"}


def test_titles() -> None:
    assert title_of("dual_encoder") == "M_de" and title_of("reranked") == "M_de, reranked"
    assert title_of("a branch without one") == "a branch without one"


# --- mistakes ---------------------------------------------------------------------------------------------------------

PLAIN = "base, other, better"
EVERY = "words, base, other, better, mean, prior, near, graph, both, many, sorted"
DENSE = "base, mean, graph, other, better, many"
Change = Callable[[dict[str, Any]], object]


def put(path: str, value: object) -> Change:
    def change(values: dict[str, Any]) -> None:
        *sections, key = path.split(".")
        for section in sections:
            values = values[section]
        values[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["plain"]["better"].pop("encoder"), "plain.better.encoder: field required"),
        (lambda values: values["graphs"]["graph"].pop("base"), "graphs.graph.base: field required"),
        (put("lexical.words.encoder", "data/words"), "lexical.words.encoder: extra inputs are not permitted"),
        (put("graphs.graph.nodes", "all"), "graphs.graph.nodes: input should be 'training', 'generated' or 'both'"),
        (put("plain.better.title", 5), "plain.better.title: input should be a valid string"),
        (put("branches.side.baselines", "other"), "branches.side.baselines: extra inputs are not permitted"),
        (put("branches.side", {"against": "side/other"}), "branches.side.baseline: field required"),
        (put("plain.better.branch", "sied"), "better.branch is 'sied': must be one of main, side, built, sample"),
        (put("built.wide.base", "graph"), f"wide.base is 'graph': must be one of {PLAIN}"),
        (put("branches.side.baseline", "none"), f"side.baseline is 'none': must be one of {EVERY}"),
        (put("branches.sample.beside", ["gnn"]), f"sample.beside is 'gnn': must be one of {EVERY}"),
        (put("shifted.mean.base", "words"), f"mean.base is 'words': must be one of {DENSE}"),
        (put("reordered.prior.base", "mde"), f"prior.base is 'mde': must be one of {DENSE}"),
        (lambda values: values["reordered"]["prior"].pop("one_vector"), "reordered.prior.one_vector: field required"),
        (lambda values: values.pop("views"), "not a registry of systems ('views')"),
        (put("graphs", None), "graphs: input should be a valid dictionary"),
    ],
)
def test_a_wrong_registry(tmp_path: Path, change: Change, message: str) -> None:
    values = yaml.safe_load(SMALL)
    change(values)
    path = tmp_path / "systems.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    with pytest.raises(UserError) as caught:
        read_registry(path)
    text = str(caught.value)
    assert text.removesuffix("; see its comments") == f"{path}: {message}"


@pytest.mark.parametrize(("text", "words"), [("a: [1\nb", "not a registry"), ("", "not a registry"), ("- 1", "not a")])
def test_no_registry(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "systems.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        read_registry(path)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"systems\.yaml: no such file; run from the project's root"):
        read_registry(tmp_path / "systems.yaml")
