"""The figures of a study as SVG text: the same study gives the same bytes."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgipool.report.courses import course
from cgipool.report.curves import draw_curves, draw_diagnostics
from cgipool.report.look import FAINT, INK, STYLE, Look, looks, panels, short
from cgipool.report.ranks import draw_ranks
from cgipool.report.view import View

MANY = 12
"""A study with more contexts has no panels for each of them; the page shows cells one by one."""

ASIDE = (-0.22, -0.14, 0.14, 0.22)
"""How far from its line a split is drawn, by turns: on it, the bar of the mean would hide it."""

Drawing = Callable[[View], Figure | None]


def figures_of(view: View) -> dict[str, str]:
    """SVG text by name of figure, those that the study has something for."""
    drawings: dict[str, Drawing] = {
        "curves": draw_curves,
        "diagnostics": draw_diagnostics,
        "splits": draw_splits,
        "training": draw_training,
        "ranks": draw_ranks,
    }
    found = {}
    for name, draw in drawings.items():
        with matplotlib.rc_context(STYLE):
            matplotlib.rcParams["svg.hashsalt"] = f"{view.study.name}-{name}"
            figure = draw(view)
            if figure is not None:
                found[name] = _svg(figure)
    return found


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _panelled(view: View) -> bool:
    return view.study.curves is None and len(view.contexts) <= MANY and any(e.record for e in view.entries)


def draw_splits(view: View) -> Figure | None:
    """Per context, the accuracy of every split, with the mean, its interval and the published number."""
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
    note = "accuracy in percent · dot: a split · bar: mean and its 95 % bootstrap interval"
    if any(entry.wanted.published for entry in view.entries):
        note += " · diamond: published"
    figure.supxlabel(note, fontsize=8, color=INK)
    return figure


def _strip(panel: Axes, view: View, method: str, context: str, place: int, look: Look) -> None:
    entry = view.of(method, context)
    if entry is None or entry.record is None or entry.summary is None:
        word = entry.status if entry is not None else ""
        panel.text(0.5, place, word, transform=panel.get_yaxis_transform(), ha="center", va="center", color=FAINT)
        return
    values = entry.record.percent()
    heights = [place + ASIDE[number % len(ASIDE)] for number in range(len(values))]
    panel.plot(values, heights, ".", ms=5.5, color=look.colour, alpha=0.6, mew=0)
    total = entry.summary
    if total.low is not None and total.high is not None:
        panel.plot([total.low, total.high], [place, place], color=INK, lw=1.6, solid_capstyle="butt")
    panel.plot(total.mean, place, "|", ms=9, mew=1.6, color=INK)
    if entry.wanted.published is not None:
        panel.plot(entry.wanted.published[0], place, "D", ms=4, mfc="white", mec=INK, mew=0.9)


def draw_training(view: View) -> Figure | None:
    """Per context, the validation loss by epoch, a line per method with a band over splits."""
    if not _panelled(view):
        return None
    figure, axes = panels(len(view.contexts), height=2.1)
    handles: dict[str, Any] = {}
    for panel, context in zip(axes, view.contexts, strict=True):
        for method, look in zip(view.methods, looks(view.methods), strict=True):
            entry = view.of(method, context)
            found = course(entry.record, "val_loss") if entry and entry.record else None
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
