"""The critical-difference diagram of Demšar (2006)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgipool.report.blocks import number
from cgipool.report.look import FAINT, INK, WIDTH, short
from cgipool.report.view import View
from cgipool.study.statistics import Ranks


def draw_ranks(view: View) -> Figure | None:
    """Average ranks on a line, best to the left; bars join methods that the critical difference does not tell apart."""
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


def _scale(panel: Axes, count: int, ranks: Ranks) -> None:
    panel.plot([1, count], [0, 0], color=INK, lw=1.1)
    for rank in range(1, count + 1):
        panel.plot([rank, rank], [-0.12, 0], color=INK, lw=1.1)
        panel.text(rank, -0.2, str(rank), ha="center", va="bottom")
    width = min(ranks.critical_difference, 1.6 * (count - 1))
    panel.plot([1, 1 + width], [-0.85, -0.85], color=FAINT, lw=2.5, solid_capstyle="butt")
    words = f"critical difference {number(ranks.critical_difference)} on {len(ranks.datasets)} data sets"
    panel.text(1, -1.0, words, ha="left", va="bottom", color=INK)
