"""Runs cases in worker processes, each under a limit on memory and time."""

import io
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MEMORY = 4 << 30
"""Bytes that a worker may hold."""

CPU_SECONDS, SECONDS = 30.0, 180.0
"""A case that takes longer, of the processor or by the clock, hangs."""

LONGEST = 2000
"""Characters of an error message, at most; paths may be long."""


class Verdict(NamedTuple):
    """What came of a case."""

    kind: str
    number: int
    verdict: str
    """accepted, refused or failure."""
    detail: str = ""


class Failure(Exception):
    """What should not have happened."""


def run_case(kind: str, seed: int, number: int, seeds: Path, keep: Path | None = None) -> Verdict:
    """Run one case in this process; `keep` is where its files stay, to look at them."""
    from .kinds import KINDS

    chosen, rng = KINDS[kind], np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        case = keep or Path(name, "case")
        try:
            expected = _answer(kind, seeds)
            shutil.copytree(seeds / chosen.seed, case, symlinks=True, dirs_exist_ok=True)
            file = chosen.mutate(rng, case)
            said = _commands(chosen, rng, case, seeds)
            sound = seeds / chosen.seed / file.relative_to(case)
            if said is None:
                return Verdict(kind, number, "refused")
            if chosen.answer is not None and sound.exists() and chosen.covered(sound):
                found = chosen.answer(case, said)
                if not chosen.agrees(found, expected):
                    raise Failure(f"wrong data accepted in silence ({sound.name})")
        except Failure as error:
            return Verdict(kind, number, "failure", str(error))
        except (Exception, SystemExit):
            return Verdict(kind, number, "failure", traceback.format_exc())
        return Verdict(kind, number, "accepted")


_answers: dict[str, Any] = {}


def _answer(kind: str, seeds: Path) -> Any:
    """What the sound files of a kind give, worked out once in each process."""
    from .kinds import KINDS

    chosen = KINDS[kind]
    if kind not in _answers:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            case = Path(name, "case")
            shutil.copytree(seeds / chosen.seed, case)
            said = _commands(chosen, np.random.default_rng(0), case, seeds)
            if said is None:
                raise Failure(f"the sound files of {kind} are refused")
            _answers[kind] = None if chosen.answer is None else chosen.answer(case, said)
    return _answers[kind]


def _commands(chosen: Any, rng: np.random.Generator, case: Path, seeds: Path) -> list[str] | None:
    """What the commands of a case print; None if one refuses what it reads. A Failure if one misbehaves."""
    said = []
    with _cache_at(case / "cache"):
        for words in chosen.commands(rng, case, seeds / "shared"):
            code, out, errors = run_command(words)
            check_text(words, out + errors)
            if code == 2:
                check_refusal(words, errors)
                return None
            if code not in chosen.codes:
                raise Failure(f"{' '.join(words[:2])}: exit code {code}: {errors[-300:]}")
            said.append(out)
    return said


@contextmanager
def _cache_at(folder: Path) -> Iterator[None]:
    os.environ["CGIPOOL_CACHE"] = str(folder)
    yield


def run_command(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run in this process; a Failure with its traceback if it has one."""
    from cgipool.cli import main

    out, errors = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(errors):
            code = main(words)
    except BaseException:
        raise Failure(f"{' '.join(words[:2])}: {traceback.format_exc()}") from None
    return code, out.getvalue(), errors.getvalue()


def check_text(words: list[str], text: str) -> None:
    """A Failure if what is printed can do something to a terminal, or hides a traceback."""
    if bad := next((c for c in text if ord(c) < 32 and c not in "\n\t\r"), None):
        raise Failure(f"{' '.join(words[:2])}: prints the control character {bad!r}")
    if "Traceback (most recent" in text:
        raise Failure(f"{' '.join(words[:2])}: {text[-2000:]}")


def check_refusal(words: list[str], errors: str) -> None:
    """A Failure unless the last line on stderr is an error of bounded length, and the only one."""
    lines = errors.rstrip("\n").split("\n")
    if not lines[-1].startswith("cgipool: ") or sum(line.startswith("cgipool: ") for line in lines) != 1:
        raise Failure(f"{' '.join(words[:2])}: not refused in one line: {errors[-300:]!r}")
    if len(lines[-1]) > LONGEST:
        raise Failure(f"{' '.join(words[:2])}: an error of {len(lines[-1]):,} characters")


def work(connection: Connection, seed: int, seeds: Path) -> None:
    """In a worker: run the cases that come, until None does."""
    import torch

    torch.set_num_threads(1)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)  # RDKit and others write there by themselves
    while (case := connection.recv()) is not None:
        connection.send(run_case(*(case[0], seed, case[1], seeds)))


class Worker:
    """A process and the case that it has."""

    def __init__(self, seed: int, seeds: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, seed, seeds), daemon=True)
        self.process.start()
        theirs.close()
        self.case: tuple[str, int] | None = None
        self.began = self.cpu = 0.0

    def give(self, case: tuple[str, int]) -> None:
        """Begin a case."""
        self.case, self.began, self.cpu = case, time.monotonic(), self._cpu()
        self.connection.send(case)

    def complaint(self) -> str | None:
        """What is wrong with the case in hand, if it is over a limit."""
        if not self.process.is_alive():
            return f"the process died with code {self.process.exitcode}"
        with suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
            if pages * os.sysconf("SC_PAGE_SIZE") > MEMORY:
                return f"over {MEMORY >> 30} GB of memory"
        if self._cpu() - self.cpu > CPU_SECONDS or time.monotonic() - self.began > SECONDS:
            return "it hangs"
        return None

    def _cpu(self) -> float:
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_cases(cases: Iterable[tuple[str, int]], seed: int, seeds: Path, jobs: int) -> Iterator[Verdict]:
    """The verdicts of all cases, as they come."""
    waiting = iter(cases)
    workers = [Worker(seed, seeds) for _ in range(jobs)]
    try:
        for worker in workers:
            if case := next(waiting, None):
                worker.give(case)
        while busy := [worker for worker in workers if worker.case is not None]:
            for ready in wait([worker.connection for worker in busy], timeout=0.05):
                worker = next(worker for worker in busy if worker.connection is ready)
                with suppress(EOFError, ConnectionResetError):  # it died, which is looked at below
                    yield worker.connection.recv()
                    worker.case = None
                    if case := next(waiting, None):
                        worker.give(case)
            for place, worker in enumerate(workers):
                if worker.case is not None and (wrong := worker.complaint()):
                    yield Verdict(*worker.case, "failure", wrong)
                    worker.end()
                    workers[place] = Worker(seed, seeds)
                    if case := next(waiting, None):
                        workers[place].give(case)
    finally:
        for worker in workers:
            worker.end()


def deal(count: int, kinds: Iterable[str]) -> list[tuple[str, int]]:
    """So many cases or a few more, dealt out to the kinds by their shares, in turn."""
    from .kinds import KINDS

    shares = {kind: KINDS[kind].share for kind in kinds}
    whole = sum(shares.values())
    cases = [(kind, number) for kind, share in shares.items() for number in range(-int(-count * share // whole))]
    return sorted(cases, key=lambda case: (case[1] / shares[case[0]], case[0]))
