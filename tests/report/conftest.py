"""Stores that several tests read; none of them writes to one."""

from pathlib import Path

import pytest

from cgipool.report import write_report
from stores import full_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three studies, 100 cells with 20 splits each; one of them failed, one is missing, and one file is damaged."""
    store = full_store(tmp_path_factory.mktemp("full") / "store")
    (store / "cells" / "<b>broken<b>.json").write_text('{"format": 1, "k')
    return store


@pytest.fixture(scope="session")
def written(store: Path) -> Path:
    """The report of that store."""
    out = store.parent / "report"
    write_report(store, out)
    return out
