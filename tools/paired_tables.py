"""The tables that pages take from results/ of differences on the same splits, by the corrected paired test."""

from collections.abc import Callable
from dataclasses import replace

from cgipool.report.blocks import Block, number
from cgipool.report.comparisons import Against, against_baseline
from cgipool.report.tables import markdown_block
from cgipool.report.view import Entry, View
from results_tables import Views, by_the_paper, levels, titled


def gained(views: Views, view: View) -> str:
    """Another recipe against the paper's, on the same splits."""
    return _paired_table(
        view,
        lambda method, context: by_the_paper(views, method, context),
        f"Recipe {view.study.name} minus recipe paper, where both were run",
    )


def ensembles(views: Views) -> str:
    """What ten members give over one, on average over them."""
    view = views["ensembles"]
    found = {f"{e.method} {e.context}": e.members for e in view.entries if e.members}
    return _matrix(view, found, "Ensembles of ten minus the mean of their members")


def controls(views: Views) -> str:
    """How much every method of Table 1 adds over no pooling at all, on the same splits."""
    return _paired_table(
        views["table1"],
        lambda _, context: views["controls"].of("none", context),
        "Each method minus the same network without pooling",
    )


def sweep(views: Views, view: View) -> str:
    """One method over a setting: under each mean the difference to Table 1, and how its discriminator does."""
    papers = {e.wanted.key: by_the_paper(views, e.method, str(e.wanted.at["dataset"])) for e in view.entries}
    others = {key: e for key, e in papers.items() if e and e.wanted.key != key}
    found = _paired({e.wanted.key: (e, others.get(e.wanted.key)) for e in view.entries})

    def told(row: int, what: Callable[[Entry], str]) -> list[str]:
        entries = [view.entry(row, column) for column in range(len(view.columns))]
        return [what(entry) if entry and entry.record else "–" for entry in entries]

    block = titled(view, "Accuracy")
    rows = []
    for number_of_row, row in enumerate(block.rows):
        rows += [row, ["minus Table 1", *told(number_of_row, lambda e: _signed(found.get(e.wanted.key)))]]
        if view.methods == ["cgi"]:
            rows.append(["discriminator accuracy", *told(number_of_row, lambda e: levels(e, "discriminator_accuracy"))])
    words = [
        "Test accuracy in percent: mean over splits ± its standard error.",
        f"Under it: difference to Table 1, ± the standard error of the corrected paired test. {_marks(found)}",
    ]
    if view.methods == ["cgi"]:
        words.append("Under that: the accuracy of the discriminator on validation graphs, level by level.")
    head = [block.head[0], *(f"{view.layout.columns} {column}" for column in view.columns)]
    return markdown_block(replace(block, words=words, head=head, rows=rows))


def _paired_table(view: View, other: Callable[[str, str], Entry | None], what: str) -> str:
    """The cells of a study, each minus another of the same splits."""
    return _matrix(
        view, _paired({f"{e.method} {e.context}": (e, other(e.method, e.context)) for e in view.entries}), what
    )


def _matrix(view: View, found: dict[str, Against], what: str) -> str:
    """Differences by method and context."""
    rows = [
        [view.title(method), *(_signed(found.get(f"{method} {context}")) for context in view.contexts)]
        for method in view.methods
    ]
    words = [
        f"{what}, in percentage points, ± the standard error of the corrected paired test.",
        _marks(found),
    ]
    return markdown_block(Block("", words, [view.layout.methods, *view.contexts], rows))


def _paired(pairs: dict[str, tuple[Entry, Entry | None]]) -> dict[str, Against]:
    """By place, the second of two entries of the same splits minus the first, where both were run."""
    records = {}
    for place, (one, other) in pairs.items():
        if one.record and other and other.record:
            records["ours", place], records["theirs", place] = one.record, other.record
    return {place: found for (_, place), found in against_baseline(records, "theirs").items()}


def _signed(one: Against | None) -> str:
    """The first minus the second of a pair."""
    if one is None:
        return "–"
    return f"{number(-one.paired.difference, sign=True)} ± {number(one.paired.se)} {one.mark}".strip()


def _marks(found: dict[str, Against]) -> str:
    comparisons = f"{len(found)} comparisons of this table"
    return f"▲ significantly better, ▼ worse: p below 0.05, Holm-adjusted for the {comparisons}."


PAIRED_TABLES: dict[str, Callable[..., str]] = {
    "gained": gained,
    "ensembles": ensembles,
    "controls": controls,
    "sweep": sweep,
}
"""What a page can ask for."""
