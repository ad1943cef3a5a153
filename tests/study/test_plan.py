"""Study files: what they expand to, and what is refused."""

import json
import os
import shlex
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool.cli import main
from cgipool.cli.study import parse_only
from cgipool.errors import UserError
from cgipool.pool import METHODS
from cgipool.study import records
from cgipool.study.cell import Protocol
from cgipool.study.estimate import Estimate, in_words, predicted
from cgipool.study.plan import read_study, study_of
from cgipool.study.records import key_of, read_record
from cgipool.study.share import parse_shard, share_of
from cgipool.training.presets import PAPER, parse_setting, recipe_named

STUDIES = Path(__file__).resolve().parents[2] / "studies"
OTHERS = ("search", "featurizer")
"""Files of searches, and of a study whose data sets are to be imported first."""
FILES = [path for path in STUDIES.glob("*.toml") if not path.stem.startswith(OTHERS)]
PAPERS = Path(__file__).resolve().parents[3] / "shared" / "paper" / "published.json"
PRINTED = {"cgi-nomi": "CGIPool w/o MI"}
"""How the paper calls a method, where not by its title."""

TABLE: dict[str, Any] = {"axes": {"method": ["cgi", "topk"], "dataset": ["motifs"]}, "source": "a paper"}
SMALL: dict[str, Any] = {"axes": {"method": ["cgi", "topk"], "dataset": ["motifs"], "ratio": [0.5, 0.8]}}


def test_the_paper_is_all_there() -> None:
    cells = {path.stem: read_study(path).cells for path in FILES}
    counts = {name: len(of) for name, of in cells.items()}
    assert counts["table1"] == 56
    assert counts["table2"] == 12
    assert counts["figure3"] == 40
    variations = {"alpha", "bonds", "wl", "classical", "controls", "decay", "diffpool", "distinct", "released", "seeds"}
    twenty = {"table1", "table2", "figure3", "strong", "ablations"} | variations
    assert counts.keys() >= twenty | {"ensembles", "levels", "smoke"}
    for of in cells.values():
        read = [cell for cell in of if not cell.unread]
        assert len({(cell.key, cell.choice) for cell in read}) == len(read), "choices may agree for some methods"
    assert all(cell.protocol.splits == 20 for name in twenty for cell in cells[name])
    for table, ablations in (("table1", "table2"), ("strong", "ablations")):
        shared = {cell.key for cell in cells[table]} & {cell.key for cell in cells[ablations]}
        assert len(shared) == 4, "CGIPool on the four data sets of Table 2 is trained once"


@pytest.mark.parametrize(
    ("file", "table"),
    [("table1", 1), ("table2", 2), ("distinct", 1), ("strong", 1), ("ablations", 2)],
)
def test_published_numbers_are_the_papers(file: str, table: int) -> None:
    if not PAPERS.is_file():
        pytest.skip("needs shared/paper/published.json beside the repository")
    published = json.loads(PAPERS.read_text())[f"table{table}_accuracy_percent"]
    for cell in read_study(STUDIES / f"{file}.toml").cells:
        title = PRINTED.get(cell.method, METHODS[cell.method].title)
        assert list(cell.published or ()) == published.get(title, {}).get(cell.dataset, [])


def test_axes_make_settings() -> None:
    study = study_of(SMALL | {"settings": {"recipe": "released", "width": 32}, "protocol": {"seed": 3}})
    assert [cell.at for cell in study.cells] == [
        {"method": m, "dataset": "motifs", "ratio": r} for m in ("cgi", "topk") for r in (0.5, 0.8)
    ]
    assert {cell.recipe.ratio for cell in study.cells} == {0.5, 0.8}
    assert all(cell.recipe.form == "released" and cell.recipe.width == 32 for cell in study.cells)
    assert all(cell.protocol.seed == 3 for cell in study.cells)


def test_recipes_and_kinds_of_splits_can_be_axes() -> None:
    axes = {
        "method": ["cgi"],
        "dataset": ["NCI1"],
        "recipe": ["paper", "released"],
        "split_kind": ["random", "distinct"],
    }
    cells = study_of({"axes": axes}).cells
    assert [(c.recipe.name, c.protocol.split_kind) for c in cells] == [
        ("paper", "random"), ("paper", "distinct"), ("released", "random"), ("released", "distinct")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"axis": {}}, "unknown key 'axis'; did you mean 'axes'?"),
        ({"axes": {"method": ["cgi"]}}, "has no dataset"),
        ({"axes": {"method": ["cgy"], "dataset": ["NCI1"]}}, "unknown method 'cgy'"),
        ({"axes": {"method": ["cgi"], "dataset": ["NCI2"]}}, "unknown data set 'NCI2'"),
        ({"axes": {"method": ["cgi"], "dataset": ["."]}}, "data set '.' is a path: give it a name in [data]"),
        ({"axes": {"method": [], "dataset": ["NCI1"]}}, "axis method must be a list"),
        ({"axes": {"method": ["cgi", "cgi"], "dataset": ["NCI1"]}}, "lists a value twice"),
        (SMALL | {"axes": SMALL["axes"] | {"speed": [1]}}, "unknown axis 'speed'"),
        (SMALL | {"settings": {"widht": 3}}, "unknown key of [settings] 'widht'; did you mean 'width'?"),
        (SMALL | {"settings": {"ratio": 0.3}}, "ratio appears in both [settings] and [axes]"),
        (SMALL | {"settings": {"width": "wide"}}, "width must be a whole number, not 'wide'"),
        (SMALL | {"settings": {"shuffle": 1}}, "shuffle must be true or false, not 1"),
        (SMALL | {"settings": {"recipe": "fast"}}, "unknown recipe 'fast'"),
        (SMALL | {"protocol": {"split": 3}}, "unknown key of [protocol] 'split'"),
        (SMALL | {"protocol": {"__doc__": "text"}}, "unknown key of [protocol] '__doc__'"),
        (SMALL | {"protocol": {"splits": "3"}}, "splits of [protocol] must be an integer"),
        (SMALL | {"protocol": {"splits": 0}}, "splits, ensemble and seeds must be at least 1"),
        (SMALL | {"protocol": {"split_kind": "odd"}}, "unknown kind of split 'odd'"),
        (SMALL | {"curves": "alpha"}, "unknown axis in curves 'alpha'"),
        (SMALL | {"baseline": "sag"}, "unknown baseline 'sag'"),
        (TABLE | {"published": {"sag": {"motifs": [1, 2]}}}, "unknown method in [published] 'sag'"),
        (TABLE | {"published": {"cgi": {"NCI1": [1, 2]}}}, "unknown data set in [published.cgi] 'NCI1'"),
        (TABLE | {"published": {"cgi": {"motifs": 3}}}, "must be [mean, ±] in percent"),
        (TABLE | {"published": {"cgi": {"motifs": [80, -1]}}}, "must be [mean, ±] in percent"),
        (TABLE | {"published": {"cgi": {"motifs": [80, 1]}}, "source": ""}, "published numbers need a source"),
        (SMALL | {"published": {"cgi": {"motifs": [80, 1]}}, "source": "s"}, "method and dataset only"),
        (SMALL | {"name": "a/b"}, "the name 'a/b' may have only letters"),
        (SMALL | {"curves": "method"}, "curves must name a setting"),
        (SMALL | {"axes": SMALL["axes"] | {"ratio": [0.5], "alpha": [1, 1.0]}}, "two cells of [axes] are the same"),
        (SMALL | {"settings": {"dropout_epochs": -3}}, "dropout_epochs must be at least 0"),
        ({"axes": {"method": [3], "dataset": ["NCI1"]}}, "axis method must be a list of names"),
        ({"axes": {"method": ["cgi"], "dataset": [["x"]]}}, "axis dataset must be a list of names"),
        (SMALL | {"settings": {"recipe": ["a"]}}, "recipe of [settings] must be a name"),
        (SMALL | {"protocol": 3}, "protocol must be a table"),
        (SMALL | {"title": 3}, "title must be a string"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said.translate({ord(c): f"\\{c}" for c in "[].?"})):
        study_of(given)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text("axes = [")
    with pytest.raises(UserError, match=r"odd\.toml is not valid TOML"):
        read_study(path)
    path.write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(UserError, match=r"odd\.toml is not valid TOML: it is not UTF-8 text"):
        read_study(path)
    with pytest.raises(UserError, match=r"cannot read .*none\.toml"):
        read_study(tmp_path / "none.toml")


def test_the_key_is_of_the_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the study, its published numbers, the version of the package or the device; but of the generation."""
    cell = study_of(SMALL).cells[0]
    assert study_of(SMALL | {"name": "else", "title": "Other"}).cells[0].key == cell.key
    published = {"name": "else", "published": {"cgi": {"motifs": [80, 1]}}}
    assert study_of(TABLE | published).cells[0].key == study_of(TABLE).cells[0].key
    assert "version" not in json.dumps(cell.config)
    for change in ({"protocol": {"seed": 1}}, {"protocol": {"splits": 3}}, {"settings": {"lr": 0.01}}):
        assert study_of(SMALL | change).cells[0].key != cell.key
    monkeypatch.setattr("cgipool.version.__version__", "99")
    assert key_of(cell.config) == cell.key
    monkeypatch.setattr(records, "GENERATION", 99)
    assert key_of(cell.config) != cell.key


def test_alpha_is_what_it_is_on_the_data_set() -> None:
    """The paper's α on NCI1 is 0.001, so a study of α shares that cell with Table 1."""
    table, alpha = (read_study(STUDIES / f"{name}.toml").cells for name in ("table1", "alpha"))
    shared = {c.key for c in table} & {c.key for c in alpha}
    assert {(c.dataset, c.recipe.alpha) for c in alpha if c.key in shared} == {
        ("NCI1", 0.001), ("IMDB-MULTI", 0.001), ("PROTEINS", 1.0)
    }  # fmt: skip


def test_a_method_of_ones_own_is_known_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "keyed_pool.py"
    text = "from cgipool.pool.topk import TopKPool\nclass Mine(TopKPool):\n    pass\n"
    path.write_text(text)
    given = {"axes": {"method": ["keyed_pool:Mine"], "dataset": ["motifs"]}}
    before = study_of(given).cells[0].key
    assert study_of(given).cells[0].key == before
    path.write_text(text + "# changed\n")
    assert study_of(given).cells[0].key != before


def test_the_command_of_a_cell_gives_its_settings() -> None:
    study = study_of(
        {
            "axes": {"method": ["cgi"], "dataset": ["NCI1"], "alpha": [0.0, 10.0]},
            "settings": {"recipe": "released", "lr": 0.01, "dropout_epochs": 5, "shuffle": True},
            "protocol": {"split_kind": "distinct", "ensemble": 2, "first": 4},
        }
    )  # fmt: skip
    for cell in study.cells:
        words = shlex.split(cell.command("cuda:1"))
        assert words[:3] == ["cgipool", "train", "NCI1"]
        options = dict(zip(words[3::2], words[4::2], strict=True))
        assert options["--split-kind"] == "distinct"
        assert (options["--ensemble"], options["--first"], options["--device"]) == ("2", "4", "cuda")
        given = [parse_setting(text) for word, text in pairwise(words) if word == "--set"]
        assert recipe_named(options["--recipe"]).but(**dict(given)) == cell.recipe


def test_settings_on_the_command_line() -> None:
    assert parse_setting("lr=0.01") == ("lr", 0.01)
    assert parse_setting("class_weight=balanced") == ("class_weight", "balanced")
    assert parse_setting("dropout_epochs=none") == ("dropout_epochs", None)
    assert PAPER.but(**dict([parse_setting("shuffle=false")])).shuffle is False
    for text, said in (
        ("lr", "must have the form"),
        ("rl=1", "unknown setting 'rl'"),
        ("name=x", "unknown setting 'name'"),
    ):
        with pytest.raises(UserError, match=said):
            parse_setting(text)


def test_only() -> None:
    study = study_of(SMALL)
    assert [c.at["ratio"] for c in study.only(parse_only(["method=cgi"]))] == [0.5, 0.8]
    assert [c.name for c in study.only(parse_only(["ratio=0.5", "method=topk"]))] == [
        "method=topk,dataset=motifs,ratio=0.5"
    ]
    for text, said in (("method", "have the form"), ("metod=cgi", "unknown axis"), ("method=sag", "unknown method")):
        with pytest.raises(UserError, match=said):
            study.only(parse_only([text]))


def test_shares_are_a_division_by_cost() -> None:
    cells = read_study(STUDIES / "table1.toml").cells
    shares = [share_of(cells, lambda c: predicted(c, "cuda"), number, 5) for number in range(1, 6)]
    assert sorted(c.key for share in shares for c in share) == sorted(c.key for c in cells)
    costs = [sum(predicted(c, "cuda") for c in share) for share in shares]
    assert max(costs) <= min(costs) + max(predicted(c, "cuda") for c in cells)


def test_shards_are_read_from_option_or_slurm() -> None:
    assert parse_shard("2/8", {}) == (2, 8)
    assert parse_shard(None, {}) == (1, 1)
    slurm = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "4"}
    assert parse_shard(None, slurm) == (3, 4)
    assert parse_shard("1/2", slurm) == (1, 2)
    for text in ("0/3", "4/3", "3", "a/b"):
        with pytest.raises(UserError, match="--shard"):
            parse_shard(text, {})
    with pytest.raises(UserError, match="step of 1"):
        parse_shard(None, slurm | {"SLURM_ARRAY_TASK_ID": "9"})


def test_estimates_follow_what_was_measured() -> None:
    class Measured:
        def seconds(self, key: str, kind: str) -> float | None:
            return 3.0 * predicted(cells[0], "cpu") if key == cells[0].key and kind == "cpu" else None

    cells = read_study(STUDIES / "table1.toml").cells
    plain, corrected = Estimate(None, cells, "cpu"), Estimate(Measured(), cells, "cpu")  # type: ignore[arg-type]
    assert (plain.measured, corrected.measured) == (0, 1)
    assert corrected(cells[5]) == pytest.approx(3.0 * plain(cells[5]))
    assert Estimate(Measured(), cells, "cuda:0").measured == 0, "another kind of device says nothing"  # type: ignore[arg-type]
    assert Estimate(None, cells, "cpu", jobs=4)(cells[5]) == pytest.approx(plain(cells[5]) / 4)
    ensemble = replace(cells[5], protocol=Protocol(splits=1, ensemble=8))
    assert Estimate(None, cells, "cpu", jobs=4)(ensemble) == pytest.approx(plain(ensemble) / 4), "members are jobs too"
    assert [in_words(s) for s in (40, 700, 9000)] == ["40 s", "12 min", "2.5 h"]


def test_every_study_file_says_what_it_is() -> None:
    for path in FILES:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        assert given["title"]
        assert given["about"]
        assert given.get("source") or "published" not in given or path.stem == "controls"


BODY = '[axes]\nmethod = ["cgi"]\ndataset = ["motifs"]\n'
ODD_FILES = {
    "deep": "a = " + "[" * 100_000,
    "nested": "a = " + "[" * 50 + "]" * 50,
    "400 digits": f"[settings]\nwidth = {'9' * 400}\n{BODY}",
    "400 digits as a rate": f"[settings]\nlr = {'9' * 400}\n{BODY}",
    "5000 digits": f"[settings]\nwidth = {'9' * 5000}\n{BODY}",
    "400 digits published": f'source = "s"\n{BODY}[published.cgi]\nmotifs = [{"9" * 400}, 1]\n',
    "400 digits of splits": f"[protocol]\nsplits = {'9' * 400}\n{BODY}",
    "not a number": f"[settings]\nlr = nan\n{BODY}",
    "not a number on an axis": f"{BODY}lr = [nan, 0.1]\n",
    "not a number published": f'source = "s"\n{BODY}[published.cgi]\nmotifs = [nan, 1]\n',
    "infinite": f"[settings]\nlr = inf\n{BODY}",
    "half a character": f'title = "\\uD800"\n{BODY}',
    "a date": f"{BODY}ratio = [2020-01-01]\n",
    "tables on an axis": f"{BODY}ratio = [{{a = 1}}]\n",
    "an axis that is no list": '[axes]\nmethod = {}\ndataset = ["motifs"]\n',
    "a name of a mebibyte": f'[axes]\nmethod = ["{"x" * (1 << 20)}"]\ndataset = ["motifs"]\n',
    "escape sequences": '[axes]\nmethod = ["\\u001b[31m"]\ndataset = ["motifs"]\n',
    "data that is no path": f"{BODY}[data]\nmine = 3\n",
    "a number for a text": f"title = 3\n{BODY}",
}


@pytest.mark.parametrize("text", ODD_FILES.values(), ids=ODD_FILES)
def test_an_odd_study_file_is_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    assert main(["study", "plan", str(file)]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "\x1b" not in said
    assert len(said) < 2000
    assert str(file) in said.replace("\n", "")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_study_file_must_be_a_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(file)
    for command in ("plan", "search"):
        assert main(["study", command, str(file)]) == 2
        assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["width=0x10", "width=0o7", "width=" + "9" * 400, "lr=inf", "width=[[[[", "width=1\n2"]
)
def test_only_decimal_numbers_are_numbers(text: str) -> None:
    name, value = parse_setting(text)
    assert not isinstance(value, int)
    with pytest.raises(UserError, match=f"{name} must be"):
        PAPER.but(**{name: value})


def test_numbers_and_quoted_texts_of_settings() -> None:
    texts = {"width=16": 16, "lr=1e-3": 0.001, "lr=.5": 0.5, "lr=5.": 5.0, 'conv="gin"': "gin", "ratio= 0.8 ": 0.8}
    assert [parse_setting(text)[1] for text in texts] == list(texts.values())


def stored_estimates() -> list[tuple[str, float]]:
    """Recipe, and estimated beside measured seconds, of every cell of results/ that ran on a GPU."""
    cells = {cell.key: cell for path in FILES for cell in read_study(path).cells}
    records = [read_record(path) for path in (STUDIES.parent / "results").glob("*/cells/*.json")]
    on_gpu = [record for record in records if record.provenance["kind"] == "cuda" and record.key in cells]
    known = [(cells[record.key], record) for record in on_gpu]
    return [(cell.recipe.name, predicted(cell, "cuda") / record.provenance["seconds"]) for cell, record in known]


def test_estimates_fit_what_was_measured_with_every_recipe() -> None:
    found = stored_estimates()
    ratios = np.array([ratio for _, ratio in found])
    assert len(ratios) >= 392
    assert np.mean((ratios > 0.5) & (ratios < 2.0)) > 0.85
    for recipe in {name for name, _ in found}:
        assert 0.75 < np.median([ratio for name, ratio in found if name == recipe]) < 1.35, recipe


def test_recipes_differ_in_cost() -> None:
    def cost(device: str, **settings: Any) -> float:
        [cell] = study_of({"axes": {"method": ["cgi"], "dataset": ["NCI1"]}, "settings": settings}).cells
        return predicted(cell, device)

    for device in ("cpu", "cuda"):
        assert cost(device, conv="gin") > cost(device, conv="sage") > cost(device)
        assert cost(device, epochs=20) < 0.2 * cost(device)
    assert cost("cuda", batch_size=32) > 1.2 * cost("cuda")


def test_a_setting_that_is_not_read_makes_one_cell() -> None:
    axes = {"method": ["topk", "none"], "dataset": ["motifs"], "ratio": [0.5, 0.8], "mi": ["gan", "kl"]}
    study = study_of({"axes": axes})
    keys = {(cell.method, cell.at["ratio"], cell.at["mi"]): cell.key for cell in study.cells}
    assert len(keys) == 8
    assert keys["topk", 0.5, "gan"] == keys["topk", 0.5, "kl"] != keys["topk", 0.8, "gan"]
    assert len({key for (method, _, _), key in keys.items() if method == "none"}) == 1
    assert {cell.method: cell.unread for cell in study.cells} == {"topk": ("mi",), "none": ("ratio", "mi")}
    (table,) = study_of({"axes": {"method": ["none"], "dataset": ["motifs"]}}).cells
    assert keys["none", 0.5, "gan"] == table.key, "the recipe's own value, so that studies share the result"
    chosen = [(cell.method, cell.at["ratio"]) for cell in study.only({})]
    assert chosen == [("topk", 0.5), ("topk", 0.8), ("none", 0.5)], "each is trained once"
    stored = [(cell["at"]["method"], cell.get("unread")) for cell in study.to_json()["cells"]]
    assert stored[0] == ("topk", ["mi"])
    without = study_of({"axes": {"method": ["topk"], "dataset": ["motifs"], "ratio": [0.5]}}).to_json()
    assert "unread" not in without["cells"][0], "as earlier versions wrote it"


def test_keys_along_a_setting_that_is_read_stay() -> None:
    axes = {"method": ["cgi", "none"], "dataset": ["motifs"], "ratio": [0.2, 0.4]}
    cells = {(cell.method, cell.at["ratio"]): cell for cell in study_of({"axes": axes}).cells}
    for ratio in (0.2, 0.4):
        assert cells["cgi", ratio].recipe == recipe_named("paper").but(ratio=ratio)
    assert cells["none", 0.4].recipe == recipe_named("paper").but(ratio=0.2), "the first, without the recipe's own"
