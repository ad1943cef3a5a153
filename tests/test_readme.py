"""The README's first Python example runs as it stands, and its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def test_python_example_runs(tmp_path, one_thread):
    example = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", example], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "GraphSet('motifs', graphs=1000" in done.stdout
    assert (tmp_path / "runs" / "mine" / "graphset.json").is_file()


def test_every_option_in_the_readme_is_an_option_of_its_command():
    commands = [line.split("#")[0].split() for line in README.splitlines() if line.startswith("cgipool ")]
    assert len(commands) >= 5
    for command in commands:
        path = command[1:3] if command[1] in ("data", "study") else command[1:2]
        done = subprocess.run(
            [sys.executable, "-m", "cgipool", *path, "--help"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        for option in (word for word in command if word.startswith("--")):
            assert option in done.stdout, f"{' '.join(command)}: {option}"
