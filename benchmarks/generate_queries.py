"""Queries generated a second: our streaming path against transformers' `generate` called plainly.

Same model, passages, sampling, lengths and batch size, from texts to texts: ours reads a passages table, tokenises it,
writes `views` queries a passage and puts them into a Parquet table; the peer gets a list of texts in memory, takes
them in the corpus's own order, one batch after another, and calls `generate(do_sample=True, top_k=...,
num_return_sequences=views)`. Both sides run in the working precision and in float32. Requirement, in the working
precision: at least 1.5 times the peer's rate. The model is data/generated/generator, or what --model names.

    python benchmarks/generate_queries.py
"""

import shutil
from pathlib import Path

import harness
import pyarrow.parquet as pq
import torch
from texts import sample_passages, write_passages
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from gnn_encoder.base.files import SCRATCH
from gnn_encoder.dual_cross.decoding import TOP_K
from gnn_encoder.dual_cross.generation import TOGETHER, generate_queries, sampling
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.text.device import working_dtype
from gnn_encoder.text.pretrained import Source
from gnn_encoder.text.tokens import open_tokens

FACTOR = 1.5


class Ours:
    """Our path over a passages table in the present folder."""

    def __init__(self, table: Path, model: Path, params: Params, precision: str) -> None:
        self._table, self._params = table, params
        self._folder = Path("queries") / precision
        self._model = QueryGenerator.load(Source(str(model)), precision=precision).for_inference()

    def __call__(self) -> float:
        """Seconds of one pass that finds nothing done."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(SCRATCH, ignore_errors=True)
        return harness.seconds(self._generate)

    def _generate(self) -> None:
        section, longest = self._params.dual_cross, self._params.encoder.passage_length
        draw = {"seed": self._params.seed, "views": section.views}
        generate_queries(
            self._model,
            open_tokens(self._table, self._model.tokenizer, SCRATCH, longest),
            self._table,
            self._folder / "queries.parquet",
            self._folder / "parts",
            sampling(self._model, **draw, query_length=section.generator.query_length),
            passage_length=longest,
            batch_tokens=self._params.encoder.batch_tokens,
        )

    def queries(self) -> list[str]:
        """What the last pass wrote."""
        return pq.read_table(self._folder / "queries.parquet").column("text").to_pylist()


class Peer:
    """transformers' own loop with the same model folder."""

    def __init__(self, texts: list[str], model: Path, params: Params, dtype: torch.dtype) -> None:
        self._texts, self._section = texts, params.dual_cross
        self._size = max(1, params.encoder.batch_tokens * TOGETHER // params.encoder.passage_length)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = AutoModelForSeq2SeqLM.from_pretrained(model, dtype=dtype).to(device).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._found: list[str] = []
        self._longest = params.encoder.passage_length

    def __call__(self) -> float:
        """Seconds of one pass."""
        self._found = []
        return harness.seconds(self._generate)

    def _generate(self) -> None:
        torch.manual_seed(0)
        lengths = self._section.generator
        how = {"do_sample": True, "top_k": TOP_K, "num_return_sequences": self._section.views}
        cut = {"truncation": True, "max_length": self._longest, "padding": True, "return_tensors": "pt"}
        for first in range(0, len(self._texts), self._size):
            batch = self._tokenizer(self._texts[first : first + self._size], **cut).to(self._model.device)
            inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
            written = self._model.generate(**inputs, **how, max_new_tokens=lengths.query_length - 2)
            self._found += self._tokenizer.batch_decode(written, skip_special_tokens=True)

    def queries(self) -> list[str]:
        """What the last pass wrote."""
        return self._found


def main() -> None:
    parser = harness.parser("generate_queries", __doc__)
    parser.add_argument("--passages", type=int, help="default: 2048")
    parser.add_argument("--repeats", type=int, help="default: 3")
    parser.add_argument("--model", type=Path, default=harness.ROOT / project.GENERATOR, help="default: %(default)s")
    options = parser.parse_args()
    if not (options.model / "config.json").is_file():
        parser.error(f"{options.model} holds no model: run generate_queries (`dvc repro`), or name a folder by --model")
    model, params = options.model.resolve(), load_params()
    texts = sample_passages(options.passages or (64 if options.quick else 2_048))
    working = working_dtype(params.encoder.precision)
    precision = str(working).removeprefix("torch.")
    with harness.temporary_project():
        table = Path("passages.parquet")
        write_passages(table, texts)
        sides: dict[str, Ours | Peer] = {
            "ours": Ours(table, model, params, params.encoder.precision),
            "generate": Peer(texts, model, params, working),
            "ours, float32": Ours(table, model, params, "fp32"),
            "generate, float32": Peer(texts, model, params, torch.float32),
        }
        times = harness.take_turns(sides, options.repeats or (1 if options.quick else 3))
        words = {name: sum(len(text.split()) for text in s.queries()) / len(s.queries()) for name, s in sides.items()}
    queries = len(texts) * params.dual_cross.views
    rates = {name: queries / time for name, time in harness.medians(times).items()}
    ratios = {
        "working": rates["ours"] / rates["generate"],
        "float32": rates["ours, float32"] / rates["generate, float32"],
    }
    print(f"{params.dual_cross.views} queries of each of {len(texts)} InsuranceQA passages, working in {precision}")
    harness.print_table(
        ["", "queries/s", "words a query"],
        [[name, f"{rate:.0f}", f"{words[name]:.2f}"] for name, rate in rates.items()],
    )
    print(f"times the peer: {ratios['working']:.2f} in {precision}, {ratios['float32']:.2f} in float32")
    met = ratios["working"] >= FACTOR
    record = {
        "passages": len(texts),
        "views": params.dual_cross.views,
        "top_k": TOP_K,
        "lengths": [params.encoder.passage_length, params.dual_cross.generator.query_length],
        "precision": precision,
        "seconds": times,
        "queries_per_second": rates,
        "words_a_query": words,
        "ratios": ratios,
        "verdict": harness.requirement("at least 1.5 times the peer in the same precision", met, options.quick),
    }
    harness.finish("generate_queries", options, record)


if __name__ == "__main__":
    main()
