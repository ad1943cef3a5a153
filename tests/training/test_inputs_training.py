"""Inputs beyond labels in training: colours, walks and degrees, in both engines, as jobs, and in a model file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool import GraphSet, train
from cgipool.data import Encoder, random_splits
from cgipool.data.computed import writing
from cgipool.data.further import TableBuilder
from cgipool.errors import UnusedDataWarning, UserError
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.training.folder import split_folder
from cgipool.training.initial import read_encoder
from cgipool.training.job import Job
from cgipool.training.loop import train_split
from cgipool.training.parallel import compute_inputs
from cgipool.training.presets import PAPER, keyed
from cgipool.training.recipe import Recipe
from cgipool.training.stacked.host import train_together
from small import random_graphs

STRUCTURE: dict[str, Any] = {"wl": 2, "rwse": 3, "lappe": 2, "features": "label+degree", "attributes": True}
SMALL: dict[str, Any] = {"width": 8, "batch_size": 16, "epochs": 2, "lr": 0.005}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    sizes = np.random.default_rng(1).integers(1, 14, 60)
    return random_graphs(1, sizes.tolist(), density=0.3)


def quiet(progress: Any) -> None:
    pass


def test_both_engines_read_them_alike(graphs: GraphSet, tmp_path: Path) -> None:
    recipe = PAPER.but(**SMALL | STRUCTURE)
    drawn = random_splits(graphs, seed=4, indices=range(2))
    one, other = (
        [Job("sag", recipe, split, 4, "cpu", tmp_path / way / str(split.index)) for split in drawn]
        for way in ("alone", "together")
    )
    for job in one:
        train_split(job, graphs, quiet)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        assert read_encoder(a.folder) == read_encoder(b.folder)
        assert read_encoder(a.folder).wl == 2
        p, q = (np.load(job.folder / "probabilities.npy") for job in (a, b))
        np.testing.assert_allclose(p, q, rtol=5e-3, atol=5e-3)


def test_processes_read_what_the_first_one_computed(
    graphs: GraphSet, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It computes something else here, which the others could not know."""

    def other(graphs: GraphSet, ids: np.ndarray, found: np.ndarray) -> None:
        found[:] = np.arange(found.size).reshape(found.shape)

    monkeypatch.setattr("cgipool.data.structure._walk", other)
    monkeypatch.setattr("cgipool.data.computed.LONG", 0.0)
    options: dict[str, Any] = SMALL | {"method": "none", "epochs": 1, "rwse": 2, "attributes": False}
    train(graphs, splits=2, jobs=2, out=tmp_path / "run", **options)
    for split in random_splits(graphs, seed=0, indices=range(2)):
        nodes = np.concatenate([np.arange(*graphs.node_ptr[g : g + 2]) for g in split.train])
        mean = read_encoder(split_folder(tmp_path / "run", split.index)).mean
        np.testing.assert_allclose(mean, [2 * nodes.mean(), 2 * nodes.mean() + 1])


def test_what_the_first_process_computes(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit", reason="needs the extra chem")
    from cgipool.data.molecules import MoleculeFeaturizer

    monkeypatch.setattr("cgipool.data.computed.LONG", 0.0)
    molecules = MoleculeFeaturizer().graphs(["C" * n for n in range(1, 21)]).relabelled(np.arange(20) % 2, ("a", "b"))
    (split,) = random_splits(molecules, seed=0, indices=[0])

    def entries(method: str, **settings: Any) -> int:
        job = Job(method, PAPER.but(**settings), split, 0, "cpu", tmp_path)
        with writing():
            compute_inputs(job, replace(molecules, checked=True))  # another object each time: none is in memory
        return len(list(own_cache.glob("computed/*.json")))

    assert entries("cgi") == entries("wl") == 0
    assert entries("rdkit-rf") == 1
    assert entries("cgi", rdkit_descriptors=True) == 1
    assert entries("rdkit-svm") == 2
    assert entries("cgi", fingerprints=32) == 3
    assert entries("cgi", wl=2, lappe=2) == 5


def test_a_model_file_colours_new_graphs(graphs: GraphSet, tmp_path: Path) -> None:
    model = fit(graphs, method="topk", ensemble=2, **SMALL | STRUCTURE)
    model.save(tmp_path / "model.safetensors")
    loaded = FittedModel.load(tmp_path / "model.safetensors")
    assert loaded.encoder == model.encoder
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    alone = np.concatenate([loaded.predict_proba(graphs.subset([g])) for g in range(5)])
    np.testing.assert_allclose(alone, model.predict_proba(graphs)[:5], rtol=1e-4)


def test_attributes_of_ones_own_are_used_unless_told_otherwise(graphs: GraphSet) -> None:
    """A set whose class is in its attributes alone is learned by default."""
    y = np.arange(60) % 2
    told = replace(
        random_graphs(1, [5] * 60), y=y, class_names=("0", "1"), category=None, category_names=(),
        attributes=np.repeat(y, 5)[:, None].astype(np.float32),
    )  # fmt: skip
    options: dict[str, Any] = SMALL | {"epochs": 30, "lr": 0.02, "method": "none"}
    learned = train(told, **options)
    assert learned.rows[0]["test"]["accuracy"] == 1.0
    assert learned.to_json()["settings"]["attributes"] is True
    with pytest.warns(UnusedDataWarning, match="set attributes=true to use them"):
        blind = train(told, **options, attributes=False)
    assert blind.rows[0]["test"]["accuracy"] < 1.0
    with pytest.warns(UnusedDataWarning, match="set attributes=true to use them"):
        train(told, **options | {"epochs": 1}, recipe=Recipe())  # a recipe as an object is taken as it is
    assert fit(told, **options | {"epochs": 1}).recipe.attributes
    named = replace(told, name="PROTEINS")
    with pytest.warns(UnusedDataWarning):
        assert not fit(named, **options | {"epochs": 1}).recipe.attributes


def test_defaults_are_not_part_of_a_key() -> None:
    assert not {"wl", "rwse"} & keyed(Recipe()).keys()
    assert keyed(Recipe(wl=3))["wl"] == 3


def with_columns(graphs: GraphSet, **columns: list[Any]) -> GraphSet:
    table = TableBuilder(tuple(columns))
    for row in zip(*columns.values(), strict=True):
        table.add(tuple(map(str, row)))
    return replace(graphs, table=table.texts, column_names=graphs.column_names | {"table": tuple(columns)})


@pytest.fixture(scope="module")
def described() -> GraphSet:
    """Graphs whose class is told by one descriptor alone; another has gaps, a third a text."""
    y = np.arange(60) % 2
    plain = replace(random_graphs(1, [5] * 60), y=y, class_names=("0", "1"), attributes=None)
    gaps = ["" if g in (3, 7) else g for g in range(60)]
    return with_columns(plain, mass=(100.0 + 5 * y).tolist(), gaps=gaps, note=["x"] * 60)


DESCRIBED: dict[str, Any] = SMALL | {"epochs": 30, "lr": 0.02}


@pytest.mark.parametrize("method", ["none", "cgi", "structure-free"])
def test_descriptors_join_the_readout(described: GraphSet, method: str) -> None:
    found = train(described, method=method, descriptors="mass", **DESCRIBED)
    assert found.rows[0]["test"]["accuracy"] == 1.0
    assert train(described, method=method, **DESCRIBED).rows[0]["test"]["accuracy"] < 1.0


def test_descriptors_are_standardised_on_training_graphs(described: GraphSet) -> None:
    train_ids = np.arange(10, 40)
    encoder = Encoder.fit(described, train_ids, descriptors=("mass", "gaps"), impute="mean")
    mass, gaps = 100.0 + 5 * described.y, np.arange(60.0)
    wanted = np.stack([(v - v[train_ids].mean()) / v[train_ids].std() for v in (mass, gaps)], axis=1)
    wanted[[3, 7], 1] = 0.0  # filled with the mean
    np.testing.assert_allclose(encoder.encode(described).descriptors, wanted, rtol=1e-5, atol=1e-6)
    assert Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder


def test_descriptors_in_both_engines(described: GraphSet, tmp_path: Path) -> None:
    recipe = PAPER.but(**SMALL, descriptors="mass,gaps", impute="mean")
    drawn = random_splits(described, seed=4, indices=range(2))
    one, other = (
        [Job("topk", recipe, split, 4, "cpu", tmp_path / way / str(split.index)) for split in drawn]
        for way in ("alone", "together")
    )
    for job in one:
        train_split(job, described, quiet)
    train_together(other, described, quiet)
    for a, b in zip(one, other, strict=True):
        p, q = (np.load(job.folder / "probabilities.npy") for job in (a, b))
        np.testing.assert_allclose(p, q, rtol=5e-3, atol=5e-3)


def test_descriptors_of_new_graphs(described: GraphSet, tmp_path: Path) -> None:
    model = fit(described, method="none", descriptors="mass", **DESCRIBED)
    model.save(tmp_path / "model.safetensors")
    loaded = FittedModel.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(described), model.predict_proba(described))
    with pytest.raises(UserError, match="has no descriptor column 'mass'; it has no table of columns"):
        loaded.predict_proba(replace(described, table=None, column_names={}))
    gap = with_columns(described.subset([0, 1]), mass=[100, ""])
    assert loaded.encoder.unencodable(gap) == {1: "column 'mass' has no value"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("gaps", r"column 'gaps' has no value in 2 graphs, first in graph 3; impute=mean fills such gaps"),
        ("note", r"column 'note' has 60 values that are not a finite number, the first in graph 0: 'x'"),
        ("weight", "has no column 'weight'; its columns: mass, gaps, note"),
    ],
)
def test_descriptors_that_cannot_be_read(described: GraphSet, columns: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        train(described, descriptors=columns, **DESCRIBED)
