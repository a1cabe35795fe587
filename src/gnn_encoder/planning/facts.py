"""What a data set holds, as far as costs and choices depend on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.prepare import check_count, own_file, read_texts
from gnn_encoder.inspection.lengths import Lengths
from gnn_encoder.inspection.survey import Survey
from gnn_encoder.pipeline.params import Data


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A data set as stage prepare makes it."""

    passages: int
    train: int  # queries that training uses
    available: int  # training queries that the source has
    dev: int
    test: int
    labels_a_query: float  # relevant passages of a training query
    passage_tokens: Lengths
    query_tokens: Lengths
    unlabelled: int = 0  # queries whose labels are hidden, and the user's own without labels
    copies: int = 0  # passages with title and text of an earlier one
    own: int = 0  # queries that are passages themselves
    dropped: Mapping[str, int] = field(default_factory=dict)  # what the source leaves out or replaces -> how often

    @classmethod
    def of(cls, found: Survey, data: Data, hidden_fraction: float) -> Self:
        """What stage prepare would make of a source.

        Args:
            hidden_fraction: pair.unlabelled_fraction, which says how many of the training queries that
                `data.train_queries` leaves out become queries without labels.
        """
        where, passages, splits = data.path or data.source, found.passages, found.splits
        for split in splits.values():
            if not split.queries:
                if not split.in_file:
                    rule = f"there are no {split.name} queries; add some"
                elif not split.grades:
                    rule = f"there are no judgements of the {split.name} queries; add some"
                else:
                    rule = f"no judgement of the {split.name} queries has a grade above 0; correct the judgements"
                raise UserError(f"{where}: {rule}")
        train, own = splits["train"], own_file(data.unlabelled)
        check_count(where, passages.count)
        assert passages.lengths is not None and train.lengths is not None
        dev = splits["dev"].queries if "dev" in splits else max(1, round(data.dev_fraction * train.queries))
        available = train.queries - (0 if "dev" in splits else dev)
        used = min(available, data.train_queries or available)
        hidden = min(available - used, round(hidden_fraction * available))
        return cls(
            passages=passages.count,
            train=used,
            available=available,
            dev=dev,
            test=splits["test"].queries,
            labels_a_query=sum(train.each) / train.queries,
            passage_tokens=passages.lengths,
            query_tokens=train.lengths,
            unlabelled=hidden + (sum(1 for _ in read_texts(own)) if own else 0),
            copies=passages.copies,
            own=found.own,
            dropped=found.dropped,
        )

    def nodes(self, unlabelled: int | None) -> int:
        """Queries of the graph: those of training, and of those without labels all or so many."""
        return self.train + (self.unlabelled if unlabelled is None else min(unlabelled, self.unlabelled))
