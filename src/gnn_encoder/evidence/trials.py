"""The systems of ablations and sweeps: each one is the main system with another `mgt` section or another graph."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gnn_encoder.core import project
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.params import CONTROL, MGT, Params
from gnn_encoder.core.project import GNNSystem
from gnn_encoder.evaluation.measures import parse

ABLATIONS, K, BETA = "ablations", "k", "beta"
EXPLAINED = ("full", "no_mgt")  # ablations whose attention is kept


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One system: its place in the evidence, the graph that it reads, and its experiment."""

    kind: str
    name: str
    system: GNNSystem
    params: Params
    control: bool = False  # trained as train_no_gnn, without a graph

    @property
    def folder(self) -> Path:
        """What it is worth."""
        return project.trial(self.kind, self.name)

    @property
    def explained(self) -> bool:
        """Whether its attention is kept."""
        return self.kind == ABLATIONS and self.name in EXPLAINED

    @property
    def inputs(self) -> list[Path]:
        """Artifacts that it is made from."""
        base, system = self.system.base, self.system
        texts = [project.PASSAGES, *map(project.queries, ("train", "dev", "test"))]
        judged = [project.qrels(split) for split in ("train", "dev", "test")]
        graph = [] if self.control else [system.nodes, system.graph, system.edge_features]
        return [*texts, *judged, project.EXAMPLES, project.ENCODERS[base], project.embeddings(base), *graph]

    @property
    def sections(self) -> dict[str, object]:
        """Parameters that it is made with."""
        params = self.params
        return {
            "mgt": params.mgt,
            "control": params.train_no_gnn if self.control else None,
            "k": self.system.k,
            "seeds": list(self.seeds),
            "measures": measured_names(params),
            "answers": params.evaluate.answers,
            "encode_corpus": params.encode_corpus,
            "cache_passages": params.cache_passages,
            "encoder": params.encoder,
        }

    @property
    def seeds(self) -> range:
        """Of its runs."""
        return range(self.params.seed, self.params.seed + self.params.evidence.seeds)


def measured_names(params: Params) -> list[str]:
    """The measures of the evidence, in ir-measures' names; that of the comparisons is among them."""
    tested = parse([params.evaluate.significance], "evaluate.significance")
    return list(parse(params.evidence.measures, "evidence.measures") | tested)


def find_trial(arguments: list[str], params: Params) -> Trial:
    """The trial that a stage script was called with: KIND NAME.

    Raises:
        UserError: there is no such trial.
    """
    if len(arguments) != 2 or arguments[0] not in KINDS:
        raise UserError(f"arguments are {' '.join(arguments)!r}: must be one of {', '.join(KINDS)}, and a name of it")
    kind, name = arguments
    for trial in KINDS[kind](params):
        if trial.name == name:
            return trial
    names = ", ".join(trial.name for trial in KINDS[kind](params))
    raise UserError(f"argument is {name!r}: must be one of evidence.{kind}: {names}")


def ablations(params: Params) -> list[Trial]:
    """Parts of the network and of its training taken away (Table 3)."""
    return [
        Trial(
            kind=ABLATIONS,
            name=name,
            system=project.gnn_system("gnn_encoder", params),
            params=_with_mgt(params, params.ablated(name)),
            control=changes == CONTROL,
        )
        for name, changes in params.evidence.ablations.items()
    ]


def sweep_k(params: Params) -> list[Trial]:
    """Passages a question (Figure 3): one graph, the widest, cut to each k."""
    widest = project.gnn_system(project.WIDEST, params)
    return [
        Trial(kind=K, name=str(k), system=replace(widest, k=k), params=params) for k in dict.fromkeys(params.evidence.k)
    ]


def sweep_beta(params: Params) -> list[Trial]:
    """Share of the questions that is masked in a round (Figure 4)."""
    system = project.gnn_system("gnn_encoder", params)
    return [
        Trial(kind=BETA, name=str(beta), system=system, params=_with_mgt(params, _masking(params.mgt, beta)))
        for beta in dict.fromkeys(params.evidence.beta)
    ]


KINDS: dict[str, Callable[[Params], list[Trial]]] = {ABLATIONS: ablations, K: sweep_k, BETA: sweep_beta}


def _masking(mgt: MGT, beta: float) -> MGT:
    return mgt.model_copy(update={"beta": beta})


def _with_mgt(params: Params, mgt: MGT) -> Params:
    return params.model_copy(update={"mgt": mgt})
