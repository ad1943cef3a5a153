"""The page: one file with its style, its program and its data inside, which asks the network for nothing."""

import json
import math
import re
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from cgipool.report.blocks import Block, blocks_of
from cgipool.report.compare import LEVEL
from cgipool.report.courses import CURVES, course, diagnostics, thinned
from cgipool.report.tables import counts, trained
from cgipool.report.view import Entry, View
from cgipool.study.records import Record

SCRIPTS = ["dom.js", "charts.js", "table.js", "panel.js", "page.js"]
"""In this order, as one program."""

FIGURES = {
    "curves": "Accuracy with its 95 % bootstrap interval",
    "diagnostics": "Diagnostics by level of the network",
    "splits": "Every split",
    "training": "Validation loss",
    "ranks": "Average ranks and critical difference",
}

ROW = ["split", "epochs", "best_epoch", "val_loss", "seconds"]


def page(views: list[View], figures: dict[str, dict[str, str]], problems: list[str]) -> str:
    """The page over these studies, with their figures by study and name."""
    records = {entry.record.key: entry.record for view in views for entry in view.entries if entry.record}
    data = {
        "problems": problems,
        "studies": [_study(view, figures.get(view.study.name, {})) for view in views],
        "cells": {key: _cell(record) for key, record in records.items()},
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
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _plain(value: Any) -> Any:
    """Values that JSON has: numbers in six digits, none that is infinite or undefined."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _study(view: View, figures: dict[str, str]) -> dict[str, Any]:
    study = view.study
    return {
        "name": study.name,
        "title": study.title,
        "about": study.about,
        "source": study.source,
        "counts": counts(view),
        "trained": trained(view),
        "baseline": view.baseline,
        "level": LEVEL,
        "heading": " · ".join(view.layout.beside),
        "columnAxis": view.layout.columns,
        "rows": [asdict(row) for row in view.rows],
        "columns": view.columns,
        "methods": [{"id": method, "title": view.title(method)} for method in view.methods],
        "entries": [_entry(view, entry) for entry in view.entries],
        "blocks": [_block(block) for block in blocks_of(view)[1:]],
        "figures": [{"title": FIGURES[name], "svg": svg} for name, svg in figures.items()],
    }


def _entry(view: View, entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.wanted.key,
        "row": entry.row,
        "column": entry.column,
        "label": f"{view.title(entry.method)} on {entry.context}",
        "status": entry.status,
        "reason": entry.reason,
        "outdated": entry.outdated,
        "summary": asdict(entry.summary) if entry.summary else None,
        "published": entry.wanted.published,
        "gap": asdict(entry.gap) if entry.gap else None,
        "rank": entry.rank,
        "rivals": len(view.methods),
        "best": entry.best,
        "against": asdict(entry.against) | {"mark": entry.against.mark} if entry.against else None,
    }


def _block(block: Block) -> dict[str, Any]:
    return asdict(block) | {"strong": sorted(block.strong)}


def _cell(record: Record) -> dict[str, Any]:
    curves = {name: course(record, name) for name in CURVES}
    return {
        "cell": record.cell,
        "provenance": record.provenance,
        "splits": [_split(row) for row in record.splits],
        "courses": {name: asdict(found) for name, found in curves.items() if found},
        "diagnostics": diagnostics(record),
    }


def _split(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: row.get(name) for name in ROW}
    return kept | {"test": row["test"], "curve": thinned(row, "val_loss")}
