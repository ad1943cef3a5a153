"""A bounded share of the fuzzers, with fixed seeds; `make fuzz` runs thousands of cases and every crash point."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fuzz import mutate
from fuzz.kinds import KINDS
from fuzz.runner import Failure, check_refusal, check_text, deal, run_cases
from fuzz.seeds import write_seeds

CASES, SEED, DEATHS = 100, 7, 3
REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("seeds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        write_seeds(folder)
        yield folder


def test_damaged_files_of_every_kind(seeds: Path) -> None:
    found = list(run_cases(deal(CASES, KINDS), SEED, seeds, jobs=1))
    assert len(found) >= CASES
    assert {verdict.kind for verdict in found} == set(KINDS)
    wrong = [verdict for verdict in found if verdict.verdict == "failure"]
    assert not wrong, "\n".join(f"{v.kind}, case {v.number}: {v.detail}" for v in wrong)


def test_a_death_at_a_file_event_costs_nothing() -> None:
    words = [sys.executable, "-m", "fuzz.crash", "--most", str(DEATHS)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cases_are_repeatable() -> None:
    content = b'{"a": [1, 2, 3], "b": "text"}\n'
    for change in (mutate.raw, mutate.text, mutate.json_text):
        one, other = (change(np.random.default_rng(5), content) for _ in range(2))
        assert one == other
    assert deal(100, KINDS) == deal(100, KINDS)


@pytest.mark.parametrize("errors", ["", "Traceback\n", "cgipool: a\ncgipool: b\n", "cgipool: " + "x" * 5000])
def test_what_is_no_refusal_is_noticed(errors: str) -> None:
    with pytest.raises(Failure):
        check_refusal(["data", "info"], errors)
    with pytest.raises(Failure):
        check_text(["data", "info"], "\x1b[31m")
    check_refusal(["data", "info"], "a warning\ncgipool: a damaged file\n")


def test_sparse_tensors_of_pyg_files_are_one_line(tmp_path: Path) -> None:
    """Found by the fuzzers: torch has no storage of them to compare with the size of the file."""
    from cgipool.data.importers import import_data
    from cgipool.errors import UserError

    graph = {"edge_index": torch.tensor([[0, 1], [1, 0]]), "x": torch.eye(2).to_sparse(), "y": 0}
    torch.save([graph], tmp_path / "data.pt")
    with pytest.raises(UserError, match="x is a sparse tensor, which cannot be read"):
        import_data(tmp_path / "data.pt")
