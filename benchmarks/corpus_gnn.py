"""What the GNN adds to encoding the corpus: seconds for the passages, and seconds for everything after them.

Runs on the project's own artifacts (after `dvc repro`). `encode` is the plain dual-encoder over all passages, tokens
made beforehand, matrix written. `GNN` is all that encode_corpus does more: it opens the graph, encodes the training
queries, computes h'_q once (Eq. 6, 7) and h'_p for every passage (Eq. 8-10), and writes the matrix again.
Requirement: the GNN takes at most 5% of encoding (the paper's Table 4: 0.41 and 0.46 ms a document on an A100, 12%).

    python benchmarks/corpus_gnn.py
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import harness

from gnn_encoder.base.errors import report_errors
from gnn_encoder.base.matrix import Origin
from gnn_encoder.base.tables import count_rows
from gnn_encoder.graph.corpus import CorpusGNN
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, deployed_neighbourhood
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.text.corpus import embed_queries, encode_corpus, passage_inputs, transform_corpus
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens

ALLOWED = 0.05
PAPER_MS = {"dual_encoder": 0.41, "gnn_encoder": 0.46}
ORIGIN = Origin(model_fingerprint="", input_fingerprint="")


class Corpus:
    """Both parts of the work, writing under one scratch folder."""

    def __init__(self, params: Params, folder: Path) -> None:
        self._params = params
        self._plain, self._informed = folder / "plain", folder / "informed"
        self._graph = GraphArtifacts(name=MAIN)
        model, precision = project.gnn(MAIN), params.encoder.precision
        self._encoder = DualEncoder.load(model / "encoder", precision=precision).for_inference()
        self._passages: TextTokens = open_passages(self._encoder)
        self._queries: TextTokens = open_queries(self._graph.queries, self._encoder)
        self._gnn = QueryPassageGNN.load(model)
        self._neighbourhood()  # train_mgt has unpacked the edge features

    def encode(self) -> float:
        """Seconds for the plain passage embeddings."""
        shutil.rmtree(self._plain, ignore_errors=True)
        return harness.seconds(self._encode)

    def inform(self) -> float:
        """Seconds for what the GNN adds; `encode` has run."""
        shutil.rmtree(self._informed, ignore_errors=True)
        return harness.seconds(self._inform)

    def _encode(self) -> None:
        batch_tokens, dtype = self._params.encoder.batch_tokens, self._params.cache_passages.dtype
        passages = passage_inputs(self._encoder, self._passages)
        encode_corpus(self._encoder, passages, self._plain, dtype=dtype, batch_tokens=batch_tokens, origin=ORIGIN)

    def _inform(self) -> None:
        near = self._neighbourhood()
        queries = embed_queries(self._encoder, self._queries, self._params.encoder.batch_tokens)
        inform = CorpusGNN(self._gnn.to(near.device), near, queries)
        dtype = self._params.cache_passages.dtype
        transform_corpus(self._plain, self._informed, dtype=dtype, origin=ORIGIN, transform=inform)

    def _neighbourhood(self) -> Neighbourhood:
        return deployed_neighbourhood(self._graph, self._gnn.config, self._params)


def main() -> None:
    parser = harness.parser("corpus_gnn", __doc__)
    parser.add_argument("--repeats", type=int, help="default: 3")
    options = parser.parse_args()
    params = load_params()
    with TemporaryDirectory(prefix="gnn-encoder-benchmark-") as name:
        corpus = Corpus(params, Path(name))
        sides = {"encode": corpus.encode, "GNN": corpus.inform}
        times = harness.take_turns(sides, options.repeats or (1 if options.quick else 3))
    middle = harness.medians(times)
    n_passages, n_queries = (count_rows(path) for path in (project.PASSAGES, project.queries("train")))
    added = middle["GNN"] / middle["encode"]
    milliseconds = {
        "dual_encoder": 1e3 * middle["encode"] / n_passages,
        "gnn_encoder": 1e3 * (middle["encode"] + middle["GNN"]) / n_passages,
    }
    print(f"{n_passages} passages, {n_queries} training queries of {params.build_graph.k} passages each")
    rows: list[list[object]] = [
        ["dual_encoder", f"{middle['encode']:.2f}", f"{milliseconds['dual_encoder']:.3f}", PAPER_MS["dual_encoder"]],
        ["gnn_encoder", f"{sum(middle.values()):.2f}", f"{milliseconds['gnn_encoder']:.3f}", PAPER_MS["gnn_encoder"]],
    ]
    harness.print_table(["", "s", "ms a passage", "paper, A100"], rows)
    print(f"the GNN adds {added:.1%}")
    verdict = harness.requirement("the GNN adds at most 5%", added <= ALLOWED, options.quick)
    record = {
        "passages": n_passages,
        "queries": n_queries,
        "k": params.build_graph.k,
        "passage_length": params.encoder.passage_length,
        "seconds": times,
        "added": added,
        "milliseconds_a_passage": milliseconds,
        "paper_milliseconds_a_passage": PAPER_MS,
        "verdict": verdict,
    }
    harness.finish("corpus_gnn", options, record)


if __name__ == "__main__":
    with report_errors():
        main()
