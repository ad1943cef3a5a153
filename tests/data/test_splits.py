"""Splits: sizes, independence of each other, shares, twins, folds, and files."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgipool.data import GraphSet, Split, fold_splits, motifs, random_splits, read_splits, wl_classes, write_splits
from cgipool.data.splits import holdout
from cgipool.errors import UserError

SIDES = ("train", "val", "test")


def labelled(y: np.ndarray | list[int], sizes: np.ndarray | list[int] | None = None) -> GraphSet:
    """Graphs without edges: two of equal size are twins."""
    return GraphSet.from_edges("g", np.arange(1, len(y) + 1) if sizes is None else sizes, [], [], y)


def assert_partition(split: Split, n: int) -> None:
    assert np.sort(np.concatenate([getattr(split, side) for side in SIDES])).tolist() == list(range(n))
    for side in SIDES:
        assert getattr(split, side).dtype == np.int64
        assert np.all(np.diff(getattr(split, side)) > 0)


@pytest.mark.parametrize("kind", ["random", "stratified", "distinct"])
@pytest.mark.parametrize("n", [10, 11, 59, 1113])
def test_sizes(kind: str, n: int) -> None:
    """Where half of the graphs have no twin, "distinct" meets the sizes too."""
    splits = random_splits(labelled(np.arange(n) % 3, np.arange(n) % (2 * n // 3)), seed=1, indices=range(2), kind=kind)
    for split in splits:
        assert_partition(split, n)
        assert (len(split.train), len(split.val)) == (n * 8 // 10, n // 10)


@pytest.mark.parametrize("kind", ["random", "stratified", "distinct"])
def test_a_split_does_not_know_its_neighbours(kind: str) -> None:
    graphs = labelled(np.arange(100) % 2)
    many = random_splits(graphs, seed=7, indices=range(5), kind=kind)
    (alone,) = random_splits(graphs, seed=7, indices=[3], kind=kind)
    (other,) = random_splits(graphs, seed=8, indices=[3], kind=kind)
    assert alone.index == 3
    for side in SIDES:
        assert getattr(alone, side).tolist() == getattr(many[3], side).tolist()
        assert getattr(alone, side).tolist() != getattr(many[2], side).tolist()
        assert getattr(alone, side).tolist() != getattr(other, side).tolist()


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6).filter(lambda counts: sum(counts) >= 10))
def test_stratified_is_within_one_graph_of_the_share(counts: list[int]) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    (split,) = random_splits(labelled(y), seed=0, indices=[0], kind="stratified")
    assert_partition(split, len(y))
    assert (len(split.train), len(split.val)) == (len(y) * 8 // 10, len(y) // 10)
    for side in SIDES:
        ids = getattr(split, side)
        share = np.array(counts) * len(ids) / len(y)
        assert np.all(np.abs(np.bincount(y[ids], minlength=len(counts)) - share) <= 1)
    train, held = holdout(labelled(y), 0.1, seed=0)
    assert len(held) == max(1, round(0.1 * len(y)))
    assert sorted([*train, *held]) == list(range(len(y)))
    assert set(y[train]) == set(y), "every class is trained on, if it has one graph"


@given(st.lists(st.integers(1, 12), min_size=12, max_size=40), st.integers(0, 3))
def test_distinct_keeps_twins_together(members: list[int], seed: int) -> None:
    sizes = np.repeat(np.arange(1, len(members) + 1), members)
    graphs = labelled(np.arange(len(sizes)) % 2, sizes)
    kind = wl_classes(graphs)
    (split,) = random_splits(graphs, seed=seed, indices=[0], kind="distinct")
    assert_partition(split, len(sizes))
    found = [set(kind[getattr(split, side)].tolist()) for side in SIDES]
    assert sum(map(len, found)) == len(set.union(*found))
    assert abs(len(split.train) - len(sizes) * 8 // 10) <= max(members)


def test_too_few_distinct_graphs() -> None:
    with pytest.raises(UserError, match="g: too few distinct graphs for a split that keeps twins together"):
        random_splits(labelled(np.arange(20) % 2, [1] * 20), seed=0, indices=[0], kind="distinct")


@pytest.mark.parametrize("k", [3, 10])
def test_folds(k: int) -> None:
    y = np.repeat([0, 1, 2], [50, 31, 7])
    splits = fold_splits(labelled(y), k, seed=2)
    assert [s.index for s in splits] == list(range(k))
    assert np.sort(np.concatenate([s.test for s in splits])).tolist() == list(range(len(y)))
    for i, split in enumerate(splits):
        assert_partition(split, len(y))
        assert split.val.tolist() == splits[(i + 1) % k].test.tolist()
        counts = np.bincount(y[split.test], minlength=3)
        assert np.all(np.abs(counts - np.array([50, 31, 7]) / k) < 1)
    assert fold_splits(labelled(y), k, seed=2)[1].test.tolist() == splits[1].test.tolist()


@pytest.mark.parametrize("k", [3, 7])
def test_folds_of_every_kind(k: int) -> None:
    """Each is a cross-validation; its folds are random, of even classes, or without a twin in another fold."""
    some = motifs(60)
    graphs = GraphSet.join([some, some.subset(range(25))], "g")
    twins = wl_classes(graphs)
    drawn = {kind: fold_splits(graphs, k, seed=5, kind=kind) for kind in ("random", "stratified", "distinct")}
    for kind, splits in drawn.items():
        assert np.sort(np.concatenate([s.test for s in splits])).tolist() == list(range(85)), kind
        for i, split in enumerate(splits):
            assert_partition(split, 85)
            assert split.val.tolist() == splits[(i + 1) % k].test.tolist(), kind
            assert abs(len(split.test) - 85 / k) < 2, kind
        again, other = (fold_splits(graphs, k, seed=seed, kind=kind) for seed in (5, 6))
        assert all(np.array_equal(a.test, b.test) for a, b in zip(splits, again, strict=True)), kind
        assert any(not np.array_equal(a.test, b.test) for a, b in zip(splits, other, strict=True)), kind
    assert all(
        np.array_equal(a.test, b.test) for a, b in zip(drawn["stratified"], fold_splits(graphs, k, 5), strict=True)
    )
    for split in drawn["distinct"]:
        sides = [set(twins[side].tolist()) for side in (split.train, split.val, split.test)]
        assert sum(map(len, sides)) == len(set.union(*sides)), "no twin is on another side"


def test_refuses() -> None:
    good = labelled(np.arange(20) % 2)
    for make, message in (
        (lambda: random_splits(labelled([]), seed=0, indices=[0]), "g is empty"),
        (lambda: random_splits(labelled([0, 1] * 4), seed=0, indices=[0]), "g has 8 graphs; at least 10 are needed"),
        (lambda: random_splits(labelled([0] * 12), seed=0, indices=[0]), "g has graphs of one class only"),
        (lambda: random_splits(labelled([-1] * 12), seed=0, indices=[0]), "g has no known classes: its graphs can be "),
        (
            lambda: fold_splits(labelled([0, 1] * 6, [0] * 12), 3, 0),
            "g has no nodes, so there is nothing to learn from",
        ),
        (lambda: random_splits(good, seed=0, indices=range(0)), "the number of splits must be at least 1"),
        (lambda: random_splits(good, seed=-1, indices=[0]), "seed and split number must not be negative: -1, 0"),
        (lambda: random_splits(good, seed=0, indices=[0], kind="ramdom"), "did you mean 'random'?"),
        (lambda: fold_splits(good, 4, 0, "odd"), "unknown kind of split 'odd'"),
        (
            lambda: fold_splits(labelled([0, 1] * 10, [1] * 20), 3, 0, "distinct"),
            "g: 1 distinct graphs cannot make 3 fo",
        ),
        (lambda: fold_splits(good, 2, 0), "the number of folds must be at least 3"),
        (lambda: fold_splits(good, 21, 0), "g: 20 graphs cannot make 21 folds"),
    ):
        with pytest.raises(UserError) as caught:
            make()
        assert message in str(caught.value)


def test_sides_are_numbers_of_graphs() -> None:
    split = Split(np.int64(3), [0, 1], range(2, 4), np.array([4], dtype=np.int32))
    assert type(split.index) is int
    assert [getattr(split, side).tolist() for side in SIDES] == [[0, 1], [2, 3], [4]]
    assert {getattr(split, side).dtype for side in SIDES} == {np.dtype(np.int64)}
    mask = np.arange(5) == 2
    with pytest.raises(UserError, match="val of a split must be a list of graph numbers, not bool, 1-d"):
        Split(0, [0, 1], mask, [3])
    with pytest.raises(UserError, match="test of a split must be a list of graph numbers, not int64, 2-d"):
        Split(0, [0, 1], [2], [[3, 4]])


def test_file_and_back(tmp_path: Path) -> None:
    splits = random_splits(labelled(np.arange(20) % 2), seed=0, indices=[2, 5])
    write_splits(tmp_path / "splits.json", splits)
    assert [p.name for p in tmp_path.iterdir()] == ["splits.json"]
    plain = json.loads((tmp_path / "splits.json").read_text())["splits"]
    assert plain[1] == {"index": 5} | {side: getattr(splits[1], side).tolist() for side in SIDES}
    for one, other in zip(read_splits(tmp_path / "splits.json", 20), splits, strict=True):
        assert one.index == other.index
        for side in SIDES:
            assert getattr(one, side).tolist() == getattr(other, side).tolist()


ROW = {"index": 4, "train": [0, 1], "val": [2], "test": [3]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROW | {"test": [7]}, "split 4: test names graph 7 of 5"),
        (ROW | {"test": [-1]}, "split 4: test names graph -1 of 5"),
        (ROW | {"val": [1]}, "split 4: graph 1 is in it more than once"),
        (ROW | {"train": [0, 0]}, "split 4: graph 0 is in it more than once"),
        (ROW | {"val": []}, "split 4: val is empty"),
        (ROW | {"val": [2.5]}, "is not a splits file"),
        (ROW | {"val": [2**70]}, "is not a splits file"),
        (ROW | {"val": 2}, "is not a splits file"),
        ({"index": 4}, "is not a splits file"),
        ([], "is not a splits file"),
    ],
)
def test_bad_file(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"splits": [content]}))
    with pytest.raises(UserError) as caught:
        read_splits(path, 5)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_other_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    with pytest.raises(UserError, match=r"cannot read .*splits\.json: No such file"):
        read_splits(path, 5)
    with pytest.raises(UserError, match=r"cannot write .*: No such file"):
        write_splits(tmp_path / "nowhere" / "splits.json", [])
    path.write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        read_splits(path, 5)
    path.write_text('{"splits": []}')
    with pytest.raises(UserError, match="has no splits"):
        read_splits(path, 5)
