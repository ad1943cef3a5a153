"""Splits by cluster and by time, and stratified splits of targets, held to checks of their own."""

from itertools import pairwise

import numpy as np
import pytest

from cgipool.data import GraphSet, fold_splits, motifs, random_splits
from cgipool.data.further import with_table
from cgipool.data.names import Texts
from cgipool.errors import UserError

SIDES = ("train", "val", "test")


def with_times(times: list[str]) -> GraphSet:
    graphs = motifs(len(times))
    return with_table(graphs, ("when",), Texts.of(times))


def partition(split: object) -> list[int]:
    return sorted(np.concatenate([getattr(split, side) for side in SIDES]).tolist())


@pytest.mark.parametrize("form", ["{}", "{}-05-17", "{}-05-17T12:30:00+02:00"])
def test_by_time(form: str) -> None:
    year = np.random.default_rng(0).integers(1960, 2020, 100)
    graphs = with_times([form.format(y) for y in year])
    splits = random_splits(graphs, seed=0, indices=range(2), kind="time", time="when")
    for split in splits:
        assert partition(split) == list(range(100))
        assert year[split.train].max() < year[split.val].min()
        assert year[split.val].max() < year[split.test].min()
        assert abs(len(split.train) - 80) <= 4
    assert [split.index for split in splits] == [0, 1]
    for split in fold_splits(graphs, 5, 0, "time", "when"):
        assert year[split.train].max() < year[split.val].min()
        assert year[split.val].max() < year[split.test].min()
    tested = [year[split.test] for split in fold_splits(graphs, 5, 0, "time", "when")]
    assert all(one.max() < other.min() for one, other in pairwise(tested))


def test_times_that_do_not_do() -> None:
    for times, message in (
        (["2000"] * 10 + ["2001"] * 10, "column 'when' has 2 different times; a split needs 3"),
        (["2000", "soon", "", *["2001"] * 10], "has 2 values that are not a number or a date such as 2024-05-17"),
    ):
        with pytest.raises(UserError, match=message):
            random_splits(with_times(times), seed=0, indices=[0], kind="time", time="when")
    graphs = with_times([str(i % 5) for i in range(20)])
    with pytest.raises(UserError, match="too few different times for 8 folds"):
        fold_splits(graphs, 8, 0, "time", "when")
    with pytest.raises(UserError, match="--split-kind time needs --time COLUMN"):
        random_splits(graphs, seed=0, indices=[0], kind="time")
    with pytest.raises(UserError, match="--split-kind random does not use --time"):
        fold_splits(graphs, 3, 0, "random", "when")
    with pytest.raises(UserError, match=r"has no column 'then'; did you mean 'when'\? its columns: when"):
        random_splits(graphs, seed=0, indices=[0], kind="time", time="then")


def naive_butina(molecules: list, similar: float) -> list[set[int]]:
    """The same rule, molecule by molecule, with RDKit's own similarity."""
    from rdkit import DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [generator.GetFingerprint(molecule) for molecule in molecules]
    near = [{j for j, s in enumerate(DataStructs.BulkTanimotoSimilarity(b, bits)) if s >= similar} for b in bits]
    left, clusters = set(range(len(bits))), []
    for centre in sorted(range(len(bits)), key=lambda i: (-len(near[i]), i)):
        if centre in left:
            clusters.append(near[centre] & left)
            left -= near[centre]
    return clusters


def test_clusters() -> None:
    pytest.importorskip("rdkit")
    from rdkit import DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    from cgipool.data.groups import cluster_numbers, molecules_of
    from cgipool.data.importers.read import solubility

    graphs = solubility()[:300]
    molecules = list(molecules_of(graphs))
    found = cluster_numbers(graphs)
    clusters = naive_butina(molecules, 0.4)
    assert [set(np.flatnonzero(found == c).tolist()) for c in range(found.max() + 1)] == clusters
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [generator.GetFingerprint(molecule) for molecule in molecules]
    for c in range(5):
        members = np.flatnonzero(found == c).tolist()
        similar = [min(DataStructs.BulkTanimotoSimilarity(bits[i], [bits[j] for j in members])) for i in members]
        assert max(similar) >= 0.4, "one molecule, the centre, is similar to all others"
    drawn = random_splits(graphs, seed=1, indices=range(3), kind="cluster")
    for split in [*drawn, *fold_splits(graphs, 5, 1, "cluster")]:
        assert partition(split) == list(range(300))
        sides = [set(found[getattr(split, side)].tolist()) for side in SIDES]
        assert sum(map(len, sides)) == len(set.union(*sides)), "no cluster is on two sides"
        assert min(map(len, sides)) > 0
    assert abs(len(drawn[0].train) - 240) <= 10
    (alone,) = random_splits(graphs, seed=1, indices=[2], kind="cluster")
    assert alone.test.tolist() == drawn[2].test.tolist() != drawn[1].test.tolist()
    with pytest.raises(UserError, match="motifs does not have the columns of a set of molecules"):
        random_splits(motifs(20), seed=0, indices=[0], kind="cluster")


def test_stratified_regression_has_equal_quantiles() -> None:
    values = np.random.default_rng(1).lognormal(size=400)
    values[::40] = np.nan
    graphs = motifs(400).with_targets(values)
    rank = np.argsort(np.argsort(values))
    for split in random_splits(graphs, seed=0, indices=range(3), kind="stratified"):
        for side, share in zip(SIDES, (0.8, 0.1, 0.1), strict=True):
            ids = getattr(split, side)
            known = ids[~np.isnan(values[ids])]
            for low in range(0, 390, 39):
                count = np.count_nonzero((rank[known] >= low) & (rank[known] < low + 39))
                assert abs(count - 39 * share) <= 1
            assert abs(np.isnan(values[ids]).sum() - 10 * share) <= 1


def test_stratified_labels_have_equal_shares() -> None:
    generator = np.random.default_rng(2)
    values = (generator.random((500, 6)) < [0.02, 0.05, 0.1, 0.2, 0.5, 0.9]).astype(float)
    values[generator.random(values.shape) < 0.2] = np.nan
    graphs = motifs(500).with_targets(values, task="multilabel")
    total = np.nansum(values, 0)
    for split in random_splits(graphs, seed=0, indices=range(3), kind="stratified"):
        assert partition(split) == list(range(500))
        assert (len(split.train), len(split.val)) == (400, 50)
        for side, share in zip(SIDES, (0.8, 0.1, 0.1), strict=True):
            assert np.abs(np.nansum(values[getattr(split, side)], 0) - share * total).max() <= 3
    for split in fold_splits(graphs, 5, 0):
        assert len(split.test) == 100
        assert np.abs(np.nansum(values[split.test], 0) - total / 5).max() <= 3
