"""The Python of docs/own-embeddings.md runs, and the graph gives its passages what they lack."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "own-embeddings.md"


def test_the_page_runs_and_informed_passages_are_found_better() -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    found: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), found)
    ranks, dev, test = found["reciprocal_ranks"], found["dev"], found["test"]
    informed = found["informed"]()
    assert ranks(informed, test).mean() > ranks(found["passages"], test).mean() + 0.3
    assert ranks(informed, dev).mean() == pytest.approx(found["best"][0])
    assert np.mean(found["losses"][-20:]) < np.mean(found["losses"][:20])
