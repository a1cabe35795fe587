"""shift_passages SYSTEM: another system's passage matrix, with passages shifted by their labelled training queries."""

from gnn_encoder.baselines.shifting import write_query_mean
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Choose the weight on dev and write the matrix."""
    write_query_mean(stage.key, stage.item["base"], stage.params, stage.scratch)


if __name__ == "__main__":
    run(main)
