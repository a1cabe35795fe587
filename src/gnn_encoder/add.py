"""`gnn-encoder add`: new passages in a built index, encoded by what was trained.

    data/versions/SYSTEM/1200/         a version of 1,200 passages, whole; new ones are rows behind the others
    data/versions/SYSTEM/FINGERPRINT   a link to the version that is searched, named after the index that was built

The link is replaced when a version is whole: a kill leaves the former one, and the next command removes the rest.
"""

import fcntl
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint, replacing, seal
from gnn_encoder.base.matrix import ArrayWriter, Matrix, array_blocks, open_matrix, read_manifest
from gnn_encoder.base.tables import PASSAGES, PICKED, count_rows, open_table, with_title, write_table
from gnn_encoder.data.formats import read_corpus
from gnn_encoder.data.reading import refuse_repeated
from gnn_encoder.gnn.graph import link, open_nodes, reach
from gnn_encoder.gnn.neighbourhood import Subgraph, graph_encoder, open_informer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import MAIN, REFERENCE, registry
from gnn_encoder.search.faiss_index import PassageIndex, build, check_ids
from gnn_encoder.searcher import Version, current, newest
from gnn_encoder.text.batches import Inputs, encode_rows
from gnn_encoder.text.corpus import embed_passages, load_encoder, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder, TextModel
from gnn_encoder.text.tokens import TextTokens, title_separator

Encode = Callable[[pl.DataFrame], Matrix]  # passages -> their vectors. *Shape:* (b,) -> (b, d)
AT_A_TIME = 256  # passages that are encoded together: memory grows with them and with the graph's queries


def add_passages(system: str, path: Path) -> str:
    """Add the passages of a file like BEIR's corpus.jsonl to a dense system's index, and say how many it has now."""
    if system not in registry().of_kind("plain", "graph"):
        cure = "put the passages into the data, and build again"
        raise UserError(f"--system is {system!r}: its vectors are not made of a passage's text alone; {cure}")
    link = newest(system)
    home = link.parent
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until this process ends in whatever way
        before = current(system)
        check_ids(before.index, before.passages)
        for left in {*home.iterdir()} - {home / "lock", link, before.index.parent}:
            left.unlink() if left.is_symlink() or left.is_file() else shutil.rmtree(left)
        new = _read(path, before.passages)
        total = count_rows(before.passages) + len(new)
        with replacing(home / str(total)) as folder:
            _write(system, before, folder, new)
        (home / "next").symlink_to(str(total))
        (home / "next").replace(link)
    return f"{system} now has {total:,} passages, {len(new):,} of them new; `rm -r {home}` takes all added ones out"


def _read(path: Path, before: Path) -> pl.DataFrame:
    """The passages of a file, of which the table `before` has none: columns pid, title, text."""
    rows = []
    for place, row in read_corpus(path):
        if (passage := row.with_text()) is None:
            raise UserError(f"{place}, text: there is none, nor a title; give it one or remove the row")
        rows.append(passage)
    if not rows:
        raise UserError(f"{path}: is empty; write one passage a line")
    new = pl.DataFrame(rows, pl.Schema(PASSAGES), orient="row")
    refuse_repeated(lambda: read_corpus(path), new["pid"], "_id")
    known = pl.scan_parquet(before).filter(pl.col("pid").is_in(new["pid"].implode())).select("pid").collect()["pid"]
    if len(known):
        cure = "remove such lines; to change a passage, change the data and build again"
        raise UserError(f"{path}: {known[0]!r} is in the index already, one of {len(known):,}; {cure}")
    return new


def _write(system: str, before: Version, folder: Path, new: pl.DataFrame) -> None:
    """Write a version: what there was before, and behind it the new passages."""
    params, version = load_params(), Version.at(folder)
    parts = chain(open_table(before.passages, PASSAGES).iter_batches(), [new.to_arrow()])
    write_table(version.passages, PASSAGES, parts, PICKED)
    old, encode = read_manifest(before.embeddings), _open_encoder(system, params)
    n, d = old.shape
    writer = ArrayWriter(version.embeddings, (n + len(new), d), old.dtype)
    for first, block in array_blocks(open_matrix(before.embeddings)):
        writer.write(first, block)
    for number, passages in enumerate(new.iter_slices(AT_A_TIME)):
        writer.write(n + number * AT_A_TIME, encode(passages))
    mark = fingerprint(version.passages, before=old.fingerprint)
    writer.finish(replace(old, shape=(n + len(new), d), input_fingerprint=mark, fingerprint=mark))
    factory = PassageIndex.open(before.index).factory
    build(version.embeddings, version.index, factory=factory, pids=version.passages, system=system, seed=params.seed)
    seal(version.embeddings)


def _open_encoder(system: str, params: Params) -> Encode:
    """What encodes new passages as the system's own were encoded."""
    matrix, model = project.embeddings(system), project.encoder(system)
    present = fingerprint(project.GNN) if system == MAIN else DualEncoder.passage_fingerprint(model)
    if read_manifest(matrix).model_fingerprint != present:
        raise UserError(f"{matrix}: another model than the present one made it; make it again (`dvc repro`)")
    if system == MAIN:
        return _open_informer(params)
    return partial(_alone, load_encoder(model, params.encoder), params.encoder.batch_tokens)


def _alone(encoder: DualEncoder, batch_tokens: int, passages: pl.DataFrame) -> Matrix:
    return embed_passages(encoder, _tokens(encoder, passages), batch_tokens, np.arange(len(passages)))


def _tokens(model: TextModel, passages: pl.DataFrame) -> TextTokens:
    prefix, join = model.prefix_of(project.PASSAGES), partial(with_title, separator=title_separator(model.tokenizer))
    return TextTokens.of([prefix + join(*row) for row in passages.select("title", "text").rows()], model.tokenizer)


def _open_informer(params: Params) -> Encode:
    """What gives new passages their h'_p (Eq. 8-10).

    They get edges to the queries of the graph whose k passages they would enter by M_de's score. The queries' own h'_q
    (Eq. 6, 7) stay those of the build.
    """
    links, dtype = _open_encoder(REFERENCE, params), read_manifest(project.embeddings(REFERENCE)).dtype
    joint = graph_encoder(params)[0]
    inform, nodes = open_informer(joint, params), open_nodes()
    near = inform.near
    least = reach(near.graph, near.labelled if params.mgt.labels else None)
    features = _open_m_ce(params) if near.features else None

    def encode(passages: pl.DataFrame) -> Matrix:
        like_built = links(passages).astype(dtype).astype(np.float32)  # as the build stores E_P of M_de
        found = Subgraph.of_new(link(nodes, least, like_built), len(passages))
        if features:
            found = replace(found, features=features(found, passages))
        return inform.inform(found, _alone(joint, params.encoder.batch_tokens, passages))

    return encode


def _open_m_ce(params: Params) -> Callable[[Subgraph, pl.DataFrame], tuple[Matrix, Matrix]]:
    """M_ce's features of the edges of new passages, and of their self-loops. *Shape:* (E, d_e), (b, d_e)."""
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    queries, length = open_queries(project.NODES, model), params.train_cross_encoder.max_length

    def embed(pairs: Inputs) -> Matrix:
        rows = np.arange(len(pairs))
        found = encode_rows(pairs, rows, model.embed, params.encoder.batch_tokens, model.dimension)
        return found.astype(np.float16).astype(np.float32)  # as the build stores them

    def features(of: Subgraph, passages: pl.DataFrame) -> tuple[Matrix, Matrix]:
        tokens, itself = _tokens(model, passages), np.arange(len(passages))
        edges = queries, of.queries[of.edge_query], tokens, of.edge_passage
        loops = tokens, itself, tokens, itself
        return embed(Inputs.pairs(*edges, model.template, length)), embed(Inputs.pairs(*loops, model.template, length))

    return features
