"""Few labels: which graphs keep theirs, what the others change, and the engine that trains all splits at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trees import SMALL, alone, quiet, same, tasks_of, trees, weights_of

from cgipool.cli import main
from cgipool.data import GraphSet, motifs
from cgipool.errors import UserError
from cgipool.inference.fitting import fit
from cgipool.training.job import Job
from cgipool.training.labels import labelled_graphs, task_weights
from cgipool.training.loop import Training
from cgipool.training.presets import PAPER
from cgipool.training.run import train
from cgipool.training.stacked.host import train_together

INFOMAX: list[dict[str, Any]] = [
    {"negative": "batch", "critic_weight_decay": 0.0},
    {"negative": "complement", "encoding": "unit"},
    {"negative": "predict", "critic_weight_decay": 0.5},
    {"negative": "sufficient"},
]


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return trees()


@pytest.mark.parametrize("labelled", [1.0, 0.3])
@pytest.mark.parametrize("choice", INFOMAX, ids=lambda choice: choice["negative"])
def test_together_is_alone(graphs: GraphSet, tmp_path: Path, choice: dict[str, Any], labelled: float) -> None:
    recipe = PAPER.but(**SMALL, **choice, labelled=labelled, alpha=0.3, class_weight="balanced")
    one, other = (tasks_of(graphs, "cgi", recipe, tmp_path / way) for way in ("alone", "together"))
    alone(one, graphs)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)


def job_of(graphs: GraphSet, labelled: float, folder: Path, **options: Any) -> Job:
    (job,) = tasks_of(graphs, "cgi", PAPER.but(labelled=labelled), folder, 1)
    return Job(job.method, job.recipe, job.split, job.seed, job.device, job.folder, **options)


@pytest.mark.parametrize(("share", "count"), [(0.1, 32), (0.02, 6), (0.0125, 4)])
def test_labels_are_drawn_by_class(tmp_path: Path, share: float, count: int) -> None:
    graphs = motifs(400)
    job = job_of(graphs, share, tmp_path)
    kept = labelled_graphs(job, graphs)
    assert len(kept) == count
    assert np.isin(kept, job.split.train).all()
    drawn, there = (np.bincount(graphs.y[ids], minlength=4) for ids in (kept, job.split.train))
    assert (drawn >= 1).all()
    assert (np.abs(drawn - share * there) <= 1.0).all()
    assert np.array_equal(kept, labelled_graphs(job_of(graphs, share, tmp_path, member=3), graphs))
    weight = task_weights(job, graphs)
    assert weight is not None
    assert sorted(np.flatnonzero(weight)) == sorted([*kept, *job.split.val, *job.split.test])


def test_a_rare_class_keeps_one(tmp_path: Path) -> None:
    graphs = motifs(400).relabelled(np.arange(400) % 100 == 0, ("often", "rare"))
    kept = labelled_graphs(job_of(graphs, 0.05, tmp_path), graphs)
    assert np.bincount(graphs.y[kept]).tolist() == [15, 1]


def test_labels_that_are_not_used_change_nothing(tmp_path: Path) -> None:
    """Once it is drawn which graphs have labels, those of the other training graphs can be any."""
    graphs = motifs(200)
    recipe = PAPER.but(labelled=0.1, negative="batch", alpha=1.0, width=4, batch_size=32, class_weight="balanced")
    job = Job("cgi", recipe, job_of(graphs, 0.1, tmp_path).split, 4, "cpu", tmp_path)
    trainings = [Training(job, graphs) for _ in range(3)]
    labelled = labelled_graphs(job, graphs)
    for training, changed in zip(
        trainings, (labelled[:0], np.setdiff1d(job.split.train, labelled), labelled[:1]), strict=True
    ):
        y = graphs.y.copy()
        y[changed] = (y[changed] + 1) % 4
        training.batcher.graphs = graphs.relabelled(y, graphs.class_names)
    usual, hidden, seen = (training.train_epoch() for training in trainings)
    assert usual == hidden
    assert usual != seen


def test_unlabelled_graphs_teach_by_the_infomax_loss_alone(tmp_path: Path) -> None:
    """With α = 0 the graphs without labels give no gradient; with the term they do."""
    graphs = motifs(200)
    few = {"width": 4, "epochs": 1, "batch_size": 1000, "norm": "none", "dropout": 0.0, "weight_decay": 0.0}
    job = job_of(graphs, 0.1, tmp_path)
    labelled = labelled_graphs(job, graphs)
    sides = {}
    for alpha in (0.0, 1.0):
        for name in ("whole", "only"):
            split = job.split if name == "whole" else type(job.split)(0, labelled, job.split.val, job.split.test)
            folder = tmp_path / f"{name} {alpha}"
            more = {"labelled": 0.1} if name == "whole" else {}
            train(graphs, splits=[split], seed=4, out=folder, vocabulary="all", alpha=alpha, **few, **more)
            (home,) = folder.glob("split-*")
            sides[name, alpha] = weights_of(Job("cgi", PAPER, split, 4, "cpu", home))
    close = {
        alpha: all(torch.allclose(sides["whole", alpha][n], v, atol=1e-6) for n, v in sides["only", alpha].items())
        for alpha in (0.0, 1.0)
    }
    assert close == {0.0: True, 1.0: False}


def test_too_few_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"keeps the labels of 3 of 320 training graphs, fewer than the 4 classes"):
        labelled_graphs(job_of(motifs(400), 0.01, tmp_path), motifs(400))
    motifs(60).save(tmp_path / "set")
    assert main(["train", str(tmp_path / "set"), "--labelled", "0.01"]) == 2
    assert "labelled=0.01 keeps the labels of 0 of 48 training graphs" in capsys.readouterr().err
    for wrong in (0.0, 1.5, -1.0):
        with pytest.raises(UserError, match="labelled must be in"):
            PAPER.but(labelled=wrong)


def test_extra_graphs_count_in_the_infomax_loss_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their labels, if they have any, change nothing; that they are there does. The model knows only the classes."""
    known, extra = motifs(60), motifs(40, seed=1)
    few = {"recipe": "paper", "width": 4, "epochs": 2, "batch_size": 16, "negative": "batch", "alpha": 1.0}
    other = extra.relabelled((extra.y + 1) % 4, extra.class_names)
    models = [fit(known, extra=some, **few) for some in (extra, other, None)]
    first, again, without = (model.members[0] for model in models)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], without[name]) for name in first)
    assert models[0].about["graphs"] == {"train": 54, "val": 6, "extra": 40}
    assert models[0].shares == models[2].shares
    with pytest.raises(UserError, match="graphs without labels need a method with an unsupervised loss"):
        fit(known, extra=extra, **few | {"alpha": 0.0})
    for method in ("topk", "none", "wl", "cgi-nomi"):
        with pytest.raises(UserError, match=f"{method} with these settings has none"):
            fit(known, extra=extra, method=method)

    known.save(tmp_path / "known")
    extra.save(tmp_path / "extra")
    words = ["fit", tmp_path / "known", "--extra-graphs", tmp_path / "extra", "--out", tmp_path / "m.safetensors"]
    assert main([*map(str, words), "--epochs", "1", "--width", "4", "--negative", "predict"]) == 0
    assert "on 54 graphs of motifs" in capsys.readouterr().out


def test_extra_graphs_of_a_regression(tmp_path: Path) -> None:
    known, extra = motifs(60), motifs(20, seed=1)
    targets = known.with_targets(known.sizes.astype(float), ("nodes",))
    model = fit(targets, extra=extra, recipe="paper", width=4, epochs=1, negative="complement", alpha=1.0, seed=3)
    alone = fit(targets, recipe="paper", width=4, epochs=1, seed=3)
    assert model.constants == alone.constants
