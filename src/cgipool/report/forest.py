"""A forest plot: each method minus no pooling, on each data set and averaged over families of data sets."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgipool.data.catalogue import CATALOGUE
from cgipool.report.blocks import unit
from cgipool.report.comparisons import Comparison, Contrast, against_baseline, contrasts
from cgipool.report.drawing import FAINT, INK, RULE, Look, looks, panels, short
from cgipool.report.view import View

REFERENCE = "none"
"""The method that the others are compared with."""


def draw_forest(view: View) -> Figure | None:
    """A panel per family, a row per method: thin bars are data sets, the diamond is the family's mean, each with the
    corrected 95 % interval. None for studies without the method `none`. Methods that ignore the structure are left out:
    their differences are so large that the others could not be distinguished."""
    cells = {(e.method, e.context): e.measured for e in view.entries if e.measured and e.summary}
    found = view.by_dataset(against_baseline(cells, REFERENCE))
    compared = {method for method, _ in found}.difference(view.study.analysis.trivial)
    methods = [method for method in view.methods if method in compared]
    if not methods or view.metric is None:
        return None
    datasets_done = {name for method, name in found if method in compared}
    families = {family: names for family, names in _families(view).items() if datasets_done.intersection(names)}
    means = {(one.family, one.method): one for one in contrasts({"": found}, families, methods)}
    deep = max(map(len, families.values()))
    figure, axes = panels(len(families), height=0.9 + 0.13 * len(methods) * (deep + 2))
    for panel, (family, datasets) in zip(axes, families.items(), strict=True):
        panel.axvline(0, color=RULE, lw=1.2, zorder=0)
        for row, method in enumerate(methods):
            _row(panel, row, found, means.get((family, method)), method, datasets)
        panel.set_title(short(family))
        panel.set_yticks(range(len(methods)), [short(view.title(method)) for method in methods])
        panel.set_ylim(len(methods) - 0.4, -0.6)
    ends = [panel.get_xlim() for panel in axes]
    for panel in axes:
        panel.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
    order = "; ".join(f"{family}: {', '.join(names)}" for family, names in families.items())
    better = "right" if view.metric.higher else "left"
    note = (
        f"method minus no pooling, {view.metric.title}, {unit(view.metric)}; {better} is better · 95 % intervals for "
    )
    lines = "thin, from the top: " if deep > 1 else ""
    note += f"new graphs like these\n{lines}{order}"
    note += " · diamond: their mean" if deep > 1 else ""
    figure.supxlabel(note, fontsize=8, color=INK)
    return figure


def _families(view: View) -> dict[str, list[str]]:
    """The contrasts of the study, and the other data sets by the family of the catalogue."""
    named_families = view.study.analysis.contrasts
    families = {family: list(names) for family, names in named_families.items()}
    named = {name for names in named_families.values() for name in names}
    for name in map(str, view.study.axes["dataset"]):
        if name not in named:
            family = CATALOGUE[name].family if name in CATALOGUE else "own data"
            families.setdefault(f"other {family}" if family in named_families else family, []).append(name)
    return families


def _row(
    panel: Axes,
    row: int,
    found: Mapping[tuple[str, str], Comparison],
    mean: Contrast | None,
    method: str,
    datasets: Sequence[str],
) -> None:
    """A method: its data sets from the top, then the diamond. Differences are turned round: method minus reference."""
    step = 0.8 / (len(datasets) + (len(datasets) > 1))
    for place, (name, look) in enumerate(zip(datasets, looks(datasets), strict=True)):
        one = found.get((method, name))
        if one is not None:
            pair = one.paired
            _bar(panel, row - 0.4 + step * (place + 0.5), -pair.difference, (-pair.high, -pair.low), look)
    if mean is not None and len(datasets) > 1:
        height, whole = row - 0.4 + step * (len(datasets) + 0.5), mean.pooled
        panel.plot([-whole.high, -whole.low], [height, height], color=INK, lw=1.8, solid_capstyle="butt")
        panel.plot(-whole.difference, height, "D", ms=5, color=INK)
    if row:
        panel.axhline(row - 0.5, color=FAINT, lw=0.3)


def _bar(panel: Axes, height: float, value: float, ends: tuple[float, float], look: Look) -> None:
    panel.plot(ends, [height, height], color=look.colour, lw=1)
    panel.plot(value, height, look.marker, ms=3, color=look.colour, mew=0)
