"""What the systems cost that look something up beside the passages' vectors: logged queries, or BM25's index."""

import numpy as np

from gnn_encoder.baselines.choice import read_choice
from gnn_encoder.baselines.hybrid_index import HybridIndex
from gnn_encoder.baselines.logged_neighbours import LOG, scorer
from gnn_encoder.baselines.neighbours import with_neighbours
from gnn_encoder.baselines.query_log import QueryLog
from gnn_encoder.baselines.rankings import best
from gnn_encoder.core.rows import Matrix, Rows, Scores
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.evaluation.costs import DEPTH, measure_costs
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL, registry


def measure_second_look_ups(params: Params) -> dict[str, Costs]:
    """Costs of the systems that are made of a dense one and of something else, with what they chose."""
    logged = [name for name, one in registry().reordered.items() if not one.one_vector]
    return {name: logged_costs(name, params) for name in logged} | {HYBRID: hybrid_costs(params)}


def logged_costs(system: str, params: Params) -> Costs:
    """Search the passages, then the logged queries, and add what their labelled passages get."""
    base, folder = registry().reordered[system].base, project.runs(system)
    choice, log, matrix = read_choice(folder), QueryLog.open(folder / LOG), open_matrix(project.embeddings(base))
    setting, unit = choice.chosen.setting, float(choice.facts["unit"])
    count = int(setting["neighbours"])

    def look_up(text: str, query: Matrix, found: tuple[Rows, Scores]) -> object:
        given = log.look_up(query, count)
        bonus = with_neighbours(found, given, [count], scorer(matrix, query), corpus=len(matrix), unit=unit)
        return best(bonus.passages, bonus.scores(setting), DEPTH)

    return measure_costs(base, params, look_up=look_up, look_up_bytes=log.bytes)


def hybrid_costs(params: Params) -> Costs:
    """Search the passages as deep as the hybrid does, then BM25's index, and fuse both."""
    dense = str(read_choice(project.RUNS / HYBRID).facts["dense"])
    both = HybridIndex.open(PassageIndex.open(project.index(dense)), project.index(LEXICAL), project.RUNS / HYBRID)

    def look_up(text: str, query: Matrix, found: tuple[Rows, Scores]) -> object:
        return both.fuse(text, (found[0].astype(np.int64), found[1]), DEPTH)

    size = sum(file.stat().st_size for file in project.index(LEXICAL).iterdir())
    return measure_costs(dense, params, depth=both.depth, look_up=look_up, look_up_bytes=size)
