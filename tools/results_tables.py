"""Tables for pages, made from results/, as Markdown."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import numpy as np

from cgipool.report.blocks import Block, number
from cgipool.report.statistics import blocks_of
from cgipool.report.tables import markdown_block
from cgipool.report.view import DONE, CellResult, View
from cgipool.study.estimate import in_words
from cgipool.study.records import Record
from cgipool.training.presets import PAPER, STRONG

FAMILIES = {
    "social networks": ("IMDB-BINARY", "IMDB-MULTI", "COLLAB"),
    "bioinformatics": ("PROTEINS",),
    "molecules": ("NCI1", "NCI109", "Mutagenicity"),
}
"""As in the head of the paper's Table 1, in the order of the sentence in section 4.2."""

CLAIMED = {"social networks": 1.21, "bioinformatics": 1.43, "molecules": 0.45}
"""Section 4.2: CGIPool "outperforms state-of-the-art models by up to" this many percent."""

DIAGNOSTICS = {"mi": "L_MI", "discriminator_accuracy": "discriminator accuracy", "overlap": "shared nodes"}
"""Diagnostics of the mutual-information term, with their names in tables."""

BEGINNING = 5
"""Epochs that count as the beginning of a training."""

PAPERS = ("table1", "table2", "figure3")
"""The studies of the paper's own tables and figure."""

FIRST = (*PAPERS, "strong")
"""The studies whose cells others share."""

Views = dict[str, View]


def accuracy(views: Views, view: View) -> str:
    """Our accuracy ± its standard error, with the published numbers below."""
    return _block(view, "Accuracy")


def recipes(views: Views, view: View) -> str:
    """Accuracy, the results of recipe `paper`, and the gain from ensembles if they were run."""
    block = titled(view, "Accuracy")
    starts = [place for place, row in enumerate(block.rows) if row[0] != "published"]
    rows: list[list[str]] = []
    places = {}
    for method, start, end in zip(view.methods, starts, [*starts[1:], None], strict=True):
        places[start] = len(rows)
        entries = [view.of(method, context) for context in view.contexts]
        ours, published = block.rows[start], block.rows[start + 1 : end]
        rows += [ours, ["recipe paper", *(_with_recipe_paper(views, entry) for entry in entries)], *published]
        together = [_together(views, entry) for entry in entries]
        rows += [["ten together", *together]] if set(together) != {number(None)} else []
    under = ["Below: the mean with recipe paper, then the published mean, each with ours minus it in parentheses."]
    if any(row[0] == "ten together" for row in rows):
        splits = max(len(entry.record.splits) for entry in views["ensembles"].entries if entry.record)
        under.append(f"Ten together: an ensemble of ten minus the mean of its members, on the first {splits} splits.")
    words = [word for line in block.words for word in (under if line.startswith("Below") else [line])]
    strong = {(places[row], column) for row, column in block.strong}
    return markdown_block(replace(block, words=words, rows=rows, strong=strong))


def _with_recipe_paper(views: Views, entry: CellResult | None) -> str:
    """Format the result of recipe `paper` for the same cell, and the difference to it."""
    other = by_the_paper(views, entry.method, entry.context) if entry else None
    if entry is None or entry.summary is None or other is None or other.summary is None:
        return "–"
    return f"{number(other.summary.mean)} ({number(entry.summary.mean - other.summary.mean, sign=True)})"


def _together(views: Views, entry: CellResult | None) -> str:
    """Format the gain of an ensemble over its members for the same cell, in points."""
    ensemble = views["ensembles"].of(entry.method, entry.context) if entry and "ensembles" in views else None
    return number(None if ensemble is None or not ensemble.members else -ensemble.members.paired.difference, sign=True)


def means(views: Views, view: View) -> str:
    """One number per cell: the mean of each method, and the paper's published number for the baseline."""
    entries = {method: [view.of(method, context) for context in view.contexts] for method in view.methods}
    rows = [
        [view.title(method), *(number(entry.summary.mean if entry and entry.summary else None) for entry in row)]
        for method, row in entries.items()
    ]
    published = [entry.wanted.published if entry else None for entry in entries["cgi"]]
    rows.append(["CGIPool, published", *(number(pair[0] if pair else None) for pair in published)])
    words = ["Test accuracy in percent, mean over 20 random splits."]
    return markdown_block(Block("", words, [view.layout.method_axis, *view.contexts], rows))


def by_the_paper(views: Views, method: str, context: str) -> CellResult | None:
    """Return the entry of a method on a data set with recipe `paper`."""
    found = (views[name].of(method, context) for name in ("table1", "table2", "controls") if name in views)
    return next((entry for entry in found if entry is not None), None)


def against(views: Views, view: View) -> str:
    """The baseline minus each method, split by split."""
    return _block(view, f"{view.baseline} against the others")


def ranks(views: Views, view: View) -> str:
    """Average ranks over data sets."""
    return _block(view, "Average ranks")


def gaps(views: Views, view: View) -> str:
    """Ours against the published numbers and the binomial floor."""
    return _block(view, "Gap to the published numbers")


def equivalence(views: Views, view: View) -> str:
    """Whether methods are equivalent to the baseline within the margin of the study."""
    return _block(view, "Equivalence")


def power(views: Views, view: View) -> str:
    """The differences that comparisons could have found."""
    return _block(view, "Power")


def seeds(views: Views, view: View) -> str:
    """The variance between splits and between trainings on one split."""
    return _block(view, "Seeds")


def _block(view: View, title: str) -> str:
    return markdown_block(titled(view, title))


def titled(view: View, title: str) -> Block:
    """Return the table of a study's report with this title."""
    return next(block for block in blocks_of(view) if block.title == title)


def times(views: Views) -> str:
    """The time that each study took, and the time of the paper's two tables and figure together."""
    rows, seen = [], set()
    ordered = [views[name] for name in FIRST if name in views]
    ordered += [view for name, view in views.items() if name not in FIRST]
    for view in ordered:
        fresh = [e.record for e in view.entries if e.record and e.record.key not in seen]
        seen |= {record.key for record in fresh}
        cells = f"{view.count(DONE)} of {len(view.entries)}"
        rows.append([view.study.name, cells, str(len(fresh)), *_took(fresh)])
    entries = [e for name in PAPERS if name in views for e in views[name].entries]
    ours = {e.record.key: e.record for e in entries if e.record}
    whole = f"{len(ours)} of {len({e.wanted.key for e in entries})}"
    rows.append(["both tables and the figure", whole, "", *_took(list(ours.values()))])
    words = [
        "Cells that an earlier line includes are not counted again. Several cells share the device, so the sum of "
        "their times is longer than the wall time, during which at least one of them was running.",
    ]
    return markdown_block(Block("", words, ["study", "cells", "not above", "sum over cells", "wall time"], rows))


def _took(records: list[Record]) -> tuple[str, str]:
    return in_words(sum(record.provenance["seconds"] for record in records)), in_words(_span(records))


def _span(records: list[Record]) -> float:
    """Return the seconds during which at least one cell was running; pauses before a resume do not count."""
    spans = sorted(span for record in records for span in _legs(record))
    covered, end = 0.0, -math.inf
    for start, stop in spans:
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


def _legs(record: Record) -> Iterator[tuple[float, float]]:
    provenance = record.provenance
    for leg in provenance.get("legs") or [provenance]:
        start = datetime.fromisoformat(leg["started"]).timestamp()
        yield start, start + leg["seconds"]


def claims(views: Views) -> str:
    """Compare what the paper's text says about its Table 1 with the table."""
    view = views["table1"]
    rows = []
    for family, names in FAMILIES.items():
        margins = {name: _margin(view, name) for name in names}
        best = max(margins, key=lambda name: margins[name][0])
        points, peer, relative = margins[best]
        where = ", ".join(_leads_of(view, CLAIMED[family])) or "–"
        rows.append([family, number(CLAIMED[family]), where, number(points), best, peer, number(relative)])
    words = [
        "Published numbers alone: which lead over which peer is as large as the text says, and the largest lead over "
        "the best peer on a data set of each kind."
    ]
    head = ["data sets", "text, %", "is the lead over", "table, points", "on", "best peer", "table, relative %"]
    return markdown_block(Block("", words, head, rows))


def _leads_of(view: View, points: float) -> list[str]:
    """Return the peers and data sets on which CGIPool's published lead is this many points."""
    return [
        f"{view.title(method)} on {dataset}"
        for dataset in view.contexts
        for method, lead in _leads(view, dataset).items()
        if abs(lead - points) < 0.005
    ]


def _leads(view: View, dataset: str) -> dict[str, float]:
    published = _published(view, dataset)
    own = published.pop("cgi")
    return {method: own - of for method, of in published.items()}


def _published(view: View, dataset: str) -> dict[str, float]:
    return {
        e.method: e.wanted.published[0] for e in view.entries if e.context == dataset and e.wanted.published is not None
    }


def _margin(view: View, dataset: str) -> tuple[float, str, float]:
    """Return CGIPool's published lead over the best peer in points, the peer, and the lead relative to the peer."""
    leads = _leads(view, dataset)
    best = min(leads, key=lambda method: leads[method])
    return leads[best], view.title(best), 100 * leads[best] / _published(view, dataset)[best]


def floor(views: Views) -> str:
    """Count the published ± that are smaller than sampling error between splits allows."""
    known = [e for e in views["table1"].entries if e.gap and e.wanted.published and e.wanted.published[1] is not None]
    below = sum(e.wanted.published[1] < e.gap.floor for e in known if e.gap and e.wanted.published)
    half = sum(e.wanted.published[1] < e.gap.floor / 2 for e in known if e.gap and e.wanted.published)
    spread = sum(e.summary.sd < e.gap.floor for e in known if e.gap and e.summary and e.summary.sd is not None)
    return (
        f"Of the {len(known)} published ± of Table 1, {below} are below the binomial floor, {half} below half of it; "
        f"of our standard deviations over as many splits, {spread} are below it."
    )


def duplicates(views: Views) -> str:
    """Accuracy on duplicate-aware splits minus accuracy on random splits, unpaired because the splits differ."""
    one, other = views["distinct"], views["table1"]
    rows = [
        [one.title(method), *(minus(one.of(method, context), other.of(method, context)) for context in one.contexts)]
        for method in one.methods
    ]
    words = [
        "Duplicate-aware minus random splits, in percentage points, ± the standard error of that difference (estimand: "
        "these graphs)."
    ]
    return markdown_block(Block("", words, [one.layout.method_axis, *one.contexts], rows))


def minus(one: CellResult | None, other: CellResult | None) -> str:
    """Format the difference of two means, with its standard error."""
    if one is None or other is None or one.summary is None or other.summary is None:
        return "–"
    se = math.hypot(one.summary.se or 0.0, other.summary.se or 0.0)
    return f"{number(one.summary.mean - other.summary.mean, sign=True)} ± {number(se)}"


def levels(entry: CellResult, name: str) -> str:
    """Format a diagnostic of CGIPool level by level: means over splits, at the best epoch."""
    values = [row["diagnostics"][name] for row in entry.record.splits] if entry.record else []
    return " / ".join(number(float(level)) for level in np.mean(values, axis=0)) if values else "–"


def diagnostics(views: Views, view: View) -> str:
    """Diagnostics of CGIPool's mutual-information term: means over splits, at the best epoch."""
    rows = []
    for context in view.contexts:
        entry = view.of("cgi", context)
        if entry is None or entry.record is None:
            continue
        alpha = entry.record.cell["recipe"]["alpha"]
        rows.append([context, f"{alpha:g}", *(levels(entry, name) for name in DIAGNOSTICS)])
    words = [
        "Means over 20 splits on the validation graphs, one number per level. A discriminator at chance has "
        "L_MI = 2 ln 2 = 1.39, in the released form ln 2 = 0.69, and is right in half of the cases; at ratio 0.8 the "
        "two selections share at least 0.75 of their nodes by counting alone, and 0.8 if drawn at random.",
    ]
    head = ["data set", "α", *DIAGNOSTICS.values()]
    return markdown_block(Block("", words, head, rows))


def early(views: Views, view: View) -> str:
    """Count the failed trainings: those with the lowest validation loss in the first epochs."""
    rows = []
    for method in view.methods:
        entries = [view.of(method, context) for context in view.contexts]
        rows.append([view.title(method), *(_early(entry) for entry in entries)])
    words = [f"How many of 20 splits had their lowest validation loss within the first {BEGINNING} epochs."]
    return markdown_block(Block("", words, ["method", *view.contexts], rows))


def _early(entry: CellResult | None) -> str:
    if entry is None or entry.record is None:
        return "–"
    return str(sum(row["best_epoch"] <= BEGINNING for row in entry.record.splits))


def settings(views: Views) -> str:
    """The settings in which recipe strong differs from the paper's."""
    recipes = {"paper": PAPER} | {recipe.name: recipe for recipe in STRONG.values()}
    values = [recipe.to_json() for recipe in recipes.values()]
    rows = [
        [name, *(f"{one[name]}" for one in values)]
        for name in values[0]
        if name != "name" and any(one[name] != values[0][name] for one in values)
    ]
    changed = {
        (row, column) for row, line in enumerate(rows) for column in range(2, len(line)) if line[column] != line[1]
    }
    return markdown_block(Block("", ["Bold: differs from recipe paper."], ["setting", *recipes], rows, strong=changed))


TABLES: dict[str, Callable[..., str]] = {
    "accuracy": accuracy,
    "recipes": recipes,
    "means": means,
    "against": against,
    "ranks": ranks,
    "gaps": gaps,
    "equivalence": equivalence,
    "power": power,
    "seeds": seeds,
    "times": times,
    "claims": claims,
    "floor": floor,
    "duplicates": duplicates,
    "settings": settings,
    "diagnostics": diagnostics,
    "early": early,
}
"""Tables by the name that pages use."""
