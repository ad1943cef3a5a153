"""The lock files: versions and hashes of the packages that `make demo` (requirements.lock) and `make test`
(requirements-dev.lock) install, for one platform.

`python tools/lock.py write` asks pip what it would install with constraints.txt, and rewrites both files. `python
tools/lock.py fits` exits with 0 if they apply to this platform. Wheels differ between platforms; on others only
constraints.txt is used.

torch is not locked. Its CPU and CUDA builds come from different indexes, with the same version and different hashes;
constraints.txt pins its version.
"""

import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE, DEV = "requirements.lock", "requirements-dev.lock"
UNLOCKED = {"torch", "cgipool"}
GLIBC = (2, 34)
"""The oldest glibc that the locked wheels support."""


def fits() -> bool:
    """Whether the locked wheels match this Python and platform."""
    library, version = platform.libc_ver()
    here = sys.implementation.name, sys.version_info[:2], platform.system(), platform.machine(), library
    if here != ("cpython", (3, 11), "Linux", "x86_64", "glibc"):
        return False
    return tuple(map(int, version.split(".")[:2])) >= GLIBC


def locked(wanted: str, *, like: str = "") -> str:
    """Return the lines of a lock file, with the versions of another lock file's lines if given."""
    with tempfile.TemporaryDirectory() as folder:
        report, versions = Path(folder, "report.json"), Path(folder, "versions.txt")
        versions.write_text("".join(f"{line.split()[0]}\n" for line in like.splitlines()), encoding="utf-8")
        words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        words += ["--constraint", "constraints.txt", "--constraint", str(versions), wanted]
        subprocess.run([sys.executable, "-m", "pip", *words], cwd=ROOT, check=True)
        return lines_of(json.loads(report.read_text(encoding="utf-8")))


def lines_of(report: dict) -> str:
    """Return one line per package of pip's report: name, version and hash, without its origin."""
    lines = []
    for item in report["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        if name not in UNLOCKED:
            digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append(f"{name}=={item['metadata']['version']} --hash=sha256:{digest}\n")
    return "".join(sorted(lines))


def main() -> int:
    """Run the command given on the command line."""
    command = sys.argv[1:]
    if command == ["fits"]:
        return 0 if fits() else 1
    if command != ["write"]:
        print("usage: python tools/lock.py write|fits", file=sys.stderr)
        return 2
    if not fits():
        print("the lock files are for CPython 3.11 on Linux x86_64; write them on that platform", file=sys.stderr)
        return 1
    dev = locked(".[dev]")
    core = locked(".", like=dev)  # without `like`, pip might choose later versions than for dev
    (ROOT / DEV).write_text(dev, encoding="utf-8")
    (ROOT / CORE).write_text(core, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
