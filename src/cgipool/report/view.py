"""The results of a study arranged as a table, with the statistics that compare its methods.

A context is a cell's position on all axes except the method axis: usually a data set. Methods are compared within a
context, split by split, and over all contexts.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from cgipool.report.comparisons import (
    Comparison,
    Contrast,
    against_baseline,
    against_members,
    contrasts,
    equivalences,
    improvements,
    mean_ranks,
    ranks_among,
)
from cgipool.study import statistics
from cgipool.study.measured import Measured, measured
from cgipool.study.nested import BEST
from cgipool.study.power import Equivalence
from cgipool.study.records import Book, Record, StudyRecord, Wanted, key_of
from cgipool.study.statistics import AverageRanks, Gap, Improvement, Summary
from cgipool.task.metrics import KNOWN, Metric, primary_of


@dataclass(frozen=True)
class TableRow:
    """A row of the table."""

    label: str
    group: str
    """The other row axes, if there are several: the data set of a curve. Empty in a plain table."""
    method: str | None
    """The method of the row; None if rows are not methods."""


@dataclass(frozen=True)
class Layout:
    """Which axes of a study are rows, columns and contexts."""

    study: StudyRecord
    method_axis: str
    column_axis: str
    row_axes: list[str]
    """The row axes. The method axis comes last, so that compared methods are in neighbouring rows."""
    context_axes: list[str]
    """The axes of a context."""

    def row_place(self, cell: Wanted) -> tuple[int, ...]:
        """Sort key of the rows; cells with equal keys share a row."""
        return self._place(cell, self.row_axes)

    def context_place(self, cell: Wanted) -> tuple[int, ...]:
        """Sort key of the contexts."""
        return self._place(cell, self.context_axes)

    def column(self, cell: Wanted) -> int:
        """The index of the cell's column."""
        return self._place(cell, [self.column_axis])[0]

    def row(self, cell: Wanted) -> TableRow:
        """The row that a cell is in."""
        *others, last = (self.study.written(axis, cell.at[axis]) for axis in self.row_axes)
        return TableRow(last, " · ".join(others), self.method(cell) if self.method_axis in self.row_axes else None)

    def method(self, cell: Wanted) -> str:
        """The method of a cell, as on the method axis."""
        return str(cell.at[self.method_axis])

    def context(self, cell: Wanted) -> str:
        """The label of a cell's context, such as "NCI1 · ratio 0.2". A number is preceded by the name of its axis."""
        return self._words(cell, self.context_axes)

    def setting(self, cell: Wanted) -> str:
        """The label of a cell's context without the data set; empty if nothing else varies."""
        return self._words(cell, [axis for axis in self.context_axes if axis != "dataset"])

    def _words(self, cell: Wanted, axes: Sequence[str]) -> str:
        words = [self.study.written(axis, cell.at[axis]) for axis in axes]
        bare = [not isinstance(cell.at[axis], str) for axis in axes]
        return " · ".join(f"{a} {w}" if b else w for a, w, b in zip(axes, words, bare, strict=True))

    def _place(self, cell: Wanted, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.study.axes[axis].index(cell.at[axis]) for axis in axes)


def layout_of(study: StudyRecord) -> Layout:
    """The first axis gives the rows and the second the columns, unless the study has curves: then their x-axis does."""
    axes = study.axes
    methods = "method" if "method" in axes else next(iter(axes))
    columns = study.curves or list(axes)[1]
    beside = _several(study, [axis for axis in axes if axis != columns])
    around = _several(study, [axis for axis in axes if axis != methods])
    return Layout(study, methods, columns, sorted(beside, key=lambda axis: axis == methods), around)


def _several(study: StudyRecord, axes: list[str]) -> list[str]:
    """The axes with more than one value, or the first axis if none has."""
    return [axis for axis in axes if len(study.axes[axis]) > 1] or axes[:1]


DONE, FAILED, MISSING = "done", "failed", "missing"


@dataclass
class CellResult:
    """A cell of a study with its results. Shares are in percent, their differences in percentage points."""

    wanted: Wanted
    row: int
    column: int
    method: str
    context: str
    record: Record | None
    reason: str | None
    """Why the cell failed."""
    measured: Measured | None = None
    """The record, read by the metric that the study is shown by."""
    summary: Summary | None = None
    gap: Gap | None = None
    rank: float | None = None
    """Rank among the methods of the context, 1 is best; ties get the mean of their ranks."""
    best: bool = False
    against: Comparison | None = None
    equivalence: tuple[Equivalence, float] | None = None
    """The test for equivalence with the baseline, and its adjusted p."""
    members: Comparison | None = None
    """For an ensemble: the mean of its members minus the ensemble."""

    @property
    def digits(self) -> int:
        """Decimals of its numbers."""
        return self.measured.metric.digits if self.measured else 2

    @property
    def status(self) -> str:
        """Whether the cell is done, failed or missing."""
        return DONE if self.record else MISSING if self.reason is None else FAILED

    @property
    def unread(self) -> tuple[str, ...]:
        """The axes whose setting the method ignores: the cell shows the same result at every value."""
        return self.wanted.unread

    @property
    def outdated(self) -> bool:
        """Whether another version of the package made the cell."""
        return self.record is not None and not self.wanted.choices and key_of(self.record.cell) != self.record.key


@dataclass
class View:
    """A study as a table of results."""

    layout: Layout
    rows: list[TableRow]
    columns: list[str]
    entries: list[CellResult]
    contexts: list[str]
    """Their labels, in the order of the axes."""
    contrasts: list[Contrast] = field(default_factory=list)
    """Over the families that the study names."""
    ranks: AverageRanks | None = None
    improvement: dict[str, Improvement] = field(default_factory=dict)
    """By method: the probability that the baseline is better."""

    def __post_init__(self) -> None:
        self._places = {(entry.row, entry.column): entry for entry in self.entries}
        self._pairs = {(entry.method, entry.context): entry for entry in self.entries}

    @property
    def metric(self) -> Metric | None:
        """The metric that all cells are shown by; None if they have different ones. Without cells it is accuracy."""
        found = dict.fromkeys(entry.measured.metric for entry in self.entries if entry.measured)
        return next(iter(found), KNOWN["accuracy"]) if len(found) < 2 else None

    @property
    def study(self) -> StudyRecord:
        """The stored study."""
        return self.layout.study

    @property
    def methods(self) -> list[str]:
        """The methods in the order of the study."""
        return [str(value) for value in self.study.axes[self.layout.method_axis]]

    def title(self, method: str) -> str:
        """The title of a method."""
        return self.study.written(self.layout.method_axis, method)

    @property
    def baseline(self) -> str | None:
        """The title of the method that the others are compared with, if there is one."""
        return None if self.study.baseline is None else self.title(self.study.baseline)

    def entry(self, row: int, column: int) -> CellResult | None:
        """The cell in a row and column; None if the study has no such cell."""
        return self._places.get((row, column))

    def of(self, method: str, context: str) -> CellResult | None:
        """The cell of a method in a context."""
        return self._pairs.get((method, context))

    def by_dataset(self, found: Mapping[tuple[str, str], Comparison]) -> dict[tuple[str, str], Comparison]:
        """Comparisons by method and data set; none if other settings vary as well."""
        if self.study.curves is not None or self.layout.context_axes != ["dataset"]:
            return {}
        named = {entry.context: str(entry.wanted.at["dataset"]) for entry in self.entries}
        return {(method, named[context]): one for (method, context), one in found.items()}

    def by_setting(self, found: Mapping[tuple[str, str], Comparison]) -> dict[str, dict[tuple[str, str], Comparison]]:
        """Comparisons by setting, then by method and data set."""
        groups: dict[str, dict[tuple[str, str], Comparison]] = {}
        for context, method in itertools.product(self.contexts, self.methods):
            entry, one = self.of(method, context), found.get((method, context))
            if entry is not None and one is not None:
                group = groups.setdefault(self.layout.setting(entry.wanted), {})
                group[method, str(entry.wanted.at["dataset"])] = one
        return groups

    def count(self, status: str) -> int:
        """Number of cells with this status; a cell shown in several places counts once."""
        return len({entry.wanted.key for entry in self.entries if entry.status == status})

    @property
    def wanted(self) -> int:
        """Number of cells that the study requests."""
        return len({entry.wanted.key for entry in self.entries})


def view_of(
    study: StudyRecord,
    book: Book,
    positive: str | None = None,
    metric: str | None = None,
    margin: float | None = None,
) -> View:
    """Arrange the cells of a study and compute its statistics.

    `positive` is the class for ROC-AUC and PR-AUC, in the cells that have it. `metric` is the metric to compare by,
    where the task of a cell has it; by default that of the study, or the primary metric of each task. `margin` replaces
    that of the study.
    """
    study = study if margin is None else replace(study, analysis=replace(study.analysis, margin=margin))
    wanted = {cell.key for cell in study.cells}
    read = {
        key: measured(record, metric or study.analysis.metric, positive, study.analysis.seeds > 1)
        for key, record in book.records.items()
        if key in wanted
    }
    view = _placed(layout_of(_with_metrics(study, read)), book)
    for entry in view.entries:
        entry.measured = read.get(entry.wanted.key)
        if entry.measured is not None and entry.measured.values:
            _describe(entry, entry.measured)
    for context in view.contexts:
        _rank([entry for entry in view.entries if entry.context == context])
    cells = {(e.method, e.context): e.measured for e in view.entries if e.measured and e.summary}
    found = against_baseline(cells, study.baseline)
    together = against_members(cells)
    margin = study.analysis.margin
    same = {} if margin is None or view.metric is None else equivalences(found, margin)
    for entry in view.entries:
        entry.equivalence = same.get((entry.method, entry.context))
        entry.against = found.get((entry.method, entry.context))
        entry.members = together.get((entry.method, entry.context))
    view.contrasts = contrasts(view.by_setting(found), study.analysis.contrasts, view.methods)
    # If other settings vary too, each data set occurs in several contexts, which are then not independent samples.
    if study.curves is None and view.layout.context_axes == ["dataset"] and len(study.axes["dataset"]) > 1:
        ranked = [method for method in view.methods if method not in (*study.analysis.trivial, BEST)]
        view.ranks = mean_ranks(cells, ranked)
        view.improvement = improvements(cells, study.baseline, view.methods)
    return view


def _with_metrics(study: StudyRecord, read: Mapping[str, Measured]) -> StudyRecord:
    """The study; if its data sets are shown by different metrics, their titles name these."""
    metrics = {str(c.at["dataset"]): read[c.key].metric for c in study.cells if c.key in read and "dataset" in c.at}
    if len(set(metrics.values())) < 2:
        return study
    titles = {name: f"{study.written('dataset', name)}, {titled(metric)}" for name, metric in metrics.items()}
    return replace(study, titles=study.titles | {"dataset": titles})


def titled(metric: Metric) -> str:
    """A metric with its unit and direction: "accuracy, %", "RMSE ↓"."""
    return metric.title + (", %" if metric.percent else "") + ("" if metric.higher else " ↓")


def _placed(layout: Layout, book: Book) -> View:
    study = layout.study
    rows = {layout.row_place(cell): layout.row(cell) for cell in sorted(study.cells, key=layout.row_place)}
    numbers = {place: number for number, place in enumerate(rows)}
    entries = [
        CellResult(
            cell,
            row=numbers[layout.row_place(cell)],
            column=layout.column(cell),
            method=layout.method(cell),
            context=layout.context(cell),
            record=book.records.get(cell.key),
            reason=book.failed.get(cell.key),
        )
        for cell in study.cells
    ]
    contexts = dict.fromkeys(layout.context(cell) for cell in sorted(study.cells, key=layout.context_place))
    columns = [study.written(layout.column_axis, value) for value in study.axes[layout.column_axis]]
    return View(layout, list(rows.values()), columns, entries, list(contexts))


def _describe(entry: CellResult, found: Measured) -> None:
    entry.summary = statistics.summary(found.array)
    if found.name != primary_of(found.record.task):  # published numbers are of the primary metric
        entry.wanted = replace(entry.wanted, published=None)
    if entry.wanted.published is not None:
        mean, spread = entry.wanted.published
        scale = found.metric.scale
        sampled = found.record.test_graphs if found.name == "accuracy" else None
        plain = statistics.gap(
            found.array / scale, mean / scale, None if spread is None else spread / scale, test_graphs=sampled
        )
        entry.gap = None if plain is None else Gap(*(scale * value for value in astuple(plain)))


def _rank(peers: list[CellResult]) -> None:
    known = [
        (entry, entry.measured.metric.sign * entry.summary.mean) for entry in peers if entry.summary and entry.measured
    ]
    ranks = ranks_among([mean for _, mean in known])
    for (entry, _), rank in zip(known, ranks, strict=True):
        entry.rank = rank
        entry.best = len(known) > 1 and rank == min(ranks)
