"""Cells of a class of the user's own are known by all modules of the user's that it depends on."""

import hashlib
import importlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgipool.study.cell import source_of
from cgipool.study.plan import study_of

POOL = """
class Pool(NoPool):
    pass
"""
NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package in a folder that can be imported from; with no modules yet."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"lab{next(NUMBERS)}"
    (tmp_path / name / "deep").mkdir(parents=True)
    yield name
    for imported in set(sys.modules) - before:
        if imported.startswith(name):
            del sys.modules[imported]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
    importlib.invalidate_caches()


WAYS = {
    "from a module": "from {m}.helper import scale",
    "a module": "import {m}.helper",
    "from a package": "from {m} import helper",
    "relative": "from .helper import scale",
    "relative, a module": "from . import helper",
    "star": "from .helper import *",
    "over another": "from .middle import scale",
    "when it is needed": "def late():\n    from .helper import scale",
    "by name": "import importlib\nimportlib.import_module('{m}.helper')",
    "by relative name": "import importlib\nimportlib.import_module('.helper', __package__)",
    "for types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .helper import scale",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_edited_helper_gives_new_cells(way: str, module: str, tmp_path: Path) -> None:
    folder = tmp_path / module
    text = f"from cgipool.pool.controls import NoPool\n{way.format(m=module)}\n{POOL}"
    write(folder, {"__init__.py": "", "pools.py": text, "helper.py": "scale = 1\n", "other.py": "x = 1\n"})
    write(folder, {"middle.py": "from .deep.down import scale\n", "deep/__init__.py": ""})
    write(folder, {"deep/down.py": "import json\nfrom ..helper import scale\n"})
    given = {"axes": {"method": [f"{module}.pools:Pool"], "dataset": ["motifs"]}}
    [before] = study_of(given).cells
    (folder / "other.py").write_text("x = 2\n")
    assert [cell.key for cell in study_of(given).cells] == [before.key], "it is not imported"
    (folder / "helper.py").write_text("scale = 2\n")
    assert [cell.key for cell in study_of(given).cells] != [before.key]
    (folder / "helper.py").write_text("scale = 1\n")
    assert [cell.key for cell in study_of(given).cells] == [before.key]


def test_an_edited_base_class_gives_another_source(module: str, tmp_path: Path) -> None:
    folder = tmp_path / module
    write(folder, {"base.py": f"from cgipool.pool.controls import NoPool\n{POOL}"})  # a package without __init__.py
    write(folder, {"pools.py": f"import sys\nfrom {module} import base\nclass Mine(base.Pool):\n    pass\n"})
    write(folder, {"shown.py": f"from {module}.pools import Mine as Shown\n"})
    before = source_of(f"{module}.shown:Shown")
    (folder / "base.py").write_text((folder / "base.py").read_text() + "# edited\n")
    assert source_of(f"{module}.shown:Shown") != before


def test_one_file_alone_is_known_by_its_content_as_before(module: str, tmp_path: Path) -> None:
    text = f"import math, torch, numpy.linalg\nfrom cgipool.pool.controls import NoPool\n{POOL}"
    write(tmp_path / module, {"pools.py": text})
    assert source_of(f"{module}.pools:Pool") == hashlib.sha256(text.encode()).hexdigest()


def test_installed_packages_are_not_the_users(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    monkeypatch.syspath_prepend(installed)
    write(installed, {f"{module}_tool.py": "x = 1\n"})
    write(tmp_path / module, {"pools.py": f"import {module}_tool\nfrom cgipool.pool.controls import NoPool\n{POOL}"})
    before = source_of(f"{module}.pools:Pool")
    write(installed, {f"{module}_tool.py": "x = 2\n"})
    assert source_of(f"{module}.pools:Pool") == before


def test_circles_and_broken_neighbours_do_no_harm(module: str, tmp_path: Path) -> None:
    folder = tmp_path / module
    write(folder, {"pools.py": f"from cgipool.pool.controls import NoPool\nfrom . import one\n{POOL}"})
    write(folder, {"one.py": "def late():\n    from . import two, broken, missing\n"})
    write(folder, {"two.py": "from . import one\n", "broken.py": "def (:\n"})
    assert source_of(f"{module}.pools:Pool") is not None


def test_methods_of_ours_have_no_source() -> None:
    assert source_of("cgi") is None
