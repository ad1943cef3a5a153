"""Build the HTML page of a report: one file that contains its styles, scripts and data and makes no network requests.

The data of each study are compressed separately; the page unpacks a study when it is opened.
"""

import base64
import json
import math
import re
import zlib
from dataclasses import asdict
from typing import Any

from cgipool.report.blocks import Block, footnotes, heading, quantity, unit
from cgipool.report.comparisons import LEVEL
from cgipool.report.html import REPORT, fill, web_file
from cgipool.report.page_cells import entry_data
from cgipool.report.statistics import blocks_of
from cgipool.report.tables import counts, trained
from cgipool.report.view import View

TITLE = "Study report"

SCRIPTS = ["dom.js", "charts.js", "table.js", "panel.js", "page.js"]
"""Joined in this order into one script."""

FIGURES = {
    "curves": "Results with 95 % intervals",
    "diagnostics": "Diagnostics by level of the network",
    "splits": "Every split",
    "training": "Validation loss",
    "forest": "Each method minus no pooling, by family of data sets",
    "ranks": "Average ranks and critical difference",
}


def page(studies: list[dict[str, Any]], problems: list[str]) -> str:
    """Return the page for some studies, each from `study_data`. It opens on the first one."""
    data = {
        "problems": problems,
        "studies": [{"name": study["name"], "packed": _packed(study)} for study in studies],
    }
    parts = {
        "title": TITLE,
        "brand": TITLE,
        "style": web_file(REPORT, "page.css"),
        "script": "\n".join(web_file(REPORT, name) for name in SCRIPTS),
        "data": in_script(data),
    }
    return fill(web_file(REPORT, "page.html"), parts)


def in_script(value: Any) -> str:
    """Return JSON that is safe inside script tags: no text in it can end the script or open a comment."""
    return _json(plain(value)).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _packed(study: dict[str, Any]) -> str:
    # JSON may contain lone surrogates, which UTF-8 cannot encode.
    return base64.b64encode(zlib.compress(_json(study).encode(errors="replace"), 7)).decode()


def plain(value: Any) -> Any:
    """Return a copy that is valid JSON: floats have six digits, and None replaces NaN and infinity."""
    kind = type(value)
    if kind is int or kind is str:  # almost all values
        return value
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def study_data(view: View, figures: dict[str, str], cells: dict[str, Any]) -> dict[str, Any]:
    """Return the page data of a study. `figures` are its figures by name, `cells` the cells of all studies by key."""
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
        "metric": _metric(view),
        "marks": _marks(view),
        "published": any(entry.wanted.published for entry in view.entries),
        "heading": " · ".join(view.layout.row_axes),
        "columnAxis": view.layout.column_axis,
        "rows": [asdict(row) for row in view.rows],
        "columns": view.columns,
        "methods": [{"id": method, "title": view.title(method)} for method in view.methods],
        "entries": [entry_data(view, entry) for entry in view.entries],
        "blocks": [_block(block) for block in blocks_of(view)[1:]],
        "figures": [{"title": FIGURES[name], "svg": _brief(svg)} for name, svg in figures.items()],
    }
    return plain(shown) | {"cells": {key: cells[key] for key in keys}}


def _brief(svg: str) -> str:
    """Round coordinates of a figure to two decimals, a hundredth of a pixel, to keep the page small."""
    return re.sub(r' (?:d|x|y)="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)


def _marks(view: View) -> dict[str, str]:
    """The meaning of each mark in the table."""
    better = {"▲": f"significantly better than {view.baseline}", "▼": f"significantly worse than {view.baseline}"}
    return better | dict(footnotes(view))


def _metric(view: View) -> dict[str, Any]:
    """What the table shows, in words, and in which direction results get better."""
    metric = view.metric
    name = "result" if metric is None else metric.title
    words = {
        "title": heading(metric),
        "accuracy": f"Test {quantity(metric)}: mean over splits ± its standard error. The best of a comparison is "
        "bold. Splits share graphs: the standard error is for the mean over such splits.",
        "difference": f"Ours minus the published mean, {unit(metric)}. Below: the 95 % interval, which includes the "
        "uncertainty of both. Bold: the interval does not contain zero.",
        "rank": f"Rank of the mean {name} among the methods on the same data; 1 is best.",
    }
    return words | {"better": -1 if metric is None or metric.higher else 1}


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
