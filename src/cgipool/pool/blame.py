"""Whose code an exception came from, and how to show it."""

import os
import traceback
from pathlib import Path

import torch

PACKAGE = Path(__file__).parents[1]
RULES = PACKAGE / "contract"

CALLERS = (PACKAGE / "network.py", PACKAGE / "pool")
"""What builds and calls the pools of users."""


class OwnCodeError(Exception):
    """An exception in a user's own pool, raised in another process; the message is its traceback (`own_traceback`)."""


def told(error: BaseException) -> str:
    """An exception in one line, with the place in the user's code or ours that it came from."""
    said = " ".join(str(error).split())
    if len(said) > 160:
        said = f"{said[:157]}..."
    return f"{type(error).__name__}{': ' if said else ''}{said} ({place_of(error)})"


def place_of(error: BaseException) -> str:
    """FILE:LINE of the innermost call in an exception's traceback that is a user's, else PyG's, else ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[:1] != "<"]
    at = max(enumerate(frames), key=lambda numbered: (_nearness(Path(numbered[1].filename)), numbered[0]))[1]
    return f"{_shown(at.filename)}:{at.lineno}"


def own_traceback(error: BaseException) -> str | None:
    """The traceback of an exception in a pool that is not ours: the calls in the user's code (or PyG's), and what was
    raised. None for other exceptions, and for want of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    paths = [Path(frame.filename) for frame in frames]
    called = [n for n, path in enumerate(paths) if any(map(path.is_relative_to, CALLERS))]
    theirs = [n for n in range(called[0] + 1 if called else len(frames), len(frames)) if _nearness(paths[n]) >= 2]
    if not theirs:
        return None
    shown = [
        traceback.FrameSummary(_shown(f.filename), f.lineno, f.name, line=f.line)
        for f in map(frames.__getitem__, theirs)
    ]
    lines = [*traceback.StackSummary.from_list(shown).format(), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()


def _shown(filename: str) -> str:
    """A path as it is shown: from the working folder, if it is in there."""
    path = Path(filename)
    return str(path.relative_to(os.getcwd()) if path.is_relative_to(os.getcwd()) else path)


def _nearness(path: Path) -> int:
    """How much a file has to do with a pool: 3 for a user's own, 2 for PyG's, 1 for ours, 0 for the ground below."""
    libraries = Path(torch.__file__).parents[1]
    if path.is_relative_to(libraries / "torch_geometric"):
        return 2
    if path.is_relative_to(PACKAGE):
        return 0 if path.is_relative_to(RULES) else 1
    ground = [libraries / name for name in ("torch", "numpy", "safetensors")]
    standard = path.is_relative_to(Path(os.__file__).parent) and "site-packages" not in path.parts
    return 0 if standard or str(path)[:1] == "<" or any(map(path.is_relative_to, ground)) else 3
