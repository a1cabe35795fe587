"""`gnn-encoder serve`: a FastAPI app over the built systems of a project, its bounds, and uvicorn, which runs it."""

import logging
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any

import faiss
import numpy as np
import polars as pl
import torch
import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import AfterValidator, BaseModel, Field, StringConstraints
from pydantic_core import PydanticCustomError
from starlette.middleware.trustedhost import TrustedHostMiddleware

import gnn_encoder
from gnn_encoder.base.distributed import cores
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import MANIFEST
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.tables import QUERIES, count_rows
from gnn_encoder.base.words import is_empty
from gnn_encoder.gnn.neighbourhood import open_explainer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import MAIN, PLUS, REFERENCE, registry
from gnn_encoder.search.faiss_index import TableRows, check_ids
from gnn_encoder.searcher import Answer, Searcher

SHOWN = 50  # queries of a passage that are told, those with the most attention
log = logging.getLogger(__name__)
ALLOWED = re.compile(r"(\*\.)?[\w.-]+|\*|\[[\da-fA-F:.]+\]")  # as TrustedHostMiddleware takes them
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MOST_HITS = 100
TOGETHER = 32  # most queries that are embedded and looked up in one batch
MOST_CHARACTERS = 1_000  # of a query, or of a name
EXAMPLES = 6  # dev queries that the page offers
REFUSED = (404, 409, 422)  # statuses of requests that are not answered
CONNECTIONS = 250  # open at a time; one more is answered with status 503
DRAIN = 30  # seconds that requests in flight have after SIGTERM
HEADERS = {
    "Cache-Control": "no-cache",  # passages may have changed
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the page's address holds the query
    "Cross-Origin-Resource-Policy": "same-origin",
}


class GraphExplainer:
    """GNN-encoder's graph and network, open in the project's root."""

    def __init__(self) -> None:
        self._inform, self._before = open_explainer(load_params())
        self._training, self._labelled = count_rows(project.queries("train")), relevant_pairs(*project.tables("train"))
        self._nodes = TableRows(project.NODES, QUERIES)

    def explain(self, pid: str) -> dict[str, Any]:
        """What informed a passage: the attention (Eq. 4) is the mean over heads, the gate (Eq. 9) that over columns."""
        table = pl.scan_parquet(project.PASSAGES).select("pid").with_row_index("row")
        rows = table.filter(pl.col("pid") == pid).collect(engine="streaming")["row"].to_numpy().astype(np.int64)
        if not len(rows):
            raise UserError(f"no passage has the id {pid!r}")
        before = self._before(rows)
        found = pl.DataFrame(self._inform.explain(rows, before))
        queries = found[:-1].sort("attention", descending=True, maintain_order=True)  # the last is the passage itself
        labelled = self._labelled.filter(pl.col("passage") == rows[0])["query"].implode()
        shown = queries.head(SHOWN).with_columns(labelled=pl.col("query").is_in(labelled))
        texts = [row["text"] for row in self._nodes.take(shown["query"].to_numpy())]
        kind = pl.when(pl.col("query") < self._training).then(pl.lit("training")).otherwise(pl.lit("unlabelled"))
        return {
            "queries": shown.select("attention", "labelled", text=pl.Series(texts), kind=kind).to_dicts(),
            "n_queries": len(queries),
            "attention_to_itself": found["attention"][-1],
            "gate": found["gate"][0],
            "shift": float(np.linalg.norm(self._inform(int(rows[0]), before) - before)),  # ||h' - h||
        }


def _seen(query: str) -> str:
    if is_empty(query):
        raise PydanticCustomError("empty", "is empty; give it some words")
    return query


Name = Annotated[str, StringConstraints(max_length=MOST_CHARACTERS)]


class Refusal(BaseModel):
    """Why a request is not answered, in one line."""

    detail: str


class SearchRequest(BaseModel):
    """A query; `system` is a name of /systems, by default the first."""

    query: Annotated[Name, StringConstraints(strip_whitespace=True), AfterValidator(_seen)]
    k: int = Field(10, ge=1, le=MOST_HITS)
    system: Name | None = None


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(Answer):
    """The answer of one system."""

    system: str
    milliseconds: float


def builds(system: str) -> list[bytes]:
    """The manifests of all that a system's explanations read: they tell one build from another, or from none."""
    read = project.PREPARED, project.GRAPH, project.EDGE_FEATURES, project.GNN, project.encoder(REFERENCE)
    manifests = (folder / MANIFEST for folder in (project.index(system), project.embeddings(REFERENCE), *read))
    return [one.read_bytes() if one.is_file() else b"" for one in manifests]


class Served:
    """An open system. One thread at a time answers all queries that wait, and one explains."""

    def __init__(self, name: str, *, hybrid: bool) -> None:
        entry, self.name, self._built = registry().dense[name], name, builds(name)
        self.title, self.has_graph = entry.title + " and BM25" * hybrid, name in (MAIN, PLUS)
        self._searching, self._explaining = threading.Lock(), threading.Lock()
        self._explainer: GraphExplainer | None = None
        self._waiting = dict[int, deque[tuple[str, Future[Answer]]]]()  # by k
        self.searcher = Searcher.open(project.index(name), hybrid=hybrid)
        check_ids(self.searcher.index.folder, project.PASSAGES)
        self.searcher.search("trial", 1)

    def search(self, query: str, k: int) -> Answer:
        """The best passages. Whoever comes next answers all that came meanwhile: a batch costs little more than one."""
        asked, waiting = Future[Answer](), self._waiting.setdefault(k, deque())
        waiting.append((query, asked))
        with self._searching:
            while not asked.done():
                batch = [waiting.popleft() for _ in range(min(TOGETHER, len(waiting)))]
                try:
                    found: Sequence[Answer] = self.searcher.answer([one for one, _ in batch], k)
                except Exception as error:
                    for _, of in batch:
                        of.set_exception(error)
                else:
                    for (_, of), answer in zip(batch, found, strict=True):
                        of.set_result(answer)
        return asked.result()

    def explain(self, pid: str) -> dict[str, Any]:
        """What informed a passage; the first question opens the graph, which takes some seconds."""
        with self._explaining:
            if builds(self.name) != self._built:  # passages may have other rows now, and the graph other edges
                raise UserError(f"{self.title} was built anew: restart the server, which searches the former build")
            self._explainer = self._explainer or GraphExplainer()
            return self._explainer.explain(pid)


def create_app(systems: Sequence[str] = (), *, hybrid: bool = False, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Open built systems of the project in the current folder, which must not change, and make the app.

    Without names they are GNN-encoder with labels and query bank, and M_de, as far as they are built; the first is the
    default. `hybrid` fuses each with BM25. `hosts` are the names by which clients may call the server, `*`: any.
    """
    served = {name: Served(name, hybrid=hybrid) for name in _chosen(systems)}
    # The interactive documentation of FastAPI loads its scripts from elsewhere; /openapi.json describes the API.
    about: Any = {"title": "gnn-encoder", "version": gnn_encoder.__version__, "docs_url": None, "redoc_url": None}
    app = FastAPI(**about, responses={code: {"model": Refusal} for code in REFUSED})
    app.router.redirect_slashes = False  # a redirect would name the host by which a reverse proxy calls
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    _add_guard(app)
    asked = project.queries("dev")
    examples = pl.scan_parquet(asked).head(EXAMPLES).collect()["text"].to_list() if asked.is_file() else []
    _add_routes(app, served, examples)
    app.mount("/", StaticFiles(packages=[("gnn_encoder", "page")], html=True))
    return app


def _add_guard(app: FastAPI) -> None:
    """What holds for every request: safe headers, refusals of one line."""

    @app.middleware("http")
    async def guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(UserError)
    async def refused(request: Request, error: UserError) -> Response:
        return JSONResponse({"detail": str(error)}, 409)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        """Without the values, which may be no text."""
        faults = (f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
        return JSONResponse({"detail": "; ".join(faults)}, 422)


def _add_routes(app: FastAPI, served: dict[str, Served], examples: list[str]) -> None:
    def named(name: str | None) -> Served:
        if name is not None and name not in served:
            raise HTTPException(404, f"{name!r} is not served: take one of {', '.join(served)}")
        return served[name or next(iter(served))]

    @app.get("/search")
    def search(request: Annotated[SearchRequest, Query()]) -> SearchAnswer:
        """Find passages."""
        began, system = time.perf_counter(), named(request.system)
        found = system.search(request.query, request.k)
        return SearchAnswer(**vars(found), system=system.name, milliseconds=1e3 * (time.perf_counter() - began))

    @app.get("/explain")
    def explain(pid: Name, system: Name | None = None) -> Any:
        """The queries that informed a passage, with their attention, and how far the gate let them move its vector.

        Of GNN-encoder with labels and query bank it is the GNN's part.
        """
        asked = named(system)
        if not asked.has_graph:
            raise UserError(f"{asked.title} has no graph: no query takes part in its passages' vectors")
        return asked.explain(pid)

    @app.get("/systems")
    def what_is_served() -> dict[str, Any]:
        """The systems, of which those with a graph explain their passages, and dev queries to begin with."""
        told = [
            {"name": name, "title": one.title, "graph": one.has_graph, "passages": one.searcher.index.passages}
            for name, one in served.items()
        ]
        return {"systems": told, "examples": examples}

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """200 as soon as every system is open."""
        return {"status": "ok"}


def _chosen(wanted: Sequence[str]) -> list[str]:
    built = [name for name in registry().dense if (project.index(name) / MANIFEST).is_file()]
    usual = [name for name in (PLUS, REFERENCE) if name in built]
    return list(dict.fromkeys(([*usual, *built] if project.EVERY in wanted else wanted or usual) or [PLUS]))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, whose connections send each part of an answer at once."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        told = str(error.strerror).partition(" (")[0]  # in brackets Python says the address once more
        raise UserError(f"{host}:{port}: {told}; stop what uses it, or give another --port or --host") from error
    # asyncio sets it on sockets of its own alone; without it an answer waits 40 ms for the client's acknowledgement
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at a name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(*, host: str, port: int, systems: Sequence[str], hybrid: bool, allowed_hosts: Sequence[str]) -> None:
    """Serve the project in the current folder until SIGTERM or Ctrl-C, and then answer what has been accepted."""
    if not host:
        raise UserError("--host is empty: give an address, such as 127.0.0.1")
    for name in allowed_hosts:
        if not ALLOWED.fullmatch(name):
            rule = "must be a name or an address without a port, [...] for IPv6; *.NAME allows what ends so"
            raise UserError(f"--allow-host is {name!r}: {rule}")
    listening = listen(host, port)  # first, since opening systems takes seconds
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    threads = max(1, cores() // 2)  # those that wait for each other must not fill the cores of those that answer
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    # Unless names are allowed, clients may call the server on loopback by the names of loopback, elsewhere by any.
    own = [f"[{host}]" if ":" in host else host, *LOOPBACK]
    hosts = [*own, *allowed_hosts] if allowed_hosts or is_loopback(host) else ["*"]
    config = uvicorn.Config(
        create_app(systems, hybrid=hybrid, hosts=hosts),
        access_log=False,  # queries are people's own
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        limit_concurrency=CONNECTIONS,
    )
    log.info("http://%s:%d", own[0], listening.getsockname()[1])
    uvicorn.Server(config).run(sockets=[listening])
