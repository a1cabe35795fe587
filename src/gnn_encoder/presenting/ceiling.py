"""How much of the way from M_de to the ceiling systems cover. The ceiling is M_de reranked by a cross-encoder."""

from gnn_encoder.evaluation.ceiling import Ceiling, Share
from gnn_encoder.pipeline.systems import CEILING, REFERENCE
from gnn_encoder.presenting.formats import count, percent, points
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

UNDEFINED = "; the ceiling does not exceed M_de here, so the share of the way is undefined"


def ceiling_table(found: Ceiling, split: str) -> Table:
    """One row per system: M_de first, the ceiling last, and between them the others with their share of the way."""
    rows = [[name_of(REFERENCE), points(found.base), "", ""]]
    rows += [[name_of(system), points(share.mean), *_share(share)] for system, share in found.systems.items()]
    rows += [[name_of(CEILING), points(found.ceiling), "", ""]]
    return Table(
        title=f"{split.capitalize()} queries: the way to {name_of(CEILING)}, points of 100",
        columns=["System", found.measure, "share of the way", "95% interval"],
        rows=rows,
        note=f"{count(found.queries)} queries{UNDEFINED if found.ceiling <= found.base else ''}",
    )


def _share(found: Share) -> list[str]:
    ends = "" if found.share is None else " to ".join(percent(end, "no bound") for end in (found.low, found.high))
    return [percent(found.share, "undefined"), ends]
