"""The tables of a study as plain text in cells, each with a line of words on what its columns are."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cgipool.errors import counted, rounded
from cgipool.report.comparisons import LEVEL, Against
from cgipool.report.view import DONE, FAILED, Entry, View

NOTHING = "–"
"""Stands where there is no number."""

OUTDATED, UNREAD = "†", "‡"
"""Marks of a cell that another version made, and of one at several places along a setting that it does not read."""

CORRECTED = "p is of the corrected resampled t-test (Nadeau and Bengio 2003), as random splits share training graphs."


@dataclass
class Block:
    """A table with its title, and words that explain it."""

    title: str
    words: list[str]
    head: list[str]
    rows: list[list[str]]
    left: int = 1
    """How many columns, from the first, are words; the others are numbers."""
    strong: set[tuple[int, int]] = field(default_factory=set)
    """Rows and columns of what is set bold."""


def blocks_of(view: View) -> list[Block]:
    """All tables of a study; the accuracies come first."""
    return [accuracy(view), *(block for block in _statistics(view) if block.rows)]


def accuracy(view: View) -> Block:
    """Ours ± its standard error, the published numbers under it."""
    words = [
        "Test accuracy in percent: mean over splits ± its standard error. Best of each comparison in bold.",
        "Splits of one data set share graphs: the error is that of the mean over such splits, not over new graphs.",
    ]
    if any(entry.gap for entry in view.entries):
        words.append("Under it: the published mean, and ours minus it in parentheses.")
    if any(entry.against for entry in view.entries):
        words.append(
            f"▲ significantly better than {view.baseline}, ▼ significantly worse: corrected paired test, "
            f"Holm-adjusted p below {LEVEL}."
        )
    words += [f"{mark} {meaning}" for mark, meaning in footnotes(view)]
    if view.count(DONE) < len(view.entries):
        words.append(f"{NOTHING} is a cell that is missing, “failed” one that could not be finished.")
    block = Block("Accuracy", words, [_row_heading(view), *view.columns], [])
    for number, row in enumerate(view.rows):
        label = f"{row.group} · {row.label}" if row.group else row.label
        entries = [view.entry(number, column) for column in range(len(view.columns))]
        block.strong |= {(len(block.rows), place) for place, e in enumerate(entries, 1) if e is not None and e.best}
        block.rows.append([label, *map(_ours, entries)])
        if any(entry is not None and entry.wanted.published for entry in entries):
            block.rows.append(["published", *map(_published, entries)])
    return block


def marks_of(entry: Entry) -> list[str]:
    """The marks behind the accuracy of a cell."""
    found = [entry.against.mark] if entry.against and entry.against.mark else []
    return found + [mark for mark, given in ((OUTDATED, entry.outdated), (UNREAD, entry.unread)) if given]


def footnotes(view: View) -> list[tuple[str, str]]:
    """The marks of cells that need explaining, beside those of the comparison, and what they mean."""
    found = []
    if any(entry.outdated for entry in view.entries):
        found.append((OUTDATED, "made by another version, whose results may differ."))
    axes = list(dict.fromkeys(axis for entry in view.entries for axis in entry.unread))
    if axes:
        found.append((UNREAD, f"one result at several places: the method does not read {' and '.join(axes)}."))
    return found


def number(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """A number with a true minus, which 0 has none of; a dash for None."""
    if value is None:
        return NOTHING
    return rounded(value, digits, sign).replace("-", "−")


def interval(low: float | None, high: float | None, digits: int = 2) -> str:
    """An interval, from its ends."""
    return NOTHING if low is None else f"{number(low, digits)} to {number(high, digits)}"


def probability(p: float) -> str:
    """A p-value in three digits."""
    return "<0.001" if p < 0.001 else rounded(p, 3)


def _row_heading(view: View) -> str:
    return " · ".join(view.layout.beside)


def _ours(entry: Entry | None) -> str:
    if entry is None or entry.summary is None:
        return "failed" if entry is not None and entry.status == FAILED else NOTHING
    text = number(entry.summary.mean)
    if entry.summary.se is not None:
        text += f" ± {number(entry.summary.se)}"
    marks = "".join(marks_of(entry))
    return f"{text} {marks}" if marks else text


def _published(entry: Entry | None) -> str:
    if entry is None or entry.wanted.published is None:
        return NOTHING
    text = number(entry.wanted.published[0])
    return text if entry.gap is None else f"{text} ({number(entry.gap.difference, sign=True)})"


def _statistics(view: View) -> Iterator[Block]:
    yield _paired(view)
    yield _ensembles(view)
    yield _ranks(view)
    yield _improvement(view)
    yield _gaps(view)


def _paired(view: View) -> Block:
    rows = [
        [
            view.title(entry.method),
            entry.context,
            number(entry.against.paired.difference, sign=True),
            interval(entry.against.paired.low, entry.against.paired.high),
            *_tested(entry.against),
        ]
        for entry in _compared(view)
        if entry.against
    ]
    words = [
        f"{view.baseline} minus each method on the same splits, in percentage points, with its 95 % interval.",
        CORRECTED,
        f"Holm: p adjusted for the {counted(len(rows), 'comparison')} of this study. ▲ the method is better, "
        "▼ it is worse.",
    ]
    head = ["method", "on", "difference", "95 % interval", "splits", "p", "p, Holm", "mark"]
    return Block(f"{view.baseline} against the others", words, head, rows, left=2)


def _ensembles(view: View) -> Block:
    rows = [
        [
            view.title(entry.method),
            entry.context,
            number(entry.summary.mean),
            number(entry.summary.mean + entry.members.paired.difference),
            number(-entry.members.paired.difference, sign=True),
            interval(-entry.members.paired.high, -entry.members.paired.low),
            *_tested(entry.members),
        ]
        for entry in {entry.wanted.key: entry for entry in _in_order(view)}.values()
        if entry.summary and entry.members
    ]
    words = [
        "Ensembles and their members on average; the difference in percentage points, with its 95 % interval.",
        CORRECTED,
        f"Holm: p adjusted for the {counted(len(rows), 'comparison')} of this table. ▲ the ensemble is better, "
        "▼ it is worse.",
    ]
    head = ["method", "on", "ensemble", "members", "difference", "95 % interval", "splits", "p", "p, Holm", "mark"]
    return Block("Ensembles against their members", words, head, rows, left=2)


def _tested(one: Against) -> list[str]:
    """Splits, p, adjusted p and mark of a comparison."""
    return [str(one.paired.n), probability(one.paired.p), probability(one.adjusted), one.mark]


def _ranks(view: View) -> Block:
    head = ["method", "not significantly different from", "average rank"]
    ranks = view.ranks
    if ranks is None:
        return Block("Average ranks", [], head, [])
    words = [
        f"Rank of the mean accuracy, 1 is best, averaged over {', '.join(ranks.datasets)}.",
        f"Friedman: χ² = {number(ranks.chi2)}, p {_equals(ranks.p)} if all methods were alike.",
        f"Ranks further apart than the critical difference {number(ranks.critical_difference)} differ (Nemenyi, 5 %).",
    ]
    rows = []
    for average, method in sorted(zip(ranks.average, ranks.methods, strict=True), key=lambda pair: pair[0]):
        near = {other for group in ranks.groups if method in group for other in group} - {method}
        rows.append([view.title(method), _listed(view, near), number(average)])
    return Block("Average ranks", words, head, rows, left=2)


def _listed(view: View, methods: set[str]) -> str:
    return ", ".join(view.title(method) for method in view.methods if method in methods) or NOTHING


def _equals(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {rounded(p, 3)}"


def _improvement(view: View) -> Block:
    words = [
        f"How probably a run of {view.baseline} beats a run of the method on the same data set, ties counting half "
        "(Agarwal et al. 2021).",
        "50 % means no difference; the interval is a bootstrap over runs.",
    ]
    rows = [
        [
            view.title(method),
            number(100 * one.probability, 1),
            interval(100 * one.low, 100 * one.high, 1),
            str(len(one.datasets)),
        ]
        for method, one in view.improvement.items()
    ]
    return Block("Probability of improvement", words, ["method", "percent", "95 % interval", "data sets"], rows)


def _gaps(view: View) -> Block:
    words = [
        f"Ours minus the published mean, in percentage points. Published numbers: {view.study.source}.",
        "Published ± is as printed. Floor: the spread over splits to expect at this accuracy from the size of our test "
        "sets alone; a published ± far below it is hardly a spread over splits.",
        "SE and interval take in both sides: ours, and the larger of ± and floor over 20 splits.",
    ]
    kinds = {str(e.record.cell.get("split_kind")) for e in view.entries if e.record and e.gap} - {"random"}
    if kinds:
        words.append(
            f"Ours are on {' and '.join(sorted(kinds))} splits, the published ones on random splits: the "
            "difference is no failure to reproduce."
        )
    rows = []
    for entry in _in_order(view):
        if entry.gap and entry.wanted.published and entry.summary:
            mean, spread = entry.wanted.published
            gap = entry.gap
            rows.append([view.title(entry.method), entry.context, number(entry.summary.mean), number(mean)])
            rows[-1] += [number(spread), number(gap.floor), number(gap.difference, sign=True), number(gap.se)]
            rows[-1].append(interval(gap.low, gap.high))
    head = ["method", "on", "ours", "published", "published ±", "floor", "difference", "SE", "95 % interval"]
    return Block("Gap to the published numbers", words, head, rows, left=2)


def _compared(view: View) -> list[Entry]:
    """The cells that are compared with the baseline; two cells that meet at several places are compared once."""
    pairs: dict[tuple[str, str], Entry] = {}
    for entry in _in_order(view):
        base = None if view.study.baseline is None else view.of(view.study.baseline, entry.context)
        if entry.against and base:
            pairs.setdefault((base.wanted.key, entry.wanted.key), entry)
    return list(pairs.values())


def _in_order(view: View) -> Iterator[Entry]:
    """The cells, method by method within each context."""
    for context in view.contexts:
        for method in view.methods:
            entry = view.of(method, context)
            if entry is not None:
                yield entry
