"""The page: one file with its style, its program and its data inside, which asks the network for nothing.

The data of each study are compressed; the page unpacks those of the study that it shows.
"""

import base64
import json
import math
import re
import zlib
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from cgipool.report.blocks import Block, blocks_of, footnotes
from cgipool.report.comparisons import LEVEL
from cgipool.report.shown import entry_shown
from cgipool.report.tables import counts, trained
from cgipool.report.view import View

SCRIPTS = ["dom.js", "charts.js", "table.js", "panel.js", "page.js"]
"""In this order, as one program."""

FIGURES = {
    "curves": "Accuracy with its 95 % bootstrap interval",
    "diagnostics": "Diagnostics by level of the network",
    "splits": "Every split",
    "training": "Validation loss",
    "ranks": "Average ranks and critical difference",
}


def page(studies: list[dict[str, Any]], problems: list[str]) -> str:
    """The page over studies, as `study_shown` gives them; it opens on the first."""
    data = {
        "problems": problems,
        "studies": [{"name": study["name"], "packed": _packed(study)} for study in studies],
    }
    web = files("cgipool.report") / "web"
    parts = {
        "style": (web / "page.css").read_text(encoding="utf-8"),
        "script": "\n".join((web / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "data": in_script(data),
    }
    html = (web / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], html)


def in_script(value: Any) -> str:
    """JSON that is safe between script tags: no text in it can end the script or open a comment."""
    return _json(plain(value)).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _packed(study: dict[str, Any]) -> str:
    # A lone surrogate, which JSON can hold, has no UTF-8.
    return base64.b64encode(zlib.compress(_json(study).encode(errors="replace"), 9)).decode()


def plain(value: Any) -> Any:
    """Values that JSON has: numbers in six digits, none that is infinite or undefined."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def study_shown(view: View, figures: dict[str, str], cells: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of a study, with its figures by name, and its cells by key out of all `cells`."""
    study = view.study
    keys = [entry.record.key for entry in view.entries if entry.record]
    shown = {
        "name": study.name,
        "title": study.title,
        "about": study.about,
        "source": study.source,
        "counts": counts(view),
        "trained": trained(view),
        "legend": _legend(view),
        "marks": _marks(view),
        "published": any(entry.wanted.published for entry in view.entries),
        "heading": " · ".join(view.layout.beside),
        "columnAxis": view.layout.columns,
        "rows": [asdict(row) for row in view.rows],
        "columns": view.columns,
        "methods": [{"id": method, "title": view.title(method)} for method in view.methods],
        "entries": [entry_shown(view, entry) for entry in view.entries],
        "blocks": [_block(block) for block in blocks_of(view)[1:]],
        "figures": [{"title": FIGURES[name], "svg": _brief(svg)} for name, svg in figures.items()],
    }
    return plain(shown) | {"cells": {key: cells[key] for key in keys}}


def _brief(svg: str) -> str:
    """A figure whose lines have places of two digits after the point, a hundredth of a pixel, for the page alone."""
    return re.sub(r' (?:d|x|y)="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)


def _marks(view: View) -> dict[str, str]:
    """What each mark of the table means."""
    better = {"▲": f"significantly better than {view.baseline}", "▼": f"significantly worse than {view.baseline}"}
    return better | dict(footnotes(view))


def _legend(view: View) -> str:
    words = []
    if any(entry.against for entry in view.entries):
        words.append(
            f"▲ significantly better than {view.baseline}, ▼ significantly worse: paired test on the same splits, "
            f"corrected for shared training graphs, Holm-adjusted p below {LEVEL}."
        )
    words += [f"{mark} {meaning}" for mark, meaning in footnotes(view)]
    return " ".join([*words, "Open a cell for its splits, training, command and settings. A heading sorts."])


def _block(block: Block) -> dict[str, Any]:
    return asdict(block) | {"strong": sorted(block.strong)}
