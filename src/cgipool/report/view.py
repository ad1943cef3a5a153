"""Where the cells of a study stand: which axes are rows and columns, and how places are written.

A context is a cell's place on all axes but that of the methods: usually a data set. Methods are compared within one.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

from cgipool.errors import UserError
from cgipool.files import names_a_file
from cgipool.report.comparisons import Against, against_baseline, against_members, improvements, mean_ranks, ranks_among
from cgipool.study.positive import Metrics, metrics_of
from cgipool.study.records import Book, Record, StudyRecord, Wanted, key_of
from cgipool.study.statistics import Gap, Improvement, Ranks, Summary, gap, summary


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    label: str
    group: str
    """What else places the row, where several axes do: the data set of a curve. Empty in a plain table."""
    method: str | None
    """The method that the row is of; None where the rows are no methods."""


@dataclass(frozen=True)
class Layout:
    """The parts that the axes of a study play."""

    study: StudyRecord
    methods: str
    columns: str
    beside: list[str]
    """The axes of the rows. That of the methods is last, so that methods to be compared are neighbours."""
    around: list[str]
    """The axes of a context."""

    def row_place(self, cell: Wanted) -> tuple[int, ...]:
        """Sorts the rows; cells with the same one share a row."""
        return self._place(cell, self.beside)

    def context_place(self, cell: Wanted) -> tuple[int, ...]:
        """Sorts the contexts."""
        return self._place(cell, self.around)

    def column(self, cell: Wanted) -> int:
        """The number of the cell's column."""
        return self._place(cell, [self.columns])[0]

    def row(self, cell: Wanted) -> Row:
        """The row that a cell is in."""
        *others, last = (self.study.written(axis, cell.at[axis]) for axis in self.beside)
        return Row(last, " · ".join(others), self.method(cell) if self.methods in self.beside else None)

    def method(self, cell: Wanted) -> str:
        """The method of a cell, as its axis has it."""
        return str(cell.at[self.methods])

    def context(self, cell: Wanted) -> str:
        """A cell's context as it is written: "NCI1 · ratio 0.2". A bare number is told by its axis."""
        words = [self.study.written(axis, cell.at[axis]) for axis in self.around]
        bare = [not isinstance(cell.at[axis], str) for axis in self.around]
        return " · ".join(f"{a} {w}" if b else w for a, w, b in zip(self.around, words, bare, strict=True))

    def _place(self, cell: Wanted, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.study.axes[axis].index(cell.at[axis]) for axis in axes)


def layout_of(study: StudyRecord) -> Layout:
    """Rows are the first axis and columns the second; the abscissa of curves takes the columns instead."""
    axes = study.axes
    methods = "method" if "method" in axes else next(iter(axes))
    columns = study.curves or list(axes)[1]
    beside = _several(study, [axis for axis in axes if axis != columns])
    around = _several(study, [axis for axis in axes if axis != methods])
    return Layout(study, methods, columns, sorted(beside, key=lambda axis: axis == methods), around)


def _several(study: StudyRecord, axes: list[str]) -> list[str]:
    """The axes that tell cells apart; at least one, as a place needs a name."""
    return [axis for axis in axes if len(study.axes[axis]) > 1] or axes[:1]


def check_study(study: StudyRecord) -> None:
    """Refuse a study that cannot be shown, saying why."""
    refused = f"the study {study.name!r} is not shown:"
    if not names_a_file(study.name):
        raise UserError(f"{refused} its name is no name of a file")
    if len(study.axes) < 2:
        raise UserError(f"{refused} it needs two axes, rows and columns")
    if study.curves is not None and study.curves not in study.axes:
        raise UserError(f"{refused} it has no axis {study.curves!r} to draw curves over")
    for cell in study.cells:
        for axis, values in study.axes.items():
            if cell.at.get(axis) not in values:
                raise UserError(f"{refused} its cell {cell.key} has no place on the axis {axis!r}")
        if cell.published is not None and not all(0 <= value <= 100 for value in cell.published if value is not None):
            raise UserError(f"{refused} what is published for its cell {cell.key} is no percentage and its ±")


DONE, FAILED, MISSING = "done", "failed", "missing"


@dataclass
class Entry:
    """A cell at its place, with what is known of it. Numbers are in percent, differences in percentage points."""

    wanted: Wanted
    row: int
    column: int
    method: str
    context: str
    record: Record | None
    reason: str | None
    """Why the cell failed."""
    metrics: Metrics | None = None
    """Of every split; ROC-AUC and PR-AUC are of one class."""
    summary: Summary | None = None
    gap: Gap | None = None
    rank: float | None = None
    """Among the methods of the context, 1 is best; ties share the mean of their places."""
    best: bool = False
    against: Against | None = None
    members: Against | None = None
    """Of an ensemble: its members on average, minus the ensemble."""

    @property
    def status(self) -> str:
        """Whether the cell is done, failed or missing."""
        return DONE if self.record else MISSING if self.reason is None else FAILED

    @property
    def unread(self) -> tuple[str, ...]:
        """The axes whose setting the method does not read: along them the cell is one result at several places."""
        return self.wanted.unread

    @property
    def outdated(self) -> bool:
        """Whether another version of the package made the cell."""
        return self.record is not None and key_of(self.record.cell) != self.record.key


@dataclass
class View:
    """A study as it is shown."""

    layout: Layout
    rows: list[Row]
    columns: list[str]
    entries: list[Entry]
    contexts: list[str]
    """As they are written, in the order of the axes."""
    ranks: Ranks | None = None
    improvement: dict[str, Improvement] = field(default_factory=dict)
    """By method: how probably the baseline is better than it."""

    def __post_init__(self) -> None:
        self._places = {(entry.row, entry.column): entry for entry in self.entries}
        self._pairs = {(entry.method, entry.context): entry for entry in self.entries}

    @property
    def study(self) -> StudyRecord:
        """The study itself."""
        return self.layout.study

    @property
    def methods(self) -> list[str]:
        """The methods in the order of the study."""
        return [str(value) for value in self.study.axes[self.layout.methods]]

    def title(self, method: str) -> str:
        """How a method is written."""
        return self.study.written(self.layout.methods, method)

    @property
    def baseline(self) -> str | None:
        """How the method that the others are compared with is written."""
        return None if self.study.baseline is None else self.title(self.study.baseline)

    def entry(self, row: int, column: int) -> Entry | None:
        """The cell at a place; None where the study wants none."""
        return self._places.get((row, column))

    def of(self, method: str, context: str) -> Entry | None:
        """The cell of a method in a context."""
        return self._pairs.get((method, context))

    def count(self, status: str) -> int:
        """How many cells are done, failed or missing; one that stands at several places counts once."""
        return len({entry.wanted.key for entry in self.entries if entry.status == status})

    @property
    def wanted(self) -> int:
        """How many cells the study asks for."""
        return len({entry.wanted.key for entry in self.entries})


def view_of(study: StudyRecord, book: Book, positive: str | None = None) -> View:
    """Place the cells of a study and compute its statistics. `positive` names the class that ROC-AUC and PR-AUC are
    of, in the cells that have it."""
    view = _placed(layout_of(study), book)
    for entry in view.entries:
        if entry.record is not None:
            entry.metrics = metrics_of(entry.record, positive)
            _describe(entry, entry.record)
    for context in view.contexts:
        _rank([entry for entry in view.entries if entry.context == context])
    records = {(entry.method, entry.context): entry.record for entry in view.entries if entry.record}
    found = against_baseline(records, study.baseline)
    together = against_members(records)
    for entry in view.entries:
        entry.against = found.get((entry.method, entry.context))
        entry.members = together.get((entry.method, entry.context))
    # Where anything but the data set varies, a data set returns, so that contexts are no independent samples.
    if study.curves is None and view.layout.around == ["dataset"] and len(study.axes["dataset"]) > 1:
        view.ranks = mean_ranks(records, view.methods)
        view.improvement = improvements(records, study.baseline, view.methods)
    return view


def _placed(layout: Layout, book: Book) -> View:
    study = layout.study
    rows = {layout.row_place(cell): layout.row(cell) for cell in sorted(study.cells, key=layout.row_place)}
    numbers = {place: number for number, place in enumerate(rows)}
    entries = [
        Entry(
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
    columns = [study.written(layout.columns, value) for value in study.axes[layout.columns]]
    return View(layout, list(rows.values()), columns, entries, list(contexts))


def _describe(entry: Entry, record: Record) -> None:
    values = record.percent()
    entry.summary = summary(values)
    if entry.wanted.published is not None:
        mean, spread = entry.wanted.published
        shares = gap(values / 100, mean / 100, None if spread is None else spread / 100, test_graphs=record.test_graphs)
        entry.gap = Gap(*(100 * value for value in astuple(shares)))


def _rank(peers: list[Entry]) -> None:
    known = [(entry, entry.summary.mean) for entry in peers if entry.summary]
    ranks = ranks_among([mean for _, mean in known])
    for (entry, _), rank in zip(known, ranks, strict=True):
        entry.rank = rank
        entry.best = len(known) > 1 and rank == min(ranks)
