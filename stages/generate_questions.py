"""generate_questions: questions for every passage, q_j^i ~ P_QG(q|d_j) (Dual-Cross-Encoder Eq. 9), and how good."""

import logging
from dataclasses import asdict
from pathlib import Path

from gnn_encoder.core import distributed, project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.dual_cross.generation import generate_questions, sampling
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.dual_cross.quality import Quality, measure, texts_of_rows
from gnn_encoder.encoders.pretrained import Source
from gnn_encoder.encoders.texts import open_passages

log = logging.getLogger(__name__)
EXAMPLES = 5  # passages whose questions are shown


def main() -> None:
    """Generate, then compare with the dev questions."""
    params = load_params()
    section = params.dual_cross
    inputs = [project.PASSAGES, project.queries("dev"), project.POSITIVES, project.GENERATOR]
    sections = {
        "lengths": [section.generator.passage_length, section.generator.query_length],
        "views": section.views,
        "top_k": section.top_k,
        "precision": params.encoder.precision,
        "seed": params.seed,
    }
    with output(project.GENERATED, inputs, sections) as scratch:
        model = QueryGenerator.load(Source(str(project.GENERATOR)), precision=params.encoder.precision).for_inference()
        length = section.generator.query_length
        how = sampling(model, seed=params.seed, views=section.views, top_k=section.top_k, query_length=length)
        generate_questions(
            model,
            open_passages(model),
            project.PASSAGES,
            scratch / "questions.parquet",
            scratch / WORK / "parts",
            how,
            passage_length=section.generator.passage_length,
            batch_tokens=params.encoder.batch_tokens,
        )
        if distributed.is_first():
            judge(scratch / "questions.parquet", scratch / "quality.json", section.views)


def judge(generated: Path, target: Path, views: int) -> None:
    """Write and tell the quality of the dev passages' questions."""
    pairs = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
    quality: Quality = measure(pairs, project.queries("dev"), project.PASSAGES, generated, views)
    write_json(target, asdict(quality))
    best = ", ".join(f"best of {k + 1}: {value:.3f}" for k, value in enumerate(quality.rouge_l))
    log.info("ROUGE-L %s; a passage's first sentence: %.3f", best, quality.rouge_l_first_sentence)
    log.info("self-BLEU-4 %.3f", quality.self_bleu)
    shown = pairs.head(EXAMPLES)
    asked = texts_of_rows(project.queries("dev"), shown["query"].to_numpy())
    for question, passage in zip(asked, shown["passage"].to_list(), strict=True):
        rows = range(passage * views, (passage + 1) * views)
        log.info("asked: %s; generated: %s", question, " | ".join(texts_of_rows(generated, rows)))


if __name__ == "__main__":
    run(main)
