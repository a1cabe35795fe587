"""Section `data` of params.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gnn_encoder.core.section import Count, Fraction, Section


class Names(Section):
    """Each split's data set in ir_datasets."""

    train: str
    dev: str | None = None
    test: str


class Cutting(Section):
    """How texts are cut into passages."""

    words: Count  # most words of a passage
    overlap: Annotated[int, Field(ge=0)]  # most words that a passage repeats of the one before

    @model_validator(mode="after")
    def _passages_go_on(self) -> Self:
        if self.overlap >= self.words:
            raise ValueError(
                f"data.passages.overlap is {self.overlap}: must be below data.passages.words, {self.words}"
            )
        return self


class Data(Section):
    """Where passages, queries and judgements come from."""

    source: Literal["insuranceqa", "beir", "log", "squad", "msmarco", "dpr", "ir_datasets"]
    path: str | None  # folder of the source's files; null for a source that is a package
    passages: Cutting | None = None  # long texts are cut into passages; null: each text is a passage
    train_queries: Count | None  # how many training queries are used, drawn at random; null: all
    dev_fraction: Fraction  # share of train that becomes dev where the source has no dev split
    name: str | None = None  # dpr: nq, trivia, ...; ir_datasets: a data set that has parts train and test
    names: Names | None = None  # ir_datasets: the data set of each split, instead of `name`
    test: Literal["dev", "trec_dl_2019", "trec_dl_2020"] = "dev"  # msmarco: which queries are the test split
    min_count: Count = 1  # log: a query and a passage that were logged together less often are no positive pair
    split: Literal["hash", "time"] = "hash"  # log: what decides which split a query belongs to
    test_fraction: Fraction = 0.1  # log, squad: share of the queries that becomes test, if the source has no test split
    unlabelled: str | None = None  # file of queries without labels: text, one a line, or Parquet with a column text

    @model_validator(mode="after")
    def _nothing_in_vain(self) -> Self:
        readers = {
            "path": ("beir", "log", "squad", "msmarco", "dpr"),
            "name": ("dpr", "ir_datasets"),
            "names": ("ir_datasets",),
            "test": ("msmarco",),
            "min_count": ("log",),
            "split": ("log",),
            "test_fraction": ("log", "squad"),
        }
        for key, sources in readers.items():
            field = type(self).model_fields[key]
            unset = None if field.is_required() else field.default
            if getattr(self, key) != unset and self.source not in sources:
                cure = "set it to null" if key == "path" else "remove it"
                raise ValueError(f"data.{key} is set, which source {self.source} does not read; {cure}")
        return self
