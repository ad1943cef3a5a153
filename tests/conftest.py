"""Fixtures that several test folders share: where the data sets are, and a cache of the test's own."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported: kernels then run in Python

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


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no data folder, for this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CGIPOOL_CACHE", str(folder))
    monkeypatch.delenv("CGIPOOL_DATA", raising=False)
    return folder


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread for torch, here and in processes that the test starts: on tiny graphs a second is in the way."""
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
