"""A project of random words with tiny random models, for measuring memory: see memory.py.

Usage: `python benchmarks/synthetic.py FOLDER PASSAGES`; with `--verify STAGE`, check what that stage wrote there.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import torch
import yaml
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerBase

from gnn_encoder.base.matrix import array_blocks, open_matrix
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, ROW_GROUP, count_rows, write_table
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.mgt.phases import new_gnn
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts
from gnn_encoder.pipeline.params import DualCross, Params, load_params
from gnn_encoder.pipeline.project import MAIN, REFERENCE
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder, DualEncoderSettings
from gnn_encoder.text.pretrained import Source, load_tokenizer, read_stated

N_QUERIES = 2_000
WORDS = (8, 12)  # a text
HIDDEN = 32
VIEWS = 2
ASKED = 6  # tokens of a generated query, special ones included: a random model never ends one by itself
# Stages that write a matrix, whose it is, and rows a passage.
MATRICES = {
    "cache_passages": ("dual_encoder", 1),
    "encode_corpus": ("gnn_encoder", 1),
    "encode_views": ("dual_cross", VIEWS),
}


def write_project(folder: Path, n_passages: int) -> None:
    """Everything that cache_passages, build_graph, embed_edges, encode_corpus, generate_queries, encode_views read.

    Args:
        folder: made if missing; becomes a project's root.
        n_passages: of 8 to 12 words.
    """
    params = load_params()
    params = params.model_copy(update={"dual_cross": _few_tokens(params.dual_cross)})
    torch.manual_seed(params.seed)
    tokenizer = load_tokenizer(Source(params.encoder.model))
    folder.mkdir(parents=True, exist_ok=True)
    for declared in ("dvc.yaml", "systems.yaml"):
        shutil.copy(declared, folder)
    (folder / "params.yaml").write_text(yaml.safe_dump(params.model_dump()), encoding="utf-8")
    _write_tables(folder, n_passages, _words(tokenizer), params.seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * HIDDEN,
        num_labels=1,
    )
    _dual_encoder(config, tokenizer, params).save(folder / project.encoder(REFERENCE))
    # Other weights than M_de's, as after joint training: encode_corpus encodes the passages again.
    _dual_encoder(config, tokenizer, params).save(folder / project.encoder(MAIN))
    cross_encoder = BertForSequenceClassification(config)
    CrossEncoder(model=cross_encoder, tokenizer=tokenizer, precision="auto").save(folder / project.CROSS_ENCODER)
    _gnn(params).save(folder / project.gnn(MAIN))
    views = _dual_encoder(config, tokenizer, params, pair_length=params.dual_cross.max_length)
    views.save(folder / project.encoder("dual_cross"))
    _write_generator(config, tokenizer, params, folder)


def _few_tokens(section: DualCross) -> DualCross:
    generator = section.generator.model_copy(update={"query_length": ASKED})
    return section.model_copy(update={"views": VIEWS, "generator": generator})


def _write_generator(config: BertConfig, tokenizer: PreTrainedTokenizerBase, params: Params, folder: Path) -> None:
    with TemporaryDirectory() as encoder:
        BertModel(config).save_pretrained(encoder)
        tokenizer.save_pretrained(encoder)
        model = QueryGenerator.from_encoder(Source(encoder), params.encoder, seed=params.seed)
    model.save(folder / project.GENERATOR)


def _dual_encoder(
    config: BertConfig, tokenizer: PreTrainedTokenizerBase, params: Params, *, pair_length: int | None = None
) -> DualEncoder:
    model = BertModel(config)
    names = DualEncoderSettings.__annotations__.keys() - {"shared", "pair_length"}
    used = read_stated(Source.of(params.encoder)).complete(params.encoder)
    chosen = {name: getattr(used, name) for name in names}
    settings = DualEncoderSettings(**chosen, shared=True, pair_length=pair_length)
    return DualEncoder(query=model, passage=model, tokenizer=tokenizer, settings=settings, precision="auto")


def _gnn(params: Params) -> QueryPassageGNN:
    return new_gnn(params.mgt, HIDDEN, None, "cosine", labelled=False, seed=params.seed)


def _write_tables(folder: Path, n_passages: int, words: list[str], seed: int) -> None:
    generator = np.random.default_rng(seed)
    write_table(folder / project.PASSAGES, PASSAGES, _passages(generator, n_passages, words))
    qids = [f"q{i}" for i in range(N_QUERIES)]
    answers: list[list[str]] = [[]] * N_QUERIES
    queries = pa.table([qids, _texts(generator, N_QUERIES, words), answers], schema=QUERIES)
    for split in ("train", "dev"):
        write_table(folder / project.queries(split), QUERIES, [queries])
    pids = [f"p{row}" for row in generator.integers(n_passages, size=N_QUERIES)]
    for path in (project.qrels("train"), project.qrels("dev"), project.POSITIVES):
        write_table(folder / path, QRELS, [pa.table([qids, pids, [1] * N_QUERIES], schema=QRELS)])


def _passages(generator: np.random.Generator, n_passages: int, words: list[str]) -> Iterator[pa.Table]:
    for first in range(0, n_passages, ROW_GROUP):
        size = min(ROW_GROUP, n_passages - first)
        pids = [f"p{row}" for row in range(first, first + size)]
        yield pa.table([pids, [""] * size, _texts(generator, size, words)], schema=PASSAGES)


def _texts(generator: np.random.Generator, size: int, words: list[str]) -> list[str]:
    chosen = generator.integers(len(words), size=(size, WORDS[1]))
    lengths = generator.integers(WORDS[0], WORDS[1] + 1, size=size)
    return [" ".join(words[j] for j in row[:length]) for row, length in zip(chosen, lengths, strict=True)]


def _words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Whole words of the vocabulary: one token each."""
    return sorted(word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 2)


def verify(folder: Path, n_passages: int, stage: str) -> None:
    """Stop unless the stage did all of its work: a figure for work that was skipped is worth nothing."""
    params = load_params(folder / "params.yaml")
    if stage in MATRICES:
        matrix, rows = MATRICES[stage]
        expected, found = n_passages * rows, sum(_written_rows(folder / project.embeddings(matrix)))
    elif stage == "generate_queries":
        expected, found = n_passages * VIEWS, count_rows(folder / project.GENERATED / "queries.parquet")
    else:
        tables = {"build_graph": GraphArtifacts(name=MAIN).edges, "embed_edges": project.edge_features(MAIN) / "edges"}
        place = folder / tables[stage]
        parts = [place] if place.is_file() else sorted(place.glob("*.parquet"))
        expected, found = N_QUERIES * params.build_graph.k, sum(count_rows(part) for part in parts)
    if found != expected:
        raise SystemExit(f"{stage}: wrote {found} rows, expected {expected}: what was measured is not the whole stage")


def _written_rows(matrix: Path) -> Iterator[int]:
    """Rows of each block that hold an embedding; a row that was never written is zero."""
    for _, block in array_blocks(open_matrix(matrix)):
        yield int((block != 0).any(axis=1).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("passages", type=int)
    parser.add_argument("--verify", metavar="STAGE")
    options = parser.parse_args()
    if options.verify:
        verify(options.folder, options.passages, options.verify)
        return
    write_project(options.folder, options.passages)


if __name__ == "__main__":
    main()
