"""Splits by scaffold: known scaffolds, what every split keeps to, and sizes."""

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rdkit")

from cgipool.data import fold_splits, motifs, scaffold_splits
from cgipool.data.groups import scaffolds_of
from cgipool.data.molecules import MoleculeFeaturizer
from cgipool.errors import UserError

SIDES = ("train", "val", "test")
RINGS = ["c1ccccc1", "C1CC1", "C1CCC1", "c1ccncc1", "c1ccoc1", "C1CCNCC1", "c1ccsc1", "C1CCOC1", "c1ccc2ccccc2c1"]
CHAINS = ["", "C", "CC", "CO", "OCC", "CCC", "NCC", "FC", "ClC", "BrC", "FCC", "CC(C)C"]


def molecules(seed: int, n: int) -> list[str]:
    """Random side chains on random rings, and chains alone."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(len(RINGS) + 1, 0.5))
    made = []
    for kind, chain in zip(generator.choice(len(shares), n, p=shares), generator.choice(CHAINS, n), strict=True):
        made.append(f"{chain}C" if kind == len(RINGS) else f"{chain}{RINGS[kind]}")
    return made


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("Cc1ccccc1", "c1ccccc1"),
        ("CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1"),
        ("OCCc1ccccc1CCc1ccncc1", "c1ccc(CCc2ccncc2)cc1"),
        ("CCO", ""),
        ("C[C@H]1CCCO1", "C1CCOC1"),
    ],
)
def test_known_scaffolds(smiles: str, scaffold: str) -> None:
    assert list(scaffolds_of([smiles])) == [scaffold]


@pytest.mark.parametrize("seed", range(6))
def test_no_scaffold_is_on_two_sides(seed: int) -> None:
    smiles = molecules(seed, 300)
    scaffolds = np.array(list(scaffolds_of(smiles)))
    for split in scaffold_splits(smiles, seed=seed, indices=range(4)):
        sides = [getattr(split, side) for side in SIDES]
        assert sorted(np.concatenate(sides)) == list(range(300))
        held = [set(scaffolds[ids]) for ids in sides]
        assert not held[0] & held[1]
        assert not held[0] & held[2]
        assert not held[1] & held[2]


def test_folds_keep_scaffolds_together() -> None:
    smiles = molecules(2, 200)
    scaffolds = np.array(list(scaffolds_of(smiles)))
    graphs = MoleculeFeaturizer().graphs(smiles)
    graphs = graphs.relabelled(np.arange(200) % 2, ("a", "b"))
    splits = fold_splits(graphs, 4, seed=0, kind="scaffold")
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(200))
    for split in splits:
        held = [set(scaffolds[getattr(split, side)]) for side in SIDES]
        assert sum(map(len, held)) == len(set.union(*held)), "no scaffold is on two sides"
    with pytest.raises(UserError, match="scaffolds cannot make 60 folds"):
        fold_splits(graphs, 60, seed=0, kind="scaffold")


def test_sizes_are_met_where_single_scaffolds_fill_them() -> None:
    rings = [f"C1{'C' * (4 + i)}1" for i in range(60)]
    smiles = [*rings, *["Cc1ccccc1"] * 25, *["CCO"] * 15]
    for split in scaffold_splits(smiles, seed=0, indices=range(5)):
        assert [len(getattr(split, side)) for side in SIDES] == [80, 10, 10]


def test_a_scaffold_larger_than_any_room_goes_to_training() -> None:
    smiles = [*["Cc1ccccc1"] * 85, *[f"C1{'C' * (4 + i)}1" for i in range(15)]]
    for split in scaffold_splits(smiles, seed=0, indices=range(5)):
        assert set(range(85)) <= set(split.train.tolist())
        assert 14 <= len(split.val) + len(split.test) <= 15


def test_few_large_scaffolds_leave_no_side_empty() -> None:
    smiles = [ring for ring in RINGS[:3] for _ in range(10)] + [RINGS[3]] * 30
    for split in scaffold_splits(smiles, seed=0, indices=range(10)):
        assert min(len(getattr(split, side)) for side in SIDES) == 10


def test_a_split_depends_on_seed_and_number_alone() -> None:
    smiles = molecules(0, 200)
    many = scaffold_splits(smiles, seed=3, indices=range(5))
    (alone,) = scaffold_splits(smiles, seed=3, indices=[4])
    assert alone.index == 4
    for side in SIDES:
        assert getattr(alone, side).tolist() == getattr(many[4], side).tolist()
    (other,) = scaffold_splits(smiles, seed=4, indices=[4])
    assert other.test.tolist() != alone.test.tolist()


def test_a_set_of_molecules_gives_the_splits_of_its_smiles() -> None:
    smiles = molecules(1, 120)
    graphs = MoleculeFeaturizer().graphs(smiles)
    for ours, theirs in zip(*(scaffold_splits(g, seed=0, indices=range(3)) for g in (graphs, smiles)), strict=True):
        assert ours.test.tolist() == theirs.test.tolist()


def test_what_cannot_be_split() -> None:
    for smiles, message in (
        (["C"] * 9, "there are 9 molecules; a split needs at least 10"),
        (["C"] * 20, "a split needs at least 3 scaffolds; the 20 molecules have 1"),
        ([*"CCC", "C("], "molecule 3, 'C(': it is not valid SMILES"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            scaffold_splits(smiles, seed=0, indices=[0])
    with pytest.raises(UserError, match="the number of splits must be at least 1"):
        scaffold_splits(molecules(0, 50), seed=0, indices=[])
    with pytest.raises(UserError, match="motifs does not have the columns of a set of molecules"):
        scaffold_splits(motifs(20), seed=0, indices=[0])
    benzene = MoleculeFeaturizer().graph("c1ccccc1")
    with pytest.raises(UserError, match="graph 0 of c1ccccc1 cannot be rebuilt as a molecule; give the SMILES"):
        list(scaffolds_of(replace(benzene, category_names=(("Zz",), *benzene.category_names[1:]))))
