"""Molecules as graphs, against what a chemist writes down by hand, and what RDKit says by other means."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rdkit")

from rdkit import Chem

from cgipool.data import Encoder, GraphSet, molecules
from cgipool.data.molecules import ATOM, BOND, MoleculeFeaturizer, parse_block, parse_smiles
from cgipool.data.scaffolds import scaffolds_of
from cgipool.errors import UserError

DRUGS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C[C@]12CC[C@H]3[C@@H](CC[C@H]4C[C@@H](O)CC[C@]34C)[C@@H]1CC[C@@H]2O",
    "CC(C)C[C@H](N)B(O)O",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C/C=C/C(=O)[O-].[Na+]",
    "c1ccc2c(c1)[nH]c1ccccc12",
    "C[N+](C)(C)CC([O-])=O",
    "[CH3]",
    "FS(F)(F)(F)(F)F",
]


def atoms(graphs: GraphSet) -> list[tuple[str, ...]]:
    """The labels of each node, by name."""
    assert graphs.category is not None
    return [tuple(graphs.category_names[j][c] for j, c in enumerate(row)) for row in graphs.category]


def bonds(graphs: GraphSet) -> dict[tuple[int, int], tuple[str, ...]]:
    """The labels of each stored edge, by its ends."""
    assert graphs.edge_category is not None
    source = graphs.edge_source
    names = graphs.edge_category_names
    return {
        (int(p), int(p + step)): tuple(names[j][c] for j, c in enumerate(row))
        for p, step, row in zip(source, graphs.edge_disp, graphs.edge_category, strict=True)
    }


def graph(smiles: str, **options: bool) -> GraphSet:
    return MoleculeFeaturizer(**options).graph(smiles)


def test_columns_in_order() -> None:
    assert list(ATOM) == [
        *("element", "degree", "charge", "hydrogens", "aromatic", "ring", "hybridisation", "chirality"),
    ]
    assert list(BOND) == ["type", "stereo"]


def test_benzene() -> None:
    made = graph("c1ccccc1")
    assert atoms(made) == [("C", "2", "0", "1", "yes", "yes", "sp2", "none")] * 6
    assert set(bonds(made).values()) == {("aromatic", "none")}
    assert made.degree.tolist() == [2] * 6
    assert made.dropped == {}


def test_a_ring_with_alternating_bonds_is_benzene_as_well() -> None:
    assert atoms(graph("C1=CC=CC=C1")) == atoms(graph("c1ccccc1"))


def test_ethanol() -> None:
    made = graph("CCO")
    assert atoms(made) == [
        ("C", "1", "0", "3", "no", "no", "sp3", "none"),
        ("C", "2", "0", "2", "no", "no", "sp3", "none"),
        ("O", "1", "0", "1", "no", "no", "sp3", "none"),
    ]
    assert bonds(made) == dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], ("single", "none"))


def test_acetate() -> None:
    made = graph("CC(=O)[O-]")
    assert atoms(made)[2:] == [
        ("O", "1", "0", "0", "no", "no", "sp2", "none"),
        ("O", "1", "-1", "0", "no", "no", "sp2", "none"),
    ]
    assert bonds(made)[1, 2] == bonds(made)[2, 1] == ("double", "none")


def test_a_salt_is_one_graph_of_two_components_or_its_largest_fragment() -> None:
    both = graph("[Na+].CC(=O)[O-]")
    assert both.sizes.tolist() == [5]
    assert both.degree.tolist() == [0, 1, 3, 1, 1]
    assert atoms(both)[0] == ("Na", "0", "1", "0", "no", "no", "s", "none")
    assert atoms(graph("[Na+].CC(=O)[O-]", largest_fragment=True)) == atoms(graph("CC(=O)[O-]"))


@pytest.mark.parametrize("text", ["Cl.CCN.CCO", "CCO.Cl.CCN"])
def test_among_fragments_of_one_size_the_heaviest_is_taken(text: str) -> None:
    assert atoms(graph(text, largest_fragment=True)) == atoms(graph("CCO"))


@pytest.mark.parametrize(
    ("smiles", "label"), [("N[C@@H](C)C(=O)O", "S"), ("C[C@H](N)C(O)=O", "S"), ("C[C@@H](N)C(O)=O", "R")]
)
def test_alanine_has_the_label_of_its_hand_however_it_is_written(smiles: str, label: str) -> None:
    assert sorted(atom[-1] for atom in atoms(graph(smiles))) == [label, *["none"] * 5]


def test_without_a_hand_there_is_none() -> None:
    assert {atom[-1] for atom in atoms(graph("CC(N)C(O)=O"))} == {"none"}
    assert {atom[-1] for atom in atoms(graph("C[C@H](C)O"))} == {"none"}  # two methyls: no stereo centre


@pytest.mark.parametrize(("smiles", "label"), [("F/C=C/F", "E"), ("F\\C=C/F", "Z"), ("FC=CF", "none")])
def test_double_bonds(smiles: str, label: str) -> None:
    assert bonds(graph(smiles))[1, 2] == ("double", label)


def test_stereo_that_takes_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecules, "CIP_STEPS", 1)
    assert sorted(atom[-1] for atom in atoms(graph("C[C@H](N)C(O)=O"))) == [*["none"] * 5, "unknown"]


def test_isotopes() -> None:
    assert atoms(graph("[13CH4]")) == atoms(graph("C"))
    heavy = graph("[2H]OC")
    assert [atom[0] for atom in atoms(heavy)] == ["H", "O", "C"]
    assert atoms(heavy)[1][1:4] == ("2", "0", "0")


def test_written_hydrogens_are_no_nodes() -> None:
    assert atoms(graph("[H]C([H])([H])O[H]")) == atoms(graph("CO"))
    assert graph("[H][H]").sizes.tolist() == [2]


def test_one_atom_has_no_edge_but_the_columns() -> None:
    made = graph("C")
    assert (made.n_nodes, made.n_edges) == (1, 0)
    assert made.edge_category is not None
    assert made.edge_category.shape == (0, len(BOND))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no atoms"),
        ("  ", "it has no atoms"),
        ("C(", "it is no SMILES"),
        ("Xx", "it is no SMILES"),
        ("c1cccc1", "Can't kekulize mol. Unkekulized atoms: 0 1 2 3 4"),
        ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5, is greater than permitted"),
    ],
)
def test_what_is_no_molecule(text: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError) as caught:
        MoleculeFeaturizer().graphs(["C", text])
    assert str(caught.value) == f"molecule 1, {text.strip()!r}: {reason}"
    assert capfd.readouterr().err == ""


def test_molfile() -> None:
    made = parse_block(Chem.MolToMolBlock(parse_smiles("C[C@H](N)C(O)=O")))
    assert Chem.MolToSmiles(made) == Chem.CanonSmiles("C[C@H](N)C(O)=O")
    with pytest.raises(UserError, match="it is no molfile"):
        parse_block("nothing\n")


@pytest.mark.parametrize("smiles", DRUGS)
def test_features_do_not_depend_on_the_order_of_atoms(smiles: str) -> None:
    molecule = parse_smiles(smiles)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(molecule.GetNumAtoms()).tolist()
        other = Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
        assert sorted(atoms(graph(other))) == sorted(atoms(graph(smiles)))
        assert sorted(bonds(graph(other)).values()) == sorted(bonds(graph(smiles)).values())


def test_a_molecule_is_the_same_alone_and_among_others() -> None:
    together = MoleculeFeaturizer().graphs(DRUGS)
    for i, smiles in enumerate(DRUGS):
        alone = graph(smiles)
        assert atoms(together.subset([i])) == atoms(alone)
        assert bonds(together.subset([i])) == bonds(alone)
    assert (together.is_labelled, set(together.y.tolist())) == (False, {-1})


def test_scaffolds_of_a_set_are_those_of_its_smiles() -> None:
    assert list(scaffolds_of(MoleculeFeaturizer().graphs(DRUGS))) == list(scaffolds_of(DRUGS))


def test_new_molecules_meet_the_encoder_of_old_ones() -> None:
    encoder = Encoder.fit(MoleculeFeaturizer().graphs(DRUGS))
    known, strange = (encoder.encode(graph(smiles)) for smiles in ("CCO", "CC[Se]C"))
    assert not np.isin(known.category, encoder.others).any()
    assert np.argwhere(np.isin(strange.category, encoder.others)).tolist() == [[2, 0]]


def test_json_and_back() -> None:
    made = MoleculeFeaturizer(largest_fragment=True)
    plain = json.loads(json.dumps(made.to_json()))
    assert MoleculeFeaturizer.from_json(plain) == made
    assert MoleculeFeaturizer.from_json(plain | {"rdkit": "2020.03.1"}) == made
    assert plain["atoms"][0] == {"name": "element", "version": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"atoms": [{"name": "element", "version": 2}]}, "a featuriser with other atoms than this version"),
        ({"bonds": []}, "a featuriser with other bonds than this version"),
        ({"featurizer": "proteins"}, "a featuriser with other featurizer than"),
        ({"largest_fragment": "no"}, "not a saved molecule featuriser"),
    ],
)
def test_json_of_another(change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        MoleculeFeaturizer.from_json(MoleculeFeaturizer().to_json() | change)


@pytest.mark.parametrize(
    "module", ["cgipool.data.molecules", "cgipool.data.scaffolds", "cgipool.data.importers.molecular"]
)
def test_without_rdkit_a_line_says_how_to_get_it(module: str) -> None:
    code = f"""
import sys
sys.modules["rdkit"] = None
from cgipool.errors import UserError
try:
    import {module}
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "molecules need RDKit: pip install 'cgipool[chem]'\n", done.stderr
