"""cache_passages SYSTEM: the corpus as a matrix of plain dual-encoder embeddings (Eq. 6 reads M_de's)."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.encoders.corpus import alone, encode_corpus
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages


def main() -> None:
    """Encode every passage with the system's encoder."""
    params = load_params()
    system = project.chosen(sys.argv[1:], tuple(project.ENCODERS))
    folder = project.ENCODERS[system]
    inputs = [project.PASSAGES, folder]
    sections = {"cache_passages": params.cache_passages, "precision": params.encoder.precision}
    with output(project.embeddings(system), inputs, sections) as scratch:
        encoder = DualEncoder.load(folder, precision=params.encoder.precision).for_inference()
        encode_corpus(
            encoder,
            alone(encoder, open_passages(encoder)),
            scratch,
            dtype=params.cache_passages.dtype,
            batch_tokens=params.encoder.batch_tokens,
            manifest={"model_fingerprint": fingerprint(folder), "input_fingerprint": fingerprint(project.PASSAGES)},
        )


if __name__ == "__main__":
    run(main)
