"""Fixtures that several test folders share: where the data sets are, and a cache of the test's own."""

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # how long an example takes says more about the machine
settings.load_profile("patient")

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported: kernels then run in Python

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
"""How Chromium is started so that it asks the network for nothing by itself."""

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def tu_archive() -> Callable[[str], Path]:
    """NAME → the archive of the public TU data set; skips the test where it is not at hand."""
    folder = Path(os.environ.get("CGIPOOL_DATA") or REPOSITORY.parent / "shared" / "data" / "tu")

    def find(name: str) -> Path:
        path = folder / f"{name}.zip"
        if not path.is_file():
            pytest.skip(f"needs {name}.zip in {folder}; set CGIPOOL_DATA to the folder that holds it")
        return path

    return find


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk() -> Iterator[None]:
    """Tests outlive no power failure: waiting until each file is on the disk would take most of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _motifs_are_made_once() -> Iterator[None]:
    """The built-in data set: a test that asks for it by name gets a copy."""
    from cgipool.data import sources

    made = cache(sources.GENERATED["motifs"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sources.GENERATED, "motifs", lambda: copy.deepcopy(made()))
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no data folder, for this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CGIPOOL_CACHE", str(folder))
    monkeypatch.delenv("CGIPOOL_DATA", raising=False)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _one_thread_for_torch() -> Iterator[None]:
    """Run torch on one thread: the networks under test are so small that more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread for torch, here and in processes that the test starts: on tiny graphs a second is in the way."""
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by Playwright. Without one a test skips, or fails where CI must have it."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium here, and CI must have one: make browser")
        pytest.skip("needs Chromium: make browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def as_format_1() -> Callable[[Path], None]:
    """Turns a saved set into one as versions before digests wrote it."""
    from cgipool.data.store import KEYS

    def rewrite(folder: Path) -> None:
        path = folder / "graphset.json"
        index = json.loads(path.read_text(encoding="utf-8"))
        index = {key: index[key] for key in KEYS}
        for about in index["arrays"].values():
            del about["sha256"]
        path.write_text(json.dumps(index | {"format": 1}, indent=1), encoding="utf-8")

    return rewrite
