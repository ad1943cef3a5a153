"""A study, a training and an import that die at a file event, and are run again: `python -m fuzz.crash`.

A file event is a file opened for writing, a rename, a removal, a new folder or an fsync. There the process ends, as by
SIGKILL: nothing is flushed or cleaned up. The same command, run again, must complete; what it leaves must equal what an
undisturbed run leaves; and nothing that was finished may be trained again.
"""

import argparse
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

DEAD = 86
"""Exit code of a process that died at its event."""

EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "fsync"}

CLOCK = ("seconds", "epoch_seconds", "sha256", "provenance")
"""What two equal runs may differ in."""


class Scenario(NamedTuple):
    """A command, and what it leaves."""

    name: str
    words: Callable[[Path, Path], list[str]]
    """From the folder of the run and that of the seeds."""
    picture: Callable[[Path], Any]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(part) for name, part in value.items() if name not in CLOCK}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def _json(file: Path) -> Any:
    return _timeless(json.loads(file.read_text(encoding="utf-8")))


def _visible(folder: Path) -> list[Path]:
    """All files but those with hidden names, which a process that dies leaves aside and nobody reads."""
    files = sorted(folder.rglob("*"))
    return [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]


def _store(folder: Path) -> Any:
    """Cells and studies. The training folder and the claim of a cell may stay behind, where a run dies between writing
    the cell and removing them; nobody reads them."""
    parts = sorted((folder / "store").glob("cells/*.json")) + sorted((folder / "store").glob("studies/*.json"))
    return {path.name: _json(path) for path in parts}


def _run(folder: Path) -> Any:
    from cgipool.training.checkpoint import load_tensors
    from cgipool.training.result import Log

    found: dict[str, Any] = {}
    for file in _visible(folder / "run"):
        name = str(file.relative_to(folder))
        if file.suffix == ".json":
            found[name] = _json(file)
        elif file.suffix == ".jsonl":
            found[name] = _timeless(Log(file).rows())
        elif file.suffix == ".safetensors":
            found[name] = {part: value.tolist() for part, value in load_tensors(file)[0].items()}
        elif file.is_file():
            found[name] = file.read_bytes()
    return found


def _set(folder: Path) -> Any:
    return {str(file.relative_to(folder)): file.read_bytes() for file in _visible(folder) if file.is_file()}


def _training(folder: Path, seeds: Path) -> list[str]:
    from .seeds import TRAIN

    words = ["train", str(seeds / "shared" / "set"), "--method", "topk", *TRAIN]
    return [*words, "--out", str(folder / "run"), "--resume"]


def _studying(folder: Path, seeds: Path) -> list[str]:
    return ["study", "run", str(seeds / "study" / "small.toml"), "--store", str(folder / "store")]


def _importing(folder: Path, seeds: Path) -> list[str]:
    return ["data", "import", str(seeds / "edges" / "lists"), "--out", str(folder / "set")]


SCENARIOS = (
    Scenario("study", _studying, _store),
    Scenario("training", _training, _run),
    Scenario("import", _importing, _set),
)


def _watch(folder: Path, death: int | None, note: Path) -> None:
    """Count the file events in a folder from now on, and die at one of them; without one, note how many there were."""
    seen = 0
    home = str(folder)

    def happen() -> None:
        nonlocal seen
        seen += 1
        if seen == death:
            os._exit(DEAD)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            if isinstance(path, str) and path.startswith(home) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                happen()
        elif event in EVENTS and str(given[0]).startswith(home):
            happen()

    plain, count = os.fsync, lambda: seen

    def fsync(handle: Any) -> None:
        happen()
        plain(handle)

    os.fsync = fsync
    sys.addaudithook(hook)
    _watch.count = count  # type: ignore[attr-defined]


def _note_trainings(file: Path) -> None:
    """Write down which folders of splits are trained."""
    from cgipool.training import run

    plain = run.train_split

    def noted(task: Any, *given: Any) -> None:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, f"{task.folder}\n".encode())
        os.close(handle)
        plain(task, *given)

    run.train_split = noted


def _forked(words: list[str], folder: Path, death: int | None, notes: Path) -> tuple[int, str]:
    """Run a command in a forked process; its exit code, and what it said."""
    said = notes / "said"
    if (child := os.fork()) == 0:
        out = io.StringIO()
        code = 70
        try:
            from cgipool.cli import main

            _note_trainings(notes / "trained")
            _watch(folder, death, notes)
            with redirect_stdout(out), redirect_stderr(out):
                code = main(words)
            (notes / "events").write_text(str(_watch.count()))  # type: ignore[attr-defined]
        except BaseException as error:
            out.write(repr(error))
        finally:
            said.write_text(out.getvalue(), encoding="utf-8")
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text() if said.exists() else ""


def _trained(notes: Path) -> list[Path]:
    file = notes / "trained"
    return [Path(line) for line in file.read_text().splitlines()] if file.exists() else []


def _finished(folder: Path) -> list[Path]:
    """Folders of splits that need no training any more: they have a result, or their cell is in the store."""
    found = [file.parent for file in folder.rglob("split-*/result.json")]
    return found + [folder / "store" / "work" / cell.stem for cell in (folder / "store" / "cells").glob("*.json")]


def die_and_go_on(scenario: Scenario, seeds: Path, death: int, expected: Any) -> str | None:
    """What is wrong after a death at an event, if anything is."""
    with tempfile.TemporaryDirectory(prefix="crash-") as name:
        folder, notes, again = (Path(name, part) for part in ("at", "notes", "again"))
        for part in (folder, notes, again):
            part.mkdir()
        words = scenario.words(folder, seeds)
        code, said = _forked(words, folder, death, notes)
        if code not in (0, DEAD):
            return f"exit code {code} before its death: {said[-300:]}"
        finished = _finished(folder)
        code, said = _forked(words, folder, None, again)
        if code != 0:
            return f"run again, exit code {code}: {said[-300:]}"
        if scenario.picture(folder) != expected:
            return "what it leaves differs from an undisturbed run"
        twice = [task for task in _trained(again) if any(task == f or f in task.parents for f in finished)]
        return f"trained again: {twice[0].relative_to(folder)}" if twice else None


def run_scenario(scenario: Scenario, seeds: Path, most: int | None) -> tuple[int, int, list[str]]:
    """How many events there are, at how many of them it died, and what went wrong. At most so many, spread evenly."""
    with tempfile.TemporaryDirectory(prefix="crash-") as name:
        folder, notes = Path(name, "at"), Path(name, "notes")
        folder.mkdir()
        notes.mkdir()
        code, said = _forked(scenario.words(folder, seeds), folder, None, notes)
        assert code == 0, said
        events, expected = int((notes / "events").read_text()), scenario.picture(folder)
    deaths = range(1, events + 1)
    if most is not None and most < events:
        deaths = sorted({1 + round(i * (events - 1) / (most - 1)) for i in range(most)})  # type: ignore[assignment]
    wrong = [(death, die_and_go_on(scenario, seeds, death, expected)) for death in deaths]
    return events, len(wrong), [f"{scenario.name}, event {death}: {why}" for death, why in wrong if why is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all scenarios; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.crash", description=__doc__)
    parser.add_argument("--most", type=int, help="deaths of each scenario at most (default: at every event)")
    parser.add_argument("--only", choices=[scenario.name for scenario in SCENARIOS])
    options = parser.parse_args(arguments)
    import torch

    from .seeds import write_for_crashes

    torch.set_num_threads(1)
    failed = False
    with tempfile.TemporaryDirectory(prefix="crash-seeds-") as name:
        write_for_crashes(Path(name))
        os.environ["CGIPOOL_CACHE"] = str(Path(name, "cache"))
        print(f"{'crash points':<14} {'events':>7} {'deaths':>7} {'failures':>9}")
        for scenario in SCENARIOS:
            if options.only in (None, scenario.name):
                events, deaths, wrong = run_scenario(scenario, Path(name), options.most)
                print(f"{scenario.name:<14} {events:>7,} {deaths:>7,} {len(wrong):>9,}", *wrong, sep="\n", flush=True)
                failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
