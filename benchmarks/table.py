"""The table of results in Markdown, from benchmarks/results/*.json: nothing in it is typed by hand.

python benchmarks/table.py
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
Record = dict[str, Any]


def encode_passages(record: Record) -> str:
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in record["passages_per_second"].items())
    return f"passages/s: {rates}; {record['ratio']:.2f}x the fastest peer"


def edge_features(record: Record) -> str:
    rates, peer = record["pairs_per_second"], "CrossEncoder.predict"
    ours = f"{rates['ours']:.0f} pairs/s in {record['precision']}, peer in float32 {rates[peer]:.0f}"
    return f"{ours}: {record['ratio']:.2f}x; ours in float32 {rates['ours, float32'] / rates[peer]:.2f}x"


def generate_queries(record: Record) -> str:
    rates, ratios = record["queries_per_second"], record["ratios"]
    ours = f"{rates['ours']:.0f} queries/s in {record['precision']}, peer {rates['generate']:.0f}"
    return f"{ours}: {ratios['working']:.2f}x; in float32 {ratios['float32']:.2f}x"


def train_encoder(record: Record) -> str:
    rates = [f"{name} {rate:.1f}" for name, rate in record["queries_per_second"].items()]
    return f"queries/s: {', '.join(rates)}; {record['ratio']:.2f}x the faster peer"


def mgt_step(record: Record) -> str:
    return f"{record['ratio']:.2f} plain steps, with batches of {record['batch']}"


def corpus_gnn(record: Record) -> str:
    each = record["milliseconds_a_passage"]
    times = f"{each['dual_encoder']:.2f} and {each['gnn_encoder']:.2f} ms a passage"
    return f"+{record['added']:.1%}; {times}"


def search_latency(record: Record) -> str:
    ours, noise = record["ratio"], record["ratio_of_equals"]
    p50 = {name: side["p50_ms"] for name, side in record["sides"].items()}
    times = f"p50 {p50['gnn_encoder']:.2f} and {p50['dual_encoder']:.2f} ms"
    interval = f"{ours['ratio']:.3f} ({ours['low']:.3f} to {ours['high']:.3f})"
    return f"{times}, ratio {interval}; of equals {noise['ratio']:.3f}"


def serving(record: Record) -> str:
    clients = max(record["sides"]["serve"], key=int)
    ours, peer = (record["sides"][side][clients] for side in ("serve", "peer"))
    rates = f"{ours['queries_per_second']:.0f} queries/s, peer {peer['queries_per_second']:.0f}: {record['ratio']:.2f}x"
    soaked = record["soak"]
    flat = f"; memory {soaked['growth']:+.1%} in {soaked['minutes']:.0f} minutes" if soaked else ""
    return f"{rates}; p99 {ours['p99_ms']:.0f} and {peer['p99_ms']:.0f} ms{flat}"


def memory(record: Record) -> str:
    return ", ".join(f"{name} {stage['growth']:+.1%}" for name, stage in record["stages"].items())


def prepare_corpus(record: Record) -> str:
    rate, peak = record["passages_per_second"], record["peak_mib"]
    return f"{record['passages']:,} passages: peak {peak:.0f} MiB, {rate:,.0f} passages/s"


def attention(record: Record) -> str:
    rows = [f"{row['case'].partition(',')[0]} {row['ratio']:.1f}x" for row in record["rows"]]
    return f"{', '.join(rows)} on {record['device']}"


def epochs(record: Record) -> str:
    last = record["rows"][-1]
    step = f"a step's items {last['step_ms']:.3f} ms, {last['bytes_each']:.1f} bytes an example"
    return f"{last['examples']:,} examples: the order {last['order_seconds']:.1f} s an epoch, {step}"


def estimator(record: Record) -> str:
    return "; ".join(
        f"{run['passages']:,} passages: fit {run['fit_seconds'] / 60:.0f} min ({run['steps']} steps), transform "
        f"{run['transform_seconds']:.0f} s, peak {run['peak_gib']:.1f} GiB"
        for run in record["runs"]
    )


def bm25(record: Record) -> str:
    each = {side: f"{of['ms_a_query_and_core']:.1f}" for side, of in record["sides"].items()}
    built = record["index"]
    index = f"index in {built['seconds'] / 60:.0f} min, {built['peak_gib']:.1f} GiB"
    return f"{record['passages']:,} passages: {', '.join(f'{side} {ms} ms' for side, ms in each.items())}; {index}"


def at_size(record: Record) -> str:
    last = {name: uses[-1] for name, uses in record["stages"].items() if uses[-1]["seconds"] >= 60}
    each = [f"{name} {use['seconds'] / 60:.1f} min, {use['anonymous_mib']:.0f} MiB" for name, use in last.items()]
    return f"{record['sizes'][-1]:,} passages: {'; '.join(each)}"


def busy(record: Record) -> str:
    return ", ".join(f"{name}: {side['ratio']:.2f}x" for name, side in record["sides"].items())


def own_vectors(record: Record) -> str:
    test = ", ".join(f"{name} {100 * value:.1f}" for name, value in record["test"].items())
    above = record["above"][record["best_without_a_graph"]]
    low, high = (f"{100 * above[end]:+.1f}" for end in ("low", "high"))
    return f"RR@10 on test: {test}; {100 * above['difference']:+.1f} [{low}, {high}] above the best closed form"


DESCRIBE: dict[str, Callable[[Record], str]] = {
    "encode_passages": encode_passages,
    "edge_features": edge_features,
    "generate_queries": generate_queries,
    "train_encoder": train_encoder,
    "mgt_step": mgt_step,
    "corpus_gnn": corpus_gnn,
    "search_latency": search_latency,
    "serving": serving,
    "memory": memory,
    "estimator": estimator,
    "prepare_corpus": prepare_corpus,
    "attention": attention,
    "epochs": epochs,
    "bm25": bm25,
    "at_size": at_size,
    "busy": busy,
    "own_vectors": own_vectors,
}


def row(name: str) -> list[str]:
    """Cells of one benchmark."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return [name, "", "not measured", "", "", ""]
    record = json.loads(path.read_text(encoding="utf-8"))
    verdict, machine = record["verdict"], record["machine"]
    judged = "not judged (quick run)" if record["quick"] else "met" if verdict["met"] else "**not met**"
    return [name, verdict["requirement"], DESCRIBE[name](record), judged, hardware(machine), machine["date"]]


def hardware(machine: Record) -> str:
    """Where it ran."""
    formats = [name for name in ("amx", "bf16") if machine[name]]
    parts = [f"{machine['cores']} cores of {machine['cpu']}", f"{machine['torch_threads']} threads", *formats]
    return ", ".join([*parts, machine["gpu"]] if machine["gpu"] else parts)


def main() -> None:
    print("| benchmark | requirement | measured | verdict | machine | date |")
    print("|---|---|---|---|---|---|")
    for name in DESCRIBE:
        print("| " + " | ".join(row(name)) + " |")


if __name__ == "__main__":
    main()
