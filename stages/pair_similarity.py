"""pair_similarity: mean s(p+, q) and s(p+, p-) with and without the passage-centric loss (PAIR, Figure 4)."""

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.pair.similarity import measure_similarities
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.branch_figures import similarity_panel
from gnn_encoder.presenting.figures import write_png


def main(stage: Stage) -> None:
    """Measure both systems of the branch PAIR, and draw the figure."""
    found = measure_similarities(registry().of_branch("pair"), stage.params)
    write_json(stage.scratch / "similarity.json", found)
    write_png(stage.plots / "similarity.png", [similarity_panel(found)])


if __name__ == "__main__":
    run(main)
