"""What a system costs: vectors and bytes a passage, milliseconds a query, seconds of making it."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.index.build import INDEX
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import TIMES, artifact_name
from gnn_encoder.pipeline.systems import registry

QUERIES = 200  # dev queries that are timed, one at a time
WARM_UP = 20  # queries that are searched before these
DEPTH = 100  # passages a query
LookUp = Callable[[str, NDArray[np.float32], tuple[Rows, Scores]], object]


def measure_costs(
    system: str, params: Params, *, depth: int = DEPTH, look_up: LookUp | None = None, look_up_bytes: int = 0
) -> Costs:
    """Measure a dense system as it stands in the current folder.

    Args:
        depth: passages per query.
        look_up: what is done for a query after the search, with its text, its vector and the passages found; None:
            nothing.
        look_up_bytes: size of what that needs.
    """
    index = PassageIndex.open(project.index(system))
    encoder = DualEncoder.load(project.encoder(system), precision=params.encoder.precision).for_inference()
    texts = read_column(project.queries("dev"), "text").slice(0, QUERIES + WARM_UP).to_pylist()
    encode, search, second = [], [], []
    for text in texts:
        start = time.perf_counter()
        vector = encoder.embed_queries([text])
        encoded = time.perf_counter()
        found = index.search(vector, min(depth, index.passages))
        searched = time.perf_counter()
        if look_up:
            look_up(text, vector, found)
        encode.append(encoded - start)
        search.append(searched - encoded)
        second.append(time.perf_counter() - searched if look_up else 0.0)
    warm = WARM_UP if len(texts) > WARM_UP else 0
    return Costs(
        vectors_a_passage=index.index.ntotal / index.passages,
        bytes_a_passage=((index.folder / INDEX).stat().st_size + look_up_bytes) / index.passages,
        search_ms=1000 * float(np.median(search[warm:])),
        encode_ms=1000 * float(np.median(encode[warm:])),
        lookup_ms=1000 * float(np.median(second[warm:])),
        training_seconds=training_seconds(project.encoder(system)),
    )


def measure_all_costs(params: Params) -> dict[str, Costs]:
    """Costs of every dense system."""
    return {name: measure_costs(name, params) for name in tqdm(registry().dense, desc="costs", disable=None)}


def write_costs(path: Path, costs: dict[str, Costs]) -> None:
    """Write the costs as JSON: system -> the fields of its costs."""
    write_json(path, {system: asdict(cost) for system, cost in costs.items()})


def training_seconds(model: Path) -> float | None:
    """Seconds that it took to make a model and every artifact that it was made from; the prepared tables do not count.

    None where an artifact was not made on this machine, or only after an interruption.
    """
    seconds, waiting, seen = 0.0, [model], set()
    while waiting:
        path = waiting.pop()
        if project.PREPARED in path.parents or project.DATA not in path.parents:
            continue
        record = _record(path)
        if record is None:
            return None
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        if found["seconds"] is None:
            return None
        if record not in seen:
            seen.add(record)
            seconds += found["seconds"]
            waiting += map(Path, found["inputs"])
    return seconds


def _record(path: Path) -> Path | None:
    """The file in `TIMES` of the artifact that a path is or lies in; None if there is none."""
    records = (TIMES / f"{artifact_name(folder)}.json" for folder in (path, *path.parents) if folder.parts)
    return next((record for record in records if record.is_file()), None)
