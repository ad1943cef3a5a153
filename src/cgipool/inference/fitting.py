"""Train a model for use, and build a model from the folder of a finished training."""

import contextlib
import platform
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from cgipool.data.further import numbers
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, check_graphs, holdout
from cgipool.errors import UserError, counted, whole_number
from cgipool.inference.blend import Blend
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict_input import check_featurizer
from cgipool.pool import Sizes, method_named
from cgipool.task.metrics import shown
from cgipool.task.registry import task_of
from cgipool.training.checkpoint import digest_of, load_tensors
from cgipool.training.folder import METRICS, member_folder, split_folder
from cgipool.training.initial import read_encoder
from cgipool.training.job import Diverged, Job, ProgressCallback, Start
from cgipool.training.labels import check_own_loss, labelled_graphs, with_extra
from cgipool.training.presets import resolve_recipe
from cgipool.training.recipe import Recipe
from cgipool.training.result import Log, Result
from cgipool.training.run import check_device, train_checked
from cgipool.training.settings import OPTIMISER, setting_of
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
    start: FittedModel | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tell: ProgressCallback = lambda progress: None,
    **settings: Any,
) -> FittedModel:
    """Train one model for use, or an ensemble, on all graphs except a validation share, which early stopping watches.

    `settings` change single settings of the recipe. `sample_weight` [G] is the weight of each graph in the loss, or the
    name of a column of the data. `extra` are graphs without labels, which count in the method's own loss only. `start`
    is a model whose training continues on these graphs, with its method and settings (see `continued`). Checkpoints are
    kept in `folder`, so that `resume` continues an interrupted training; by default the folder is temporary.
    """
    seed, ensemble = whole_number("seed", seed), whole_number("ensemble", ensemble, 1)
    method_named(method)
    check_device(device)
    chosen = resolve_recipe(recipe, settings)(graphs.family, graphs.has_own_attributes, graphs.directed)
    begin = None
    if start is not None:
        check_continues(start, method, chosen, ensemble)
        graphs, begin = continued(start, graphs), _start(start)
    check_graphs(graphs)
    if isinstance(sample_weight, str):
        sample_weight = numbers(graphs, sample_weight)
    ids, val = holdout(graphs, validation, seed)
    featurizer = graphs.featurizer if featurizer is None else featurizer
    counts = {"train": len(ids), "val": len(val)}
    if extra is not None:
        check_own_loss(method, chosen, graphs.name)
        ids = np.concatenate([ids, graphs.n_graphs + np.arange(extra.n_graphs)])
        graphs, sample_weight = with_extra(graphs, extra, sample_weight)
        counts["extra"] = extra.n_graphs
    with contextlib.ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="cgipool-")))
        job = Job(method, chosen, Split(0, ids, val, val), seed, device, place, start=begin)
        options = {"ensemble": ensemble, "jobs": jobs, "resume": resume, "overwrite": overwrite, "tell": tell}
        result = _trained(job, graphs, sample_weight, options)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        labelled = labelled_graphs(replace(job, sample_weight=weight), graphs)
        home = split_folder(place, 0)
        model = trained_model(home, graphs, ids, method, chosen, result.ensemble, device, weight, labelled)
    about = _about(graphs.name, counts, result.rows[0], seed)
    if start is not None:
        model = replace(model, shares=start.shares, sizes=start.sizes, constants=start.constants)
        about |= _history(start)
    return replace(model, about=about, featurizer=featurizer)


def _trained(job: Job, graphs: GraphSet, sample_weight: ArrayLike | None, options: dict[str, Any]) -> Result:
    """Train the only split of a fit; its run is kept in the job's folder."""
    try:
        return train_checked(
            graphs,
            [job.split],
            method=job.method,
            recipe=job.recipe,
            seed=job.seed,
            device=job.device,
            out=job.folder,
            sample_weight=sample_weight,
            start=job.start,
            **options,
        )
    except Diverged as error:  # its split and its folder are internal
        raise Diverged(error.epoch) from None


def _about(dataset: str, counts: dict[str, int], row: dict[str, Any], seed: int) -> dict[str, Any]:
    """The description of the training in a model file; `row` is the result of the only split."""
    found = {"dataset": dataset, "graphs": counts, "validation": shown(row["test"], None), "epochs": row["epochs"]}
    return found | {"seed": seed} | versions()


def versions() -> dict[str, str]:
    """The software versions in a model file."""
    return {"cgipool": __version__, "torch": torch.__version__, "python": platform.python_version()}


def check_continues(start: FittedModel, method: str, recipe: Recipe, ensemble: int) -> None:
    """Raise UserError unless training can continue a model with this method and these settings."""
    if isinstance(start, Blend):
        names = ", ".join(dict.fromkeys(part.method for part in start.parts))
        raise UserError(
            f"a blend of several models ({names}) cannot be continued; run fit --auto on all graphs together"
        )
    if not method_named(start.method).learns:
        raise UserError(f"{start.method} is not a network, so its training cannot be continued; fit it on all graphs")
    if method != start.method:
        raise UserError(
            f"the model's method is {start.method}, not {method}: a training continues with the same method"
        )
    if ensemble != len(start.members):
        raise UserError(f"the model has {counted(len(start.members), 'member')}, not {ensemble}")
    for declared in fields(Recipe):
        if declared.name == "name" or setting_of(declared).panel == OPTIMISER:
            continue
        before, now = getattr(start.recipe, declared.name), getattr(recipe, declared.name)
        if before != now:
            raise UserError(
                f"the model has {declared.name} {before}, not {now}; only settings of the optimisation, such as lr or "
                "epochs, can change when a training continues"
            )


def continued(start: FittedModel, graphs: GraphSet) -> GraphSet:
    """The graphs with their classes or target columns as the model that continues has them. Raise UserError if the
    model cannot read the graphs, or has other classes or columns."""
    start.check_labels(graphs)
    check_featurizer(start, graphs, graphs.name)
    if reasons := start.encoder.unencodable(graphs):
        number = min(reasons)
        raise UserError(f"the model cannot read graph {number} of {graphs.name}: {reasons[number]}")
    labels = start.labels_of(graphs)
    if start.task_name == "classification":
        return graphs.relabelled(labels, start.class_names)
    return graphs.with_targets(labels, start.target_names, start.task_name)


def _start(model: FittedModel) -> Start:
    """The starting point of a training that continues a model."""
    tensors = {f"{number}/{name}": value for number, part in enumerate(model.members) for name, value in part.items()}
    scaling = model.constants if model.task_name == "regression" else ()
    return Start(
        model.encoder, model.members, model.shares, model.sizes, scaling, digest_of(tensors, repr(model.recipe))
    )


def _history(start: FittedModel) -> dict[str, Any]:
    """The part of a continued model's description about earlier trainings, in order, and the labels of its classes."""
    last = {name: start.about[name] for name in ("dataset", "graphs", "validation") if name in start.about}
    labels = {"labels": start.about["labels"]} if "labels" in start.about else {}
    return labels | {"before": [*start.about.get("before", []), last]}


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
    """Build the model of a finished split from its folder. `ids` are its training graphs, and `labelled` those of them
    whose labels were used, by default all."""
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
