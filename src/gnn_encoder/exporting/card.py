"""The model card of an exported query encoder: what it is, what made it, what it is worth, what not to do with it."""

import json
from dataclasses import asdict
from pathlib import Path

from gnn_encoder import __version__
from gnn_encoder.base.files import recorded_params
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.presenting.quality import HOW_TO_READ, results_table
from gnn_encoder.presenting.stored import is_of_prepared, read_branch
from gnn_encoder.presenting.tables import titled
from gnn_encoder.text.encoder import DualEncoderSettings

# How passages' vectors are made, by the kind of the system.
MADE = {
    "plain": "by another encoder of the same system",
    "graph": "from their embedding, informed through a graph neural network by the queries that retrieve them",
    "shifted": "from those of the system `{base}`, moved by a closed form of the passage's labelled queries",
    "views": "from each passage together with its generated queries",
}
CARD = """---
library_name: {library}
pipeline_tag: feature-extraction
tags: [dense-retrieval, query-encoder, gnn-encoder]
---

# Query encoder of {title}

This model embeds **search queries** of at most {length} tokens for the retrieval system *{title}*. A passage's score
for a query is the inner product of both vectors. It ranks the passages of one query. It is no probability, and scores
of two queries do not compare. Measure it before you use it on subjects or languages other than its training data's.

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


def model_card(system: str, settings: DualEncoderSettings, *, library: str, loading: str) -> str:
    """The card as Markdown with the front matter of a model hub."""
    params = load_params()
    return CARD.format(
        library=library,
        title=registry().dense[system].title,
        length=settings.query_length,
        loading=loading,
        passages=_passages(system, settings),
        version=__version__,
        source=params.data.source,
        parameters=_parameters(system, settings),
        measures=_measures(system, params),
    )


def _passages(system: str, settings: DualEncoderSettings) -> str:
    """How the system's passage vectors came about, and so whether this model may embed passages."""
    found = registry().dense[system]
    if found.kind == "plain" and settings.shared:
        prefix = settings.passage_prefix
        before = f" and with {prefix!r} before each" if prefix else ""
        return f"Passages were embedded alone by these same weights, cut at the passages' own length{before}."
    how = MADE[found.kind].format(base=found.base)
    return f"**Do not embed passages with this model.** The system's passage vectors were made {how}."


def _parameters(system: str, settings: DualEncoderSettings) -> str:
    """As the system's artifacts say of themselves, since params.yaml may have changed."""
    shown = {name: value for name, value in asdict(settings).items() if value is not None}
    asked = {f"encoder.{name}" for name in shown}  # of which these settings are what came out
    base = registry().dense[system].base or system
    for folder in (project.encoder(base), project.encoder(system), project.graph(system), project.gnn(system)):
        for name, value in recorded_params(folder).items():
            shown |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    if Path(str(shown.get("encoder.model", ""))).is_dir():
        shown["encoder.model"] = "a folder on the machine that trained it"
    rows = (f"| `{name}` | `{json.dumps(shown[name])}` |" for name in sorted(shown.keys() - asked))
    return "\n".join(["| parameter | value |", "|---|---|", *rows])


def _measures(system: str, params: Params) -> str:
    """The tables of the system's branch with its baselines, if they are of these data."""
    branch = registry().systems[system].branch
    if not project.is_prepared(params) or not is_of_prepared(system):
        return "The system had not been evaluated on these data when this was exported."
    (tested,) = parse([params.evaluate.significance])
    tables = [titled(results_table(table, tested)) for table in read_branch(branch)]
    return "\n\n".join([*tables, HOW_TO_READ])
