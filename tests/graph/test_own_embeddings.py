"""The Python of docs/own-embeddings.md runs, and the graph gives its passages what they lack."""

from typing import Any

import numpy as np
import pytest

from ..project import code_of

PAGE = "own-embeddings.md"


def test_the_page_runs_and_informed_passages_are_found_better() -> None:
    found: dict[str, Any] = {}
    exec(compile("\n".join(code_of(PAGE, "python")), PAGE, "exec"), found)
    ranks, dev, test = found["reciprocal_ranks"], found["dev"], found["test"]
    informed = found["informed"]()
    assert ranks(informed, test).mean() > ranks(found["passages"], test).mean() + 0.3
    assert ranks(informed, dev).mean() == pytest.approx(found["best"][0])
    assert np.mean(found["losses"][-20:]) < np.mean(found["losses"][:20])
