"""Section `evidence` of params.yaml, and the names of what the evidence consists of."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Depth, Section

ABLATIONS, K, BETA = TABLES = ("ablations", "k", "beta")  # Table 3, Figures 3 and 4
FULL, NO_MGT = EXPLAINED = ("full", "no_mgt")  # trials whose attention is kept
# Kinds of a passage's neighbours in Figure 2, and models trained without and with MGT.
LABELLED, POTENTIAL, OTHER, ITSELF = KINDS = ("labelled", "potential", "other", "itself")
MODELS = ("without", "with")


class Trial(Section):
    """A system of the evidence: GNN-encoder with a change."""

    table: Literal["ablations", "k", "beta"]  # where it is shown: Table 3, Figure 3 or Figure 4
    graph: Literal["gnn_encoder", "widest"]
    k: Depth | None = None  # the graph is cut to so many passages a query; null: all that it has
    mgt: dict[str, Any] = {}  # values that replace those of section `mgt`
    control: bool = False  # trained as train_no_gnn, without a graph
    epochs: Annotated[float, Field(ge=0)] | None = None  # of the control (0: M_de itself); null: as train_no_gnn has


class Evidence(Section):
    """GNN-encoder's ablations and sweeps (sections 4.5, 4.6), each system trained and measured with several seeds."""

    seeds: Count  # runs of each trial, with `seed`, `seed` + 1, ...
    measures: Annotated[list[str], Field(min_length=1)]
    k: Depth  # passages a query in the widest graph; the graphs of table k's trials are cut from it
    trials: dict[str, Trial]
    cases: Count  # dev queries that are shown as examples
    resamples: Annotated[int, Field(ge=100)]  # bootstrap samples of the queries, for intervals
