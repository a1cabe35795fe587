"""Closed forms of a system's passages and the training labels, made of artifacts where they lie; dev queries choose."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.base.files import fingerprint
from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import Matrix, Origin, open_matrix
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.baselines.choice import Choice, write_choice
from gnn_encoder.baselines.dev import DevQueries, choose_shift, rounded
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.shifting import shifts
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.rankings import Encoded
from gnn_encoder.text.corpus import transform_corpus
from gnn_encoder.text.encoder import DualEncoder


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The labelled passages of a system whose vectors closed forms move, and the queries that are ranked with them.

    Attributes:
        queries: those of the system, by its encoder.
        asked: the labelled passages, and what asks for them.
        others: what the dev queries that choose find among passages without a label.
        splits: split -> the same for all its queries, as deep as a run.
        pairs: relevant pairs of the dev queries that choose, by their place among these.
    """

    queries: Encoded
    asked: Asked
    others: Others
    splits: Mapping[str, Others]
    pairs: pl.DataFrame
    dev: DevQueries

    @classmethod
    def of(cls, queries: Encoded, dev: DevQueries, depth: int) -> Self:
        """Search the passages without a label, `depth` deep for the runs."""
        matrix = open_matrix(project.embeddings(queries.base))
        asked, depth = Asked.of(matrix, queries.labels, queries.labelled), min(depth, len(matrix))
        relevant = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
        relevant = relevant.filter(pl.col("query").is_in(dev.rows.tolist()))
        own = {split: Identical.read(project.IDENTICAL, split) for split in queries.splits}
        sample = queries.splits["dev"][dev.rows], dev.depth, own["dev"].of_queries(dev.rows)
        return cls(
            queries=queries,
            asked=asked,
            others=Others(matrix, asked, *sample),
            splits={split: Others(matrix, asked, of, depth, own[split]) for split, of in queries.splits.items()},
            pairs=relevant.with_columns(query=pl.Series(np.searchsorted(dev.rows, relevant["query"].to_numpy()))),
            dev=dev,
        )

    def write_best(self, system: str, method: str, folder: Path, params: Params) -> tuple[Choice, Matrix]:
        """Write the runs of a closed form with the setting that is best on dev, and give that and the vectors."""
        tried = shifts(
            method,
            self.asked,
            self.others,
            self.pairs,
            open_matrix(project.embeddings(self.queries.base)),
            weights=params.baselines.query_mean,
            unit_length=self.queries.encoder.settings.similarity == "cosine",
        )
        dtype = params.cache_passages.dtype
        choice = choose_shift(tried, self.asked, self.others, self.dev, dtype=dtype)
        choice.tell(system)
        moved = rounded(next(moved for setting, moved in tried if setting == choice.setting)(), dtype)
        write_choice(folder, choice)
        for split, others in self.splits.items():
            target = folder / project.run_file(system, split).name
            write_ranking(target, others.rank(moved), project.queries(split), project.PASSAGES, system)
        return choice, moved

    def write_matrix(self, folder: Path, choice: Choice, moved: Matrix, params: Params) -> None:
        """Write the passage matrix with the labelled ones moved."""
        base, asked = self.queries.base, self.asked
        embeddings = project.embeddings(base)
        made_from = fingerprint(embeddings, *project.tables("train")[:2], **choice.setting)
        made_by = DualEncoder.passage_fingerprint(project.encoder(base))
        origin = Origin(model_fingerprint=made_by, input_fingerprint=made_from)
        transform_corpus(
            embeddings,
            folder,
            dtype=params.cache_passages.dtype,
            origin=origin,
            transform=lambda first, block: asked.place(first, block, moved),
        )
        write_choice(folder, choice)
