"""Generated queries: written for every passage, and the nearest to their passage kept (Eq. 9).

They are drawn by top-k sampling (Fan et al. 2018), in windows of passages, each from a seed of its own. So the queries
are the same for any number of devices and after a resumed run, which makes no finished window again.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from gnn_encoder.base.matrix import Matrix, Rows, gather_rows
from gnn_encoder.base.tables import QUERIES, resume_tables, write_table
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.batches import Batch, Inputs, prepare_rows
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.device import autocast
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.examples import seed_of

WINDOW = 2_048  # passages that are sorted and processed together; a kill loses one window at most
# On a CPU a batch has so many times the tokens: a step of the decoder computes one token per query, and the queries of
# a usual batch are too few to keep its cores busy.
TOGETHER = 4
READ = {"skip_special_tokens": True, "clean_up_tokenization_spaces": True}  # how token ids become a query
TOP_K = 10  # most likely tokens that one is drawn from
Banned = tuple[list[int], list[int]]  # what `forbidden` gives
ENDED = 1 / 8  # of the queries: from that share on those that have ended leave the batch


@torch.inference_mode()
def write_queries(
    model: QueryGenerator, batch: Batch, banned: Banned, *, views: int, tokens: int, top_k: int = TOP_K
) -> Tensor:
    """Draw q_i^1 ... q_i^views ~ P_QG(q|d_i) for each passage of a batch (Eq. 9): token ids, padded.

    Most queries end long before the longest. `generate` of transformers goes on computing them, and takes three times
    as long. *Shape:* (n, passage tokens) -> (n * views, tokens).
    """
    inputs, (never, not_first) = batch.arguments(model.model), banned
    with autocast(model.dtype):
        states = model.model.get_encoder()(**inputs).last_hidden_state.repeat_interleave(views, dim=0)
        mask = inputs["attention_mask"].repeat_interleave(views, dim=0)
        rows = torch.arange(len(states), device=states.device)
        written = torch.full((len(rows), tokens), model.template.pad, device=states.device)
        last, ended = torch.full_like(rows, model.model.config.decoder_start_token_id), torch.zeros_like(rows).bool()
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for place in range(tokens):
            found = model.model(
                encoder_outputs=BaseModelOutput(states),
                attention_mask=mask,
                decoder_input_ids=last[:, None],
                cache=cache,
            )
            logits = found.logits[:, -1].float()
            logits[:, never if place else [*never, *not_first]] = -torch.inf
            last = torch.where(ended, model.template.pad, draw(logits, top_k))
            written[rows, place] = last
            ended |= last == model.end
            if ended.float().mean() >= ENDED:
                going = (~ended).nonzero()[:, 0]
                if not len(going):
                    break
                rows, last, states, mask, ended = (of[going] for of in (rows, last, states, mask, ended))
                cache.batch_select_indices(going)
    return written


def draw(logits: Tensor, k: int) -> Tensor:
    """A token of the k most likely ones of each row, by their softmax. *Shape:* (n, vocabulary) -> (n,).

    The largest of logits + Gumbel noise is such a token. `torch.multinomial` makes a random number for each token of
    the vocabulary, on a CPU half the time of all generation.
    """
    likely, tokens = logits.topk(min(k, logits.shape[-1]))
    noise = -torch.empty_like(likely).exponential_().log()
    return tokens.gather(1, (likely + noise).argmax(dim=1, keepdim=True))[:, 0]


def forbidden(tokenizer: PreTrainedTokenizerBase, end: int, vocabulary: int) -> Banned:
    """Tokens that no query may hold, and further tokens that it may not begin with.

    The first are all special tokens except the one that ends a query, tokens such as `[unused1]`, and ids without a
    token (the embedding table is often longer than the vocabulary). The second are the token that ends a query, and
    tokens that decode to white space.
    """
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    unused = [token for token, text in enumerate(texts) if text.strip().startswith("[unused")]
    special = set(tokenizer.all_special_ids) - {end}
    never = sorted(special.union(unused, range(len(tokenizer), vocabulary)))
    blank = [token for token, text in enumerate(texts) if not text.strip()]
    return never, sorted({end, *blank})


def generate_queries(
    model: QueryGenerator, passages: Path, tokens: TextTokens, target: Path, work: Path, params: Params
) -> None:
    """Write the table of `dual_cross.generated` queries for each of the passages, which have these `tokens`.

    Row r is view r % views of passage r // views, with qid "{pid}-{view}".
    """
    section, encoder = params.dual_cross, params.encoder
    inputs, views = Inputs.singles(tokens, model.template, encoder.passage_length), section.generated
    most = section.generator.query_length - len(model.template.single_prefix) - len(model.template.single_suffix)
    banned = forbidden(model.tokenizer, model.end, model.model.get_output_embeddings().out_features)
    together = encoder.batch_tokens * (1 if torch.cuda.is_available() else TOGETHER)

    def generate(window: int, rows: Rows) -> pa.Table:
        texts = np.empty((len(rows), views), object)
        torch.manual_seed(seed_of(params.seed, window))
        for positions, batch in prepare_rows(inputs, rows, together):
            written = write_queries(model, batch, banned, views=views, tokens=most)
            queries = model.tokenizer.batch_decode(written, **READ)
            texts[positions] = np.array([" ".join(one.split()) for one in queries], object).reshape(-1, views)
        pids = pl.scan_parquet(passages).select("pid").slice(int(rows[0]), len(rows)).collect()["pid"]
        qids = [f"{pid}-{view}" for pid in pids for view in range(views)]
        return pa.table([qids, texts.reshape(-1).tolist(), [[]] * len(qids)], schema=QUERIES)

    parts = resume_tables(work, QUERIES, len(tokens), WINDOW, generate, label="generate queries", unit="passages")
    write_table(target, QUERIES, map(pq.read_table, parts))


def choose_queries(
    encoder: DualEncoder, drafts: Path, tokens: TextTokens, embeddings: Matrix, target: Path, work: Path, params: Params
) -> None:
    """Write the table of kept queries: row r is view r % views of passage r // views, the nearest query being view 0.

    The table `drafts` has `dual_cross.generated` ones, with these `tokens`, for each passage, in the passages' order. A
    query that repeats an earlier one of its passage would be the same view again, and comes after all others.

    *Shape:* the passages' embeddings, by `encoder`, (passages, d).
    """
    generated = params.dual_cross.generated
    assert len(tokens) == len(embeddings) * generated

    def choose(_: int, passages: Rows) -> pa.Table:
        rows = np.arange(passages[0] * generated, (passages[-1] + 1) * generated)
        texts = pl.scan_parquet(drafts).slice(int(rows[0]), len(rows)).collect()
        asked = embed_queries(encoder, tokens, params.encoder.batch_tokens, rows).reshape(len(passages), generated, -1)
        cosines = cosines_to(gather_rows(embeddings, passages), asked)
        of_passage = texts.select(pl.struct(pl.int_range(pl.len()) // generated, "text").is_first_distinct())
        is_repeated = ~of_passage.to_series().to_numpy().reshape(-1, generated)
        kept = np.lexsort((-cosines, is_repeated), axis=-1)[:, : params.dual_cross.views]
        return texts[(kept + generated * np.arange(len(passages))[:, None]).reshape(-1)].to_arrow()

    parts = resume_tables(work, QUERIES, len(embeddings), WINDOW, choose, label="choose queries", unit="passages")
    write_table(target, QUERIES, map(pq.read_table, parts))


def cosines_to(passages: NDArray[np.floating], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of passages' embeddings with those of their queries. *Shape:* (n, d), (n, queries, d) -> (n, queries)."""
    wide = passages.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=-1)[:, None] * np.linalg.norm(queries, axis=-1)
    found: NDArray[np.float32] = np.einsum("nd,nqd->nq", wide, queries) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return found
