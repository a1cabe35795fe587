"""The hybrid of BM25 and a dense system: which dense system, and how both are fused, is chosen on dev."""

from collections.abc import Mapping
from pathlib import Path

from gnn_encoder.baselines.choice import Choice, Setting, choose
from gnn_encoder.baselines.dev import DevQueries
from gnn_encoder.baselines.fusion import Fusion, settings
from gnn_encoder.baselines.rankings import read_ranked
from gnn_encoder.baselines.reordering import write_reordered
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import LEXICAL


def write_hybrid(system: str, dense: Mapping[str, Path], params: Params, folder: Path) -> None:
    """Write the runs of BM25 fused with the best of the systems `dense`, whose folders of runs are given."""
    side = best_dense(dense, params)
    best = str(side.chosen.setting["system"])

    def open_split(split: str) -> Fusion:
        return Fusion.of(read_ranked(dense[best], split), read_ranked(project.runs(LEXICAL), split))

    def facts(dev: Fusion, chosen: Setting, depth: int) -> Setting:
        values = {f"dev_{tried.setting['system']}": tried.value for tried in side.tried}
        return {"dense": best, "depth": params.retrieve.depth, **values}

    section = params.baselines
    tried = settings(section.bm25_weights, section.reciprocal_ranks)
    write_reordered(system, open_split, tried, params, folder, facts, limits={"weight": (0.0, 1.0)})


def best_dense(dense: Mapping[str, Path], params: Params) -> Choice:
    """The dense system that is best on the dev queries; of equally good ones the first."""
    sample = DevQueries.sample(params)

    def judge(each: list[Setting]) -> list[float]:
        runs = (read_ranked(dense[str(one["system"])], "dev")[0][sample.rows, : sample.depth] for one in each)
        return sample.values(runs)

    asked: list[Setting] = [{"system": system} for system in dense]
    return choose(asked, judge, measure=sample.measure, queries=len(sample.rows))
