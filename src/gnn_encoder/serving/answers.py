"""What the endpoints answer, with the examples that the API's description shows."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Span = tuple[int, int]


class Answer(BaseModel):
    """An answer; its fields are all there is."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Marks(Answer):
    """Where a passage has words of the query: first code point and the one after the last."""

    title: list[Span] = Field(examples=[[]])
    text: list[Span] = Field(examples=[[[0, 8]]])


class FoundPassage(Answer):
    """A passage of a result; `rank` counts from 1, `score` is what the system ranks by."""

    rank: int = Field(examples=[1])
    score: float = Field(examples=[0.71])
    pid: str = Field(examples=["11526"])
    title: str = Field(examples=[""])
    text: str = Field(examples=["Medicare does not cover hearing aids ..."])
    marks: Marks | None = None


class SearchAnswer(Answer):
    """A result, best first."""

    query: str = Field(examples=["Does Medicare cover hearing aids?"])
    system: str = Field(examples=["gnn_encoder"])
    hybrid: bool = False
    milliseconds: float = Field(description="From the request's arrival to its result.", examples=[6.2])
    hits: list[FoundPassage]


class PassageAnswer(Answer):
    """A passage."""

    pid: str = Field(examples=["11526"])
    title: str = Field(examples=[""])
    text: str = Field(examples=["Medicare does not cover hearing aids ..."])


class Placed(Answer):
    """How one system sees the pair; `rank` is None where the passage is not among the `depth` best."""

    system: str = Field(examples=["dual_encoder"])
    title: str = Field(examples=["M_de"])
    score: float | None = Field(examples=[0.58], description="None where the index does not give back its vectors.")
    rank: int | None = Field(examples=[7])
    depth: int = Field(examples=[100])


class InformingQuery(Answer):
    """A query of the graph that the passage attends to; `attention` is the mean over heads (Eq. 4)."""

    qid: str
    text: str
    attention: float
    by_head: list[float]
    labelled: bool = Field(description="Whether the query is labelled with this passage.")
    kind: Literal["training", "unlabelled", "generated"]


class GraphPart(Answer):
    """What the graph did to the passage."""

    queries: list[InformingQuery] = Field(description="Those with the most attention first.")
    n_queries: int = Field(description="How many queries the passage attends to, shown or not.")
    attention_of_the_others: float = Field(description="To the queries that are not shown.")
    attention_to_itself: float
    attention_to_itself_by_head: list[float] = Field(description="Empty as `by_head` is.")
    gate: float = Field(description="How far the filter gate opens (Eq. 9), mean over its columns, 0 to 1.")
    shift: float = Field(description="||h' - h||: how far the graph moved the embedding.")


class ExplainAnswer(Answer):
    """Why a passage stands where it stands for a query."""

    query: str
    system: str
    pid: str
    matched: list[str] = Field(
        description="Words of the query that the passage has.", examples=[["medicare", "hearing"]]
    )
    after: Placed
    before: Placed | None = Field(description="The system that this one's vectors are made from, such as M_de.")
    graph: GraphPart | None = Field(description="None where no graph took part; `note` then says why.")
    note: str | None = None


class SystemAnswer(Answer):
    """A system that is served."""

    name: str = Field(examples=["gnn_encoder"])
    title: str = Field(examples=["GNN-encoder"])
    graph: bool = Field(description="Whether queries inform its passages through a graph.")
    passages: int = Field(examples=[27413])
    views: int = Field(examples=[1], description="Vectors a passage.")
    dimension: int = Field(examples=[384])
    index: str = Field(examples=["Flat"])
    opened: datetime


class SystemsAnswer(Answer):
    """The systems that are served, and what a request may ask for."""

    default: str
    systems: list[SystemAnswer]
    hybrid: bool = Field(description="Whether BM25 can be searched beside them.")
    limits: dict[str, int]
    examples: list[str] = Field(description="Some queries of the data's dev split.")


class HealthAnswer(Answer):
    """Whether the server is alive, and whether it can answer now."""

    status: Literal["ready", "not ready"]
    live: bool
    ready: bool
    systems: list[str]
    waiting: int = Field(description="Queries that wait to be encoded.")
