"""The registry of systems, `systems.yaml`: what each is called, how its vectors are made, how it is judged."""

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from gnn_encoder.core.errors import UserError

REGISTRY = Path("systems.yaml")
MAIN = "gnn_encoder"  # the system whose ablations, sweeps and examples are the evidence
REFERENCE = "dual_encoder"  # M_de, which every table compares with
LEXICAL = "bm25"  # the system that ranks by words
UNTOUCHED = "untouched"  # the base model as it comes
HYBRID = "hybrid"  # BM25 and a dense system together
CEILING = "reranked"  # the system whose quality those of one vector a passage try to reach


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class System(_Entry):
    """A system that is judged."""

    title: str
    branch: str


class DenseSystem(System):
    """A system that searches passage vectors; `encoder` is the folder of the dual-encoder that encodes its queries."""

    encoder: str


class PlainSystem(DenseSystem):
    """A dual-encoder. `repeats` is the passage matrix that is reused if training changed no weight."""

    repeats: str


class ShiftedSystem(DenseSystem):
    """The vectors of the system `base`, shifted by the mean of their labelled training queries."""

    base: str


class ReorderedSystem(System):
    """The passages that the system `base` finds, ranked anew by what the training labels say of them.

    `one_vector` says whether the new score is an inner product with one vector per passage.
    """

    base: str
    one_vector: bool


class GraphSystem(DenseSystem):
    """A GNN-encoder: `base` is the system that serves as its M_de; the other fields say what its graph is made of.

    `systems.yaml` explains them.
    """

    base: str
    nodes: Literal["training", "generated", "both"]
    generated: str
    k: str  # name of the parameter that says how many passages a query is connected to
    around: str
    features: str


class Branch(_Entry):
    """Systems that are judged together, the one that they are compared with, and others that are shown with them."""

    baseline: str
    against: str
    beside: tuple[str, ...] = ()
    sampled: bool = False


class Registry(_Entry):
    """`systems.yaml` without its groups `dense` and `systems`, which only join other groups for dvc.yaml."""

    lexical: dict[str, System]
    plain: dict[str, PlainSystem]
    shifted: dict[str, ShiftedSystem]
    reordered: dict[str, ReorderedSystem]
    graphs: dict[str, GraphSystem]
    fused: dict[str, System]
    views: dict[str, DenseSystem]
    reranking: dict[str, System]
    built: dict[str, GraphSystem]
    branches: dict[str, Branch]

    @property
    def dense(self) -> dict[str, DenseSystem]:
        """The systems that search vectors, in the order of every table."""
        return {name: one for name, one in self.systems.items() if isinstance(one, DenseSystem)}

    @property
    def every(self) -> dict[str, System]:
        """All systems, group by group."""
        plain = {**self.lexical, **self.plain, **self.shifted, **self.reordered}
        return {**plain, **self.graphs, **self.fused, **self.views, **self.reranking}

    @property
    def systems(self) -> dict[str, System]:
        """All systems in the order of every table: branch by branch, within a branch as they stand in the file."""
        return {name: one for branch in self.branches for name, one in self.every.items() if one.branch == branch}

    def of_branch(self, branch: str) -> tuple[str, ...]:
        """The systems of a branch."""
        return tuple(name for name, one in self.systems.items() if one.branch == branch)

    @property
    def one_vector(self) -> list[str]:
        """The systems that score a passage by an inner product with one vector of it: they cost the same online."""
        dense = [name for name in self.dense if name not in self.views]
        priors = [name for name, one in self.reordered.items() if one.one_vector]
        return [name for name in self.systems if name in (*dense, *priors)]

    @property
    def independent_branches(self) -> list[str]:
        """Branches whose baseline is one of their own systems; the other branches are built on one of these."""
        return [name for name, branch in self.branches.items() if branch.baseline in self.of_branch(name)]

    def shown_with(self, branch: str) -> list[str]:
        """The systems in a branch's table: its baseline and others from other branches first, then its own systems."""
        own, found = self.of_branch(branch), self.branches[branch]
        return [*(system for system in (found.baseline, *found.beside) if system not in own), *own]

    def is_sampled(self, system: str) -> bool:
        """Whether a system is judged on a sample of the queries."""
        return self.branches[self.systems[system].branch].sampled

    @property
    def baselines(self) -> dict[str, str]:
        """System -> its branch's baseline, for the systems that are judged on all queries and are not that baseline."""
        found = {name: self.branches[one.branch].baseline for name, one in self.systems.items()}
        return {name: base for name, base in found.items() if name != base and not self.is_sampled(name)}


@cache
def registry() -> Registry:
    """The systems of the project in the current folder.

    Raises:
        UserError: the file is missing, or an entry lacks a field, or it has or names something that does not exist.
    """
    return read_registry(REGISTRY)


def title_of(name: str) -> str:
    """The title of a system; any other name, such as that of a model that is part of a system, unchanged."""
    found = registry().systems.get(name)
    return found.title if found else name


def read_registry(path: Path) -> Registry:
    """Read and check a registry; see `registry`."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = Registry.model_validate({name: values[name] for name in Registry.model_fields}, strict=False)
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not a registry of systems ({' '.join(str(error).split())}); see its comments"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {name}: {first['msg'][0].lower() + first['msg'][1:]}; see its comments") from error
    every = found.every
    references = [
        *((f"{name}.branch", one.branch, list(found.branches)) for name, one in every.items()),
        *((f"{name}.base", one.base, list(found.plain)) for name, one in found.built.items()),
        *((f"{name}.base", one.base, list(found.dense)) for name, one in found.shifted.items()),
        *((f"{name}.base", one.base, list(found.dense)) for name, one in found.reordered.items()),
        *((f"{name}.baseline", one.baseline, list(every)) for name, one in found.branches.items()),
        *((f"{name}.beside", other, list(every)) for name, one in found.branches.items() for other in one.beside),
    ]
    for place, name, known in references:
        if name not in known:
            raise UserError(f"{path}: {place} is {name!r}: must be one of {', '.join(known)}")
    return found
