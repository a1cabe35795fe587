"""retrieve SYSTEM: runs of the dev and test questions, searched in the system's index."""

import logging
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.encoders.corpus import embed_questions
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_queries
from gnn_encoder.evaluation.runs import write_run
from gnn_encoder.index.search import PassageIndex

log = logging.getLogger(__name__)


def main() -> None:
    """Encode the questions with the system's encoder and search its index."""
    params = load_params()
    system = project.chosen(sys.argv[1:], tuple(project.ENCODERS))
    encoder_folder = project.ENCODERS[system]
    files = {split: project.run_file(system, split) for split in project.JUDGED}
    target = files["dev"].parent
    inputs = [encoder_folder, project.index(system), *map(project.queries, files)]
    sections = {"retrieve": params.retrieve, "precision": params.encoder.precision}
    with output(target, inputs, sections) as scratch:
        if distributed.is_first():
            encoder = DualEncoder.load(encoder_folder, precision=params.encoder.precision).for_inference()
            index = PassageIndex.open(project.index(system))
            for split, file in files.items():
                questions = embed_questions(
                    encoder, open_queries(project.queries(split), encoder), params.encoder.batch_tokens
                )
                write_split(questions, index, split, params.retrieve.depth, scratch / file.name)


def write_split(questions: NDArray[np.float32], index: PassageIndex, split: str, depth: int, path: Path) -> None:
    """Search every question of a split; a corpus smaller than `depth` is listed whole. *Shape:* questions (n, d)."""
    if depth > index.passages:
        log.info("retrieve.depth %d exceeds the corpus: %s's run holds all %d passages", depth, split, index.passages)
    found = index.find(questions, min(depth, index.passages), name="retrieve.depth")
    if index.views > 1:
        vectors, most = found.vectors.mean(), found.vectors.max()
        log.info(
            "%s: %.0f vectors fetched a question, %d at most, %d views a passage", split, vectors, most, index.views
        )
    qids = read_column(project.queries(split), "qid").to_pylist()
    write_run(path, qids, index.pids(), found.passages, found.scores, index.system)


if __name__ == "__main__":
    run(main)
