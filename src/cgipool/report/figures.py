"""Draw the figures of a study as SVG text. The same study always gives the same bytes."""

from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgipool.report.blocks import number, quantity
from cgipool.report.drawing import FAINT, INK, STYLE, WIDTH, Look, axis_title, looks, panels, short, svg_of
from cgipool.report.forest import draw_forest
from cgipool.report.training_curves import diagnostics, training_curve
from cgipool.report.view import CellResult, View
from cgipool.study.statistics import AverageRanks

WIDE = 50.0
"""The axis is logarithmic if the largest value is at least this many times the smallest positive one."""


def draw_curves(view: View) -> Figure | None:
    """Results over the x-axis, a panel per context: a line per method, with the 95 % interval of the mean."""
    if view.study.curves is None:
        return None
    groups = _groups(view)
    figure, axes = panels(len(groups), height=2.9)
    handles: dict[str, Any] = {}
    for panel, (group, lines) in zip(axes, groups.items(), strict=True):
        for method, look in zip(view.methods, looks(view.methods), strict=True):
            entries = [entry for entry in lines.get(method, []) if entry.summary]
            if entries:
                handles.setdefault(short(view.title(method)), _curve(panel, view, entries, look))
        _draw_ceiling(panel, view, next(iter(lines.values())), handles)
        panel.set_title(short(group))
        _draw_x_axis(panel, view)
        panel.grid(axis="y")
    axes[0].set_ylabel("test " + axis_title(view))
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(len(handles), 6))
    return figure if handles else None


def draw_diagnostics(view: View) -> Figure | None:
    """Diagnostics of the baseline over the x-axis, a panel per diagnostic and context: a line per level."""
    if view.study.curves is None:
        return None
    method = view.study.baseline if view.study.baseline in view.methods else view.methods[0]
    found = {
        group: [(e, diagnostics(e.record)) for e in lines.get(method, []) if e.record]
        for group, lines in _groups(view).items()
    }
    names = sorted({name for pairs in found.values() for _, values in pairs for name in values})
    places = [(name, group) for name in names for group in found]
    if not places:
        return None
    figure, axes = panels(len(places), height=1.9, across=min(len(found), 4))
    for panel, (name, group) in zip(axes, places, strict=True):
        pairs = [(_at(view, entry), values[name]) for entry, values in found[group] if name in values]
        for level, look in enumerate(looks(["level"] * max((len(values) for _, values in pairs), default=0))):
            points = [(x, values[level]) for x, values in pairs if level < len(values)]
            panel.plot(*zip(*points, strict=True), color=look.colour, ls=look.dashes, marker=look.marker, ms=4)
            panel.annotate(f"{level + 1}", points[-1], (5, 0), textcoords="offset points", va="center", fontsize=7)
        panel.set_title(f"{short(group)}: {short(name)}")
        _draw_x_axis(panel, view)
    figure.supxlabel(
        f"{view.title(method)} at the best epoch, mean over splits; a line per level, with its number",
        fontsize=8,
        color=INK,
    )
    return figure


def _draw_ceiling(panel: Axes, view: View, entries: list[CellResult], handles: dict[str, Any]) -> None:
    """The best possible result on the panel's data set, if the study names it."""
    bound = view.study.analysis.ceiling.get(str(entries[0].wanted.at.get("dataset")))
    if bound is not None:
        points = [(_at(view, entry), bound[entry.column]) for entry in entries]
        (line,) = panel.plot(*zip(*points, strict=True), color=INK, ls=(0, (2, 2)), lw=1.2)
        handles.setdefault("ceiling", line)


def _groups(view: View) -> dict[str, dict[str, list[CellResult]]]:
    """Cells by all axes except method and x-axis, then by method; each list in the order of the x-axis."""
    found: dict[str, dict[str, list[CellResult]]] = {}
    axes = [axis for axis in view.layout.study.axes if axis not in (view.layout.method_axis, view.study.curves)]
    for entry in sorted(view.entries, key=lambda entry: (view.layout.context_place(entry.wanted), entry.column)):
        group = " · ".join(view.study.written(axis, entry.wanted.at[axis]) for axis in axes)
        found.setdefault(group, {}).setdefault(entry.method, []).append(entry)
    return found


def _curve(panel: Axes, view: View, entries: list[CellResult], look: Look) -> Any:
    x = [_at(view, entry) for entry in entries]
    totals = [entry.summary for entry in entries if entry.summary]
    low = [total.mean if total.low is None else total.low for total in totals]
    high = [total.mean if total.high is None else total.high for total in totals]
    panel.fill_between(x, low, high, color=look.colour, alpha=0.13, lw=0)
    means = [total.mean for total in totals]
    (line,) = panel.plot(x, means, color=look.colour, ls=look.dashes, marker=look.marker, ms=4.5, lw=1.5)
    published = [(at, e.wanted.published[0]) for at, e in zip(x, entries, strict=True) if e.wanted.published]
    if published:
        panel.plot(*zip(*published, strict=True), ls=":", lw=1, marker=look.marker, ms=4.5, mfc="white", color=FAINT)
    return line


def _numeric(view: View) -> bool:
    values = view.study.axes[view.layout.column_axis]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _at(view: View, entry: CellResult) -> float:
    """Position on the x-axis: the value itself, or its index if the values are not numbers."""
    return float(entry.wanted.at[view.layout.column_axis]) if _numeric(view) else float(entry.column)


def _draw_x_axis(panel: Axes, view: View) -> None:
    values = view.study.axes[view.layout.column_axis]
    if _numeric(view):
        above = [value for value in values if value > 0]
        if above and min(values) >= 0 and max(above) >= WIDE * min(above):
            # Linear between zero and the smallest positive value, so that zero can be shown.
            panel.set_xscale("symlog", linthresh=min(above), linscale=0.7)
        panel.set_xticks(values, view.columns)
        panel.minorticks_off()
    else:
        panel.set_xticks(range(len(values)), view.columns)
    panel.set_xlabel(view.layout.column_axis)


def draw_ranks(view: View) -> Figure | None:
    """Average ranks on a line, best on the left; bars join methods that do not differ by the critical difference."""
    ranks = view.ranks
    if ranks is None:
        return None
    order = sorted(zip(ranks.average, ranks.methods, strict=True), key=lambda pair: pair[0])
    count = len(order)
    half = (count + 1) // 2
    first = 0.75 + 0.3 * len(ranks.groups)
    depth = first + 0.45 * half
    figure = Figure(figsize=(WIDTH * 0.8, 0.7 + 0.42 * (depth + 1.2)))
    panel = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    panel.set_xlim(1 - 0.32 * (count - 1), count + 0.32 * (count - 1))
    panel.set_ylim(depth, -1.6)
    panel.axis("off")
    _scale(panel, count, ranks)
    for place, (average, method) in enumerate(order):
        on_left = place < half
        height = first + 0.45 * (place if on_left else count - 1 - place)
        end = 1 - 0.03 * (count - 1) if on_left else count + 0.03 * (count - 1)
        panel.plot([average, average, end], [0, height, height], color=INK, lw=0.9)
        name = short(view.title(method))
        words = f"{name} · {number(average)}" if on_left else f"{number(average)} · {name}"
        away = (-4, 0) if on_left else (4, 0)
        side = "right" if on_left else "left"
        panel.annotate(words, (end, height), away, textcoords="offset points", ha=side, va="center")
    for place, group in enumerate(ranks.groups):
        ends = [average for average, method in order if method in group]
        height = 0.42 + 0.3 * place
        panel.plot([min(ends) - 0.04, max(ends) + 0.04], [height, height], color=INK, lw=4, solid_capstyle="butt")
    return figure


def _scale(panel: Axes, count: int, ranks: AverageRanks) -> None:
    panel.plot([1, count], [0, 0], color=INK, lw=1.1)
    for rank in range(1, count + 1):
        panel.plot([rank, rank], [-0.12, 0], color=INK, lw=1.1)
        panel.text(rank, -0.2, str(rank), ha="center", va="bottom")
    width = min(ranks.critical_difference, 1.6 * (count - 1))
    panel.plot([1, 1 + width], [-0.85, -0.85], color=FAINT, lw=2.5, solid_capstyle="butt")
    words = f"critical difference {number(ranks.critical_difference)} on {len(ranks.datasets)} data sets"
    panel.text(1, -1.0, words, ha="left", va="bottom", color=INK)


MANY = 12
"""Studies with more contexts get no figure with a panel per context; the page shows their cells one by one."""

ASIDE = (-0.22, -0.14, 0.14, 0.22)
"""Vertical offsets of the splits, in turn, so that the bar of the mean does not hide them."""


def figures_of(view: View) -> dict[str, str]:
    """All figures that the study has data for, as SVG text by name."""
    drawings: dict[str, Callable[[View], Figure | None]] = {
        "curves": draw_curves,
        "diagnostics": draw_diagnostics,
        "splits": draw_splits,
        "training": draw_training,
        "forest": draw_forest,
        "ranks": draw_ranks,
    }
    found = {}
    for name, draw in drawings.items():
        with matplotlib.rc_context(STYLE):
            matplotlib.rcParams["svg.hashsalt"] = f"{view.study.name}-{name}"
            figure = draw(view)
            if figure is not None:
                found[name] = svg_of(figure)
    return found


def _panelled(view: View) -> bool:
    return view.study.curves is None and len(view.contexts) <= MANY and any(e.record for e in view.entries)


def draw_splits(view: View) -> Figure | None:
    """Result of every split with the mean, its interval and the published mean, a panel per context."""
    if not _panelled(view):
        return None
    methods = view.methods
    figure, axes = panels(len(view.contexts), height=0.9 + 0.24 * len(methods))
    for panel, context in zip(axes, view.contexts, strict=True):
        for place, (method, look) in enumerate(zip(methods, looks(methods), strict=True)):
            _strip(panel, view, method, context, place, look)
        panel.set_title(short(context))
        panel.set_yticks(range(len(methods)), [short(view.title(method)) for method in methods])
        panel.set_ylim(len(methods) - 0.4, -0.6)
        panel.grid(axis="x")
        if not panel.get_lines():
            panel.set_xticks([])
    note = f"{quantity(view.metric)} · dot: a split · bar: mean and its 95 % interval"
    if any(entry.wanted.published for entry in view.entries):
        note += " · diamond: published"
    figure.supxlabel(note, fontsize=8, color=INK)
    return figure


def _strip(panel: Axes, view: View, method: str, context: str, place: int, look: Look) -> None:
    entry = view.of(method, context)
    if entry is None or entry.measured is None or entry.summary is None:
        word = entry.status if entry is not None else ""
        panel.text(0.5, place, word, transform=panel.get_yaxis_transform(), ha="center", va="center", color=FAINT)
        return
    values = entry.measured.array
    heights = [place + ASIDE[number % len(ASIDE)] for number in range(len(values))]
    panel.plot(values, heights, ".", ms=5.5, color=look.colour, alpha=0.6, mew=0)
    total = entry.summary
    if total.low is not None and total.high is not None:
        panel.plot([total.low, total.high], [place, place], color=INK, lw=1.6, solid_capstyle="butt")
    panel.plot(total.mean, place, "|", ms=9, mew=1.6, color=INK)
    if entry.wanted.published is not None:
        panel.plot(entry.wanted.published[0], place, "D", ms=4, mfc="white", mec=INK, mew=0.9)


def draw_training(view: View) -> Figure | None:
    """Validation loss by epoch, a panel per context: a line per method with a band over splits."""
    if not _panelled(view):
        return None
    figure, axes = panels(len(view.contexts), height=2.1)
    handles: dict[str, Any] = {}
    for panel, context in zip(axes, view.contexts, strict=True):
        for method, look in zip(view.methods, looks(view.methods), strict=True):
            entry = view.of(method, context)
            found = training_curve(entry.record, "val_loss") if entry and entry.record else None
            if found is not None:
                panel.fill_between(found.epoch, found.low, found.high, color=look.colour, alpha=0.08, lw=0)
                (line,) = panel.plot(found.epoch, found.mean, color=look.colour, ls=look.dashes, lw=1.3)
                handles.setdefault(short(view.title(method)), line)
        panel.set_title(short(context))
        panel.locator_params(axis="x", integer=True)
        panel.grid(axis="y")
        if not panel.get_lines():
            panel.set_xticks([])
            panel.set_yticks([])
    if not handles:
        return None
    note = "validation loss by epoch: mean and 10 to 90 % of splits, while at least half of them train"
    figure.supxlabel(note, fontsize=8, color=INK)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(len(handles), 6))
    return figure
