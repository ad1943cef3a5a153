"""Molecules as graphs, against what a chemist writes down by hand, and what RDKit says by other means."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")

from rdkit import Chem

from cgipool.data import Encoder, GraphSet, molecules, motifs
from cgipool.data.columns import LABELS
from cgipool.data.groups import scaffolds_of
from cgipool.data.molecules import ATOM, BOND, MoleculeFeaturizer, parse_block, parse_smiles
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
    """The labels of each node, by name; without the mass."""
    assert graphs.category is not None
    return [tuple(graphs.category_names[j][c] for j, c in enumerate(row)) for row in graphs.category[:, :8]]


def bonds(graphs: GraphSet) -> dict[tuple[int, int], tuple[str, ...]]:
    """Type and stereo of each stored edge, by its ends."""
    assert graphs.edge_category is not None
    source = graphs.edge_source
    names = graphs.edge_category_names
    return {
        (int(p), int(p + step)): tuple(names[j][c] for j, c in enumerate(row[:2]))
        for p, step, row in zip(source, graphs.edge_disp, graphs.edge_category, strict=True)
    }


def graph(smiles: str, **options: bool) -> GraphSet:
    return MoleculeFeaturizer(**options).graph(smiles)


def test_columns_in_order() -> None:
    assert list(ATOM) == [
        *("element", "degree", "charge", "hydrogens", "aromatic", "ring", "hybridisation", "chirality", "mass"),
    ]
    assert list(BOND) == ["type", "stereo", "conjugated", "ring"]
    assert tuple(tuple(columns)[: len(old)] for columns, old in zip((ATOM, BOND), LABELS, strict=True)) == LABELS


@pytest.mark.parametrize("smiles", DRUGS)
def test_every_column_is_what_rdkit_says(smiles: str) -> None:
    molecule, made = Chem.MolFromSmiles(smiles), graph(smiles)
    assert made.category is not None
    assert made.edge_category is not None
    named = [dict(zip(ATOM, row, strict=True)) for row in made.category]
    named = [{what: made.category_names[j][row[what]] for j, what in enumerate(ATOM)} for row in named]
    for row, atom in zip(named, molecule.GetAtoms(), strict=True):
        assert row | {"chirality": ""} == {
            "element": atom.GetSymbol(),
            "degree": str(atom.GetDegree()),
            "charge": str(atom.GetFormalCharge()),
            "hydrogens": str(atom.GetTotalNumHs()),
            "aromatic": "yes" if atom.GetIsAromatic() else "no",
            "ring": "yes" if atom.IsInRing() else "no",
            "hybridisation": str(atom.GetHybridization()).lower(),
            "chirality": "",
            "mass": str(round(atom.GetMass())),
        }
    for p, step, codes in zip(made.edge_source, made.edge_disp, made.edge_category, strict=True):
        bond = molecule.GetBondBetweenAtoms(int(p), int(p + step))
        kind, _, conjugated, ring = (made.edge_category_names[j][c] for j, c in enumerate(codes))
        assert kind == str(bond.GetBondType()).lower()
        assert (conjugated == "yes", ring == "yes") == (bond.GetIsConjugated(), bond.IsInRing())


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
    masses = [graph(smiles).category_names[list(ATOM).index("mass")] for smiles in ("[13CH4]", "C", "[35Cl-]")]
    assert masses == [("13",), ("12",), ("35",)]
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
        ("C(", "it is not valid SMILES"),
        ("Xx", "it is not valid SMILES"),
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
    with pytest.raises(UserError, match="it is not a valid molfile"):
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
    assert np.argwhere(np.isin(strange.category, encoder.others)).tolist() == [[2, 0], [2, list(ATOM).index("mass")]]


def test_json_and_back() -> None:
    made = MoleculeFeaturizer(largest_fragment=True)
    plain = json.loads(json.dumps(made.to_json()))
    assert MoleculeFeaturizer.from_json(plain) == made
    assert MoleculeFeaturizer.from_json(plain | {"rdkit": "2020.03.1"}) == made
    assert plain["atoms"][0] == {"name": "element", "version": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"atoms": [{"name": "element", "version": 2}]}, "the featurizer has atoms that this version"),
        ({"bonds": []}, "the featurizer has bonds that this version"),
        ({"featurizer": "proteins"}, "a featurizer of another kind: proteins"),
        ({"largest_fragment": "no"}, "not a saved molecule featurizer"),
    ],
)
def test_json_of_another(change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        MoleculeFeaturizer.from_json(MoleculeFeaturizer().to_json() | change)


def old(smiles: list[str]) -> GraphSet:
    """These molecules as earlier versions stored them."""
    plain = MoleculeFeaturizer().to_json()
    few = {what: plain[what][: len(names)] for what, names in zip(("atoms", "bonds"), LABELS, strict=True)}
    return MoleculeFeaturizer.from_json(plain | few).graphs(smiles)


def test_what_earlier_versions_stored_is_made_again() -> None:
    made = old(DRUGS)
    assert made.column_names == dict(zip(("category", "edge_category"), LABELS, strict=True))
    assert atoms(made) == atoms(MoleculeFeaturizer().graphs(DRUGS))
    assert bonds(made) == bonds(MoleculeFeaturizer().graphs(DRUGS))
    assert list(scaffolds_of(made)) == list(scaffolds_of(DRUGS))


def test_the_recipe_says_which_columns_are_read() -> None:
    new, before = MoleculeFeaturizer().graphs(DRUGS), old(DRUGS)
    full = Encoder.fit(new, edges=True)
    assert full.edges is not None
    assert (len(full.values), len(full.edges.values)) == (len(ATOM), len(BOND))
    few = Encoder.fit(new, featurizer="labels", edges=True, wl=1)
    assert few.edges is not None
    assert (few.reads, few.edges.reads) == LABELS
    plain = Encoder.fit(before, edges=True, wl=1)
    for made in (new, before):  # a model of the labels reads sets of either version
        np.testing.assert_array_equal(few.encode(made).category, plain.encode(before).category)
        np.testing.assert_array_equal(few.encode(made).edges.category, plain.encode(before).edges.category)
    assert Encoder.from_json(json.loads(json.dumps(few.to_json()))) == few
    catalogued = replace(new, name="solubility")
    assert Encoder.fit(catalogued).values == Encoder.fit(before).values
    assert Encoder.fit(catalogued, featurizer="atoms-and-bonds") == Encoder.fit(new)
    with pytest.raises(UserError, match="imported by an earlier version; import them again"):
        Encoder.fit(before, featurizer="atoms-and-bonds")
    with pytest.raises(UserError, match="it was not imported from molecules"):
        Encoder.fit(motifs(8), featurizer="atoms-and-bonds")
    with pytest.raises(UserError, match="motifs has no node labels"):
        few.encode(motifs(8))
    with pytest.raises(UserError, match="has no node label column 'element', which the model reads"):
        few.encode(replace(before, column_names={}))


OWN = """
import numpy as np

def charges(molecule):
    return {"atoms": [[atom.GetFormalCharge(), atom.GetIdx()] for atom in molecule.GetAtoms()],
            "bonds": [[bond.GetIdx()] for bond in molecule.GetBonds()]}

def bonds_only(molecule):
    return {"bonds": np.ones((molecule.GetNumBonds(), 2))}

def uneven(molecule):
    width = 2 if molecule.GetNumAtoms() > 3 else 1
    return {"atoms": np.ones((molecule.GetNumAtoms(), width))}

def short(molecule):
    return {"atoms": np.ones((1, 2))}

def fails(molecule):
    raise KeyError("no such thing")

def nothing(molecule):
    return None

def infinite(molecule):
    return {"atoms": [[np.nan]] * molecule.GetNumAtoms()}

number = 3
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_features.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("own_features", None)
    return "own_features"


def test_features_of_ones_own(own_module: str) -> None:
    featurizer = MoleculeFeaturizer(own=f"{own_module}:charges")
    made = featurizer.graphs(["CC[NH3+]", "O", "C[O-]"])
    assert made.attributes is not None
    assert made.edge_attributes is not None
    assert made.attributes.tolist() == [[0, 0], [0, 1], [1, 2], [0, 0], [0, 0], [-1, 1]]
    by_ends = {
        (int(p), int(p + step)): value
        for p, step, (value,) in zip(made.edge_source, made.edge_disp, made.edge_attributes.tolist(), strict=True)
    }
    assert by_ends == {(0, 1): 0, (1, 0): 0, (1, 2): 1, (2, 1): 1, (4, 5): 0, (5, 4): 0}
    plain = json.loads(json.dumps(featurizer.to_json()))
    assert plain["own"] == {"function": f"{own_module}:charges", "widths": [2, 1]}
    assert MoleculeFeaturizer.from_json(plain) == featurizer
    plain["own"]["widths"] = [3, 1]
    with pytest.raises(UserError, match=r"gives \[2, 1\] columns for atoms and bonds; at training it gave \[3, 1\]"):
        MoleculeFeaturizer.from_json(plain)
    alone = MoleculeFeaturizer(own=f"{own_module}:bonds_only").graph("C")
    assert alone.attributes is None
    assert alone.edge_attributes is not None
    assert alone.edge_attributes.shape == (0, 2)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("uneven", "gave 2 columns for atoms, and 1 for other molecules, for the molecule CCCCO"),
        ("short", r"gave atoms of shape \[1, 2\], where \[2, columns\] is needed, for the molecule CC"),
        ("fails", "raised KeyError: 'no such thing', for the molecule CC"),
        ("nothing", 'must return a dictionary with "atoms", "bonds" or both'),
        ("infinite", "gave atoms with NaN or infinite values"),
        ("number", "is not a function"),
        ("absent", "cannot import it: module 'own_features' has no attribute 'absent'"),
    ],
)
def test_own_features_that_do_not_fit(own_module: str, function: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        MoleculeFeaturizer(own=f"{own_module}:{function}").graphs(["CCCCO"])
    with pytest.raises(UserError, match=r"name your own function as package\.module:function"):
        MoleculeFeaturizer(own="charges").graph("C")


@pytest.mark.parametrize(
    "code",
    [
        "import cgipool.data.molecules",
        "import cgipool.data.importers.molecular",
        "from cgipool.data import scaffold_splits; scaffold_splits(['C'] * 10, seed=0, indices=[0])",
    ],
)
def test_without_rdkit_a_line_says_how_to_get_it(code: str) -> None:
    program = f"""
import sys
sys.modules["rdkit"] = None
from cgipool.errors import UserError
try:
    {code}
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "molecules need RDKit: pip install 'cgipool[chem]'\n", done.stderr
