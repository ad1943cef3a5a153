"""The demo's parts on small settings; `make demo` itself is the whole."""

from pathlib import Path

import numpy as np
import pytest

from cgipool.cli import main
from cgipool.data import GraphSet, motifs
from cgipool.errors import UserError
from cgipool.explain.demo import DemoResult, follow, kept, run_demo
from cgipool.explain.picture import draw_pooling, layout, steps
from cgipool.training.job import Job
from cgipool.training.loop import Training
from cgipool.training.presets import PAPER
from cgipool.training.run import random_splits

pytestmark = pytest.mark.usefixtures("one_thread")

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return motifs(60)


def training(graphs: GraphSet, ratio: float = 0.8) -> Training:
    (split,) = random_splits(graphs, seed=0, indices=[0])
    return Training(Job("cgi", PAPER.but(width=16, ratio=ratio), split, 0, "cpu", Path()), graphs)


def test_demo(graphs: GraphSet, tmp_path: Path) -> None:
    shown = run_demo(tmp_path / "demo", epochs=2, graphs=graphs, recipe=PAPER.but(width=16))
    assert isinstance(shown, DemoResult)
    assert (shown.classes, shown.graphs) == (4, 6)
    assert 0.0 <= shown.accuracy <= 1.0
    assert shown.chance == sorted(shown.chance, reverse=True)
    assert shown.motif == sorted(shown.motif, reverse=True)
    assert shown.picture.read_bytes().startswith(PNG)
    assert [p.name for p in (tmp_path / "demo").iterdir()] == ["demo.png"]


def test_demo_command(tmp_path: Path, monkeypatch, capsys) -> None:
    found = DemoResult(0.97, 4, 100, [0.9, 0.8, 0.7], [0.8, 0.65, 0.55], tmp_path / "demo.png")
    monkeypatch.setattr("cgipool.explain.demo.run_demo", lambda out, **_: found)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "test accuracy 97.0 % on 100 graphs; chance is 25 %" in said
    assert ["after", "level", "2", "80.0", "65.0"] in [line.split() for line in said.splitlines()]
    assert f"picture: {tmp_path / 'demo.png'}" in said


def test_what_the_pools_do(graphs: GraphSet) -> None:
    done = training(graphs)
    trace = follow(done)
    test = graphs.subset(done.job.split.test)
    sizes = test.sizes
    for level in range(3):
        sizes = np.ceil(sizes * 0.8).astype(int)
        counts = np.add.reduceat(trace.alive[level].astype(int), test.node_ptr[:-1])
        assert counts.tolist() == sizes.tolist()
        given = np.ones(test.n_nodes, bool) if level == 0 else trace.alive[level - 1]
        assert np.array_equal(np.isfinite(trace.score[level]), given)
        assert np.all(trace.alive[level] <= given)
    for first, last in zip(test.node_ptr, test.node_ptr[1:], strict=False):
        score, alive = trace.score[0, first:last], trace.alive[0, first:last]
        assert score[alive].min() >= score[~alive].max()
    assert not done.state.network.pools[0]._forward_hooks


def test_all_is_kept_at_ratio_one(graphs: GraphSet) -> None:
    done = training(graphs, ratio=1.0)
    assert kept(graphs.subset(done.job.split.test), follow(done).alive) == ([1.0] * 3, [1.0] * 3)


def test_shares_kept() -> None:
    two = GraphSet.from_edges(
        "two", [4, 2], [0, 1, 4], [1, 2, 5], [0, 1], node_truth=np.array([True, True, False, False, True, False])
    )
    alive = np.array([[1, 1, 1, 0, 0, 1], [1, 0, 0, 0, 0, 1]], bool)
    motif, chance = kept(two, alive)
    assert motif == [(1.0 + 0.0) / 2, (0.5 + 0.0) / 2]
    assert chance == [(0.75 + 0.5) / 2, (0.25 + 0.5) / 2]
    with pytest.raises(UserError, match="does not say which nodes decide"):
        kept(GraphSet.from_edges("one", [2], [0], [1], [0]), alive)


def test_layout_keeps_distances() -> None:
    path = steps(6, np.array([[i, i + 1] for i in range(5)]))
    assert path[0].tolist() == [0, 1, 2, 3, 4, 5]
    place = layout(path)
    np.testing.assert_allclose(np.linalg.norm(place[:, None] - place[None], axis=2), path, atol=1e-2)
    apart = layout(steps(4, np.array([[0, 1]])))
    gaps = np.linalg.norm(apart[:, None] - apart[None], axis=2) + 9 * np.eye(4)
    assert gaps.min() > 0.5
    assert layout(np.zeros((1, 1))).tolist() == [[0.0, 0.0]]


def test_a_picture_without_truth(tmp_path: Path) -> None:
    alive = np.array([[True, True, False]])
    score = np.array([[0.6, 0.5, 0.4]])
    path = tmp_path / "a.png"
    draw_pooling(path, edges=np.array([[0, 1], [1, 2]]), ringed=None, alive=alive, score=score, title="three")
    assert path.read_bytes().startswith(PNG)
