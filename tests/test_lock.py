"""The lock files hold versions and hashes alone, and agree with constraints.txt."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LINE = re.compile(r"([a-z0-9-]+)==([A-Za-z0-9.+!]+) --hash=sha256:[0-9a-f]{64}")


def versions(name: str) -> dict[str, str]:
    found = [LINE.fullmatch(line) for line in (REPOSITORY / name).read_text().splitlines()]
    assert all(found), name
    return {match[1]: match[2] for match in found if match}


def test_the_lock_files_agree_with_each_other_and_with_the_constraints() -> None:
    core, dev = versions("requirements.lock"), versions("requirements-dev.lock")
    assert core
    assert core.items() <= dev.items()
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    for name, version in dev.items():
        assert pinned.get(name, version) == version, name
    assert "torch" not in dev, "its hash depends on the build"
    assert pinned.keys() - dev.keys() <= {"torch"}, "write the lock files anew: python tools/lock.py write"
