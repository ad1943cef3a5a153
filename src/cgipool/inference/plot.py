"""An SVG plot for the pages of models."""

from collections.abc import Sequence
from html import escape

from matplotlib.ticker import MaxNLocator


class Plot:
    """An SVG plot with linear axes, whose marks are added as text."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], size: tuple[int, int] = (460, 460)) -> None:
        self.x, self.y = x, y
        self.wide, self.high = size
        self.left, self.right, self.top, self.bottom = 64, 14, 14, 46
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The coordinates of a point in the drawing."""
        across, up = (x - self.x[0]) / (self.x[1] - self.x[0]), (y - self.y[0]) / (self.y[1] - self.y[0])
        inner, tall = self.wide - self.left - self.right, self.high - self.top - self.bottom
        return self.left + across * inner, self.high - self.bottom - up * tall

    def line(self, kind: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Add a straight line between two values."""
        (a, b), (c, d) = self.at(*start), self.at(*end)
        self.parts.append(f'<line class="{kind}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>')

    def bar(self, kind: str, across: tuple[float, float], up: tuple[float, float], tip: str = "") -> None:
        """Add a rectangle over two ranges of values."""
        (a, b), (c, d) = self.at(across[0], max(up)), self.at(across[1], min(up))
        note = f' data-tip="{escape(tip)}"' if tip else ""
        self.parts.append(
            f'<rect class="{kind}" x="{a + 1:.1f}" y="{b:.1f}" width="{max(c - a - 2, 0.5):.1f}" '
            f'height="{max(d - b, 0.0):.1f}" rx="1.5"{note}/>'
        )

    def axes(self, below: str, beside: str, ticks: int = 5, counts: bool = False) -> None:
        """Add grid lines, numbers and the names of the axes, behind all marks."""
        back = []
        across, up = _ticks(self.x, ticks), _ticks(self.y, 2 if counts else ticks)
        for tick, text in zip(across, _numbers(across), strict=True):
            x, y = self.at(tick, self.y[0])
            back.append(f'<line class="rule" x1="{x:.1f}" y1="{self.top}" x2="{x:.1f}" y2="{y:.1f}"/>')
            back.append(f'<text x="{x:.1f}" y="{y + 17:.1f}" text-anchor="middle">{text}</text>')
        for tick, text in zip(up, _numbers(up), strict=True):
            x, y = self.at(self.x[0], tick)
            back.append(f'<line class="rule" x1="{x:.1f}" y1="{y:.1f}" x2="{self.wide - self.right}" y2="{y:.1f}"/>')
            back.append(f'<text x="{x - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        middle = (self.left + self.wide - self.right) / 2
        half = (self.top + self.high - self.bottom) / 2
        back.append(
            f'<text class="axis" x="{middle:.1f}" y="{self.high - 8}" text-anchor="middle">{escape(below)}</text>'
        )
        back.append(
            f'<text class="axis" transform="translate(11 {half:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(beside)}</text>"
        )
        self.parts = back + self.parts

    def svg(self, about: str) -> str:
        """The drawing; `about` is its text for screen readers."""
        return (
            f'<svg class="chart" viewBox="0 0 {self.wide} {self.high}" role="img" aria-label="{escape(about)}">'
            f"{''.join(self.parts)}</svg>"
        )


def _ticks(span: tuple[float, float], count: int) -> list[float]:
    ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(*span)
    slack = 1e-9 * (span[1] - span[0])
    return [float(tick) for tick in ticks if span[0] - slack <= tick <= span[1] + slack]


def in_digits(value: float) -> str:
    """A number in a page, with four significant digits."""
    return f"{value:,.4g}".replace("-", "−") if abs(value) < 1e4 else f"{value:,.6g}".replace("-", "−")


def _numbers(values: Sequence[float]) -> list[str]:
    """Numbers of one axis, all with as many decimals as one of them needs."""
    plain = [in_digits(value) for value in values]
    decimals = max((len(text.partition(".")[2]) for text in plain), default=0)
    if any("e" in text for text in plain):
        return plain
    return [f"{value + 0.0:,.{decimals}f}".replace("-", "−") for value in values]
