"""Settings that came when results were already stored: the keys of these stay, and changed settings have keys of their
own."""

import pytest

from cgipool.cli import main
from cgipool.errors import UserError
from cgipool.study.cell import Cell, Protocol
from cgipool.study.plan import study_of
from cgipool.training.presets import ADDED, PAPER, RECIPES, RELEASED, keyed, parse_setting
from cgipool.training.recipe import Recipe

CHANGED = {
    "own_loss": 0.5,
    "norm": "batch",
    "gate": "unit",
    "jumping": "concat",
    "schedule": "cosine",
    "warmup": 2,
    "clip": 1.0,
    "average": 0.9,
    "label_smoothing": 0.1,
    "focal": 2.0,
    "balanced_batches": True,
}


def cell_of(recipe: Recipe, method: str = "cgi", dataset: str = "NCI1") -> Cell:
    return Cell(method, dataset, recipe, Protocol(splits=20))


def test_stored_results_keep_their_keys() -> None:
    """The literals are keys from before there were these settings."""
    assert cell_of(PAPER).key == "381a868d262bc3e36899"
    assert cell_of(RELEASED, "sag", "PROTEINS").key == "96fcf24bca5f1b432480"
    assert not ADDED.keys() & cell_of(PAPER).config["recipe"].keys()


def test_a_changed_setting_is_part_of_the_key() -> None:
    keys = {cell_of(PAPER).key}
    for name in CHANGED:
        cell = cell_of(PAPER.but(**{name: CHANGED[name]}))
        assert cell.config["recipe"][name] == CHANGED[name]
        assert cell.config["recipe"].keys() & ADDED.keys() == {name}
        keys.add(cell.key)
        assert cell_of(PAPER.but(**{name: ADDED[name]})).key == cell_of(PAPER).key
    keys.add(cell_of(PAPER.but(conv="gcn-root")).key)
    assert len(keys) == 2 + len(CHANGED)


def test_what_is_left_out_is_the_default() -> None:
    assert {name: getattr(Recipe(), name) for name in ADDED} == ADDED
    for recipe in RECIPES.values():
        assert Recipe(**keyed(recipe)) == recipe


def test_axes_of_a_study() -> None:
    study = study_of({"axes": {"method": ["topk"], "dataset": ["motifs"], "norm": ["none", "batch", "layer"]}})
    assert [cell.recipe.norm for cell in study.cells] == ["none", "batch", "layer"]
    assert "--set norm=layer" in study.cells[2].command("cpu")
    with pytest.raises(UserError, match="unknown normalisation 'group'"):
        study_of({"axes": {"method": ["topk"], "dataset": ["motifs"], "norm": ["group"]}})


def test_none_is_a_name_where_there_is_no_missing_value() -> None:
    assert parse_setting("norm=none") == ("norm", "none")
    assert parse_setting("class_weight=none") == ("class_weight", None)
    with pytest.raises(UserError, match="lr must be a number, not 'none'"):
        PAPER.but(**dict([parse_setting("lr=none")]))


@pytest.mark.usefixtures("one_thread", "own_cache")
def test_on_the_command_line(capsys: pytest.CaptureFixture) -> None:
    settings = [
        "conv=gcn-root",
        *(f"{name}={str(value).lower()}" for name, value in CHANGED.items()),
        "width=8",
        "epochs=1",
    ]
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", "motifs", "--method", "topk", *words]) == 0, capsys.readouterr().err
    assert main(["train", "motifs", "--method", "topk", "--set", "norm=none", *words[-4:]]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("norm=bath", "unknown normalisation 'bath'; did you mean 'batch'? known: batch, layer, none"),
        ("gate=1", "gate must be a string, not 1"),
        ("jumping=lstm", "unknown jumping 'lstm'; known: concat, sum"),
        ("conv=root", "known: gcn, gcn-root, gin, gine, sage, transformer"),
        ("schedule=cosin", "unknown schedule 'cosin'; did you mean 'cosine'? known: constant, cosine"),
        ("warmup=-1", "warmup must be at least 0, not -1"),
        ("warmup=0.5", "warmup must be a whole number, not 0.5"),
        ("own_loss=-1", "own_loss must be at least 0, not -1.0"),
        ("clip=-1", "clip must be at least 0, not -1.0"),
        ("clip=inf", "clip must be at least 0, not inf"),
        ("average=-0.1", "average must be in [0, 1), not -0.1"),
        ("label_smoothing=1", "label_smoothing must be in [0, 1), not 1.0"),
        ("label_smoothing=some", "label_smoothing must be a number, not 'some'"),
    ],
)
def test_wrong_values_are_one_line(setting: str, said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["train", "motifs", "--set", setting]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
