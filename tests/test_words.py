"""Numbers in sentences: one of a thing is not said to be many."""

import numpy as np
import pytest

from cgipool.cli import main
from cgipool.data import GraphSet, motifs
from cgipool.data.splits import check_graphs
from cgipool.errors import UserError
from cgipool.words import are, counted


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


def test_the_verb_goes_with_the_number() -> None:
    assert [are(count) for count in (0, 1, 2)] == ["are", "is", "are"]


@pytest.mark.usefixtures("one_thread")
def test_a_study_of_one_cell(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    motifs(40).save(tmp_path / "small")
    options = ["--splits", "1", "--set", "epochs=1", "--set", "width=8", "--store", str(tmp_path / "store")]
    assert main(["compare", str(tmp_path / "small"), "--methods", "topk", *options]) == 0
    said = capsys.readouterr()
    assert "begins (0 of 1 cell done, about " in said.err
    assert "; 1 random split, recipe paper." in said.out
    assert "1 of 1 cell is there" in said.out
    assert said.out.splitlines()[-1].startswith("1 of 1 cell is in ")


def test_what_is_wrong_with_one_graph() -> None:
    with pytest.raises(UserError, match="has 1 graph; at least 10 are needed"):
        check_graphs(motifs(1))
    with pytest.raises(UserError, match="holds 1 value that is NaN or infinite"):
        GraphSet.from_edges("two", [1, 1], [], [], [0, 1], attributes=np.array([[1.0], [np.nan]], np.float32))
