"""The small task of the training tests, with generated queries, an encoder that reads pairs, and two generators."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.pipeline import project
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..encoders import settings
from ..texts import WORDS, text, write_queries
from ..train.conftest import examples, tables, texts, tiny_encoder

__all__ = ["examples", "tables", "texts"]

VIEWS = 3
PAIR_LENGTH = 20


@pytest.fixture
def generated(tables: Path, tiny_model: Path) -> TextTokens:
    """Three queries for each of the 12 passages."""
    asked = [text(40 + i, 1 + (i * 5) % 9) for i in range(12 * VIEWS)]
    table = write_queries(tables / project.GENERATED_QUERIES, asked)
    return open_tokens(table, tiny_encoder(tiny_model).tokenizer, table.parent, 32)


@pytest.fixture
def fresh(tiny_model: Path) -> QueryGenerator:
    """An encoder-decoder of the tiny BERT, as training begins with it."""
    return QueryGenerator.from_encoder(str(tiny_model), settings(tiny_model), seed=5)


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
    model = T5ForConditionalGeneration(T5Config(vocab_size=32, decoder_start_token_id=0, **size))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def t5(t5_folder: Path) -> QueryGenerator:
    return QueryGenerator.load(t5_folder, precision="fp32").for_inference().double()


@pytest.fixture(params=["bert", "t5"])
def model(request: pytest.FixtureRequest) -> QueryGenerator:
    found: QueryGenerator = request.getfixturevalue(request.param)
    return found
