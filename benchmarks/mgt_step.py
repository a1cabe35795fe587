"""What a joint step of Masked Graph Training costs, in steps of the dual-encoder alone on the same batch.

Runs on the project's own artifacts (after `dvc repro`), with the loss over the batch (Eq. 12), as in the paper. A plain
step encodes a batch's queries and passages. That of MGT also encodes the queries around these passages, at most
`max_neighbours` each, and passes through the GNN. Requirement: at most 2 plain steps, with 8 neighbours.

    python benchmarks/mgt_step.py
"""

from collections.abc import Callable
from itertools import count

import harness

from gnn_encoder.base.errors import report_errors
from gnn_encoder.mgt.phases import new_gnn, open_graphs, supervise
from gnn_encoder.mgt.tasks import JointTask, NoGNNTask
from gnn_encoder.pipeline.graphs import GraphArtifacts, open_given
from gnn_encoder.pipeline.opening import open_queries
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.training.dev import WHOLE

MOST, NEIGHBOURS = 2.0, 8
PLAIN, MGT = "dual-encoder alone", "with the GNN"


def tasks(params: Params) -> tuple[NoGNNTask, JointTask]:
    """Both trainings, on the same queries and passages; they share an encoder, whose weights stay."""
    source, mgt = GraphArtifacts(name=MAIN), params.mgt
    given, data = open_given(source.base, params), source.data(mgt.edge_features)
    encoder, labelled = given.encoder, params.build_graph.labelled
    encoder.freeze_lower(given.frozen_layers)
    kind = encoder.settings.similarity
    gnn = new_gnn(mgt, encoder.dimension, data.features, kind, labelled=labelled, seed=params.seed)
    graphs = open_graphs(data, gnn.config, given.examples, mgt, labelled_edges=params.encode_corpus.labelled_edges)
    sample = given.sample(whole=WHOLE, queries=given.dev.queries)
    learned = supervise(given.examples, sample, data.nodes, mgt, mgt.joint, params.seed)
    return NoGNNTask(given, learned), JointTask(given, open_queries(source.queries, encoder), gnn, graphs, learned)


def stepping(task: NoGNNTask | JointTask) -> Callable[[], float]:
    """Takes the task's next step, and says how many seconds it took."""
    numbers = count()

    def step() -> float:
        time = harness.seconds(lambda: task.step(next(numbers)))
        for module in task.modules.values():
            module.zero_grad(set_to_none=True)
        return time

    return step


def main() -> None:
    parser = harness.parser("mgt_step", __doc__)
    parser.add_argument("--steps", type=int, help="default: 20")
    parser.add_argument("--batch", type=int, default=64, help="queries of a step (%(default)s)")
    options = parser.parse_args()
    steps, params = options.steps or (2 if options.quick else 20), load_params()
    joint = params.mgt.joint.model_copy(update={"epochs": 1, "batch_size": options.batch, "softmax": "batch"})
    mgt = params.mgt.model_copy(update={"joint": joint, "max_neighbours": NEIGHBOURS})
    with report_errors():
        plain, informed = tasks(params.model_copy(update={"mgt": mgt}))
    sides = {PLAIN: stepping(plain), MGT: stepping(informed)}
    harness.take_turns(sides, 1)  # warms up
    times = harness.take_turns(sides, steps)
    each = harness.medians(times)
    ratio = each[MGT] / each[PLAIN]
    rows: list[list[object]] = [
        [name, f"{1000 * time:.0f}", f"{time / each[PLAIN]:.2f}"] for name, time in each.items()
    ]
    harness.print_table(["a step", "ms", "plain steps"], rows)
    verdict = harness.requirement(f"at most {MOST:g} plain steps", ratio <= MOST, options.quick)
    record = {
        "batch": options.batch,
        "max_neighbours": NEIGHBOURS,
        "seconds": times,
        "ratio": ratio,
        "verdict": verdict,
    }
    harness.finish("mgt_step", options, record)


if __name__ == "__main__":
    main()
