"""Model files come from anyone: what they claim is checked before it is built, and code runs only when asked for."""

import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgipool import GraphClassifier
from cgipool.cli import main
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.errors import UserError
from cgipool.inference.fitted import KIND, FittedModel
from cgipool.inference.predict import NOT_FINITE
from cgipool.pool import NETWORKS, Sizes
from cgipool.task.registry import task_of
from cgipool.training.checkpoint import digest_of, load_tensors, save_tensors
from cgipool.training.initial import model_of
from cgipool.training.presets import PAPER, STRONG

SMALL = PAPER.but(width=8, levels=2)


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(12))


def untrained(graphs: GraphSet, method: str = "topk", recipe=SMALL, members: int = 1) -> FittedModel:
    encoder, sizes = Encoder.fit(graphs), Sizes.of(graphs.sizes)
    shares = (1 / graphs.n_classes,) * graphs.n_classes
    made = [
        dict(model_of(method, recipe, encoder, task_of(graphs), shares, sizes).state_dict()) for _ in range(members)
    ]
    return FittedModel(method, recipe, graphs.class_names, encoder, shares, sizes, made)


@pytest.fixture
def path(graphs: GraphSet, tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    untrained(graphs).save(file)
    return file


def forge(path: Path, change) -> None:
    """Write the file anew with a changed description and checksums that fit."""
    tensors, header = load_tensors(path)
    plain = json.loads(header["model"])
    text = change(plain)
    text = text if isinstance(text, str) else json.dumps(plain)
    save_tensors(path, tensors, {"kind": KIND, "model": text, "checksum": digest_of(tensors, text)})


def setting(*names: str, to: object):
    def change(plain: dict) -> None:
        inner = plain
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = to

    return change


FORGED = {
    "members 2e8": setting("members", to=200_000_000),
    "members 0": setting("members", to=0),
    "members 2": setting("members", to=2),
    "members true": setting("members", to=True),
    "members text": setting("members", to="1"),
    "width 20000": setting("recipe", "width", to=20_000),
    "width 2**60": setting("recipe", "width", to=2**60),
    "width of 400 digits": setting("recipe", "width", to=10**400),
    "levels 1e9": setting("recipe", "levels", to=10**9),
    "levels 3": setting("recipe", "levels", to=3),
    "recipe list": setting("recipe", to=[]),
    "conv list": setting("recipe", "conv", to=["gcn"]),
    "other conv": setting("recipe", "conv", to="gin"),
    "other method": setting("method", to="diffpool"),
    "unknown method": setting("method", to="\x1b[31m" + "x" * 100_000),
    "method number": setting("method", to=1),
    "classes 3": setting("class_names", to=["0", "1", "2"]),
    "classes number": setting("class_names", to=7),
    "classes alike": setting("class_names", to=["0", "0"]),
    "class with half a character": setting("class_names", to=["\ud800", "1"]),
    "shares text": setting("shares", to=["0.5", "0.5"]),
    "shares infinite": lambda plain: json.dumps(plain | {"shares": [math.inf, 0.5]}),
    "sizes": setting("sizes", to=[1e308, 10**300]),
    "sizes none": setting("sizes", to=None),
    "encoder none": setting("encoder", to=None),
    "encoder values": setting("encoder", "values", to=[["1"] * 100_000]),
    "encoder values numbers": setting("encoder", "values", to=[[1, 2, 3]]),
    "encoder seen": setting("encoder", "seen", to=[[]]),
    "encoder mean": setting("encoder", "mean", to=[0.0]),
    "encoder source": setting("encoder", "source", to=["label"]),
    "about list": setting("about", to=["labels"]),
    "labels": setting("about", to={"labels": ["a"]}),
    "featurizer": setting("featurizer", to=5),
    "not a table": lambda plain: "[1, 2]",
    "deep": lambda plain: '{"a": ' * 100_000,
    "no JSON": lambda plain: "\x00",
    "no entry": lambda plain: "{}",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_description_is_one_line(name: str, path: Path) -> None:
    forge(path, FORGED[name])
    began = time.process_time()
    with pytest.raises(UserError) as caught:
        FittedModel.load(path)
    said = str(caught.value)
    assert str(path) in said
    assert len(said.splitlines()) == 1
    assert len(said) < 1000
    assert "\x1b" not in said
    assert time.process_time() - began < 5


def test_every_method_is_read_back(graphs: GraphSet, tmp_path: Path) -> None:
    for method in NETWORKS:
        for recipe in (SMALL, STRONG["molecules"].but(width=8, levels=2)):
            model = untrained(graphs, method, recipe, members=2)
            model.save(tmp_path / "model.safetensors")
            loaded = FittedModel.load(tmp_path / "model.safetensors")
            np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs), method)


def test_tensors_must_be_those_of_the_network(graphs: GraphSet, path: Path) -> None:
    model = untrained(graphs)
    name = next(iter(model.members[0]))
    for change in (
        {name: model.members[0][name].double()},
        {name: model.members[0][name][:-1]},
        {"more": torch.zeros(1)},
    ):
        replace(model, members=[model.members[0] | change]).save(path)
        with pytest.raises(UserError, match=r"cannot be read by version .*member 0"):
            FittedModel.load(path)


POOL = """
from pathlib import Path
from cgipool.pool import TopKPool

Path("ran").touch()

class Pool(TopKPool):
    "A pool of one's own."
"""


@pytest.fixture
def forged(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "helper_of_forged_model.py").write_text(POOL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "model.safetensors"
    untrained(graphs).save(path)
    forge(path, setting("method", to="helper_of_forged_model:Pool"))
    return path


def test_a_model_file_runs_no_code_unasked(
    forged: Path, tmp_path: Path, graphs: GraphSet, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs.save(tmp_path / "set")
    for command in (["predict"], ["explain", "--graph", "0"]):
        assert main([*command, str(forged), str(tmp_path / "set")]) == 2
        error = capsys.readouterr().err
        assert "--allow-code" in error
        assert len(error.splitlines()) == 1
    for load in (FittedModel.load, GraphClassifier.load):
        with pytest.raises(UserError, match="allow_code=True"):
            load(forged)
    assert not (tmp_path / "ran").exists()
    for command in (["predict"], ["explain", "--graph", "0"]):
        assert main([*command, str(forged), str(tmp_path / "set"), "--allow-code"]) == 0
    assert (tmp_path / "ran").exists()
    expected = untrained(graphs)
    expected = replace(expected, members=FittedModel.load(forged, allow_code=True).members)
    loaded = GraphClassifier.load(forged, allow_code=True)
    np.testing.assert_array_equal(loaded.predict_proba(graphs), expected.predict_proba(graphs))


def test_pipes_and_devices_are_not_models(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(UserError, match=r"cannot read .*: it is a (pipe or a device|folder)"):
            FittedModel.load(path)


def test_every_flipped_bit_of_the_header_is_seen_or_harmless(path: Path, graphs: GraphSet) -> None:
    content = path.read_bytes()
    expected = FittedModel.load(path)
    generator = np.random.default_rng(0)
    for place in generator.choice(len(content), 400, replace=False).tolist():
        path.write_bytes(
            content[:place] + bytes([content[place] ^ (1 << generator.integers(8))]) + content[place + 1 :]
        )
        try:
            found = FittedModel.load(path)
        except UserError:
            continue
        assert (found.method, found.recipe, found.encoder) == (expected.method, expected.recipe, expected.encoder)
        assert all(torch.equal(found.members[0][name], value) for name, value in expected.members[0].items())


@pytest.fixture
def wild(graphs: GraphSet, tmp_path: Path) -> tuple[str, str]:
    """A model whose answer is not finite for graphs that have a certain label, and a set with some of them."""
    model = untrained(graphs, "structure-free")
    weights = dict(model.members[0])
    weights["head.2.bias"] = torch.full_like(weights["head.2.bias"], math.nan)
    replace(model, members=[weights]).save(tmp_path / "wild.safetensors")
    graphs.save(tmp_path / "set")
    return str(tmp_path / "wild.safetensors"), str(tmp_path / "set")


def test_answers_that_are_not_finite_are_not_predictions(
    wild: tuple[str, str], graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows"
    assert main(["predict", *wild, "--out", str(out)]) == 1
    assert "for 12 the model's output is not finite" in capsys.readouterr().err
    lines = out.read_text().splitlines()
    assert len(lines) == 13
    assert all(line.startswith(f"{number},,,,") and NOT_FINITE in line for number, line in enumerate(lines[1:]))
    assert main(["predict", *wild, "--json", "--out", str(out)]) == 1

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in out.read_text().splitlines()]
    assert all(row["prediction"] is None and row["reason"] == NOT_FINITE for row in rows)
    assert main(["predict", *wild, "--strict"]) == 2
    with pytest.raises(UserError, match="output for graph 0 is not finite"):
        GraphClassifier.load(wild[0]).predict(graphs)


def test_explanations_of_answers_that_are_not_finite(graphs: GraphSet, tmp_path: Path) -> None:
    model = untrained(graphs, "topk")
    weights = dict(model.members[0])
    weights["head.2.bias"] = torch.full_like(weights["head.2.bias"], math.nan)
    replace(model, members=[weights]).save(tmp_path / "wild.safetensors")
    graphs.save(tmp_path / "set")
    wild = [str(tmp_path / "wild.safetensors"), str(tmp_path / "set")]
    assert main(["explain", *wild, "--graph", "0"]) == 2
    assert main(["explain", *wild, "--faithfulness"]) == 2
    assert main(["explain", *wild, "--scores", str(tmp_path / "scores.csv")]) == 0
    assert all(NOT_FINITE in line for line in (tmp_path / "scores.csv").read_text().splitlines()[1:])


def test_a_prediction_that_fails_leaves_the_file_as_it_was(
    path: Path, graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs.save(tmp_path / "set")
    out = tmp_path / "rows.csv"
    command = ["predict", str(path), str(tmp_path / "set"), "--out", str(out)]
    assert main(command) == 0
    before = out.read_bytes()
    seen = []

    def torn(model: FittedModel, chunks: object, *rest: object):
        from cgipool.inference.predict import WrittenRows

        yield WrittenRows("0,torn", 1, 0)
        seen.append(out.read_bytes())
        raise UserError("the disk is on fire")

    monkeypatch.setattr("cgipool.inference.predict.written", torn)
    assert main(command) == 2
    assert seen == [before]
    assert out.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "rows.csv", "set"]
