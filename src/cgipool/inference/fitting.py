"""Train a model for use, and make one of what a training has left in its folder."""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgipool.data.further import numbers
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, check_graphs, holdout
from cgipool.errors import whole_number
from cgipool.inference.fitted import FittedModel
from cgipool.pool import Sizes, method_named
from cgipool.task.metrics import shown
from cgipool.task.registry import task_of
from cgipool.training.checkpoint import load_tensors
from cgipool.training.ensemble import member_folder
from cgipool.training.folder import METRICS, split_folder
from cgipool.training.initial import read_encoder
from cgipool.training.job import Diverged, Job, ProgressCallback
from cgipool.training.labels import check_own_loss, labelled_graphs, with_extra
from cgipool.training.recipe import Recipe, resolve_recipe
from cgipool.training.result import Log
from cgipool.training.run import check_device, train_checked
from cgipool.version import __version__


def fit(
    graphs: GraphSet,
    *,
    method: str = "cgi",
    recipe: str | Recipe = "strong",
    ensemble: int = 1,
    validation: float = 0.1,
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    featurizer: dict[str, Any] | None = None,
    sample_weight: ArrayLike | str | None = None,
    extra: GraphSet | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tell: ProgressCallback = lambda progress: None,
    **settings: Any,
) -> FittedModel:
    """Train one model for use, or an ensemble, on all graphs but a share for validation, which early stopping watches.

    `settings` change single settings of the recipe. No graph is held back for a test: what to expect of a model is
    what `train` measures on splits. `sample_weight` [G] is how much each graph counts in the loss, or the name of a
    column of the data. `extra` are graphs without labels, which count in the method's own loss only. The training is
    kept in `folder`, so that `resume` continues an interrupted one; without a name, in a temporary one.
    """
    seed, ensemble = whole_number("seed", seed), whole_number("ensemble", ensemble, 1)
    method_named(method)
    check_device(device)
    chosen = resolve_recipe(recipe, settings)(graphs.family, graphs.has_own_attributes)
    check_graphs(graphs)
    if isinstance(sample_weight, str):
        sample_weight = numbers(graphs, sample_weight)
    ids, val = holdout(graphs, validation, seed)
    featurizer = graphs.featurizer if featurizer is None else featurizer
    if extra is not None:
        check_own_loss(method, chosen, graphs.name)
        ids = np.concatenate([ids, graphs.n_graphs + np.arange(extra.n_graphs)])
        graphs, sample_weight = with_extra(graphs, extra, sample_weight)
    more, split = 0 if extra is None else extra.n_graphs, Split(0, ids, val, val)
    with contextlib.ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="cgipool-")))
        try:
            result = train_checked(
                graphs,
                [split],
                method=method,
                recipe=chosen,
                seed=seed,
                ensemble=ensemble,
                device=device,
                jobs=jobs,
                out=place,
                resume=resume,
                overwrite=overwrite,
                sample_weight=sample_weight,
                tell=tell,
            )
        except Diverged as error:  # its split and its folder are internal
            raise Diverged(error.epoch) from None
        weight = None if sample_weight is None else np.asarray(sample_weight)
        labelled = labelled_graphs(Job(method, chosen, split, seed, device, place, sample_weight=weight), graphs)
        home = split_folder(place, 0)
        model = trained_model(home, graphs, ids, method, chosen, result.ensemble, device, weight, labelled)
    about = {
        "dataset": graphs.name,
        "graphs": {"train": len(ids) - more, "val": len(val)} | ({"extra": more} if more else {}),
        "validation": shown(result.rows[0]["test"], None),
        "epochs": result.rows[0]["epochs"],
        "seed": seed,
        "cgipool": __version__,
    }
    return replace(model, about=about, featurizer=featurizer)


def trained_model(
    home: Path,
    graphs: GraphSet,
    ids: NDArray[Any],
    method: str,
    recipe: Recipe,
    ensemble: int = 1,
    device: str = "cpu",
    weight: NDArray[Any] | None = None,
    labelled: NDArray[Any] | None = None,
) -> FittedModel:
    """The model of a finished split: its folder, its training graphs `ids`, and what it was trained with. `labelled`
    are those of them that have labels, by default all."""
    labelled = ids if labelled is None else labelled
    folders = [home] if ensemble == 1 else [member_folder(home, number) for number in range(ensemble)]
    task, classes = task_of(graphs), graphs.task == "classification"
    return FittedModel(
        method,
        recipe,
        graphs.class_names,
        read_encoder(folders[0]),
        tuple(task.baseline(graphs, labelled, weight)),
        Sizes.of(graphs.sizes[ids]),
        [load_tensors(each / "weights.safetensors")[0] for each in folders],
        featurizer=graphs.featurizer,
        device=device,
        task_name=graphs.task,
        target_names=() if classes else graphs.target_names,
        constants=() if classes else tuple(task.constants(graphs, labelled, recipe.class_weight).tolist()),
        history=[{"member": m} | row for m, each in enumerate(folders) for row in Log(each / METRICS).rows()],
    )
