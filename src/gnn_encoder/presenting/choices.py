"""What the systems without training chose on dev: a table of the choices, and one of everything that they tried."""

from gnn_encoder.baselines.choice import Choice, Setting, read_choice
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.formats import NOTHING, count, points
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

NOTE = (
    "Weights are lambda of the mean of labelled queries, standard deviations (unit) of M_de's scores of one query's "
    "passages for the prior and for logged queries, and BM25's share of the hybrid; certain is the share of the dev "
    "queries for which no passage beyond M_de's run can reach the ranks that are measured"
)


def read_choices() -> dict[str, Choice]:
    """System -> its choice, for those that have been made."""
    places = {name: project.embeddings(name) for name in registry().shifted}
    places |= {name: project.RUNS / name for name in (*registry().reordered, *registry().fused)}
    return {name: read_choice(place) for name, place in places.items() if (place / project.CHOICE).is_file()}


def choices_table(found: dict[str, Choice]) -> Table:
    """One row per system: the chosen setting, its value on dev, the range of all values, and facts."""
    measure, queries = next((one.measure, one.queries) for one in found.values())
    columns = ["System", "chosen", f"dev {measure}", "all that were tried", "also"]
    rows = [
        [name_of(name), _setting(one.chosen.setting), points(one.chosen.value), _range(one), _facts(one.facts)]
        for name, one in found.items()
    ]
    title = f"Chosen on {count(queries)} dev queries, points of 100"
    return Table(title=title, columns=columns, rows=rows, note=NOTE)


def tried_table(found: dict[str, Choice]) -> Table:
    """One row per setting that a system tried, in the order in which they were."""
    measure = next(one.measure for one in found.values())
    rows = [
        [name_of(name), _setting(tried.setting), points(tried.value), "chosen" if tried == one.chosen else ""]
        for name, one in found.items()
        for tried in one.tried
    ]
    return Table(title="Every setting tried", columns=["System", "setting", f"dev {measure}", ""], rows=rows)


def _setting(setting: Setting) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in setting.items())


def _range(choice: Choice) -> str:
    values = [one.value for one in choice.tried]
    return f"{len(values)}: {points(min(values))} to {points(max(values))}"


def _facts(facts: Setting) -> str:
    told = {name: name_of(str(value)) if name == "dense" else value for name, value in facts.items()}
    shown = {name: value for name, value in told.items() if not name.startswith("dev_")}
    return _setting(shown) or NOTHING


def _value(value: float | int | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
