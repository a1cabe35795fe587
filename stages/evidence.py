"""evidence: ablations, sweeps, attention, times and cases (the paper's Tables 3 to 5 and Figures 2 to 4)."""

import logging

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.atomic import publish_files, write_text
from gnn_encoder.evidence.collect import COMPARED
from gnn_encoder.evidence.trials import KINDS
from gnn_encoder.presenting.evidence import METRICS, PLOTS, present_evidence
from gnn_encoder.presenting.tables import titled

log = logging.getLogger(__name__)


def main() -> None:
    """Collect, compare, write tables and pictures."""
    params = load_params()
    trials = [trial.folder for kind in KINDS.values() for trial in kind(params)]
    system = project.gnn_system("gnn_encoder", params)
    judged = [*map(project.queries, ("train", "dev")), *map(project.qrels, ("train", "dev"))]
    runs = [project.run_file(name, "dev") for name in COMPARED]
    inputs = [*trials, project.ENCODING_TIMES, project.PASSAGES, *judged, system.nodes, project.CROSS_ENCODER, *runs]
    sections = {
        "evidence": params.evidence,
        "significance": params.evaluate.significance,
        "answers": params.evaluate.answers,
        "own": [params.build_graph.k, params.mgt.beta, params.seed],
        "cross_encoder": params.train_cross_encoder.max_length,
        "precision": params.encoder.precision,
    }
    with output(project.EVIDENCE, inputs, sections) as scratch:
        if distributed.is_first():
            text = "\n\n".join(map(titled, present_evidence(params, scratch))) + "\n"
            log.info("\n%s", text)
            write_text(scratch / "tables.md", text)
            publish_files(scratch / METRICS, project.METRICS / "evidence")
            publish_files(scratch / PLOTS, project.PLOTS / "evidence")


if __name__ == "__main__":
    run(main)
