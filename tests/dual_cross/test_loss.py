"""A batch of Dual-Cross-Encoder against Eq. 7 written out: each pair encoded by itself, explicit loops, float64."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gnn_encoder.text.batches import Inputs, single_batch
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source, load_tokenizer
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dual_encoder import Texts, contrastive_step
from gnn_encoder.train.examples import Examples, TrainingBatch

from ..train.test_losses import KNOWN, gradients, keep_float64  # noqa: F401  (a fixture)
from .conftest import PAIR_LENGTH, pair_encoder

# Five queries, their positives, then two hard negatives each. Of query 2, passage 11 is also judged relevant; of
# queries 0 and 1, passage 0, which is the positive of one and a hard negative of another.
BATCH = TrainingBatch(np.array([0, 1, 2, 4, 5]), np.array([0, 3, 1, 5, 6, 9, 10, 10, 11, 0, 2, 9, 3, 1, 2]))
# The query that each passage stands beside: positives and hard negatives their own, by hand.
ASKED = [0, 1, 2, 4, 5, 0, 0, 1, 1, 2, 2, 4, 4, 5, 5]


def written_out(encoder: DualEncoder, model: Path, tables: Path) -> Tensor:
    """Mean over queries of -log( e^{s(q,q+d+)} / sum over {d+} and D- of e^{s(q,d)} )        (Eq. 7).

    Each query, and each pair, is encoded alone, from its texts, by transformers.
    """
    tokenizer, losses = load_tokenizer(Source(str(model))), []
    queries, passages = (
        pl.read_parquet(tables / f"{name}.parquet")["text"].to_list() for name in ("train", "passages")
    )

    def embed(module: torch.nn.Module, length: int, *texts: str) -> Tensor:
        encoded = tokenizer(*texts, truncation="longest_first", max_length=length, return_tensors="pt")
        return F.normalize(module(**encoded).last_hidden_state[0].mean(dim=0), dim=0)

    for own, query in enumerate(BATCH.queries.tolist()):
        vector, terms = embed(encoder.query, 10, queries[query]), {}
        for place, (other, passage) in enumerate(zip(ASKED, BATCH.passages.tolist(), strict=True)):
            if place == own or (query, passage) not in KNOWN:
                pair = embed(encoder.passage, PAIR_LENGTH, queries[other], passages[passage])
                terms[place] = torch.exp(encoder.scale * vector @ pair)
        losses.append(-torch.log(terms[own] / sum(terms.values())))
    return torch.stack(losses).mean()


@pytest.mark.usefixtures("keep_float64")
@pytest.mark.parametrize(("chunk", "shared"), [(2, True), (4, False), (100, True)])
def test_loss_and_gradients(
    tiny_model: Path, tables: Path, texts: Texts, examples: Examples, chunk: int, shared: bool
) -> None:
    slow, fast = (pair_encoder(tiny_model, shared=shared) for _ in range(2))
    expected = written_out(slow, tiny_model, tables)
    expected.backward()
    pairs = Texts(fast, texts.query_tokens, texts.passage_tokens, chunk_size=chunk)
    assert contrastive_step(pairs, BATCH, examples) == pytest.approx(expected.item(), abs=1e-9)
    found, wanted = gradients(fast), gradients(slow)
    assert len(wanted) > 30 and ("passage.embeddings" in str(wanted)) != shared
    assert max(float(g.abs().max()) for g in wanted.values()) > 1e-3
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_passages_beside_their_own_generated_queries(
    tiny_model: Path, texts: Texts, generated: TextTokens, share: float
) -> None:
    """As they are searched: whatever is asked, and never the generated query that is asked itself.

    Which ones are read alone, the batch's queries decide: in any part, and again in a training that was resumed.
    """
    encoder = pair_encoder(tiny_model)
    made = Texts(encoder, generated, texts.passage_tokens, generated, plain_share=share)
    alone = [False, True, True, False] if share else [False] * 4
    assert alone == (np.random.default_rng([4, 6]).random(4) < share).tolist()
    # Of passage p the views are 3 p, 3 p + 1, 3 p + 2; query 4 is view 1 of passage 1, 6 view 0 of passage 2.
    batch, beside = TrainingBatch(np.array([4, 6]), np.array([1, 2, 9, 0])), [5, 7, 29, 1]
    whole = made.passages_of(batch, np.arange(4))
    for place, row in enumerate(batch.passages[:, None]):
        one, pair = made.passages_of(batch, np.array([place])), (generated, np.array([beside[place]]))
        expected = (
            single_batch(texts.passage_tokens, row, encoder.template, 16)
            if alone[place]
            else Inputs.pairs(*pair, texts.passage_tokens, row, encoder.template, PAIR_LENGTH).batch()
        )
        for field in ("input_ids", "attention_mask", "token_type_ids"):
            wanted = getattr(expected, field)
            assert getattr(one, field).tolist() == wanted.tolist()
            assert getattr(whole, field)[place, : wanted.shape[1]].tolist() == wanted[0].tolist()
        assert whole.attention_mask[place].sum() == expected.attention_mask.sum()
