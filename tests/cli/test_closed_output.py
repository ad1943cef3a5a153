"""A reader that closes its end, as `head` does, and a process that starts without a stdout: no traceback."""

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "cgipool", "data", "list"]


def test_a_reader_that_is_gone_ends_the_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(COMMAND, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_process_without_streams(closed: str) -> None:
    words = " ".join(f"'{word}'" for word in COMMAND)
    done = subprocess.run(["sh", "-c", f"{words} {closed}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
