"""A picture of a molecule at every level, as SVG or PNG: title, a panel for each level, colour scale and notes.

The panels are RDKit's; the text around them is not, since RDKit's own text is ASCII and names need not be.
"""

import io
import textwrap
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from cgipool.explain.molecule import draw_level, paint_level
from cgipool.explain.picture import INK, Scale

if TYPE_CHECKING:
    from cgipool.explain.one import Explained

WIDE, HIGH, LEAST = 340, 280, 760
"""Size of a panel, and the least width of a picture, in pixels."""

HEAD, CAPTION, STRIP, LINE = 46, 26, 56, 19
"""Heights of the title, of the captions, of the colour scale and of a line of the notes."""

SHARP = 2
"""Pixels of a PNG along each side of a pixel of an SVG."""

STEPS = 60
"""Boxes that the colour scale is made of."""


class Text(NamedTuple):
    """A line of text; x is its left end, or its middle if `centred`."""

    x: float
    y: float
    words: str
    size: int
    centred: bool = False


class Box(NamedTuple):
    """A filled rectangle."""

    x: float
    y: float
    wide: float
    high: float
    colour: str


def draw_molecule(one: "Explained", form: str) -> bytes:
    """The picture in the form "svg" or "png"."""
    wide = max(WIDE * (one.trace.levels + 1), LEAST)
    marks: list[Text | Box] = [Text(20, HEAD / 2, f"{one.name}: {one.verdict}", 17)]
    for level in range(one.trace.levels + 1):
        marks.append(Text(WIDE * (level + 0.5), HEAD + HIGH + CAPTION / 2, one.caption(level), 14, centred=True))
    below = HEAD + HIGH + CAPTION
    if one.scale is not None:
        marks += _scale_marks(one.scale, below + 14)
        below += STRIP
    for line in textwrap.wrap(one.about_colours, wide // 7):
        below += LINE
        marks.append(Text(20, below, line, 13))
    make = _svg if form == "svg" else _png
    return make(one, wide, below + LINE, marks)


def _scale_marks(scale: Scale, top: float) -> list[Text | Box]:
    left, long, thick = 76.0, 260.0, 13.0
    marks: list[Text | Box] = [Text(20, top + thick / 2, scale.score, 14)]
    for step in range(STEPS):
        colour = scale.colour(scale.low + (scale.high - scale.low) * (step + 0.5) / STEPS)
        marks.append(Box(left + long * step / STEPS, top, long / STEPS + 0.5, thick, colour))
    for tick in scale.ticks:
        marks.append(Text(left + long * scale.share(tick), top + thick + 14, f"{tick:g}", 13, centred=True))
    return marks


def _svg(one: "Explained", wide: int, high: int, marks: list[Text | Box]) -> bytes:
    parts = [f'<rect width="{wide}" height="{high}" fill="#ffffff"/>']
    for level in range(one.trace.levels + 1):
        content, _ = draw_level(one, level, WIDE, HIGH)
        parts.append(f'<svg class="level" x="{WIDE * level}" y="{HEAD}" width="{WIDE}" height="{HIGH}">{content}</svg>')
    for mark in marks:
        if isinstance(mark, Box):
            size = f'width="{mark.wide:.2f}" height="{mark.high:.2f}"'
            parts.append(f'<rect x="{mark.x:.2f}" y="{mark.y:.2f}" {size} fill="{mark.colour}"/>')
        else:
            anchor = ' text-anchor="middle"' if mark.centred else ""
            place = f'x="{mark.x:.2f}" y="{mark.y:.2f}" font-size="{mark.size}"{anchor}'
            parts.append(f'<text class="word" {place}>{escape(mark.words)}</text>')
    style = f".word {{ font-family: sans-serif; fill: {INK}; dominant-baseline: central; }}"
    root = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">'
    body = "\n".join([root, f"<style>{style}</style>", *parts, "</svg>\n"])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def _png(one: "Explained", wide: int, high: int, marks: list[Text | Box]) -> bytes:
    image = Image.new("RGB", (SHARP * wide, SHARP * high), "white")
    for level in range(one.trace.levels + 1):
        panel = Image.open(io.BytesIO(paint_level(one, level, WIDE, HIGH, SHARP))).convert("RGBA")
        image.paste(panel, (SHARP * WIDE * level, SHARP * HEAD), panel)
    pen, face = ImageDraw.Draw(image), font_manager.findfont("DejaVu Sans")
    for mark in marks:
        x, y = SHARP * mark.x, SHARP * mark.y
        if isinstance(mark, Box):
            pen.rectangle((x, y, x + SHARP * mark.wide, y + SHARP * mark.high), fill=mark.colour)
        else:
            font = ImageFont.truetype(face, 0.93 * SHARP * mark.size)
            pen.text((x, y), mark.words, fill=INK, font=font, anchor="mm" if mark.centred else "lm")
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()
