"""Sets that stay on disk: trained on, encoded and split as in memory, with nothing of the size of their nodes held."""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from random_sets import assert_equal

from cgipool.data import Encoder, GraphSet, columns, motifs, random_splits, splits, write_splits
from cgipool.data.batch import Batcher
from cgipool.data.digests import content_read
from cgipool.data.store import folder_of
from cgipool.errors import UserError
from cgipool.training import evaluate
from cgipool.training.presets import PAPER
from cgipool.training.run import train


@pytest.fixture(scope="module")
def whole() -> GraphSet:
    """Graphs with two label columns and three attributes."""
    graphs, rng = motifs(60), np.random.default_rng(0)
    return dataclasses.replace(
        graphs,
        category=rng.integers(0, 4, (graphs.n_nodes, 2)).astype(np.int32),
        category_names=(("C", "N", "O", "S"), ("0", "1", "2", "3")),
        attributes=rng.normal(3.0, 2.0, (graphs.n_nodes, 3)).astype(np.float32),
    )


@pytest.fixture
def mapped(whole: GraphSet, tmp_path: Path) -> GraphSet:
    whole.save(tmp_path / "set")
    return GraphSet.load(tmp_path / "set", mmap=True)


@pytest.mark.parametrize("source", ["label", "degree"])
@pytest.mark.parametrize("vocabulary", ["train", "all"])
@pytest.mark.parametrize("stretch", [1, 100, 1 << 22])
def test_encoder(
    whole: GraphSet, mapped: GraphSet, source: str, vocabulary: str, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = np.array([50, 3, 4, 20])
    options = {"source": source, "vocabulary": vocabulary, "attributes": True}
    monkeypatch.setattr(columns, "STRETCH", stretch)
    encoder = Encoder.fit(mapped, ids, **options)  # type: ignore[arg-type]
    part = whole.subset(ids)
    assert part.attributes is not None
    assert part.category is not None
    np.testing.assert_allclose(encoder.mean or (), part.attributes.astype(np.float64).mean(0), rtol=1e-14)
    np.testing.assert_allclose(encoder.scale or (), part.attributes.astype(np.float64).std(0), rtol=1e-14)
    shown = part.category[:, 0] if source == "label" else part.degree
    known = {name for name, seen in zip(encoder.values[0], encoder.seen[0], strict=True) if seen}
    everything = whole.category[:, 0] if source == "label" else whole.degree  # type: ignore[index]
    names = whole.category_names[0] if source == "label" else np.arange(99).astype(str)
    assert known == {names[code] for code in np.unique(everything if vocabulary == "all" else shown)}
    lazy, plain = encoder.encode(mapped), encoder.encode(whole)
    assert not isinstance(lazy.category, np.ndarray)
    nodes = np.array([5, 0, 700])
    np.testing.assert_array_equal(lazy.category[nodes], plain.category[nodes])
    np.testing.assert_array_equal(np.asarray(lazy.floats), plain.floats)


def test_a_label_that_is_not_known(whole: GraphSet, mapped: GraphSet) -> None:
    other = dataclasses.replace(whole, category_names=(("C", "N", "O", "P"), whole.category_names[1]))
    encoder = Encoder.fit(other, vocabulary="all")
    with pytest.raises(UserError, match=r"node label \(column 0\) S is not in the vocabulary"):
        encoder.encode(mapped)


def test_batches(whole: GraphSet, mapped: GraphSet) -> None:
    encoder, ids = Encoder.fit(whole, attributes=True), np.array([7, 1, 59, 30])
    one, other = (Batcher(graphs, encoder.encode(graphs)).batch(ids, key=5) for graphs in (whole, mapped))
    for left, right in zip(one, other, strict=True):
        assert torch.equal(left, right)
    first, last = whole.node_ptr[7], whole.node_ptr[8]
    expected = [p - first + whole.edge_disp[whole.edge_ptr[p] : whole.edge_ptr[p + 1]] for p in range(first, last)]
    assert one.neighbor[: one.row_ptr[last - first]].tolist() == np.concatenate(expected).tolist()
    assert one.row_ptr.diff()[: last - first].tolist() == whole.degree[first:last].tolist()


@pytest.mark.usefixtures("one_thread")
def test_training_is_the_same(whole: GraphSet, mapped: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = PAPER.but(width=8, epochs=2, attributes=True)
    expected = train(whole, recipe=recipe, splits=2).rows
    found = train(mapped, recipe=recipe, splits=2).rows
    for one, other in zip(expected, found, strict=True):
        assert (one["val_loss"], one["test"]) == (other["val_loss"], other["test"])


def test_batches_that_are_many_are_made_anew(whole: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    batcher = Batcher(whole, Encoder.fit(whole).encode(whole))
    ids = np.arange(0, 60, 2)
    for most in (0, 10**6):
        monkeypatch.setattr(evaluate, "HELD_NODES", most)
        chunks = evaluate.Chunks(batcher, ids)
        for _ in range(2):
            assert torch.cat([batch.id for batch in chunks]).tolist() == ids.tolist()
        assert (next(iter(chunks)) is next(iter(chunks))) == (most > 0)


def test_the_hash_of_the_content_is_that_of_all_bytes(whole: GraphSet, mapped: GraphSet) -> None:
    names = ("node_ptr", "edge_ptr", "edge_disp", "y", "category", "attributes")
    expected = hashlib.sha256(b"".join(getattr(whole, name).tobytes() for name in names)).hexdigest()
    assert content_read(whole) == content_read(mapped) == expected


def test_splits_are_written_in_stretches(whole: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "STRETCH", 7)
    drawn = random_splits(whole, seed=0, indices=range(2))
    write_splits(tmp_path / "splits.json", drawn)
    sides = [
        {"index": s.index, "train": s.train.tolist(), "val": s.val.tolist(), "test": s.test.tolist()} for s in drawn
    ]
    text = (tmp_path / "splits.json").read_text()
    assert json.loads(text) == {"splits": sides}
    assert text == '{"splits": [\n' + ",\n".join(map(json.dumps, sides)) + "\n]}\n"


def test_saving_a_mapped_set(whole: GraphSet, mapped: GraphSet, tmp_path: Path) -> None:
    mapped.save(tmp_path / "again")
    assert_equal(GraphSet.load(tmp_path / "again"), whole)


def test_where_a_set_lies(whole: GraphSet, mapped: GraphSet, tmp_path: Path) -> None:
    """Only where all of it is as it lies there."""
    assert folder_of(mapped) == tmp_path / "set"
    others = [
        whole,
        mapped.subset(range(60)),
        dataclasses.replace(mapped, name="other"),
        dataclasses.replace(mapped, y=mapped.y[::-1]),
        dataclasses.replace(mapped, y=np.array(mapped.y)),
        dataclasses.replace(mapped, attributes=None),
    ]
    assert [folder_of(other) for other in others] == [None] * len(others)
    shutil.rmtree(tmp_path / "set")
    assert folder_of(mapped) is None


def test_where_a_set_with_empty_arrays_lies(tmp_path: Path) -> None:
    """They cannot be mapped."""
    GraphSet.from_edges("points", [1, 1], [], [], [0, 1]).save(tmp_path / "set")
    assert folder_of(GraphSet.load(tmp_path / "set", mmap=True)) == tmp_path / "set"
