"""Which systems take new passages, and what gives these their vectors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry

Encode = Callable[[pl.DataFrame], NDArray[np.float32]]  # columns pid, title, text; *Shape:* (b,) -> (b, d)


def check_system(system: str, *, takes_passages: bool) -> None:
    """Refuse a system without vectors of its own and, for new passages, one whose vectors need more than texts.

    Raises:
        UserError: it is such a system, or unknown.
    """
    known = registry()
    if system in known.reordered:
        base = known.reordered[system].base
        raise UserError(f"--system is {system!r}: it reorders what {base} finds and has no vectors; take {base}")
    if system not in known.dense:
        raise UserError(f"--system is {system!r}: must be one of {', '.join(known.dense)}")
    made_of = {**dict.fromkeys(known.of_kind("views"), "generated"), **dict.fromkeys(known.shifted, "labelled")}
    if takes_passages and system in made_of:
        raise UserError(
            f"--system is {system!r}: its passages' vectors are made of {made_of[system]} queries, which new passages "
            "do not have; put them into the data and run `dvc repro`"
        )


def open_encoder(system: str) -> Encode:
    """What gives a system's new passages their vectors.

    Raises:
        UserError: an artifact is missing, or a model was trained anew since it encoded the passages.
    """
    from gnn_encoder.growing.encoding import embed_new  # only here: it loads torch
    from gnn_encoder.models.dual_encoder import DualEncoder
    from gnn_encoder.pipeline.params import load_params

    params = load_params()
    if system in registry().graphs:
        from gnn_encoder.growing.joining import GraphJoiner

        return GraphJoiner(system, params)
    folder = project.encoder(system)
    check_model(project.embeddings(system), DualEncoder.fingerprint(folder), f"cache_passages@{system}")
    encoder = DualEncoder.load(folder, precision=params.encoder.precision).for_inference()
    return lambda passages: embed_new(encoder, passages, params.encoder.batch_tokens)


def check_model(matrix: Path, fingerprint: str, stage: str) -> None:
    """Refuse a model that was trained anew since it made a matrix: new vectors would not be comparable.

    Raises:
        UserError: it was.
    """
    if read_manifest(matrix).model_fingerprint != fingerprint:
        raise UserError(
            f"{matrix}: another model than the present one made it; run `dvc repro {stage}` and what follows it"
        )
