"""The passage matrix of the system `query_mean`: the weight is chosen on dev, then the matrix is written in chunks."""

from dataclasses import replace
from pathlib import Path

from gnn_encoder.baselines.choice import Setting, plainest_first, write_choice
from gnn_encoder.baselines.dev import DevQueries
from gnn_encoder.baselines.embedded import embedded, labelled_queries
from gnn_encoder.baselines.query_mean import QueryMeans, Shift
from gnn_encoder.baselines.reordering import log_choice
from gnn_encoder.core.storage.arrays import Origin
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.encoding.corpus import transform_corpus
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params


def write_query_mean(system: str, base: str, params: Params, folder: Path) -> None:
    """Write the matrix of `base`, with each labelled passage shifted by the weight that is best on dev."""
    model, embeddings = project.encoder(base), project.embeddings(base)
    encoder = DualEncoder.load(model, precision=params.encoder.precision).for_inference()
    means = QueryMeans.of(*labelled_queries(encoder, params))
    dtype = params.cache_passages.dtype
    shift = Shift(means=means, unit_length=encoder.settings.similarity == "cosine", dtype=dtype)
    sample = DevQueries.sample(params)
    weights = plainest_first(params.baselines.query_mean)
    tops = shift.rankings(embeddings, embedded(encoder, "dev", params, sample.rows), weights, sample.depth)
    settings: list[Setting] = [{"weight": weight} for weight in weights]
    choice = replace(sample.choose(settings, tops), facts={"labelled_passages": len(means.passages)})
    log_choice(system, choice)
    weight = float(choice.chosen.setting["weight"])
    labels = project.queries("train"), project.qrels("train")
    origin = Origin(
        model_fingerprint=DualEncoder.fingerprint(model),
        input_fingerprint=fingerprint(embeddings, *labels, weight=weight),
    )
    transform_corpus(
        embeddings, folder, dtype=dtype, origin=origin, transform=lambda first, block: shift.block(first, block, weight)
    )
    write_choice(folder, choice)
