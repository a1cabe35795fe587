"""What the project's systems cost: it opens them for measuring, and adds up the times of the stages."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.files import read_json
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.base.tables import read_column
from gnn_encoder.controls.choose import Ranking, read_choice, top
from gnn_encoder.controls.hybrid import HybridIndex
from gnn_encoder.controls.log import LABELLED, LabelledQueries, with_log
from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, registry
from gnn_encoder.pipeline.stage import TIMES, artifact_name
from gnn_encoder.search.faiss_index import PassageIndex
from gnn_encoder.text.opening import load_encoder

QUERIES = 200  # queries that are timed, one at a time
WARM_UP = 20  # queries that are searched before these
DEPTH = 100  # passages a query
LookUp = Callable[[str, Matrix, Ranking], object]


def costs_of(
    system: str, params: Params, *, depth: int = DEPTH, look_up: LookUp | None = None, look_up_bytes: int = 0
) -> Costs:
    """Measure a dense system on the first dev queries.

    Args:
        depth: passages per query.
        look_up: what is done for a query after the search, with its text, its vector and the passages found; None:
            nothing.
        look_up_bytes: size of what that needs.
    """
    model, seconds = project.encoder(system), []
    index, encoder = PassageIndex.open(project.index(system)), load_encoder(model, params.encoder)
    for text in read_column(project.queries("dev"), "text").slice(0, QUERIES + WARM_UP).to_pylist():
        start = time.perf_counter()
        vector = encoder.embed_queries([text])
        encoded = time.perf_counter()
        found = index.search(vector, min(depth, index.passages))
        searched = time.perf_counter()
        if look_up:
            look_up(text, vector, found)
        seconds.append((encoded - start, searched - encoded, time.perf_counter() - searched if look_up else 0.0))
    warm = WARM_UP if len(seconds) > WARM_UP else 0
    encode, search, second = 1000 * np.median(seconds[warm:], axis=0)
    return Costs(
        vectors_a_passage=index.index.ntotal / index.passages,
        bytes_a_passage=(index.bytes + look_up_bytes) / index.passages,
        search_ms=float(search),
        encode_ms=float(encode),
        lookup_ms=float(second),
        training_seconds=training_seconds(model),
    )


def costs_with_labelled_queries(system: str, params: Params) -> Costs:
    """Costs of searching the passages, then the labelled queries, and of adding what their passages get."""
    base, folder = registry().systems[system].base, project.runs(system)
    choice, known = read_choice(folder), LabelledQueries.open(folder / LABELLED)
    unit = float(choice.facts["unit"])

    def look_up(text: str, query: Matrix, found: Ranking) -> object:
        passages, scores = with_log(found, known.look_up(query, int(choice.setting["neighbours"])), unit)
        return top(passages, scores(choice.setting), DEPTH)

    return costs_of(base, params, look_up=look_up, look_up_bytes=_size(folder / LABELLED))


def costs_of_hybrid(params: Params) -> Costs:
    """Costs of searching the passages as deep as the hybrid does, then the log and BM25's index, and of fusing all."""
    folder, lexical = project.runs(HYBRID), project.index(LEXICAL)
    dense = str(read_choice(folder).facts["dense"])
    both = HybridIndex.open(PassageIndex.open(project.index(dense)), dense, lexical, folder)

    def look_up(text: str, query: Matrix, found: Ranking) -> object:
        return both.fuse(text, query, (found[0].astype(np.int64), found[1]), DEPTH)

    asked = ([lexical] if both.lexical else []) + ([folder / LABELLED] if both.log else [])
    return costs_of(dense, params, depth=both.depth, look_up=look_up, look_up_bytes=sum(map(_size, asked)))


def _size(folder: Path) -> int:
    """Bytes of its files."""
    return sum(file.stat().st_size for file in folder.iterdir())


def measured_costs(params: Params) -> dict[str, Costs]:
    """Costs of the systems that search vectors, alone or beside something else."""
    found = {system: costs_of(system, params) for system in tqdm(registry().dense, desc="costs")}
    logged = [name for name, one in registry().of_kind("reordered").items() if one.by == "logged"]
    found |= {system: costs_with_labelled_queries(system, params) for system in logged}
    found[HYBRID] = costs_of_hybrid(params)
    return {system: found[system] for system in registry().systems if system in found}


def training_seconds(model: Path) -> float | None:
    """Seconds that it took to make a model and every artifact that it was made from; the prepared tables do not count.

    None where an artifact was not made on this machine, or only after an interruption.
    """
    taken, waiting = dict[Path, float](), [model]
    while waiting:
        path = waiting.pop()
        if project.DATA not in path.parents or project.PREPARED in path.parents:
            continue
        names = (artifact_name(folder) for folder in (path, *path.parents) if folder.parts)  # a path may lie in one
        record = next((file for name in names if (file := TIMES / f"{name}.json").is_file()), None)
        if record is None:
            return None
        found = read_json(record, dict[str, Any])
        if found["seconds"] is None:
            return None
        if record not in taken:
            taken[record] = found["seconds"]
            waiting += map(Path, found["inputs"])
    return sum(taken.values())
