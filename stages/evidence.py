"""evidence: ablations, sweeps, attention, times and cases (Tables 3 to 5 and Figures 2 to 4 of GNN-encoder's paper)."""

import logging

from gnn_encoder.core.storage.atomic import write_text
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting.evidence import present_evidence
from gnn_encoder.presenting.tables import titled


def main(stage: Stage) -> None:
    """Collect the evidence, and write its tables and figures."""
    text = "\n\n".join(map(titled, present_evidence(stage))) + "\n"
    logging.getLogger(__name__).info("\n%s", text)
    write_text(stage.scratch / "tables.md", text)


if __name__ == "__main__":
    run(main)
