"""HTML pages from templates: files of the `web` folders of this package and of those above it."""

import re
from importlib.resources import files

REPORT = "cgipool.report"
"""The package with what all pages share: the head and the basic style."""


def web_file(package: str, name: str) -> str:
    """Read a file from the `web` folder of a package."""
    return (files(package) / "web" / name).read_text(encoding="utf-8")


def fill(template: str, parts: dict[str, str]) -> str:
    """Fill a template, whose `{{head}}` is the beginning of every page: title, style and the bar with the brand."""
    whole = template.replace("{{head}}", web_file(REPORT, "head.html").rstrip("\n"), 1)
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], whole)
