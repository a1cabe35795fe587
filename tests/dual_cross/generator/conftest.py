"""Two kinds of generator on a small corpus: an encoder-decoder of the tiny BERT, and a random T5."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.pipeline.params import Encoder, Params
from gnn_encoder.text.pretrained import Source
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ...text.conftest import scratch
from ...texts import WORDS, text, write_passages, write_queries

__all__ = ["scratch"]  # the fixture of that name, for these tests too


@pytest.fixture
def encoder_params(tiny_params: Params) -> Encoder:
    changes = {"precision": "fp32", "dropout": 0.0}
    return tiny_params.encoder.model_copy(update=changes)


@pytest.fixture
def fresh(tiny_model: Path, encoder_params: Encoder) -> QueryGenerator:
    """As training begins with it."""
    return QueryGenerator.from_encoder(Source(str(tiny_model)), encoder_params, seed=5)


@pytest.fixture
def bert(fresh: QueryGenerator) -> QueryGenerator:
    """Shaken, so that what it writes differs by passage and by what was written before, and ends at some point."""
    torch.manual_seed(9)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        fresh.model.decoder.get_output_embeddings().bias[fresh.end] += 4.0
    return fresh.for_inference().double()


@pytest.fixture(scope="session")
def t5_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 of two layers that nobody trained; its table of embeddings is longer than its vocabulary."""
    folder = tmp_path_factory.mktemp("t5")
    vocabulary = {token: number for number, token in enumerate(["<pad>", "</s>", "<unk>", "a", " ", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(3)
    size = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.0}
    config = T5Config(vocab_size=32, decoder_start_token_id=0, **size)
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def t5(t5_folder: Path) -> QueryGenerator:
    return QueryGenerator.load(Source(str(t5_folder)), precision="fp32").for_inference().double()


@pytest.fixture(params=["bert", "t5"])
def model(request: pytest.FixtureRequest) -> QueryGenerator:
    found: QueryGenerator = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def passages_table(tmp_path: Path) -> Path:
    """23 passages of 1 to 36 words."""
    texts = [text(i, 1 + (i * 11) % 37) for i in range(23)]
    return write_passages(tmp_path / "passages.parquet", [""] * 23, texts)


@pytest.fixture
def passages(passages_table: Path, model: QueryGenerator) -> TextTokens:
    return open_tokens(passages_table, model.tokenizer, passages_table.parent, 64)


@pytest.fixture
def queries_table(tmp_path: Path) -> Path:
    return write_queries(tmp_path / "train.parquet", [text(20 + i, 2 + i) for i in range(8)])
