"""The registry of systems, `systems.yaml`: what each is called, how its vectors are made, how it is judged."""

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gnn_encoder.core.errors import UserError

REGISTRY = Path("systems.yaml")
MAIN = "gnn_encoder"  # the system whose ablations, sweeps and examples are the evidence
REFERENCE = "dual_encoder"  # M_de, which every table compares with
LEXICAL = "bm25"  # the system that ranks by words
UNTOUCHED = "untouched"  # the base model as it comes
HYBRID = "hybrid"  # BM25 and a dense system together
WIDEST = "widest"  # the graph of MAIN with `evidence.k` passages per query, of which the evidence takes the first k
CEILING = "reranked"  # the system whose quality those of one vector a passage try to reach


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class System(_Entry):
    """A system that is judged; `name` and `branch` are the keys that it stands under."""

    name: str
    branch: str
    title: str


class LexicalSystem(System):
    """A system that ranks by words."""

    kind: Literal["lexical"]


class FusedSystem(System):
    """BM25 and a dense system, ranked together."""

    kind: Literal["fused"]


class RerankedSystem(System):
    """The passages that M_de finds, in a cross-encoder's order."""

    kind: Literal["reranked"]


class ReorderedSystem(System):
    """The passages that the system `base` finds, ranked anew by what the training labels say of them.

    `one_vector` says whether the new score is an inner product with one vector per passage.
    """

    kind: Literal["reordered"]
    base: str
    one_vector: bool


class DenseSystem(System):
    """A system that searches passage vectors."""

    @property
    def encoder(self) -> str:
        """Folder of the dual-encoder that encodes its queries."""
        return f"data/{self.name}"


class PlainSystem(DenseSystem):
    """A dual-encoder."""

    kind: Literal["plain"]


class ViewsSystem(DenseSystem):
    """A dual-encoder with several vectors per passage."""

    kind: Literal["views"]


class ShiftedSystem(DenseSystem):
    """The vectors of the system `base`, shifted by the mean of their labelled training queries."""

    kind: Literal["shifted"]
    base: str

    @property
    def encoder(self) -> str:
        """The base's."""
        return f"data/{self.base}"


class GraphSystem(DenseSystem):
    """A GNN-encoder: `base` is the system that serves as its M_de."""

    kind: Literal["graph"]
    base: str

    @property
    def encoder(self) -> str:
        """Trained with the GNN."""
        return f"data/mgt/{self.name}/encoder"


AnySystem = Annotated[
    LexicalSystem
    | PlainSystem
    | ShiftedSystem
    | ReorderedSystem
    | GraphSystem
    | FusedSystem
    | ViewsSystem
    | RerankedSystem,
    Field(discriminator="kind"),
]
Of = TypeVar("Of", bound=System)


class Branch(_Entry):
    """Systems that are judged together, the one that they are compared with, and others that are shown with them."""

    baseline: str
    systems: dict[str, AnySystem]
    beside: tuple[str, ...] = ()
    sampled: bool = False


class Registry(_Entry):
    """`systems.yaml`."""

    branches: dict[str, Branch]

    @model_validator(mode="before")
    @classmethod
    def _name_systems(cls, values: dict[str, Any]) -> dict[str, Any]:
        for branch, one in values["branches"].items():
            for name, system in one["systems"].items():
                system |= {"name": name, "branch": branch}
        return values

    @property
    def systems(self) -> dict[str, System]:
        """All systems in the order of every table."""
        return {name: one for branch in self.branches.values() for name, one in branch.systems.items()}

    def _of(self, kind: type[Of]) -> dict[str, Of]:
        return {name: one for name, one in self.systems.items() if isinstance(one, kind)}

    @property
    def dense(self) -> dict[str, DenseSystem]:
        """The systems that search vectors."""
        return self._of(DenseSystem)

    @property
    def plain(self) -> dict[str, PlainSystem]:
        """The dual-encoders that encode a passage alone."""
        return self._of(PlainSystem)

    @property
    def shifted(self) -> dict[str, ShiftedSystem]:
        """The systems with another one's vectors, shifted."""
        return self._of(ShiftedSystem)

    @property
    def reordered(self) -> dict[str, ReorderedSystem]:
        """The systems with another one's passages, ranked anew."""
        return self._of(ReorderedSystem)

    @property
    def graphs(self) -> dict[str, GraphSystem]:
        """The GNN-encoders."""
        return self._of(GraphSystem)

    @property
    def fused(self) -> dict[str, FusedSystem]:
        """The systems that fuse two rankings."""
        return self._of(FusedSystem)

    @property
    def views(self) -> dict[str, ViewsSystem]:
        """The systems with several vectors per passage."""
        return self._of(ViewsSystem)

    @property
    def built(self) -> dict[str, GraphSystem]:
        """Every graph that is built: the GNN-encoders', and `widest`, from which the evidence cuts its graphs."""
        return self.graphs | {WIDEST: self.graphs[MAIN]}

    def of_branch(self, branch: str) -> tuple[str, ...]:
        """The systems of a branch."""
        return tuple(self.branches[branch].systems)

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
        found = Registry.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")), strict=False)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: not a registry of systems ({' '.join(str(error).split())}); see its comments"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {name}: {first['msg'][0].lower() + first['msg'][1:]}; see its comments") from error
    references = [
        *((f"{name}.base", one.base, list(found.plain)) for name, one in found.graphs.items()),
        *((f"{name}.base", one.base, list(found.plain)) for name, one in found.shifted.items()),
        *((f"{name}.base", one.base, list(found.dense)) for name, one in found.reordered.items()),
        *((f"{name}.baseline", one.baseline, list(found.systems)) for name, one in found.branches.items()),
        *(
            (f"{name}.beside", other, list(found.systems))
            for name, one in found.branches.items()
            for other in one.beside
        ),
    ]
    for place, name, known in references:
        if name not in known:
            raise UserError(f"{path}: {place} is {name!r}: must be one of {', '.join(known)}")
    return found
