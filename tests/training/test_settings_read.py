"""Which settings a method reads: one that it does not read changes no bit of its training, one that it reads does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool.data import motifs
from cgipool.data.splits import random_splits
from cgipool.errors import UserError
from cgipool.pool import METHODS, NETWORKS, method_named
from cgipool.training.checkpoint import load_tensors
from cgipool.training.folder import split_folder
from cgipool.training.presets import recipe_named
from cgipool.training.recipe import SETTINGS
from cgipool.training.run import train

GRAPHS = motifs(30)
SPLITS = random_splits(GRAPHS, seed=0, indices=[0])
SMALL = {"width": 4, "levels": 2, "epochs": 2, "batch_size": 12, "dropout": 0.0}

OTHER: dict[str, Any] = {
    "form": "released", "conv": "gin", "norm": "layer", "gate": "unit", "width": 6, "levels": 1, "readout": "sum",
    "jumping": "concat", "ratio": 0.3, "mi": "kl", "alpha": 5.0, "alpha_proteins": 7.0, "own_loss": 3.0,
    "dropout": 0.4, "dropout_epochs": 1, "lr": 0.1, "schedule": "cosine", "warmup": 1, "weight_decay": 0.5,
    "clip": 0.01, "average": 0.9, "batch_size": 5, "shuffle": False, "epochs": 3, "patience": 1,
    "label_smoothing": 0.3, "convs_per_level": 2, "residual": True, "directed": True, "kernel_edges": False,
    "stop_by": "accuracy", "focal": 2.0, "balanced_batches": True,
    "negative": "batch", "encoding": "unit", "critic_weight_decay": 0.5,
}  # fmt: skip
"""Another value of each setting that some method may not read."""

CHOICES = ("form", "gate", "readout", "jumping", "ratio", "mi", "alpha", "own_loss", "negative", "critic_weight_decay")
"""Settings that some networks read and others do not."""


ON_MOLECULES = ("ecfp-rf", "ecfp-count-rf", "rdkit-rf", "rdkit-et", "rdkit-svm")
"""Methods that need molecules."""


def trained(method: str, folder: Path, **changes: Any) -> dict[str, bytes]:
    """Weights and probabilities of a small training."""
    recipe = recipe_named("paper").but(**SMALL).but(**changes)
    train(GRAPHS, method=method, recipe=recipe, splits=SPLITS, out=folder)
    home = split_folder(folder, 0)
    weights = load_tensors(home / "weights.safetensors")[0]
    bits = {name: value.numpy().tobytes() for name, value in weights.items()}
    return bits | {"probabilities": np.load(home / "probabilities.npy").tobytes()}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:method .* does not read")
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ON_MOLECULES])
def test_settings_that_are_not_read_change_no_bit(name: str, tmp_path: Path) -> None:
    changes = {setting: value for setting, value in OTHER.items() if not METHODS[name].reads(setting)}
    assert changes
    assert trained(name, tmp_path / "other", **changes) == trained(name, tmp_path / "usual")


@pytest.mark.usefixtures("one_thread")
def test_settings_that_are_read_do(tmp_path: Path) -> None:
    usual = trained("cgi", tmp_path / "usual")
    for setting in CHOICES:
        changed = trained("cgi", tmp_path / setting, **{setting: OTHER[setting]}) != usual
        assert changed is METHODS["cgi"].reads(setting), setting


def test_every_setting_is_either_tried_or_always_read() -> None:
    always = {
        "features",
        "vocabulary",
        "attributes",
        "featurizer",
        "wl",
        "rwse",
        "lappe",
        "descriptors",
        "impute",
        "rdkit_descriptors",
        "fingerprints",
        "class_weight",
        "labelled",
    }
    assert set(OTHER) | always == set(SETTINGS)
    assert all(METHODS[name].reads(setting) for name in NETWORKS for setting in always)


POOLS = """
import torch
from cgipool.pool import NoPool

class Keeps(NoPool):
    def __init__(self, dim):
        super().__init__()
    def forward(self, x, level):
        return super().forward(x, level)

class Shares(Keeps):
    def __init__(self, dim, ratio=0.5):
        super().__init__(dim)

class Plain(torch.nn.Module):
    def __init__(self, in_channels):
        super().__init__()
    def forward(self, x, edge_index, edge_attr=None, batch=None):
        return x, edge_index, edge_attr, batch, None, None

class Ratio(Plain):
    def __init__(self, in_channels, ratio=0.5):
        super().__init__(in_channels)
"""


@pytest.mark.parametrize(("name", "reads"), [("Keeps", False), ("Shares", True), ("Plain", False), ("Ratio", True)])
def test_a_pool_of_ones_own_reads_what_it_asks_for(
    name: str, reads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pools_that_read.py").write_text(POOLS)
    monkeypatch.syspath_prepend(tmp_path)
    assert method_named(f"pools_that_read:{name}").reads("ratio") is reads
    assert not method_named(f"pools_that_read:{name}").reads("mi")


def test_a_value_that_is_not_read_is_checked_all_the_same() -> None:
    from cgipool.study.plan import study_of

    with pytest.raises(UserError, match="ratio"):
        study_of({"axes": {"method": ["none"], "dataset": ["motifs"], "ratio": [0.5, 7.5]}})
