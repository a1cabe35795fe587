"""Which systems can grow, and how."""

from gnn_encoder.core.errors import UserError
from gnn_encoder.growing.made import Grower, no_use_for_queries
from gnn_encoder.growing.overlay import Overlay
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.systems import registry


def open_grower(overlay: Overlay) -> Grower:
    """What gives a system's new passages their vectors.

    Raises:
        UserError: an artifact is missing, or a model was trained anew since the index was built.
    """
    system, params = overlay.manifest.system, load_params()
    if system in registry().graphs:
        from gnn_encoder.growing.graph import GraphGrower

        return GraphGrower(overlay, params)
    from gnn_encoder.growing.plain import PlainGrower, ShiftedGrower

    return ShiftedGrower(overlay, params) if system in registry().shifted else PlainGrower(overlay, params)


def check_takes_queries(system: str) -> None:
    """Refuse a system that queries do not change.

    Raises:
        UserError: as `check_system`, or its passages are encoded alone.
    """
    check_system(system)
    if system not in registry().graphs and system not in registry().shifted:
        raise no_use_for_queries(system)


def check_system(system: str) -> None:
    """Refuse a system that cannot grow.

    Raises:
        UserError: it is unknown, has several vectors a passage, or has no vectors of its own.
    """
    known, grows = registry(), [name for name in registry().dense if name not in registry().views]
    if system in grows:
        return
    if system in known.views:
        raise UserError(
            f"--system is {system!r}: its passages have several vectors each, made with generated queries, and it "
            "cannot grow; build it again with the new passages (`dvc repro`)"
        )
    if system in known.reordered:
        base = known.reordered[system].base
        raise UserError(f"--system is {system!r}: it reorders what {base} finds and has no vectors; take {base}")
    raise UserError(f"--system is {system!r}: must be one of {', '.join(grows)}")
