"""A training resolves, checks and builds everything once, in both engines, and knows nothing of studies."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cgipool import load_dataset
from cgipool.data import random_splits
from cgipool.data.features import Encoder
from cgipool.data.splits import check_graphs
from cgipool.model.build import build_model
from cgipool.training import run
from cgipool.training.initial import fit_encoder, prepared
from cgipool.training.presets import resolve_recipe
from cgipool.training.run import check_device, train

ONCE = (resolve_recipe, check_device, check_graphs)
ONCE_PER_SPLIT = (fit_encoder, prepared, build_model, Encoder.encode)
SPLITS = 3


def calls_of(functions: tuple[Callable[..., Any], ...], work: Callable[[], Any]) -> dict[str, int]:
    """How often each function is called, by name, wherever it was imported."""
    codes = {function.__code__: function.__name__ for function in functions}
    counts = Counter(dict.fromkeys(codes.values(), 0))

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            counts[codes[frame.f_code]] += 1

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return dict(counts)


@pytest.mark.parametrize("given", [False, True], ids=["drawn splits", "given splits"])
@pytest.mark.parametrize("stacked", [False, True], ids=["plain", "stacked"])
def test_everything_is_done_once(stacked: bool, given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = load_dataset("motifs").subset(range(0, 1000, 20))
    splits = random_splits(graphs, seed=0, indices=range(SPLITS)) if given else SPLITS
    monkeypatch.setattr(run, "_together", lambda job: stacked)
    wanted = {f.__name__: 1 for f in ONCE} | {f.__name__: SPLITS for f in ONCE_PER_SPLIT}
    found = calls_of(ONCE + ONCE_PER_SPLIT, lambda: train(graphs, splits=splits, epochs=2, width=8))
    assert found == wanted


PYTHON = """from cgipool import load_dataset, train
train(load_dataset("motifs").subset(range(0, 1000, 20)), epochs=1, width=8)
"""
COMMANDS = "import cgipool.cli; assert cgipool.cli.main({}) == 0"
SHORT = ["--epochs", "1", "--width", "8"]


@pytest.mark.parametrize(
    "code",
    [PYTHON, COMMANDS.format(["train", "motifs", *SHORT]), COMMANDS.format(["fit", "motifs", *SHORT])],
    ids=["train()", "cgipool train", "cgipool fit"],
)
def test_training_imports_nothing_of_studies(code: str, tmp_path: Path) -> None:
    code += "\nimport sys\nsys.exit(', '.join(name for name in sys.modules if name.startswith('cgipool.study')) or 0)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
