"""The direction of imports: a module knows those below it in the table, and none above."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "cgipool"

LAYERS = [
    ("errors", "version"),
    ("files", "processes"),
    ("data",),
    ("ops",),
    ("model.level",),
    ("model.layers", "model.norm", "model.readout"),
    ("pool",),
    ("nn",),
    ("model",),
    ("task",),
    ("classical",),
    ("training",),
    ("study",),
    ("report",),
    ("auto", "inference"),
    ("contract",),
    ("auto.page", "explain", "cli"),
    ("__init__", "__main__"),
]
"""Modules and packages of cgipool, bottom to top; those of one row may know each other."""

WITHOUT_TORCH = [
    "cgipool",
    "cgipool.data",
    "cgipool.pool",
    "cgipool.report",
    "cgipool.study.claims",
    "cgipool.study.exchange",
    "cgipool.study.gather",
    "cgipool.study.plan",
    "cgipool.study.records",
    "cgipool.study.share",
    "cgipool.study.statistics",
    "cgipool.study.store",
    "cgipool.training.result",
    "cgipool.task.metrics",
]
"""What starts fast, and what reads stored results, does so without torch."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    """The name in the table of a file of the package."""
    parts = [name.removesuffix(".py") for name in path.parts]
    return ".".join(parts[:2]) if ".".join(parts[:2]) in RANK else parts[0]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything from cgipool that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "cgipool")
        elif isinstance(node, ast.ImportFrom):
            package = ["cgipool", *path.parts[:-1]]
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            if base[:1] == ["cgipool"]:
                yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)


def target(name: str) -> str:
    """The name in the table that an imported name belongs to."""
    if ".".join(name.split(".")[1:3]) in RANK:
        return ".".join(name.split(".")[1:3])
    first = name.split(".")[1] if "." in name else "__init__"
    is_module = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
    return first if is_module else "__init__"


def upward(path: Path) -> list[str]:
    """The imports of a file that go up."""
    return [
        f"src/cgipool/{path}, line {line}: imports {name}, which is above {part(path)}"
        for line, name in imported(path)
        if RANK[target(name)] > RANK[part(path)]
    ]


def test_every_module_is_in_the_table() -> None:
    missing = sorted({part(path) for path in FILES} - set(RANK))
    assert not missing, f"add {', '.join(missing)} to LAYERS in tests/test_imports.py"
    assert len(RANK) == sum(map(len, LAYERS)), "a name stands in LAYERS twice"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_go_down(path: Path) -> None:
    wrong = upward(path)
    assert not wrong, "; ".join(wrong)


def test_an_upward_import_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {
        "from cgipool.training.loop import train_split": True,
        "import cgipool.model.network": True,
        "from cgipool import pool": True,
        "from cgipool import load_dataset": True,
        "from ..model import network": True,
        "from .. import ops": True,
        "def late():\n    from cgipool.ops import sums": True,
        "from cgipool.errors import UserError": False,
        "from cgipool import errors": False,
        "from .graphs import GraphSet": False,
        "import torch": False,
    }
    for name in ("training", "model", "ops", "pool", "data"):
        (tmp_path / name).mkdir()
    for name in ("errors",):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    for text, wrong in lines.items():
        (tmp_path / "data" / "batch.py").write_text(text)
        assert bool(upward(Path("data/batch.py"))) == wrong, text


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    path = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"import {module} imports torch"
