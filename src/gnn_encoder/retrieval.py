"""Top passages of a table of questions by one of the dense systems."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import Params
from gnn_encoder.encoders.corpus import embed_questions
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_queries
from gnn_encoder.index.search import top_k


def top_passages(
    system: str,
    questions: Path,
    k: int,
    params: Params,
    *,
    factory: str = "Flat",
    section: str,
    parameter: str,
) -> tuple[NDArray[np.integer[Any]], NDArray[np.float32]]:
    """Passage rows and scores, best first. *Shape:* both (questions, k).

    Args:
        factory: FAISS factory string; Flat streams over the matrix in constant memory.
        section: where in params.yaml k (named `parameter`) and the factory come from, for errors.
    """
    encoder = DualEncoder.load(project.ENCODERS[system], precision=params.encoder.precision).for_inference()
    tokens = open_queries(questions, encoder)
    queries = embed_questions(encoder, tokens, params.encoder.batch_tokens)
    distributed.barrier()
    return top_k(
        project.embeddings(system), queries, k, factory, section=section, parameter=parameter, seed=params.seed
    )
