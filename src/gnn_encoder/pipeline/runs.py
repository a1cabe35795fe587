"""Searching a system's index for the judged queries, where all of them lie."""

from functools import partial
from pathlib import Path

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import embed_rows
from gnn_encoder.pipeline.params import Params
from gnn_encoder.search.faiss_index import PassageIndex
from gnn_encoder.text.encoder import DualEncoder


def write_runs(encoder: DualEncoder, index: Path, folder: Path, params: Params) -> None:
    """Write the runs of the dev and test queries, encoded by `encoder` and searched in the index of a folder.

    A run holds the whole corpus if that is smaller than `retrieve.depth`, but never the query itself.
    """
    opened = PassageIndex.open(index)
    for split in project.JUDGED:
        table = project.queries(split)
        queries = embed_rows(encoder, table, params.encoder)
        target = folder / project.run_file(opened.system, split).name
        identical, depth = Identical.read(project.IDENTICAL, split), params.retrieve.depth
        ranking = identical.search(partial(opened.search, queries), depth, opened.passages)
        write_ranking(target, ranking, table, project.PASSAGES, opened.system)
