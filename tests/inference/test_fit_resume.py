"""A fit that was stopped or killed goes on and gives the model of one that was not."""

from pathlib import Path

import pytest

from cgipool.data import motifs
from cgipool.errors import UserError
from cgipool.inference.fitting import fit
from cgipool.training import loop as split
from cgipool.training.job import Progress

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = {"method": "topk", "width": 8, "batch_size": 16, "epochs": 4}


class Killed(BaseException):
    """An end on which nothing is written any more."""


@pytest.mark.parametrize("end", [KeyboardInterrupt, Killed])
@pytest.mark.parametrize("ensemble", [1, 2])
def test_a_resumed_fit_is_the_whole_one(
    end: type[BaseException], ensemble: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split, "SAVE_SECONDS", 0.0)
    graphs, folder = motifs(40), tmp_path / "model.run"
    whole = fit(graphs, ensemble=ensemble, **TINY)
    trained: list[tuple[int, int]] = []

    def stop(progress: Progress) -> None:
        if (progress.member, progress.epoch) == (ensemble - 1, 2):
            raise end

    with pytest.raises(end):
        fit(graphs, ensemble=ensemble, folder=folder, tell=stop, **TINY)
    with pytest.raises(UserError, match="already holds a run"):
        fit(graphs, ensemble=ensemble, folder=folder, **TINY)
    again = fit(
        graphs,
        ensemble=ensemble,
        folder=folder,
        resume=True,
        tell=lambda progress: trained.append((progress.member, progress.epoch)),
        **TINY,
    )
    assert (ensemble - 1, 1) not in trained, "it goes on from its checkpoint"
    assert len(again.members) == ensemble
    for one, other in zip(whole.members, again.members, strict=True):
        assert {n: v.numpy().tobytes() for n, v in one.items()} == {n: v.numpy().tobytes() for n, v in other.items()}
    assert (whole.about, whole.shares) == (again.about, again.shares)

    def timeless(history: list[dict]) -> list[dict]:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in history]

    assert timeless(whole.history) == timeless(again.history)
