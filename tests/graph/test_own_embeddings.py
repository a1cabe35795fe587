"""The Python of docs/own-embeddings.md runs, and the graph gives its passages what they lack."""

import re
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "own-embeddings.md"


def test_the_page_runs_and_informed_passages_are_found_better() -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    found: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), found)
    asked = found["asked"], found["answers"]
    before, after = (found["reciprocal_rank"](found[name], *asked) for name in ("passages", "informed"))
    assert after > before + 0.03
    assert np.mean(found["losses"][-20:]) < np.mean(found["losses"][:20])
