"""The tutorials run from top to bottom, and the output that they show is what is printed."""

from pathlib import Path

import pytest
from pages import run_page


@pytest.mark.usefixtures("one_thread", "own_cache")
@pytest.mark.parametrize("name", ["first-model", "your-molecules", "your-networks", "a-study"])
def test_tutorial(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    if name == "your-molecules":
        pytest.importorskip("datamol", reason="needs the extra chem")
    run_page(f"tutorials/{name}.md", tmp_path, monkeypatch, capsys)
