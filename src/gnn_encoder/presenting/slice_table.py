"""Systems on slices of the queries: those near to a training query, those whose passage is labelled, and so on."""

from collections.abc import Iterator

from gnn_encoder.evaluation.properties import THIRDS
from gnn_encoder.evaluation.slices import CUT, LABELLED, SIMILARITY, Slice, Sliced
from gnn_encoder.pipeline.project import title_of
from gnn_encoder.presenting.formats import BETTER, NOTHING, WORSE, comparison, count, points
from gnn_encoder.presenting.tables import Table

NAMES = {
    SIMILARITY: "nearest training query",
    LABELLED: "a relevant passage is labelled in training",
    CUT: "a relevant passage is cut",
}


def split_table(branch: str, found: Sliced, split: str) -> Table:
    """The slices of a split's queries, a row each: means of a branch's baseline and main system, and their comparison.

    A branch that has no main system shows all of its systems.
    """
    every = dict.fromkeys(system for labels in found.slices.values() for of in labels.values() for system in of.means)
    others = [branch] if branch in every else [system for system in every if system != found.baseline]
    note = (
        f"Differences are from {title_of(found.baseline)}; p is after Holm's correction for all slices of a system. "
        "Similarity to the nearest training query is by M_de. "
        f"A passage is cut if it has more than {found.about.passage_length} tokens."
    )
    if found.about.left_out:
        note += " Answers judge these queries: their relevant passages, labelled or cut, are not known."
    title = f"{split.capitalize()} queries: {title_of(branch)} by slices, {found.measure}, points of 100"
    shown = [found.baseline, *others]
    rows = [[name, count(of.queries), *(_cell(of, system) for system in shown)] for name, of in _named(found)]
    return Table(title=title, columns=["Slice", "queries", *map(title_of, shown)], rows=rows, note=note)


def _named(found: Sliced) -> Iterator[tuple[str, Slice]]:
    for name, labels in found.slices.items():
        for label, of in labels.items():
            yield f"{NAMES[name]}: {label}{_bounds(found)[label] if name == SIMILARITY else ''}", of


def _bounds(found: Sliced) -> dict[str, str]:
    middle, upper = found.about.thirds
    texts = (f" (below {middle:.3f})", f" ({middle:.3f} to {upper:.3f})", f" (from {upper:.3f})")
    return dict(zip(THIRDS, texts, strict=True))


def _cell(of: Slice, system: str) -> str:
    if system not in of.means:
        return NOTHING
    if system not in of.against:
        return points(of.means[system])
    mark, text = "", comparison(of.against[system])
    if text.startswith((BETTER, WORSE)):  # it stands first, where the page looks for it
        mark, text = text[:2], text[2:]
    return f"{mark}{points(of.means[system])}\n{text}"
