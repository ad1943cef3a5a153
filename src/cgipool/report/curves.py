"""Figures of a study over a setting: accuracy, and what a method tells of itself, by ratio or α."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgipool.report.courses import diagnostics
from cgipool.report.look import FAINT, INK, Look, looks, panels, short
from cgipool.report.view import Entry, View

WIDE = 50.0
"""Values whose largest is so many times the smallest above zero are shown on a logarithmic axis."""


def draw_curves(view: View) -> Figure | None:
    """Per context, accuracy over the abscissa: a line per method, its band the bootstrap interval of the mean."""
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
        panel.set_title(short(group))
        _abscissa(panel, view)
        panel.grid(axis="y")
    axes[0].set_ylabel("test accuracy, percent")
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(len(handles), 6))
    return figure if handles else None


def draw_diagnostics(view: View) -> Figure | None:
    """Per diagnostic and context, one line per level of the network over the abscissa, of the baseline."""
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
        _abscissa(panel, view)
    figure.supxlabel(
        f"{view.title(method)} at the best epoch, mean over splits; a line per level, with its number",
        fontsize=8,
        color=INK,
    )
    return figure


def _groups(view: View) -> dict[str, dict[str, list[Entry]]]:
    """Entries by what is neither method nor abscissa, then by method, each list in the order of the abscissa."""
    found: dict[str, dict[str, list[Entry]]] = {}
    axes = [axis for axis in view.layout.study.axes if axis not in (view.layout.methods, view.study.curves)]
    for entry in sorted(view.entries, key=lambda entry: (view.layout.context_place(entry.wanted), entry.column)):
        group = " · ".join(view.study.written(axis, entry.wanted.at[axis]) for axis in axes)
        found.setdefault(group, {}).setdefault(entry.method, []).append(entry)
    return found


def _curve(panel: Axes, view: View, entries: list[Entry], look: Look) -> Any:
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
    values = view.study.axes[view.layout.columns]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _at(view: View, entry: Entry) -> float:
    """The abscissa: the value itself, or its place where values are no numbers."""
    return float(entry.wanted.at[view.layout.columns]) if _numeric(view) else float(entry.column)


def _abscissa(panel: Axes, view: View) -> None:
    values = view.study.axes[view.layout.columns]
    if _numeric(view):
        above = [value for value in values if value > 0]
        if above and min(values) >= 0 and max(above) >= WIDE * min(above):
            # Linear from zero to the least value above it, so that a zero has its place.
            panel.set_xscale("symlog", linthresh=min(above), linscale=0.7)
        panel.set_xticks(values, view.columns)
        panel.minorticks_off()
    else:
        panel.set_xticks(range(len(values)), view.columns)
    panel.set_xlabel(view.layout.columns)
