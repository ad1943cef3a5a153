"""Tables of paired differences on the same splits, from results/, with the corrected paired test."""

from collections.abc import Callable
from dataclasses import replace

from cgipool.report.blocks import Block, number
from cgipool.report.comparisons import Comparison, against_baseline
from cgipool.report.tables import markdown_block
from cgipool.report.view import CellResult, View
from results_tables import Views, by_the_paper, levels, titled


def gained(views: Views, view: View) -> str:
    """Compare another recipe with the paper's on the same splits."""
    return _paired_table(
        view,
        lambda method, context: by_the_paper(views, method, context),
        f"Recipe {view.study.name} minus recipe paper, where both were run",
    )


def ensembles(views: Views) -> str:
    """Compare ensembles of ten with the mean of their members."""
    view = views["ensembles"]
    found = {f"{e.method} {e.context}": e.members for e in view.entries if e.members}
    return _matrix(view, found, "Ensembles of ten minus the mean of their members")


def controls(views: Views) -> str:
    """Compare every method of Table 1 with the network without pooling, on the same splits."""
    return _paired_table(
        views["table1"],
        lambda _, context: views["controls"].of("none", context),
        "Each method minus the same network without pooling",
    )


def classical(views: Views) -> str:
    """Methods without a network beside no pooling and CGIPool with recipe strong, on the same splits."""
    view, networks = views["classical"], views["strong"]
    found = _paired({f"{e.method} {e.context}": (e, networks.of("none", e.context)) for e in view.entries})
    rows = []
    for method in view.methods:
        rows.append([view.title(method), *(_mean(view.of(method, context)) for context in view.contexts)])
        rows.append(["minus no pooling", *(_signed(found.get(f"{method} {context}")) for context in view.contexts)])
    rows += [[networks.title(m), *(_mean(networks.of(m, c)) for c in view.contexts)] for m in ("none", "cgi")]
    words = [
        "Test accuracy in percent: mean over the same 20 splits ± its standard error (estimand: these graphs).",
        "Below: the method minus no pooling, ± the standard error of the corrected paired test (estimand: new graphs "
        "like these).",
        _marks(found),
        "– marks a missing cell.",
    ]
    return markdown_block(Block("", words, [view.layout.method_axis, *view.contexts], rows))


def _mean(entry: CellResult | None) -> str:
    """Format the mean of a cell, with its standard error."""
    found = entry.summary if entry else None
    return f"{number(found.mean)} ± {number(found.se)}" if found else "–"


def sweep(views: Views, view: View) -> str:
    """One method over values of a setting: the mean, the difference to Table 1 and the discriminator's accuracy."""
    papers = {e.wanted.key: by_the_paper(views, e.method, str(e.wanted.at["dataset"])) for e in view.entries}
    others = {key: e for key, e in papers.items() if e and e.wanted.key != key}
    found = _paired({e.wanted.key: (e, others.get(e.wanted.key)) for e in view.entries})

    def cells(row: int, what: Callable[[CellResult], str]) -> list[str]:
        entries = [view.entry(row, column) for column in range(len(view.columns))]
        return [what(entry) if entry and entry.record else "–" for entry in entries]

    block = titled(view, "Accuracy")
    rows = []
    for number_of_row, row in enumerate(block.rows):
        rows += [row, ["minus Table 1", *cells(number_of_row, lambda e: _signed(found.get(e.wanted.key)))]]
        if view.methods == ["cgi"]:
            rows.append(
                ["discriminator accuracy", *cells(number_of_row, lambda e: levels(e, "discriminator_accuracy"))]
            )
    words = [
        "Test accuracy in percent: mean over splits ± its standard error.",
        f"Below: difference to Table 1, ± the standard error of the corrected paired test (estimand: new graphs like "
        f"these). {_marks(found)}",
    ]
    if view.methods == ["cgi"]:
        words.append("Then: the accuracy of the discriminator on validation graphs, level by level.")
    head = [block.head[0], *(f"{view.layout.column_axis} {column}" for column in view.columns)]
    return markdown_block(replace(block, words=words, head=head, rows=rows))


def _paired_table(view: View, other: Callable[[str, str], CellResult | None], what: str) -> str:
    """Return the cells of a study, each minus another cell on the same splits."""
    return _matrix(
        view, _paired({f"{e.method} {e.context}": (e, other(e.method, e.context)) for e in view.entries}), what
    )


def _matrix(view: View, found: dict[str, Comparison], what: str) -> str:
    """Differences by method and context."""
    rows = [
        [view.title(method), *(_signed(found.get(f"{method} {context}")) for context in view.contexts)]
        for method in view.methods
    ]
    words = [
        f"{what}, in percentage points, ± the standard error of the corrected paired test (estimand: new graphs like "
        "these).",
        _marks(found),
    ]
    return markdown_block(Block("", words, [view.layout.method_axis, *view.contexts], rows))


def _paired(pairs: dict[str, tuple[CellResult, CellResult | None]]) -> dict[str, Comparison]:
    """Return the second of two entries minus the first, by place, if both were run on the same splits."""
    cells = {}
    for place, (one, other) in pairs.items():
        if one.measured and other and other.measured:
            cells["ours", place], cells["theirs", place] = one.measured, other.measured
    return {place: found for (_, place), found in against_baseline(cells, "theirs").items()}


def _signed(one: Comparison | None) -> str:
    """Format the first minus the second of a pair."""
    if one is None:
        return "–"
    return f"{number(-one.paired.difference, sign=True)} ± {number(one.paired.se)} {one.mark}".strip()


def _marks(found: dict[str, Comparison]) -> str:
    comparisons = f"{len(found)} comparisons of this table"
    return f"▲ significantly better, ▼ worse: p below 0.05, Holm-adjusted for the {comparisons}."


PAIRED_TABLES: dict[str, Callable[..., str]] = {
    "gained": gained,
    "ensembles": ensembles,
    "controls": controls,
    "classical": classical,
    "sweep": sweep,
}
"""Paired tables by the name that pages use."""
