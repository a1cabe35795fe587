"""Time and memory of the main branch's stages on ever more synthetic passages: time should grow, memory not.

Passages have 30 words, drawn by Zipf's law. 100,000 training queries, at each size, have six words of a passage. The
base model has one layer of 384 columns and random weights: what is measured is the pipeline around a model. So
trainings of encoders take a step at most, and Masked Graph Training takes 300 of each phase. Each stage runs as users
run it, a process of its own. Requirement: from the second largest size to the largest, the memory of no stage grows by
more than 10%, but for prepare, which holds all ids, and bm25, which holds all postings; and the time of none grows by
more than 1.3 times as much as the passages. Memory is anonymous: what is mapped of files, which the kernel drops when
it needs to, stands beside it.

    python benchmarks/at_size.py            # goes on where it was killed, with what it left in `--folder`
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import harness

# Nothing heavy is imported before the stages have run: a child's account begins with what its parent held.
FIELDS = {"RssAnon": "anonymous_mib", "RssFile": "mapped_mib"}
SIZES = [100_000, 300_000, 1_000_000]
STAGES = [
    *("prepare", "first_retrievers", "train_cross_encoder", "denoise"),
    *("train_dual_encoder dual_encoder", "cache_passages dual_encoder"),
    *("build_graph", "embed_edges", "train_mgt", "encode_corpus"),
    "build_index gnn_encoder",
]
GROWING = ("prepare", "first_retrievers")
QUERIES, SEARCHES = 100_000, 1_000
STEPS, FOLDS = 300, 20
BATCH = {"alone": 500, "joint": 100}  # queries; a joint step encodes their passages too
VOCABULARY, PASSAGE_WORDS, QUERY_WORDS = 200_000, 30, 6
HIDDEN = 384
DEV, TEST = 500, SEARCHES
ALLOWED_GROWTH, ALLOWED_SLOWNESS = 0.10, 1.3


@dataclass
class Use:
    """What one process needed."""

    peak_mib: float
    anonymous_mib: float
    mapped_mib: float
    seconds: float


def run_stage(command: list[str], folder: Path) -> Use:
    """Run a process to its end and take its account."""
    start = time.perf_counter()
    log = folder / "stage.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=file)
    peaks = dict.fromkeys(FIELDS.values(), 0.0)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks, ended))
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text()[-2000:]}")
    return Use(peak_mib=usage.ru_maxrss / 1024, seconds=taken, **peaks)


def _watch(pid: int, peaks: dict[str, float], ended: threading.Event) -> None:
    while not ended.wait(0.02):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in lines:
            name, _, value = line.partition(":")
            if name in FIELDS:
                peaks[FIELDS[name]] = max(peaks[FIELDS[name]], int(value.split()[0]) / 1024)


def write_project(folder: Path, n_passages: int, n_queries: int) -> None:
    """A data set in BEIR's format, the base model and a params.yaml of it; run in a process of its own."""
    import yaml

    from gnn_encoder.pipeline.params import load_params

    params = load_params().model_dump()
    shutil.copytree(harness.ROOT / "pipelines", folder / "pipelines", dirs_exist_ok=True)
    for name in ("dvc.yaml", "systems.yaml"):
        shutil.copy(harness.ROOT / name, folder)
    _write_model(folder / "model", params["encoder"]["model"])
    _write_data(folder / "source", n_passages, n_queries)
    changes = {
        "data": {"source": "beir", "path": "source", "train_queries": None, "passages": None},
        "encoder": {"model": "model", "query_length": 8, "passage_length": 16, "frozen_layers": 0},
        "train_dual_encoder": {"steps": 0},
        "train_cross_encoder": {"steps": 1, "max_length": 24},
        "denoise": {"queries": 1_000},
        "build_graph": {"k": 25},
    }
    for section, values in changes.items():
        params[section] |= values
    params["mgt"] |= {"beta": 1 / FOLDS}
    for phase, batch in BATCH.items():
        params["mgt"][phase] |= {"steps": STEPS, "batch_size": batch}
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def _write_model(folder: Path, base: str) -> None:
    import torch
    from transformers import BertConfig, BertModel

    from gnn_encoder.text.pretrained import load_tokenizer

    torch.manual_seed(0)
    tokenizer = load_tokenizer(base)
    size = {"hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 12, "intermediate_size": 2 * HIDDEN}
    BertModel(BertConfig(vocab_size=len(tokenizer), **size)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _write_data(folder: Path, n_passages: int, n_queries: int) -> None:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    splits = {"train": n_queries, "dev": DEV, "test": TEST}
    asked = iter([(split, f"{split}{i}") for split, count in splits.items() for i in range(count)])
    total = sum(splits.values())
    each, most = max(1, n_passages // total), -(-total // n_passages)  # so many queries ask for each so many-th passage
    qrels = {split: (folder / "qrels" / f"{split}.tsv").open("w") for split in splits}
    for file in qrels.values():
        file.write("query-id\tcorpus-id\tscore\n")
    with (folder / "corpus.jsonl").open("w") as corpus, (folder / "queries.jsonl").open("w") as queries:
        parts = harness.synthetic(n_passages, PASSAGE_WORDS, vocabulary=VOCABULARY, seed=0)
        for row, text in enumerate(chain.from_iterable(parts)):
            words = text.split()
            corpus.write(json.dumps({"_id": f"p{row}", "title": "", "text": text}) + "\n")
            for first, (split, qid) in zip(range(0 if row % each else most), asked, strict=False):
                queries.write(json.dumps({"_id": qid, "text": " ".join(words[first::5][:QUERY_WORDS])}) + "\n")
                qrels[split].write(f"{qid}\tp{row}\t1\n")
    for file in qrels.values():
        file.close()


def search() -> None:
    """Search the built index as `gnn-encoder search` does, once for each test query."""
    from gnn_encoder.base.tables import read_column
    from gnn_encoder.pipeline import project
    from gnn_encoder.searcher import Searcher

    searcher = Searcher.open(project.index("gnn_encoder"))
    for text in read_column(project.queries("test"), "text").to_list()[:SEARCHES]:
        searcher.answer([text], 100)


def measure(folder: Path, n_passages: int, n_queries: int) -> dict[str, Use]:
    """All stages at one size; those that an earlier run measured in `folder` are not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "uses.json"
    uses = {name: Use(**use) for name, use in json.loads(record.read_text()).items()} if record.exists() else {}
    me = [sys.executable, str(Path(__file__).resolve())]
    if not (folder / "params.yaml").exists():
        harness.note(f"{n_passages:,} passages: making the project")
        subprocess.run([*me, "--write", str(folder.resolve()), str(n_passages), str(n_queries)], check=True)
    for name in [*STAGES, "search"]:
        if name in uses:
            continue
        script, *arguments = name.split()
        stage = [sys.executable, str(harness.ROOT / "stages" / f"{script}.py"), *arguments]
        uses[name] = run_stage([*me, "--search"] if name == "search" else stage, folder)
        harness.note(f"  {name}: {uses[name].anonymous_mib:.0f} MiB, {uses[name].seconds:.0f} s")
        record.write_text(json.dumps({name: asdict(use) for name, use in uses.items()}))
    for made in ("data", "source", ".scratch"):
        shutil.rmtree(folder / made, ignore_errors=True)
    return uses


def main() -> None:
    parser = harness.parser("at_size", __doc__)
    parser.add_argument("--sizes", type=int, nargs="+", metavar="PASSAGES", help="default: 100000 300000 1000000")
    parser.add_argument("--folder", type=Path, default=Path(".scratch/at_size"), help="where projects are made")
    parser.add_argument("--write", nargs=3, help="only make a project: FOLDER PASSAGES QUERIES")
    parser.add_argument("--search", action="store_true", help="search the project of this folder")
    options = parser.parse_args()
    if options.write:
        return write_project(Path(options.write[0]), *map(int, options.write[1:]))
    if options.search:
        return search()
    sizes = options.sizes or ([5_000, 10_000] if options.quick else SIZES)
    os.environ["PYTHONPATH"] = str(harness.ROOT / "src")
    n_queries = 1_000 if options.quick else QUERIES
    uses = [measure(options.folder / str(size), size, n_queries) for size in sizes]
    rows = [[name, *(cell for use in uses for cell in _cells(use[name]))] for name in uses[0]]
    columns = ("s", "MiB", "mapped")
    harness.print_table(["stage", *(f"{what} {size:,}" for size in sizes for what in columns)], rows)
    (before, after), more = uses[-2:], sizes[-1] / sizes[-2]
    growth = {name: after[name].anonymous_mib / before[name].anonymous_mib - 1 for name in after}
    slowness = {name: after[name].seconds / before[name].seconds / more for name in after}
    flat = max(value for name, value in growth.items() if name not in GROWING) <= ALLOWED_GROWTH
    met = flat and max(slowness.values()) <= ALLOWED_SLOWNESS
    required = f"memory grows by at most 10% except in {' and '.join(GROWING)}, times as the passages"
    stages = {name: [asdict(use[name]) for use in uses] for name in uses[0]}
    record = {"sizes": sizes, "queries": n_queries, "stages": stages, "growth": growth, "slowness": slowness}
    long = [
        f"{name} {use.seconds / 60:.1f} min, {use.anonymous_mib:.0f} MiB"
        for name, use in after.items()
        if use.seconds >= 60
    ]
    measured = f"{sizes[-1]:,} passages: {'; '.join(long)}"
    return harness.finish(options, required, met, measured, record)


def _cells(use: Use) -> list[object]:
    return [f"{value:.0f}" for value in (use.seconds, use.anonymous_mib, use.mapped_mib)]


if __name__ == "__main__":
    main()
