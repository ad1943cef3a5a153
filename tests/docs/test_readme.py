"""The README's Python examples run as they stand; its commands and those of the documentation exist."""

import re
from pathlib import Path

import pytest
import torch

from cgipool.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


NETWORKS, PYTHON, LAYER = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
METHOD = (ROOT / "docs" / "explanation" / "method.md").read_text(encoding="utf-8")
RELEASED = re.findall(r"```python\n(.*?)```", METHOD, re.DOTALL)[0]


def test_it_is_read_in_two_minutes():
    assert len(README.splitlines()) <= 150


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("example", "said"), [(NETWORKS, "['ring' 'star']"), (PYTHON, "GraphSet('motifs', graphs=1000")]
)
def test_python_example_runs(example, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    assert said in capsys.readouterr().out
    assert (tmp_path / "runs" / "mine" / "graphset.json").is_file() == (example is PYTHON)


def test_layer_example_runs_in_a_model():
    nodes = 10
    names = {"x": torch.rand(nodes, 128), "edge_index": torch.tensor([[0, 1, 5, 6], [1, 0, 6, 5]])}
    names |= {"batch": torch.arange(nodes) // 5, "loss": torch.zeros(())}
    exec(compile(LAYER, "README.md", "exec"), names)
    assert names["x"].shape == (8, 128)
    assert names["batch"].tolist() == [0] * 4 + [1] * 4
    assert names["loss"].item() == pytest.approx(0.001 * names["out"].aux_loss.item(), rel=1e-5)
    assert names["out"].aux_loss > 0


def test_released_example_runs(tmp_path, monkeypatch, tu_archive):
    weights = sorted(tu_archive("IMDB-MULTI").parents[2].glob("reference/imdb-multi-released/*.safetensors"))
    if not weights:
        pytest.skip("needs the authors' weights in shared/reference")
    (tmp_path / "weights.safetensors").symlink_to(weights[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CGIPOOL_DATA", str(tu_archive("IMDB-MULTI").parent))
    names = {}
    exec(compile(RELEASED, "method.md", "exec"), names)
    assert names["log_probabilities"].shape == (1500, 3)
    assert torch.allclose(names["log_probabilities"].exp().sum(1), torch.ones(1500), atol=1e-4)


PAGES = [
    path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "\ncgipool " in path.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_option_of_a_page_is_an_option_of_its_command(page, capsys):
    lines = page.read_text(encoding="utf-8").splitlines()
    for command in (line.split("#")[0].split() for line in lines if line.startswith("cgipool ")):
        path = command[1:3] if command[1] in ("data", "study") else command[1:2]
        assert main([*path, "--help"]) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
        for option in (word for word in command if word.startswith("--")):
            assert option in said, f"{' '.join(command)}: {option}"
