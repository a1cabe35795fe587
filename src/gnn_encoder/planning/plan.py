"""What a run of the main branch will take: for each stage its steps of each kind, times the seconds of a step here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.base.distributed import cores
from gnn_encoder.mgt.corpus_softmax import SAMPLE, WHOLE
from gnn_encoder.mgt.masking import fold_count
from gnn_encoder.mgt.start import STARTS
from gnn_encoder.pipeline.params import Params, Passes, Phase
from gnn_encoder.pipeline.stage import PIPELINE, Declared
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.setting import Setting, Steps
from gnn_encoder.planning.space import Memory, disk, memory
from gnn_encoder.training.examples import steps_of

ROW = 1.5e-6  # seconds to write or read and judge a row of a TREC run
RECORD = 5e-5  # to read, check and write a row of the data
INDEXED, SCORED = 1e-4, 2e-9  # for BM25 to index a passage, and for one core to score one for a query


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the main branch will take with these parameters, data and machine."""

    params: Params
    facts: Facts
    machine: Machine
    stages: Mapping[str, float]  # DVC's name of a stage -> seconds
    disk: float  # bytes
    memory: Mapping[str, Memory]  # of a stage, beside its model

    @property
    def minutes(self) -> float:
        """Of all stages."""
        return sum(self.stages.values()) / 60


def plan(params: Params, facts: Facts, machine: Machine, stages: Iterable[Declared]) -> Plan:
    """Plan these stages of the main branch."""
    at = Setting(params, facts, machine)
    speeds = {**machine.speeds, "other": 1.0, "lexical": SCORED / cores()}
    found, needed, written = dict[str, float](), dict[str, Memory](), 0.0
    for stage in stages:
        steps = [("start", 1.0), *count(stage, at)]
        found[stage.address] = sum(number * speeds[kind] for kind, number in steps)
        written += disk(stage, at) * (2 if stage.name == "embed_edges" else 1)  # features are unpacked beside it
        needed[stage.address] = memory(stage, at, processes=1)
    return Plan(params=params, facts=facts, machine=machine, stages=found, disk=written, memory=needed)


def main_branch(stages: Iterable[Declared]) -> list[Declared]:
    """The stages that plain `dvc repro` runs: those of the root's dvc.yaml."""
    return [stage for stage in stages if stage.file == Path(PIPELINE)]


def mgt_steps(params: Params, phase: Passes, queries: int) -> tuple[int, int]:
    """Steps of a pass of Masked Graph Training over the queries, and the queries of a step."""
    rounds = fold_count(params.mgt.beta)
    batches = max(1, round(queries / rounds / phase.batch_size))
    return rounds * batches, max(1, round(queries / rounds / batches))


def count(stage: Declared, at: Setting) -> Steps:
    """The steps of a stage; of one that is not known, none."""
    params, facts = at.params, at.facts
    indexed = [*at.found(at.judged), ("other", at.rows * ROW)]
    match stage.name:
        case "prepare":
            return [("other", RECORD * (facts.passages + facts.available + at.judged))]
        case "untouched":
            limit = min(128, at.model.tokens)
            return [("read", at.passages(facts.passages, limit)), *indexed]
        case "bm25":
            scored = (facts.train + at.judged) * facts.passages
            return [("other", INDEXED * facts.passages + ROW * at.rows), ("lexical", scored)]
        case "train_dual_encoder":
            queries = at.scored if stage.key == "dual_encoder" else facts.train
            if stage.item["section"] == "pair.pretrain":
                queries = facts.unlabelled or facts.train
            return _train_dual_encoder(at, params.value(stage.item["section"]), queries)
        case "cache_passages":
            return [("read", at.passages(facts.passages))]
        case "mine_candidates":
            return at.found(facts.train)
        case "train_cross_encoder":
            return _train_cross_encoder(at)
        case "denoise":
            return [("read", at.pairs(at.scored * (params.denoise.candidates + facts.labels_a_query)))]
        case "pair_label":
            scored = (facts.train + facts.unlabelled) * params.denoise.candidates
            return [*at.found(facts.unlabelled), ("read", at.pairs(scored))]
        case "generate_queries":  # each token that is written counts as one that is read
            written = facts.passages * params.dual_cross.generated
            return [("read", at.passages(facts.passages) + at.queries(written))]
        case "train_dual_cross":
            return _train_dual_cross(at)
        case "encode_views":
            return [("read", at.pairs(facts.passages * params.dual_cross.vectors))]
        case "train_no_gnn":
            return _train_no_gnn(at)
        case "build_graph":
            return at.found(at.nodes)
        case "embed_edges" if params.mgt.edge_features == "cross_encoder":
            return [("read", at.pairs(at.nodes + at.edges + min(facts.passages, at.edges)))]  # with self-loops
        case "train_mgt":
            return _train_mgt(at)
        case "encode_corpus":
            joint = params.mgt.joint
            again = at.passages(facts.passages) if joint.epochs and joint.softmax == "batch" else 0.0  # E_P has changed
            forward = (at.edges + (at.nodes + facts.passages) / 2) / 3
            return [("read", at.queries(at.nodes) + again), ("gnn", forward)]
        case "build_index":
            return indexed
        case "baselines":  # write the runs of four systems and read others; one has an index of its own
            return [*indexed, ("read", at.queries(facts.train + at.judged)), ("other", 12 * ROW * at.rows)]
        case "evaluate":
            return [("read", at.queries(facts.train + facts.test)), ("other", 6.0 + 10 * ROW * at.rows)]
        case _:
            return []


def _train_dual_encoder(at: Setting, section: Any, queries: int) -> Steps:
    batches = max(1, round(queries / section.batch_size))
    steps, size = steps_of(section.epochs, batches), -(-queries // batches)
    return _contrastive(at, section.negatives, at.params.encoder.chunk_size, steps, size) + at.evaluations(
        at.params.dev.evaluations
    )


def _train_dual_cross(at: Setting) -> Steps:
    """Both stages, as of a dual-encoder: a passage that is read with a query counts as one that is read alone."""
    section, found = at.params.dual_cross, list[tuple[str, float]]()
    generated = at.facts.passages * section.views
    for training, queries in ((section.pretrain, section.queries or generated), (section.finetune, at.facts.train)):
        found += _train_dual_encoder(at, training, queries)
    return found


def _contrastive(at: Setting, negatives: int, chunk: int, steps: int, queries: int, around: float = 0.0) -> Steps:
    """Contrastive training.

    Args:
        queries: of a batch.
        around: queries more that a step encodes, besides those of its batch.
    """
    sides = at.queries(queries), at.queries(around), at.passages(queries * (1 + negatives))
    return [("train", steps * sum(sides)), ("read", steps * sum(at.again(side, chunk) for side in sides))]


def _train_cross_encoder(at: Setting) -> Steps:
    section, queries = at.params.train_cross_encoder, at.facts.train
    batches = max(1, round(queries / section.batch_size))
    steps, pairs = steps_of(section.epochs, batches), -(-queries // batches) * (1 + section.negatives)
    return [("train_pair", steps * at.pairs(pairs)), ("read", at.params.dev.evaluations * at.pairs(at.dev_pairs))]


def _train_no_gnn(at: Setting) -> Steps:
    """Counted to its end; where it gains nothing on dev, it stops early."""
    mgt, section = at.params.mgt, at.params.train_no_gnn
    batches, size = mgt_steps(at.params, section, at.facts.train)
    steps = steps_of(section.epochs, batches)
    trained = _contrastive(at, mgt.negatives, at.params.encoder.chunk_size, steps, size)
    return trained + at.evaluations(steps // section.evaluate_every + 2)


def _train_mgt(at: Setting) -> Steps:
    """Both phases; with a softmax over the corpus, a step informs many passages."""
    mgt, facts, k = at.params.mgt, at.facts, at.params.build_graph.k
    share = min(at.around, mgt.max_neighbours or at.around)  # edges of a passage that has any

    def edges(passages: float) -> float:
        """Those around so many passages; one that only one of both layers reads counts half."""
        return (passages * share + min(passages * share, at.nodes) * (k + 1)) / 2

    def phase(of: Phase) -> tuple[int, int, int]:
        """Its steps, the queries of one, and the passages that it informs."""
        batches, size = mgt_steps(at.params, of, facts.train)
        passages = facts.passages if facts.passages <= WHOLE else SAMPLE + size * k
        return steps_of(of.epochs, batches), size, passages if of.softmax == "corpus" else size * (1 + mgt.negatives)

    (alone, _, passages), (joint, together, of_both) = phase(mgt.alone), phase(mgt.joint)
    scored = joint // mgt.joint.evaluate_every + 2 if joint else 0
    seen = (alone // mgt.alone.evaluate_every + len(STARTS) + 4 + scored) * edges(at.pool(50_000)) / 3
    work = [
        ("gnn", alone * edges(passages) + joint * edges(of_both) + seen),
        ("read", at.queries(at.nodes + facts.dev)),
    ]
    if mgt.joint.softmax == "corpus":
        asked, anew = at.queries(together), at.queries(min(facts.dev, 2_000))
        again = at.again(asked, at.params.encoder.chunk_size)
        return [*work, ("train", joint * asked), ("read", joint * again + scored * anew)]
    around = min(of_both * share, at.nodes)
    encoded = _contrastive(at, mgt.negatives, at.params.encoder.chunk_size, joint, together, around)
    return work + encoded + at.evaluations(scored)
