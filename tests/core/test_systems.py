"""The registry of systems: their order in every table, what each is compared with, and the mistakes in one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gnn_encoder.core import project
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.pipeline import read_stages
from gnn_encoder.core.systems import CEILING, MAIN, REFERENCE, read_registry, registry
from gnn_encoder.presenting.looks import look
from gnn_encoder.presenting.names import name_of

from ..project import ROOT

ORDER = [
    *("bm25", "untouched", "retriever", "dual_encoder", "no_gnn", "query_mean", "label_prior", "logged_neighbours"),
    *("gnn_encoder", "hybrid", "dual_encoder_distilled", "gnn_encoder_distilled", "pair_no_psr", "pair"),
    *("dual_cross_dpr", "dual_cross", "gnn_encoder_pair", "gnn_encoder_generated", "reranked"),
]
DENSE = [name for name in ORDER if name not in ("bm25", "label_prior", "logged_neighbours", "hybrid", "reranked")]


def test_the_order_of_every_table() -> None:
    assert list(registry().systems) == ORDER
    assert list(registry().dense) == DENSE


def test_branches() -> None:
    found = registry().branches
    assert {name: registry().of_branch(name) for name in found} == {
        "gnn_encoder": tuple(ORDER[: ORDER.index("dual_encoder_distilled")]),
        "distilled": ("dual_encoder_distilled", "gnn_encoder_distilled"),
        "pair": ("pair_no_psr", "pair"),
        "dual_cross": ("dual_cross_dpr", "dual_cross"),
        "gnn_encoder_pair": ("gnn_encoder_pair",),
        "gnn_encoder_generated": ("gnn_encoder_generated",),
        "reranked": ("reranked",),
    }
    assert list(found) == [
        *("gnn_encoder", "distilled", "pair", "dual_cross", "gnn_encoder_pair", "gnn_encoder_generated", "reranked")
    ]
    assert [(name, one.baseline) for name, one in found.items()] == [
        ("gnn_encoder", "dual_encoder"),
        ("distilled", "dual_encoder_distilled"),
        ("pair", "pair_no_psr"),
        ("dual_cross", "dual_cross_dpr"),
        ("gnn_encoder_pair", "pair"),
        ("gnn_encoder_generated", "gnn_encoder"),
        ("reranked", "dual_encoder"),
    ]
    assert {name: one.beside for name, one in found.items() if one.beside} == {
        "reranked": ("retriever", "no_gnn", "gnn_encoder")
    }
    assert [name for name in ORDER if registry().is_sampled(name)] == ["reranked"]


def test_each_system_s_own_baseline() -> None:
    assert list(registry().baselines.items()) == [
        ("bm25", "dual_encoder"),
        ("untouched", "dual_encoder"),
        ("retriever", "dual_encoder"),
        ("no_gnn", "dual_encoder"),
        ("query_mean", "dual_encoder"),
        ("label_prior", "dual_encoder"),
        ("logged_neighbours", "dual_encoder"),
        ("gnn_encoder", "dual_encoder"),
        ("hybrid", "dual_encoder"),
        ("gnn_encoder_distilled", "dual_encoder_distilled"),
        ("pair", "pair_no_psr"),
        ("dual_cross", "dual_cross_dpr"),
        ("gnn_encoder_pair", "pair"),
        ("gnn_encoder_generated", "gnn_encoder"),
    ]


def test_what_a_branch_reads_is_what_it_compares() -> None:
    """`against` is the folder of dvc.yaml; the systems that `evaluate` shows lie in the branch's own one or there."""
    for name, branch in registry().branches.items():
        folders = [Path("data/measures") / place for place in (name, branch.against)]
        for system in (branch.baseline, *branch.beside, *registry().of_branch(name)):
            measured = project.measured(system)
            assert any(folder in (measured, *measured.parents) for folder in folders), (name, system)


def test_graphs() -> None:
    assert {name: (one.base, one.nodes, one.k, one.around) for name, one in registry().built.items()} == {
        "gnn_encoder": ("dual_encoder", "training", "build_graph.k", "gnn_encoder"),
        "gnn_encoder_distilled": ("dual_encoder_distilled", "training", "build_graph.k", "gnn_encoder"),
        "gnn_encoder_pair": ("pair", "training", "build_graph.k", "gnn_encoder_pair"),
        "gnn_encoder_generated": ("dual_encoder", "both", "build_graph.k", "gnn_encoder"),
        "widest": ("dual_encoder", "training", "evidence.k", "gnn_encoder"),
    }
    assert {MAIN, REFERENCE, CEILING} <= set(ORDER) and "widest" in registry().built


def test_what_costs_one_vector_per_passage() -> None:
    several = ("bm25", "logged_neighbours", "hybrid", "dual_cross", "reranked")
    assert registry().one_vector == [name for name in ORDER if name not in several]


def test_the_hybrid_chooses_among_all_dense_systems_of_its_branch() -> None:
    (fuse,) = (stage for stage in read_stages(ROOT) if stage.name == "fuse")
    runs = {path.name for path in fuse.inputs if path.parent == project.RUNS}
    assert runs == {"bm25", *(name for name, one in registry().dense.items() if one.branch == "gnn_encoder")}


def test_no_two_systems_look_the_same() -> None:
    looks = [tuple(look(name).values()) for name in ORDER]
    assert len(set(looks)) == len(looks)


def test_the_encoders() -> None:
    assert {name: project.encoder(name).as_posix() for name in DENSE} == {
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


def test_the_groups_that_dvc_puts_together_are_those_of_the_registry() -> None:
    values = yaml.safe_load((ROOT / "systems.yaml").read_text())
    assert set(values["dense"]) == set(DENSE) and set(values["systems"]) == set(ORDER)
    assert {name: values["systems"][name]["branch"] for name in ORDER} == {
        name: one.branch for name, one in registry().systems.items()
    }
    assert set(values["built"]) == {*values["graphs"], "widest"}


def test_titles() -> None:
    assert name_of("dual_encoder") == "M_de" and name_of("reranked") == "M_de, reranked"
    assert name_of("a branch without one") == "a branch without one"


# --- mistakes ---------------------------------------------------------------------------------------------------------

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
        (lambda values: values["plain"]["pair"].pop("encoder"), "plain.pair.encoder: field required"),
        (lambda values: values["graphs"]["gnn_encoder"].pop("base"), "graphs.gnn_encoder.base: field required"),
        (put("lexical.bm25.encoder", "data/bm25"), "lexical.bm25.encoder: extra inputs are not permitted"),
        (put("graphs.gnn_encoder.nodes", "all"), "graphs.gnn_encoder.nodes: input should be 'training', 'generated'"),
        (put("plain.pair.title", 5), "plain.pair.title: input should be a valid string"),
        (put("branches.pair.baselines", "pair"), "branches.pair.baselines: extra inputs are not permitted"),
        (put("branches.pair", {"against": "pair/pair"}), "branches.pair.baseline: field required"),
        (
            put("plain.pair.branch", "pears"),
            "pair.branch is 'pears': must be one of gnn_encoder, distilled, pair, dual_cross, "
            "gnn_encoder_pair, gnn_encoder_generated, reranked",
        ),
        (put("built.widest.base", "dual"), "widest.base is 'dual': must be one of bm25, untouched, retriever, "),
        (
            put("branches.pair.baseline", "no_psr"),
            "pair.baseline is 'no_psr': must be one of bm25, untouched, retriever, ",
        ),
        (
            put("branches.reranked.beside", ["gnn"]),
            "reranked.beside is 'gnn': must be one of bm25, untouched, retriever, ",
        ),
        (put("shifted.query_mean.base", "bm25"), "query_mean.base is 'bm25': must be one of untouched, retriever, "),
        (put("reordered.label_prior.base", "mde"), "label_prior.base is 'mde': must be one of untouched, "),
        (
            lambda values: values["reordered"]["label_prior"].pop("one_vector"),
            "reordered.label_prior.one_vector: field",
        ),
        (lambda values: values.pop("views"), "not a registry of systems ('views'); see its comments"),
        (put("graphs", None), "graphs: input should be a valid dictionary"),
    ],
)
def test_a_wrong_registry(tmp_path: Path, change: Change, message: str) -> None:
    # Written without anchors: what is changed is one entry.
    values = yaml.safe_load(
        yaml.dump(yaml.safe_load((ROOT / "systems.yaml").read_text()), Dumper=Plain, sort_keys=False)
    )
    change(values)
    path = tmp_path / "systems.yaml"
    path.write_text(yaml.dump(values, Dumper=Plain, sort_keys=False))
    with pytest.raises(UserError) as caught:
        read_registry(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: {message}") and "\n" not in text


class Plain(yaml.SafeDumper):
    """Repeats what stands in several places."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


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
