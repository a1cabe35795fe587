"""The command line, `gnn-encoder`. It runs in the project's root, where params.yaml and data/ are.

Each command imports the modules that it needs only when it runs, so that `--help` is fast. The first sentence of its
docstring is what `--help` shows of it, in at most 64 characters.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from gnn_encoder.base.errors import UserError, not_built, report_errors, shorten
from gnn_encoder.base.files import without_marks
from gnn_encoder.base.words import is_empty
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.pipeline.project import HYBRID, MAIN, PLUS, registry


class Commands(typer.core.TyperGroup):
    """Commands that tell all mistakes in one line, also an option that there is not or a value that cannot be taken."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with report_errors():
            try:
                return super().invoke(ctx)
            except TyperException as error:  # all of click's are
                told, at = error.format_message().rstrip("."), getattr(error, "ctx", None) or ctx
                raise UserError(f"{told}; `{at.command_path} --help` says what it takes") from error


app = typer.Typer(
    name="gnn-encoder",
    cls=Commands,
    help="Query-informed dense passage retrieval. Run in the project's root (`inform`: anywhere). `init` comes before "
    "`dvc repro`, the others after it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def command(*examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command, with examples of its use; its docstring is the help."""
    shown = [f"  gnn-encoder {example}" for example in examples]
    return app.command(epilog="\n".join(["\b", "Examples:", *shown]))


FUSED = "Fuse with BM25 and the training queries"


@command('search "Does home insurance cover vandalism?"', "search --hybrid --top 3 --json < queries.txt")
def search(
    query: Annotated[str | None, typer.Argument(help="What to look for; without it each line of stdin is one.")] = None,
    system: Annotated[str | None, typer.Option(help=f"Which dense system answers; by default {PLUS}.")] = None,
    hybrid: Annotated[bool, typer.Option("--hybrid", help=f"{FUSED}; by default with the best dense one.")] = False,
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="Passages to print.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a query.")] = False,
) -> None:
    """Print the best passages for a query."""
    _check_systems([system or PLUS])
    from gnn_encoder.searcher import Searcher

    if hybrid and system is None:
        from gnn_encoder.controls.choose import read_choice

        system = str(read_choice(project.runs(HYBRID)).facts["dense"])
    searcher = Searcher.open(project.index(system or PLUS), hybrid=hybrid)
    for text in _lines() if query is None else [query]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"the query {shorten(text)} is not UTF-8: convert it") from error
        found = searcher.answer([text], top)[0]
        if found.truncated and not as_json:
            _warn("the query is longer than encoder.query_length: the encoder does not read its end")
        width = max(40, min(100, shutil.get_terminal_size().columns))
        for line in [found.as_json(text)] if as_json else found.as_lines(width):
            typer.echo(line)
    _tell_other_data()


def _lines() -> Iterator[str]:
    """The queries of stdin, one a line."""
    while True:
        if sys.stdin.isatty():
            typer.echo("query> ", nl=False, err=True)
        if not (line := sys.stdin.buffer.readline()):
            return
        text = without_marks(line).decode(errors="surrogateescape").strip()  # as Python reads an argument
        if not is_empty(text):
            yield text


@command("init --data beir --path my/corpus", "init configs/msmarco.yaml data.path=/data/msmarco", "init mgt.beta=0.1")
def init(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG] [KEY=VALUE]...", help="A file of configs/, then values, which win over it."),
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="SOURCE", help="data.source: choose values that fit it.")] = None,
    path: Annotated[Path | None, typer.Option(help="data.path: where the source's files are.")] = None,
) -> None:
    """Write params.yaml for your data, a config, or other values.

    With --data it reads and checks the data, and chooses lengths, batches and steps that fit them. Without it lays a
    config, and then single values, over params.yaml.
    """
    if data is None and path is not None:
        raise UserError("--path belongs to --data: name the source with it, such as --data beir")
    if path is not None and not path.expanduser().exists():  # before torch is loaded, which takes seconds
        raise UserError(f"--path is {path}: no such file or folder; correct it")
    if data is None:
        from gnn_encoder.pipeline.experiment import change

        told = change(arguments or [], _base_model)
    else:
        from gnn_encoder.init import fit_params

        told = fit_params(data, path, arguments or [])
    for line in told:
        typer.echo(line)


def _base_model(params: Encoder) -> str:
    from gnn_encoder.init import describe_base_model  # loads torch, which takes seconds

    return describe_base_model(params)


@command("results", "results all")
def results(
    branch: Annotated[str, typer.Argument(help="A branch of systems.yaml, such as pair, or all.")] = MAIN,
) -> None:
    """Print how good the systems are.

    The figures are those of metrics/. With `all` they are of every branch that has been evaluated.
    """
    from gnn_encoder.evaluate import tables
    from gnn_encoder.evaluate.measures import parse
    from gnn_encoder.pipeline.params import load_params

    params, branches = load_params(), list(registry().branches) if branch == project.EVERY else [branch]
    (tested,) = parse([params.evaluate.significance])
    found = {one: of for one in branches if (of := tables.branch_tables(one, tested))}
    if not found:
        folder = project.METRICS / branches[0]
        hidden = f"{folder}: came with this clone, in which other systems were measured since; measure this branch anew"
        raise UserError(f"{hidden} (`dvc repro`, or -P)") if folder.is_dir() else not_built(folder)
    if told := tables.of_other_data(params, registry().branches[next(iter(found))].baseline):
        _warn(told)
    for table in [one for of in found.values() for one in of]:
        typer.echo(tables.markdown(table) + "\n")
    typer.echo(f"{tables.HOW_TO_READ}\n")
    if MAIN in found and (claim := tables.read_claim()):
        typer.echo("\n\n".join(tables.claim_sentences(claim)))


@command("report")
def report() -> None:
    """Write report/index.html, all results on one page."""
    from gnn_encoder.base.files import write_text
    from gnn_encoder.evaluate.report import render
    from gnn_encoder.pipeline.params import load_params

    page = render(load_params())
    write_text(project.REPORT, page)
    typer.echo(f"{project.REPORT}: {len(page.encode()) / 1e6:.1f} MB")


@command(
    "evaluate run.trec qrels.dev.tsv",
    'evaluate mine.trec qrels.tsv --against theirs.trec -m nDCG@10 -m "R(rel=2)@1000"',
)
def evaluate(
    run: Annotated[Path, typer.Argument(help="A TREC run, plain or .gz: `qid Q0 pid rank score tag` a line.")],
    qrels: Annotated[Path, typer.Argument(help="Lines `qid 0 pid grade`, `qid pid grade`, or .parquet.")],
    measure: Annotated[list[str] | None, typer.Option("--measure", "-m", help="As ir-measures; repeatable.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another run: paired t-test on the same queries.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Judge a TREC run of any tool.

    As in trec_eval, passages are ranked by score in single precision, and those of equal scores by descending id.
    """
    from gnn_encoder.evaluate import judge, measures, tables

    judged = judge.judge_runs([run, *([against] if against else [])], qrels, measure or judge.USUAL)
    for name, missing in judged.missing.items():
        if missing:
            _warn(f"{name}: {missing} judged queries are not in it and count as 0")
    for name, depth in judged.depths.items():
        if deeper := [one for one in judged.measures if (measures.cutoff(one) or 0) > depth]:
            _warn(f"{name}: has at most {depth} passages a query, fewer than these measures count: {', '.join(deeper)}")
    for name, known in judged.known.items():
        if not known:
            _warn(f"{name}: none of its passages is judged for its query; are the ids those of the judgements?")
    typer.echo(judged.as_json() if as_json else tables.markdown(judged.as_table()))


@command("inform --passages p.npy --queries q.npy --qrels q.tsv --dev-queries d.npy --dev-qrels d.tsv --out new.npy")
def inform(
    passages: Annotated[Path, typer.Option(help="Their vectors: .npy, or .parquet with columns id and vector.")],
    queries: Annotated[Path, typer.Option(help="Vectors of the training queries, by the same encoder.")],
    qrels: Annotated[Path, typer.Option(help="Lines `qid 0 pid grade`, `qid pid grade` or `qid pid`.")],
    dev_queries: Annotated[Path, typer.Option(help="Vectors of other queries, which choose.")],
    dev_qrels: Annotated[Path, typer.Option(help="What is relevant for these.")],
    out: Annotated[Path, typer.Option(help="The passages' new vectors: .npy or .parquet.")],
    unlabelled: Annotated[Path | None, typer.Option(help="Vectors of queries without labels.")] = None,
    k: Annotated[int, typer.Option(min=1, help="Passages of a query.")] = 6,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same vectors.")] = 13,
) -> None:
    """Inform your own passage vectors by the queries that find them.

    Ids in qrels are row numbers from 0 for .npy, and those of column id for .parquet. A table says what each method has
    on the dev queries. docs/own-embeddings.md says more.
    """
    from gnn_encoder import inform as informing

    for line in informing.inform(passages, queries, qrels, dev_queries, dev_qrels, out, unlabelled, k=k, seed=seed):
        typer.echo(line)


@command("export --to sentence-transformers exported/model", "export --to faiss --system dual_encoder exported/faiss")
def export(
    folder: Annotated[Path, typer.Argument(help="A new folder for the files.")],
    to: Annotated[str, typer.Option(help="sentence-transformers, parquet, faiss or beir.")],
    system: Annotated[str, typer.Option(help="Which dense system.")] = PLUS,
) -> None:
    """Write a built system in another tool's format.

    What is written is its query encoder (sentence-transformers), its passages' vectors (parquet, faiss), or its
    passages, queries and judgements (beir).
    """
    _check_systems([system])
    from gnn_encoder.export import export_system

    for path in export_system(system, to, folder):
        typer.echo(path)
    _tell_other_data()


def _check_systems(names: list[str], also: str = "") -> None:
    """Refuse what is no dense system, before torch is loaded, which takes seconds."""
    for name in names:
        if name not in (known := registry().dense):
            told = f"must be {also}one of {', '.join(known)}"
            raise UserError(f"--system is {name!r}: {told}; --hybrid asks BM25 and the log beside it")


def _tell_other_data() -> None:
    """Say so where what is built is of other data than the experiment names."""
    from gnn_encoder.pipeline.params import load_params

    if Path("params.yaml").is_file() and project.PREPARED.is_dir() and not project.is_prepared(load_params()):
        _warn("this index is of other data than params.yaml now names, which has not run yet")


@command(
    "serve",
    "serve --system gnn_encoder --system pair --port 8080",
    "serve --host 0.0.0.0 --allow-host search.example.org",
)
def serve(
    system: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Which dense system, again for more, or all; the first is the default."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; by default for this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    hybrid: Annotated[bool, typer.Option("--hybrid", help=f"{FUSED}.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name by which clients may call, again for more.")
    ] = None,
) -> None:
    """Serve built systems over HTTP.

    A page at / searches and explains.
    """
    _check_systems([name for name in system or [] if name != project.EVERY], f"{project.EVERY} or ")
    try:
        from gnn_encoder import serve as service
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed; `bash scripts/environment.sh serve` adds it") from error
    _tell_other_data()
    service.serve(host=host, port=port, systems=system or [], hybrid=hybrid, allowed_hosts=allow_host or [])


def _warn(line: str) -> None:
    """Print a warning, which is red on a terminal (elsewhere click leaves colours out)."""
    typer.secho(f"warning: {line}", fg=typer.colors.RED, err=True)


if __name__ == "__main__":
    app()
