"""A run folder notices damage: one flipped bit in what it reads is an error, or changes nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgipool.data import GraphSet, motifs
from cgipool.errors import UserError
from cgipool.study.gather import split_rows
from cgipool.training import loop as split
from cgipool.training import run
from cgipool.training.checkpoint import load_tensors, save_tensors
from cgipool.training.evaluate import Evaluation
from cgipool.training.initial import read_encoder
from cgipool.training.job import Progress
from cgipool.training.result import Log, read_probabilities, read_row

TINY: dict[str, Any] = {"width": 4, "levels": 1, "batch_size": 16, "epochs": 3}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return motifs(40, seed=0)


@pytest.fixture(scope="module")
def trained(graphs: GraphSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose second split is under way."""
    folder = tmp_path_factory.mktemp("runs") / "run"

    def stop(progress: Progress) -> None:
        if progress.split == 1 and progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(graphs, splits=2, out=folder, tell=stop, **TINY)
    return folder


def plain_tensors(path: Path) -> Any:
    tensors, header = load_tensors(path)
    return {name: value.tolist() for name, value in tensors.items()}, header


READERS: dict[str, Callable[[Path], Any]] = {
    "split-001/checkpoint.safetensors": plain_tensors,
    "split-000/weights.safetensors": plain_tensors,
    "split-000/result.json": lambda path: read_row(path.parent),
    "split-000/probabilities.npy": lambda path: read_probabilities(path.parent).tolist(),
    "split-000/encoder.json": lambda path: read_encoder(path.parent),
    "split-000/metrics.jsonl": lambda path: Log(path).whole(3),
}


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_is_noticed(name: str, trained: Path) -> None:
    path, read = trained / name, READERS[name]
    content, expected = path.read_bytes(), read(path)
    generator = np.random.default_rng(0)
    bits = 8 * len(content)
    noticed = 0
    try:
        for bit in generator.choice(bits, min(bits, 1500), replace=False).tolist():
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:
                found = read(path)
            except UserError:
                noticed += 1
            else:
                assert found == expected, f"bit {bit} changed the content unnoticed"
    finally:
        path.write_bytes(content)
    assert noticed > 0.9 * min(bits, 1500)


def test_the_name_of_a_digest_is_not_its_weak_spot(trained: Path) -> None:
    for name, read in READERS.items():
        content = (trained / name).read_bytes()
        if b"sha256" not in content:
            continue
        damaged = content.replace(b"sha256", b"sha257").replace(b"4", b"5", 1)
        (trained / name).write_bytes(damaged)
        try:
            with pytest.raises(UserError, match=r"damaged|not a safetensors"):
                read(trained / name)
        finally:
            (trained / name).write_bytes(content)


def test_the_error_says_what_to_do_and_doing_it_helps(graphs: GraphSet, trained: Path) -> None:
    checkpoint = trained / "split-001" / "checkpoint.safetensors"
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(UserError, match=r"SHA-256; remove it to train this split from the start$"):
        run.train(graphs, splits=2, out=trained, resume=True, **TINY)
    checkpoint.unlink()
    expected = run.train(graphs, splits=2, **TINY)
    (trained / "splits.json").write_text("damaged")
    assert run.train(graphs, splits=2, out=trained, resume=True, **TINY).test_accuracy == expected.test_accuracy
    assert [row["graphs"] for row in split_rows(trained)]


def test_files_without_digests_are_read(tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "val_loss": 0.5}\n{"epoch": 2, "val_loss": null}\n')
    assert Log(tmp_path / "metrics.jsonl").column("epoch") == [1, 2]
    row = {"split": 0, "epochs": 2, "best_epoch": 1, "val_loss": 0.5, "test": {}, "parameters": 3}
    row |= {"epoch_seconds": 0.1, "seconds": 0.2}
    (tmp_path / "result.json").write_text(json.dumps(row))
    np.save(tmp_path / "probabilities.npy", np.eye(2))
    assert read_row(tmp_path) == row
    np.testing.assert_array_equal(read_probabilities(tmp_path), np.eye(2))
    from safetensors.torch import save_file

    save_file({"w": torch.ones(2)}, tmp_path / "old.safetensors", {"format": "1", "epoch": "3"})
    assert load_tensors(tmp_path / "old.safetensors")[1] == {"format": "1", "epoch": "3"}
    save_tensors(tmp_path / "new.safetensors", {"w": torch.ones(2)}, {"epoch": "3"})
    assert load_tensors(tmp_path / "new.safetensors")[1] == {"format": "1", "epoch": "3"}


def test_test_answers_that_are_not_finite_are_an_error(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = split.Training.ask_test

    def wild(training: split.Training) -> Evaluation:
        answer = asked(training)
        return replace(answer, logits=torch.full_like(answer.logits, torch.nan))

    monkeypatch.setattr(split.Training, "ask_test", wild)
    with pytest.raises(UserError, match="split 0: the model's outputs on the test graphs are not finite"):
        run.train(graphs, out=tmp_path / "run", **TINY)
    assert not (tmp_path / "run" / "split-000" / "result.json").exists()
