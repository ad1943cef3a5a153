"""Numbers in sentences, the one rounding, and text from outside that is safe to show."""

import numpy as np
import pytest

from cgipool.cli import main
from cgipool.data import GraphSet, motifs
from cgipool.data.splits import check_graphs
from cgipool.errors import UserError, are, counted, csv_cell, printable, rounded, unknown


@pytest.mark.parametrize(
    ("count", "thing", "said"),
    [
        (0, "graph", "0 graphs"),
        (1, "graph", "1 graph"),
        (2, "random split", "2 random splits"),
        (1, "class", "1 class"),
        (4, "class", "4 classes"),
        (12345, "node", "12,345 nodes"),
        (np.int64(1), "node", "1 node"),
    ],
)
def test_counted(count: int, thing: str, said: str) -> None:
    assert counted(count, thing) == said


@pytest.mark.parametrize(
    ("name", "near"), [("cgipool", "cgi"), ("SAGPool", "sag"), ("gcn_root", "gcn-root"), ("difpol", "diffpool")]
)
def test_unknown_names_get_a_suggestion(name: str, near: str) -> None:
    error = unknown("name", name, ["cgi", "diffpool", "gcn", "gcn-root", "sag"])
    assert f"did you mean '{near}'?" in str(error)


def test_the_verb_goes_with_the_number() -> None:
    assert [are(count) for count in (0, 1, 2)] == ["are", "is", "are"]


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(2.795001, 2, "2.80"), (2.7949999, 2, "2.79"), (-0.001, 2, "0.00"), (81.0, 2, "81.00"), (1e-9, 4, "0.0000")],
)
def test_one_rounding(value: float, digits: int, shown: str) -> None:
    assert rounded(value, digits) == shown


def test_rounding_does_not_depend_on_how_a_mean_was_computed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        graphs = int(rng.integers(20, 500))
        shares = rng.integers(0, graphs + 1, 20) / graphs
        assert rounded(100 * float(np.mean(shares))) == rounded(float(np.mean(100 * shares)))


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", " =1", "\uff1d1+1", "-1_0"])
def test_a_formula_is_harmless_in_a_csv_file(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-1", "+1", "-1.5e-3", "a=b", "", "C=C", "[Na+]", 1.5, -2, None, True])
def test_numbers_and_plain_text_stay_in_a_csv_file(value: object) -> None:
    assert csv_cell(value) is value


def test_escape_sequences_do_not_reach_a_terminal() -> None:
    text = "a\x1b[31mb\x9b2Jc\x07d\u202ee\ud800f"
    assert printable(text) == "a\ufffd[31mb\ufffd2Jc\ufffdd\ufffde\ufffdf"
    assert printable("ärger\t· 日本\n") == "ärger\t· 日本\n"
    assert csv_cell(text) == printable(text)


@pytest.mark.usefixtures("one_thread")
def test_a_study_of_one_cell(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    motifs(40).save(tmp_path / "small")
    options = ["--splits", "1", "--set", "epochs=1", "--set", "width=8", "--store", str(tmp_path / "store")]
    assert main(["compare", str(tmp_path / "small"), "--methods", "topk", *options]) == 0
    said = capsys.readouterr()
    assert "starting (0 of 1 cell done, about " in said.err
    assert "; 1 random split, recipe strong-molecules." in said.out
    assert "1 of 1 cell is done" in said.out
    assert said.out.splitlines()[-1].startswith("1 of 1 cell is in ")


def test_what_is_wrong_with_one_graph() -> None:
    with pytest.raises(UserError, match="has 1 graph; at least 10 are needed"):
        check_graphs(motifs(1))
    with pytest.raises(UserError, match="holds 1 value that is NaN or infinite"):
        GraphSet.from_edges("two", [1, 1], [], [], [0, 1], attributes=np.array([[1.0], [np.nan]], np.float32))
