"""A batch of Dual-Cross-Encoder against Eq. 7 written out: each pair encoded by itself, explicit loops, float64."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gnn_encoder.text.batches import single_batch
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source, load_tokenizer
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


def test_pre_training_reads_passages_alone(tiny_model: Path, texts: Texts) -> None:
    encoder = pair_encoder(tiny_model)
    made = Texts(encoder, texts.query_tokens, texts.passage_tokens, alone=True)
    found = made.passages_of(BATCH, np.array([0, 7, 2]))
    expected = single_batch(texts.passage_tokens, BATCH.passages[[0, 7, 2]], encoder.template, 16)
    for field in ("input_ids", "attention_mask", "token_type_ids"):
        assert getattr(found, field).tolist() == getattr(expected, field).tolist()
