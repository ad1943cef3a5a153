"""Claims on cells: processes that contend in earnest, holders killed or stopped, delays at the worst moment."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cgipool.errors import UserError
from cgipool.study import claims
from cgipool.study.claims import Claim, Claims

SOURCE = Path(__file__).resolve().parents[2] / "src"
KEYS = [f"key{number:02d}" for number in range(30)]
NEVER = 10_000.0
"""Seconds between heartbeats, where a test wants none."""

HOLD = """
import sys, time
from pathlib import Path
from cgipool.study.claims import Claims
claim = Claims(Path(sys.argv[1]), beat=float(sys.argv[2])).take("key")
print("has" if claim else "has not", flush=True)
while not claim.lost:
    time.sleep(0.02)
print("lost", flush=True)
"""

CONTEND = """
import os, random, sys, time
from contextlib import suppress
from pathlib import Path
from cgipool.study.claims import Claims
folder, marks, abandons = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
keys, contended = sys.argv[4:], Claims(folder, beat=10_000.0)
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + 2.5
while time.monotonic() < end:
    key = random.choice(keys)
    claim = contended.take(key)
    if claim is None:
        continue
    os.mkdir(marks / key)  # fails where two have it
    time.sleep(random.choice([0, 0.0005]))
    os.rmdir(marks / key)
    if random.random() < abandons:
        for path in folder.glob(f"{key}.*"):
            with suppress(FileNotFoundError):
                os.utime(path, (0, 0))
    else:
        claim.release()
        assert not claim.lost
    print(key, flush=True)
os._exit(0)
"""

TAKE = """
import sys
from pathlib import Path
from cgipool.study.claims import Claims
contended = Claims(Path(sys.argv[1]), beat=10_000.0)
print("ready", flush=True)
sys.stdin.readline()
print(" ".join(key for key in sys.argv[2:] if contended.take(key)), flush=True)
sys.stdin.readline()
"""


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program with arguments; what still runs after the test is ended."""
    started = []

    def run(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        path = {**os.environ, "PYTHONPATH": str(SOURCE)}
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen(command, env=path, text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        process.wait()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(processes: list[subprocess.Popen[str]]) -> None:
    """Let processes that wait for it start together."""
    assert [line(process) for process in processes] == ["ready"] * len(processes)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def soon(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Whether a condition comes true; the time is long, as machines may be slow."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def taken(contended: Claims, key: str = "key") -> Claim:
    claim = contended.take(key)
    assert claim is not None
    return claim


def make_old(folder: Path) -> None:
    """As if nobody had beaten since 1970."""
    for path in folder.iterdir():
        os.utime(path, (0, 0))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_claim_excludes_others_until_it_is_released(tmp_path: Path):
    one, other = Claims(tmp_path / "claims"), Claims(tmp_path / "claims")
    with taken(one) as claim:
        assert claim.key == "key"
        assert one.take("key") is None
        assert other.take("key") is None
        other_key = taken(other, "other key")
    assert names(tmp_path / "claims") == ["other key.json"]
    taken(other).release()
    other_key.release()
    other_key.release()
    assert not claim.lost
    assert not other_key.lost
    assert names(tmp_path / "claims") == []


def test_leaving_by_an_error_releases(tmp_path: Path):
    with pytest.raises(ZeroDivisionError), taken(Claims(tmp_path)):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_the_holder_is_told(tmp_path: Path):
    contended = Claims(tmp_path / "claims")
    assert contended.holder("key") is None
    assert not (tmp_path / "claims").exists(), "looking makes nothing"
    with taken(contended):
        holder = contended.holder("key")
        written = json.loads((tmp_path / "claims" / "key.json").read_text())
    assert holder is not None
    assert (holder.host, holder.pid, holder.expired) == (socket.gethostname(), os.getpid(), False)
    assert 0 <= holder.age < 60
    assert timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(holder.since) < timedelta(minutes=1)
    assert set(written) == {"host", "boot", "pid", "since", "token"}


@pytest.mark.parametrize("abandons", [0.0, 0.3], ids=["released", "often abandoned"])
def test_of_many_processes_one_at_a_time_has_a_key(tmp_path: Path, start: Start, abandons: float):
    folder, marks = tmp_path / "claims", tmp_path / "marks"
    marks.mkdir()
    processes = [start(CONTEND, folder, marks, abandons, *KEYS) for _ in range(8)]
    go(processes)
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, said
    won = Counter(key for out, _ in said for key in out.split())
    assert set(won) == set(KEYS)
    assert won.total() > 2 * len(KEYS), "each key was won again and again"
    make_old(folder)
    for key in KEYS:
        taken(Claims(folder), key).release()
    assert names(folder) == []


def test_one_of_many_contenders_takes_over(tmp_path: Path, start: Start):
    gone = [taken(Claims(tmp_path, beat=NEVER), key) for key in KEYS]
    make_old(tmp_path)
    processes = [start(TAKE, tmp_path, *KEYS) for _ in range(8)]
    go(processes)
    won = [line(process).split() for process in processes]
    assert sorted(key for keys in won for key in keys) == KEYS
    now = {key: Claims(tmp_path).holder(key) for key in KEYS}
    for process, keys in zip(processes, won, strict=True):
        assert {holder.pid if (holder := now[key]) else None for key in keys} <= {process.pid}
        process.communicate("done\n", timeout=60)
    for claim in gone:
        claim.release()
        assert claim.lost


def test_a_killed_holder_is_replaced_at_once(tmp_path: Path, start: Start):
    contended = Claims(tmp_path)
    process = start(HOLD, tmp_path, 15.0)
    assert line(process) == "has"
    assert contended.take("key") is None
    process.kill()
    assert soon(lambda: contended.holder("key").expired), "before its parent has asked how it ended"
    process.communicate()
    holder = contended.holder("key")
    assert holder is not None
    assert (holder.pid, holder.expired) == (process.pid, True)
    assert holder.age < contended.expiry
    taken(contended).release()
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["host", "boot"])
def test_processes_of_another_host_or_boot_are_judged_by_their_heartbeat_alone(tmp_path: Path, start: Start, name: str):
    process = start(HOLD, tmp_path, 15.0)
    assert line(process) == "has"
    process.kill()
    process.communicate()
    path = tmp_path / "key.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: "another"}))
    assert Claims(tmp_path).take("key") is None
    make_old(tmp_path)
    taken(Claims(tmp_path)).release()


def test_a_stopped_holder_is_replaced_when_its_claim_expires_and_learns_of_it(tmp_path: Path, start: Start):
    contended = Claims(tmp_path, expiry=0.2, beat=0.05)
    process = start(HOLD, tmp_path, 0.05)
    assert line(process) == "has"
    process.send_signal(signal.SIGSTOP)
    claims_taken: list[Claim] = []
    assert soon(lambda: claims_taken.extend(filter(None, [contended.take("key")])) or claims_taken)
    process.send_signal(signal.SIGCONT)
    assert line(process) == "lost"
    process.communicate()
    claims_taken[0].release()
    assert names(tmp_path) == []


def test_heartbeats_keep_a_claim_alive(tmp_path: Path):
    contended = Claims(tmp_path, expiry=2.0, beat=0.05)
    with taken(contended) as claim:
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            assert contended.take("key") is None
            time.sleep(0.05)
        make_old(tmp_path)
        assert soon(lambda: (holder := contended.holder("key")) and not holder.expired)
    assert not claim.lost


def test_a_holder_that_was_replaced_removes_nothing(tmp_path: Path):
    first = taken(Claims(tmp_path, beat=NEVER))
    make_old(tmp_path)
    second = taken(Claims(tmp_path, beat=NEVER))
    before = names(tmp_path)
    first.release()
    assert first.lost
    assert names(tmp_path) == before
    assert Claims(tmp_path).take("key") is None
    second.release()
    assert not second.lost
    assert names(tmp_path) == []


def test_a_holder_whose_files_were_deleted_is_lost_and_leaves_the_next_alone(tmp_path: Path):
    contended = Claims(tmp_path, beat=0.05)
    first = taken(contended)
    (tmp_path / "key.json").unlink()
    assert soon(lambda: first.lost)
    with taken(contended) as second:
        first.release()
        assert names(tmp_path) == ["key.json"]
    assert not second.lost


def delay(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let something happen between the moment when the next contender finds a claim expired and that when it acts."""
    acts = claims._succeed

    def later(*arguments: Any) -> Any:
        monkeypatch.setattr(claims, "_succeed", acts)
        meanwhile()
        return acts(*arguments)

    monkeypatch.setattr(claims, "_succeed", later)


@pytest.mark.parametrize("again", [None, "released", "taken again"])
def test_a_delayed_contender_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str | None):
    contended = Claims(tmp_path, beat=NEVER)
    taken(contended)
    make_old(tmp_path)
    held: list[Claim] = []

    def meanwhile() -> None:
        held.append(taken(contended))
        if again:
            held.pop().release()
        if again == "taken again":
            held.append(taken(contended))

    delay(monkeypatch, meanwhile)
    assert contended.take("key") is None
    assert (contended.take("key") is None) == bool(held)
    for claim in held:
        claim.release()
        assert not claim.lost
        assert names(tmp_path) == []


def test_nobody_gets_between_looking_and_releasing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    contended = Claims(tmp_path, beat=NEVER)
    first, held = taken(contended), []
    make_old(tmp_path)
    delay(monkeypatch, lambda: held.append(taken(contended)))
    first.release()
    assert first.lost
    assert contended.take("key") is None
    held[0].release()
    assert not held[0].lost


def test_who_takes_a_key_amid_its_release_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    contended, held, unlink = Claims(tmp_path, beat=NEVER), [], Path.unlink
    taken(contended)
    make_old(tmp_path)
    second = taken(contended)

    def contend(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        held.append(contended.take("key"))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", contend)
        second.release()
    [claim] = filter(None, held)
    assert len(held) == 3, "the first claim, its successor and the end of that were removed"
    assert contended.take("key") is None
    claim.release()
    assert not claim.lost
    assert names(tmp_path) == []


def test_a_release_cut_short_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    claim = taken(Claims(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        claim.release()
    assert Claims(tmp_path).take("key") is None
    make_old(tmp_path)
    taken(Claims(tmp_path)).release()
    assert names(tmp_path) == []


SOUND = {"host": "h", "boot": "", "pid": 1, "since": "2025-01-02T03:04:05+00:00", "token": "0123456789abcdef"}
GARBAGE = {
    "empty": b"",
    "half": json.dumps(SOUND)[:-20].encode(),
    "no text": b"\xff\xfe\x00",
    "null": b"null",
    "list": b"[1, 2]",
    "lacks": b'{"token": "0123456789abcdef"}',
    "token": json.dumps(SOUND | {"token": "../../x"}).encode(),
    "pid": json.dumps(SOUND | {"pid": "one"}).encode(),
    "all": json.dumps(SOUND | {"pid": -1}).encode(),
    "huge": json.dumps(SOUND | {"pid": 10**30}).encode(),
    "boolean": json.dumps(SOUND | {"pid": True}).encode(),
    "long": json.dumps(SOUND | {"token": "a" * 300}).encode(),
    "deep": b"[" * 4000,
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_alive_while_young(tmp_path: Path, content: bytes):
    contended, path = Claims(tmp_path), tmp_path / "key.json"
    path.write_bytes(content)
    holder = contended.holder("key")
    assert holder is not None
    assert (holder.host, holder.pid, holder.since, holder.expired) == ("unknown", 0, "", False)
    assert contended.take("key") is None
    make_old(tmp_path)
    with taken(contended):
        assert path.read_bytes() == content, "nothing is written over"
        assert contended.take("key") is None
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", [b"", json.dumps(SOUND).encode()], ids=["empty", "sound"])
def test_a_claim_dated_in_the_future_expires(tmp_path: Path, content: bytes):
    path = tmp_path / "key.json"
    path.write_bytes(content)
    now = time.time()
    os.utime(path, (now + 60, now + 60))
    assert Claims(tmp_path).take("key") is None, "the clocks of two machines may differ by a little"
    os.utime(path, (now + 86_400, now + 86_400))
    holder = Claims(tmp_path).holder("key")
    assert holder is not None
    assert holder.expired
    taken(Claims(tmp_path)).release()
    assert names(tmp_path) == []


def test_a_living_holder_survives_a_clock_that_was_set_back(tmp_path: Path):
    with taken(Claims(tmp_path, beat=0.05)):
        os.utime(tmp_path / "key.json", (4e9, 4e9))
        assert soon(lambda: not Claims(tmp_path).holder("key").expired)  # type: ignore[union-attr]


def test_a_full_disk_leaves_no_claim_behind(tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # no file may have a byte
    try:
        with pytest.raises(UserError, match="cannot claim cells"):
            Claims(tmp_path).take("key")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []
    taken(Claims(tmp_path)).release()


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_a_claim_that_is_no_file_is_nobodys_and_expires(tmp_path: Path, kind: str):
    folder, outside = tmp_path / "claims", tmp_path / "outside"
    folder.mkdir()
    if kind == "pipe":
        os.mkfifo(folder / "key.json")
    else:
        (folder / "key.json").symlink_to(outside)
    if kind == "link":
        outside.write_text(json.dumps(SOUND))
        os.utime(outside, (0, 0))
    assert Claims(folder).take("key") is None
    os.utime(folder / "key.json", (0, 0), follow_symlinks=False)
    taken(Claims(folder)).release()
    assert names(folder) == []
    assert outside.exists() == (kind == "link")


def test_copies_of_a_claim_do_not_lead_in_a_circle(tmp_path: Path):
    for name in ("key.json", f"key.after-{SOUND['token']}"):
        (tmp_path / name).write_text(json.dumps(SOUND))
    assert Claims(tmp_path).take("key") is None


def test_the_clock_is_that_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with taken(Claims(tmp_path, beat=NEVER)):
        monkeypatch.setattr(time, "time", lambda: 4e9)
        assert Claims(tmp_path).take("key") is None
        ago = (tmp_path / "key.json").stat().st_mtime - 3600
        os.utime(tmp_path / "key.json", (ago, ago))
        holder = Claims(tmp_path).holder("key")
    assert holder is not None
    assert 3600 <= holder.age < 3700
    assert holder.expired


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path):
    (tmp_path / "file").touch()
    contended = Claims(tmp_path / "file" / "claims")
    with pytest.raises(UserError, match=r"^cannot claim cells in .*claims: Not a directory$"):
        contended.take("key")
    with pytest.raises(UserError, match=r"^cannot see the claims in .*claims: Not a directory$"):
        contended.holder("key")


@pytest.mark.parametrize("module", ["claims", "exchange"])
def test_no_torch_is_imported(start: Start, module: str):
    code = f"import sys, cgipool.study.{module}; sys.exit('torch' in sys.modules)"
    assert start(code).wait(60) == 0
