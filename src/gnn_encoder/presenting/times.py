"""Encoding times as in the GNN-encoder paper's Table 4."""

from typing import Any

from gnn_encoder.presenting.names import TITLES, name_of
from gnn_encoder.presenting.tables import Table


def times_table(times: dict[str, Any]) -> Table:
    """Milliseconds per passage and per query, with the machine as note. `times`: from the stage encoding_times."""
    rows = [
        [name_of(system), f"{row['ms_a_passage']:.3f}", f"{row['ms_a_question']:.2f}"]
        for system, row in times["systems"].items()
    ]
    machine = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in times["machine"].items())
    return Table(title=TITLES["times"], columns=["System", "ms a passage", "ms a query"], rows=rows, note=machine)
