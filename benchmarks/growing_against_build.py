"""How near an addition comes to a build: passages that are held out of an index, and passages that are added again.

    python benchmarks/growing_against_build.py

It runs in the root of a project where gnn_encoder is built and nothing was added yet, and leaves it so.

1. Passages that no training query is labelled with are held out: the graph, the vectors and the index are built without
   them, by the same trained models, and they are added to that index. They and all others are compared with the build
   that has them all.
2. As many passages, labelled or not, are deleted from the whole index and added again.
"""

import os
import runpy
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

import numpy as np
import polars as pl
from growing import run, write

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import PASSAGES
from gnn_encoder.core.storage.arrays import ArrayManifest, ArrayWriter, open_matrix, read_manifest
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.growing.encoding import TextEncoder
from gnn_encoder.growing.place import folder_of
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.build import PID_TABLE, PIDS
from gnn_encoder.index.search import PassageIndex, TableRows
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.stage import Stage
from gnn_encoder.pipeline.systems import registry

SYSTEM, BASE = "gnn_encoder", "dual_encoder"
COUNT, SEED, K = 300, 5, 10
STAGES = Path(__file__).parents[1] / "stages"
Vectors = dict[str, np.ndarray]


class Judge:
    """The dev queries with their relevant passages, by id."""

    def __init__(self, params: Params) -> None:
        pairs = relevant_pairs(project.queries("dev"), project.qrels("dev"), project.PASSAGES)
        pids = pl.read_parquet(project.PASSAGES)["pid"].gather(pairs["passage"])
        asked = pairs["query"].unique().sort().to_list()
        self._relevant = set(zip(pairs["query"], pids, strict=True))
        self._asked = asked
        texts = pl.read_parquet(project.queries("dev"))["text"].gather(asked).to_list()
        self._queries = TextEncoder(project.encoder(SYSTEM), params).queries(texts)

    def tell(self, name: str) -> None:
        """Print RR@10 of the index in the current folder, with what was added to it."""
        base = PassageIndex.open(project.index(SYSTEM))
        table, grown = TableRows(base.folder / PIDS, PID_TABLE), GrownIndex.open(base)
        rows, pids = (
            (grown or base).search(self._queries, K)[0],
            table if grown is None else grown.tables(table, ["pid"]),
        )
        ranks = []
        for query, some in zip(self._asked, rows, strict=True):
            found = [(query, row["pid"]) in self._relevant for row in pids.take(some)]
            ranks.append(1 / (1 + found.index(True)) if any(found) else 0.0)
        print(f"dev RR@10, {name}: {np.mean(ranks):.4f}", flush=True)


def vectors() -> Vectors:
    """All passages that can be found in the current folder, by id."""
    pids, matrix = pl.read_parquet(project.PASSAGES)["pid"], open_matrix(project.embeddings(SYSTEM))
    grown = GrownIndex.open(PassageIndex.open(project.index(SYSTEM)))
    if grown is None:
        return dict(zip(pids, np.asarray(matrix, np.float32), strict=True))
    live = grown.overlay.is_live(np.arange(len(pids)))
    result = {pid: np.asarray(matrix[row], np.float32) for row, pid in enumerate(pids) if live[row]}
    for segment in grown.overlay.segments:
        if segment.entry.passages:
            result |= dict(zip(pl.read_parquet(segment.passages)["pid"], np.asarray(segment.vectors), strict=True))
    return result


def compare(name: str, found: Vectors, built: Vectors, pids: list[str]) -> None:
    """Print the cosines of some passages with those of the whole build."""
    pairs = [(found[pid], built[pid]) for pid in pids]
    cosine = np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])
    low, changed = np.quantile(cosine, 0.05), (cosine < 0.999).mean()
    print(f"{name}: cosine mean {cosine.mean():.4f}, 5% {low:.4f}, least {cosine.min():.4f}; {changed:.1%} below 0.999")


def hold_out(root: Path, folder: Path, rows: np.ndarray, params: Params) -> None:
    """Build all that follows M_de's embeddings in `folder`, the current one, without some passages."""
    for name in ("systems.yaml", "params.yaml"):
        shutil.copy(root / name, folder)
    project.PREPARED.mkdir(parents=True)
    for path in ("prepared/queries", "prepared/qrels", BASE, "mgt", "cross_encoder"):
        os.symlink(root / "data" / path, folder / "data" / path)
    kept = np.delete(np.arange(pl.read_parquet(root / project.PASSAGES).height), rows)
    table = pl.read_parquet(root / project.PASSAGES)[kept]
    write_table(project.PASSAGES, PASSAGES, [table.to_arrow()])
    whole = read_manifest(root / project.embeddings(BASE))
    values = open_matrix(root / project.embeddings(BASE))[kept]
    with ArrayWriter(project.embeddings(BASE), values.shape, whole.dtype) as writer:
        writer.write(0, values)
        names = {"model_fingerprint": whole.model_fingerprint, "input_fingerprint": "", "fingerprint": "held out"}
        writer.finish(ArrayManifest(**names, shape=values.shape, dtype=whole.dtype))
    for name, target in (
        ("build_graph", project.graph(SYSTEM)),
        ("encode_corpus", project.embeddings(SYSTEM)),
        ("build_index", project.index(SYSTEM)),
    ):
        target.mkdir(parents=True)
        item = registry().built[SYSTEM].model_dump()
        main = runpy.run_path(str(STAGES / f"{name}.py"))["main"]
        main(Stage(key=SYSTEM, item=item, params=params, inputs=[], scratch=target))


def main() -> None:
    if folder_of(SYSTEM).exists():
        raise SystemExit(f"{folder_of(SYSTEM)}: exists; run this where nothing was added yet")
    params, passages, root, random = (
        load_params(),
        pl.read_parquet(project.PASSAGES),
        Path.cwd(),
        np.random.default_rng(SEED),
    )
    judge, built = Judge(params), vectors()
    judge.tell("the whole build")
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    free = np.setdiff1d(np.arange(len(passages)), pairs["passage"].to_numpy())
    rows = np.sort(random.choice(free, COUNT, replace=False))
    with tempfile.TemporaryDirectory() as temporary, chdir(temporary):
        folder = Path(temporary)
        hold_out(root, folder, rows, params)
        judge.tell(f"a build without {COUNT} passages")
        held = passages[rows]
        compare("the others before", vectors(), built, sorted(built.keys() - set(held["pid"])))
        run("add", write(folder, "held.jsonl", held.rename({"pid": "_id"}).to_dicts()))
        judge.tell("these added to it")
        found = vectors()
        compare("the added ones", found, built, held["pid"].to_list())
        encoded = dict(
            zip(passages["pid"], np.asarray(open_matrix(root / project.embeddings(BASE)), np.float32), strict=True)
        )
        compare("by M_de alone they would be", encoded, built, held["pid"].to_list())
    some = passages[np.sort(random.choice(len(passages), COUNT, replace=False))]
    try:
        with tempfile.TemporaryDirectory() as temporary:
            run("delete", *some["pid"])
            judge.tell(f"the whole build without {COUNT} others")
            run("add", write(Path(temporary), "again.jsonl", some.rename({"pid": "_id"}).to_dicts()))
            judge.tell("these added again")
            compare("the ones added again", vectors(), built, some["pid"].to_list())
    finally:
        shutil.rmtree(folder_of(SYSTEM), ignore_errors=True)


if __name__ == "__main__":
    main()
