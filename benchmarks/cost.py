"""What the pipeline costs at the papers' sizes: computed from shapes and FLOPs, not measured.

    python benchmarks/cost.py

A transformer's forward pass is 2 FLOPs a parameter and token (embeddings left out), a training step three times that.
Time assumes 40% of an A100's 312 TFLOP/s in bf16, a common rate for BERT-base at these lengths.
"""

from dataclasses import dataclass

PARAMETERS = 85e6  # BERT-base without its embeddings
DIMENSION = 768
FLOPS = 0.4 * 312e12
GIB = 2**30
SYSTEMS = 4  # dense systems whose passage matrix and index are kept
K = 25


@dataclass(frozen=True)
class Corpus:
    """Sizes (paper, Table 6) and the token lengths that the papers train with."""

    name: str
    passages: int
    queries: int
    passage_tokens: int
    query_tokens: int
    batch: int  # queries in a joint step (section 4.3)


CORPORA = (
    Corpus("MS MARCO", 8_841_823, 502_939, 144, 32, 4096),
    Corpus("Natural Questions", 21_015_324, 79_168, 256, 32, 4096),
)


def hours(texts: float, tokens: int, passes: float = 1) -> float:
    """Hours to run `texts` of `tokens` tokens through the transformer."""
    return 2 * PARAMETERS * texts * tokens * passes / FLOPS / 3600


def rows(c: Corpus) -> dict[str, str]:
    """One column of the table."""
    matrix = c.passages * DIMENSION * 2
    edges = c.queries * (K + 1) * DIMENSION * 2
    pair = c.passage_tokens + c.query_tokens
    # A joint step encodes each query, its positive, a hard negative, and the queries that inform those two; the
    # latter are K a passage, the number that passages have on average where all of them are retrieved.
    joint = c.queries * 5 * (2 * c.passage_tokens + (1 + 2 * K) * c.query_tokens)
    neighbours = 4  # chunks of layer 1 held at once: (queries, k, d) embeddings and edge features in float32
    return {
        "passage matrix, float16 (one system)": f"{matrix / GIB:.1f} GiB",
        f"passage matrices, {SYSTEMS} systems": f"{SYSTEMS * matrix / GIB:.0f} GiB",
        f"IndexFlatIP, {SYSTEMS} systems": f"{SYSTEMS * 2 * matrix / GIB:.0f} GiB",
        "IndexFlatIP in memory (one system)": f"{2 * matrix / GIB:.0f} GiB",
        "edge features, Parquet and unpacked": f"{2 * edges / GIB:.0f} GiB",
        "layer 1 of 2,048 queries on the GPU": f"{neighbours * 2048 * K * DIMENSION * 4 / GIB:.1f} GiB",
        "one pass over the corpus": f"{hours(c.passages, c.passage_tokens):.1f} h",
        "edge features": f"{hours(c.queries * (K + 1), pair):.1f} h",
        "training one dual-encoder, 10 epochs": f"{hours(c.queries * 10, 2 * c.passage_tokens + 32, 4):.1f} h",
        f"joint training, 5 epochs, {K} queries a passage": f"{hours(joint, 1, 4):.1f} h",
    }


def main() -> None:
    """Print the table."""
    columns = {c.name: rows(c) for c in CORPORA}
    print("| computed | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for name in next(iter(columns.values())):
        print(f"| {name} | " + " | ".join(column[name] for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
