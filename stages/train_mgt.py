"""train_mgt: GNN and dual-encoder by Masked Graph Training (section 3.4, Algorithm 1), in two phases.

Of Algorithm 1, lines 3 to 6, which queries are masked, are `gnn/masking.py`; lines 7 to 11, a step, are `step` of
`gnn/tasks.py`; the loop over steps is `fit` of `train/loop.py`.
"""

from gnn_encoder.gnn import train
from gnn_encoder.gnn.graph import open_nodes
from gnn_encoder.gnn.masking import Supervision
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.tasks import CachedEmbeddings, CorpusTask, GNNTask, LearntEmbeddings
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.train.dual_encoder import open_texts
from gnn_encoder.train.examples import open_examples
from gnn_encoder.train.loop import HISTORY, parameter_group, write_history


def main(stage: Stage) -> None:
    """Train the GNN alone, then, from its best weights, the GNN with E_Q and, over a batch, with E_P; save the best."""
    params, mgt = stage.params, stage.params.mgt
    # The model: M_de, whose passage embeddings are cached, and a GNN that reads the graph.
    encoder, cached = train.load_base(params)
    near = Neighbourhood.open(mgt, encoder.dimension)
    gnn = train.new_gnn(mgt, (encoder.dimension, near.edge_dimension), encoder.settings.similarity, seed=params.seed)
    factor = train.new_factor(encoder.scale)
    # The data: labelled queries with hard negatives, the graphs of training and of the corpus, a sample of dev queries.
    examples = open_examples(project.EXAMPLES, project.queries("train"))
    graphs = train.graphs_of(near, examples, mgt)
    dev = train.DevSamples(encoder, cached, params)
    sample, nodes = dev.looked_up, open_nodes()

    # Phase one, on embeddings by M_de.
    of_base = CachedEmbeddings(nodes, dev.embed(sample.queries))
    alone = Supervision(examples, sample, mgt, mgt.alone, params.seed)
    history = train.train_on_embeddings(gnn, graphs, alone, of_base, factor=factor, mgt=mgt, folder=stage.work)

    # Phase two first scores the weights of phase one, so that its result never scores below them.
    over_corpus = mgt.softmax == "corpus"
    if mgt.joint.steps:
        if (joint_sample := dev.of_joint()) is not sample:
            sample, of_base = joint_sample, CachedEmbeddings(nodes, dev.embed(joint_sample.queries))
        joint = Supervision(examples, sample, mgt, mgt.joint, params.seed, before=mgt.alone.steps)
        start = GNNTask(gnn, graphs, joint, of_base, scale=encoder.scale).evaluate()
        encoder.freeze_lower(params.encoder.frozen_layers)
        texts = open_texts(encoder, project.NODES, params.encoder), dev.tokens
        if over_corpus:
            encoder.fix_passages()
        learning = gnn, graphs, joint, LearntEmbeddings(*texts, cached=of_base if over_corpus else None)
        # The loss: L(q) of `corpus_loss`, or Eq. 12, `batch_loss`.
        task = CorpusTask(*learning, factor=factor) if over_corpus else GNNTask(*learning, scale=encoder.scale)
        groups = [parameter_group(encoder, mgt.joint.encoder_learning_rate), *task.groups(mgt.joint.gnn_learning_rate)]
        how = "encoder and GNN", train.joint_evaluations(params), start
        history += train.fit_phase(task, groups, joint, stage.work / "joint", *how)

    encoder.save(stage.scratch / "encoder")
    gnn.save(stage.scratch)
    write_history(stage.scratch / HISTORY, history)


if __name__ == "__main__":
    run(main, shared=True)
