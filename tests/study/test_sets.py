"""Data sets of the user's own in study and search files."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.data.digests import content_read
from cgipool.data.further import TableBuilder
from cgipool.errors import UserError
from cgipool.study.plan import read_study, study_of
from cgipool.study.records import read_book
from cgipool.study.search_file import read_search
from cgipool.study.sets import graphs_of
from cgipool.training.presets import STRONG

STUDY = """\
[protocol]
splits = 2
[settings]
width = 8
epochs = 2
[axes]
method = ["topk", "majority"]
dataset = ["motifs", "mine"]
[data]
mine = "../sets/one"
"""
SEARCH = """\
methods = ["topk"]
datasets = ["mine", "bare"]
[base]
width = 8
epochs = 2
[space]
lr = [0.001, 0.01]
[[rung]]
settings = 2
splits = 2
[data]
mine = "../sets/one"
bare = "../sets/two"
unused = "../sets/none"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sets in sets/, the nodes of the first with labels, and in studies/ a study and a search that name them."""
    graphs = load_dataset("motifs").subset(range(0, 1000, 10))
    label = (graphs.degree > 2).astype(np.int32)[:, None]
    replace(graphs, category=label, category_names=(("few", "many"),), checked=False).save(tmp_path / "sets" / "one")
    graphs.save(tmp_path / "sets" / "two")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "study.toml").write_text(STUDY)
    (tmp_path / "studies" / "search.toml").write_text(SEARCH)
    return tmp_path


def test_cells_know_where_a_set_is_and_what_it_holds(folder: Path) -> None:
    cells = read_study(folder / "studies" / "study.toml").cells
    mine = [cell for cell in cells if cell.dataset == "mine"]
    assert {cell.path for cell in mine} == {folder / "sets" / "one"}
    assert {cell.config["content"] for cell in mine} == {content_read(load_dataset(folder / "sets" / "one"))}
    assert all(cell.path is None and "content" not in cell.config for cell in cells if cell.dataset == "motifs")
    assert mine[0].command("cpu").startswith(f"cgipool train {folder / 'sets' / 'one'} --method topk")
    assert graphs_of(mine[0]).name == "mine", "a training goes by the name that the study has"


def test_a_set_that_has_changed_is_another(folder: Path) -> None:
    file = folder / "studies" / "study.toml"
    before = [cell for cell in read_study(file).cells if cell.dataset == "mine"]
    load_dataset("motifs").subset(range(50)).save(folder / "sets" / "other")
    (folder / "sets" / "one").rename(folder / "sets" / "former")
    (folder / "sets" / "other").rename(folder / "sets" / "one")
    after = [cell for cell in read_study(file).cells if cell.dataset == "mine"]
    assert not {cell.key for cell in before} & {cell.key for cell in after}
    with pytest.raises(UserError, match="has changed since the study was read"):
        graphs_of(before[0])


def test_a_study_is_run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert main(["study", "plan", "studies/study.toml"]) == 0
    assert "all data sets are available" in capsys.readouterr().out
    assert main(["study", "run", "studies/study.toml", "--only", "dataset=mine", "--store", "store"]) == 0
    records = read_book(Path("store")).records.values()
    assert sorted(record.cell["method"] for record in records) == ["majority", "topk"]
    for record in records:
        assert [row["graphs"] for row in record.splits] == [{"train": 80, "val": 10, "test": 10}] * 2
        assert record.provenance["command"].startswith("cgipool train sets/one ")


def test_a_search_is_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, store = str(folder / "studies" / "search.toml"), str(folder / "store")
    assert main(["study", "search", file, "--store", store]) == 0
    assert "topk on mine, bare" in capsys.readouterr().out
    assert main(["study", "search", file, "--store", store, "--family", "social", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "topk on bare ·" in told, "the cells are those of the search before"
    assert "all data sets are available" in told


@pytest.mark.parametrize("family", ["molecules", "social"])
def test_the_family_goes_by_the_labels_of_nodes(folder: Path, family: str) -> None:
    file = folder / "studies" / "search.toml"
    file.write_text(SEARCH.replace("width = 8\nepochs = 2", 'recipe = "strong"'))
    search = read_search(file, family)
    assert search.datasets == [{"molecules": "mine", "social": "bare"}[family]]
    assert search.space.base == STRONG[family]
    with pytest.raises(UserError, match="strong is a different recipe on each of molecules, social"):
        read_search(file)


@pytest.mark.parametrize(
    ("data", "datasets", "said"),
    [
        ({"NCI1": "x"}, ["NCI1"], "[data] has NCI1, which is a name of `cgipool data list`"),
        ({"my set": "x"}, ["motifs"], "the name 'my set' in [data] must be letters"),
        ({"mine": 3}, ["motifs"], 'mine of [data] must be a path, as in mine = "sets/mine"'),
        ({"mine": "nowhere"}, ["mine"], "nowhere"),
        ({"mine": "sets/one"}, ["mien"], "unknown data set 'mien'; did you mean 'mine'?"),
        ({}, ["sets/one"], "data set 'sets/one' is a path: give it a name in [data], as in mine = \"sets/one\""),
    ],
)
def test_what_makes_no_sense_is_told(folder: Path, data: dict[str, Any], datasets: list[str], said: str) -> None:
    with pytest.raises(UserError) as error:
        study_of({"axes": {"method": ["cgi"], "dataset": datasets}, "data": data}, folder=folder)
    assert said in str(error.value)


def test_only_the_sets_that_are_asked_for_are_read(folder: Path, capsys: pytest.CaptureFixture) -> None:
    file, store = folder / "studies" / "study.toml", folder / "store"
    command = ["study", "run", str(file), "--store", str(store)]
    majority = ["--only", "method=majority,dataset=motifs"]
    data = folder / "sets" / "one"
    data.rename(folder / "sets" / "away")
    assert main([*command, *majority]) == 0
    assert main(["study", "plan", str(file), "--store", str(store), *majority]) == 0
    assert {cell.at["dataset"] for cell in read_book(store).studies[0].cells} == {"motifs"}
    assert main(["report", str(store), "--out", str(folder / "report")]) == 0, "with nothing known of the other set"
    assert main(command) == 2
    assert "sets/one" in capsys.readouterr().err
    (folder / "sets" / "away").rename(data)
    assert main(command) == 0
    whole = read_book(store).studies
    assert len(whole[0].cells) == 4
    data.rename(folder / "sets" / "away")
    assert main([*command, *majority]) == 0
    [after] = read_book(store).studies
    assert after.axes == whole[0].axes
    assert sorted(cell.key for cell in after.cells) == sorted(cell.key for cell in whole[0].cells)


@pytest.mark.parametrize(
    ("only", "words"), [("dataset=other", "unknown dataset 'other'"), ("colour=red", "unknown axis 'colour'")]
)
def test_what_only_names_must_be_there(folder: Path, only: str, words: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["study", "run", str(folder / "studies" / "study.toml"), "--only", only]) == 2
    assert words in capsys.readouterr().err


def test_a_changed_descriptor_changes_the_cells_that_read_it(tmp_path: Path) -> None:
    graphs = load_dataset("motifs").subset(range(0, 1000, 10))

    def keys(**columns: list[str]) -> list[str]:
        table = TableBuilder(tuple(columns))
        for row in zip(*columns.values(), strict=True):
            table.add(row)
        shutil.rmtree(tmp_path / "mine", ignore_errors=True)
        table.of(graphs).save(tmp_path / "mine")
        axes = {"method": ["none", "wl"], "dataset": ["mine"], "descriptors": ["", "one"]}
        cells = study_of({"axes": axes, "data": {"mine": "mine"}}, folder=tmp_path).cells
        assert [cell.recipe.descriptors for cell in cells] == ["", "one", "", ""]
        assert graphs_of(cells[1]).name == "mine"
        return [cell.key for cell in cells]

    numbers = [str(g) for g in range(100)]
    plain = keys(one=numbers, two=numbers)
    assert keys(one=numbers, two=numbers[::-1]) == plain
    changed = keys(one=["7", *numbers[1:]], two=numbers)
    assert [a == b for a, b in zip(changed, plain, strict=True)] == [True, False, True, True]
    with pytest.raises(UserError, match="has no column 'one'; its columns: two"):
        keys(two=numbers)
