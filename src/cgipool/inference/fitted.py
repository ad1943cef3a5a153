"""A trained model that predicts new graphs, and its file: one safetensors file, no pickle.

The file holds the weights of each member (member-00/…) and, in its header, method, recipe, input encoder, class names,
a description of the training, and a checksum of everything. Shapes: G graphs, C classes, M members.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cgipool.classical import MODELS
from cgipool.data.batch import Batch, Batcher
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.table import few
from cgipool.data.names import Names
from cgipool.errors import UserError, excerpt
from cgipool.inference.model_file import check_description, check_weights, parsed
from cgipool.model.network import Model, Output
from cgipool.pool import Sizes, is_own, method_named
from cgipool.task.base import Task
from cgipool.task.decisions import thresholds_in
from cgipool.task.registry import task_named
from cgipool.training.checkpoint import digest_of, load_tensors, save_tensors
from cgipool.training.evaluate import chunks
from cgipool.training.initial import model_of
from cgipool.training.recipe import Recipe
from cgipool.training.run import check_device
from cgipool.version import __version__

KIND, FORMAT = "cgipool model", 1


NODES_PER_CPU_BATCH = 16_000
"""On a CPU the features of this many nodes fit into the last-level cache: predictions are a third faster than with the
batches of an evaluation during training."""


@dataclass(frozen=True, repr=False)
class FittedModel:
    """A model or an ensemble of models, with everything that is needed for predictions."""

    method: str
    recipe: Recipe
    class_names: Names
    encoder: Encoder
    shares: tuple[float, ...]
    """[O] the best constant prediction for the training graphs, such as the shares of the classes."""
    sizes: Sizes
    """The sizes of the training graphs."""
    members: list[dict[str, Tensor]]
    """[M] weights by name."""
    about: dict[str, Any] = field(default_factory=dict)
    """What it was trained on, and the metrics on its validation graphs."""
    featurizer: dict[str, Any] | None = None
    """How SMILES are converted to graphs, from `MoleculeFeaturizer.to_json`; None for other inputs."""
    device: str = "cpu"
    task_name: str = "classification"
    """The task."""
    target_names: Names = ()
    """The target columns of a regression or multi-label task."""
    constants: tuple[Any, ...] = ()
    """The task's constants from the training graphs, such as means and standard deviations for a regression."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry for each epoch of each member. It is not saved, so a loaded model has none."""

    @property
    def title(self) -> str:
        """The model in words."""
        words = f"{method_named(self.method).title}, recipe {self.recipe.name}"
        return words + (f", ensemble of {len(self.members)}" if len(self.members) > 1 else "")

    def __repr__(self) -> str:
        """One line, without the weights."""
        members = f", members={len(self.members)}" if len(self.members) != 1 else ""
        weights = sum(value.numel() for part in self.members for value in part.values())
        return (
            f"FittedModel(method={self.method!r}, recipe={self.recipe.name!r}, classes={len(self.class_names)}"
            f"{members}, weights={weights:,}, device={self.device!r})"
        )

    @cached_property
    def networks(self) -> list[Model]:
        """[M] the networks in evaluation mode."""
        if method_named(self.method).classical:
            raise UserError(f"{self.method} is not a network: it has neither embeddings nor explanations")
        made = []
        for weights in self.members:
            model = model_of(self.method, self.recipe, self.encoder, self.task, self.shares, self.sizes)
            _load_weights(model, weights)
            model.compact = True
            made.append(model.to(self.device).eval())
        return made

    @cached_property
    def task(self) -> Task:
        """The task."""
        return task_named(self.task_name, self.class_names or self.target_names)

    @cached_property
    def thresholds(self) -> NDArray[np.float64] | None:
        """The probabilities from which rare classes or ones are predicted (task/decisions.py); None: the most probable
        class or value is."""
        return thresholds_in(self.about.get("thresholds"), self.task.outputs)

    @property
    def descriptor_columns(self) -> Names:
        """The columns of a table that the model reads in addition to the graphs."""
        return () if self.encoder.descriptors is None else self.encoder.descriptors.names

    def on(self, device: str) -> "FittedModel":
        """The same model, which predicts on a device."""
        check_device(device)
        return FittedModel(**{f.name: getattr(self, f.name) for f in fields(self)} | {"device": device})

    def batches(self, graphs: GraphSet) -> Iterator[Batch]:
        """The encoded graphs, in order and in large batches."""
        for network in self.networks:
            network.check(graphs, trained=True)
        nodes = NODES_PER_CPU_BATCH if self.device == "cpu" else None
        batcher = Batcher(graphs, self.encoder.encode(graphs), self.device)
        return chunks(batcher, np.arange(graphs.n_graphs), nodes=nodes)

    @torch.no_grad()
    def _answers(self, graphs: GraphSet) -> Iterator[list[Output]]:
        for batch in self.batches(graphs):
            yield [network(batch) for network in self.networks]

    def member_predictions(self, graphs: GraphSet) -> NDArray[np.float64]:
        """[M, G, O] the predictions of each member: probabilities, or values in the targets' units."""
        if method_named(self.method).classical:
            held = [{name: value.cpu().numpy() for name, value in part.items()} for part in self.members]
            return np.stack([MODELS[self.method].predict(arrays, graphs, self.task) for arrays in held])
        constants = torch.tensor(self.constants, dtype=torch.float32, device=self.device)
        parts = [
            torch.stack([self.task.predictions(answer.logits, constants) for answer in answers]).cpu().numpy()
            for answers in self._answers(graphs)
        ]
        return np.concatenate([np.empty((len(self.members), 0, self.task.outputs)), *parts], axis=1)

    def predictions(self, graphs: GraphSet) -> NDArray[np.float64]:
        """[G, O] the mean over members: probabilities, or values in the targets' units."""
        return self.member_predictions(graphs).mean(0)

    def predict_proba(self, graphs: GraphSet) -> NDArray[np.float64]:
        """[G, C] the mean of the members' probabilities."""
        return self.predictions(graphs)

    def evaluate(self, graphs: GraphSet) -> dict[str, Any]:
        """All metrics of the task on labelled graphs, by name; those of each class or column under per_class or
        per_column. Classes and columns are matched by name."""
        self.check_labels(graphs)
        targets, answers = self.labels_of(graphs), self.predictions(graphs)
        known = (targets >= 0) if targets.ndim == 1 else ~np.isnan(targets).all(1)
        if not known.any():
            raise UserError(f"{graphs.name}: no graph has a known label")
        return self.task.evaluate(targets[known], answers[known], self.thresholds)

    def check_labels(self, graphs: GraphSet) -> None:
        """Raise UserError unless graphs have labels of the model's task."""
        if graphs.task != self.task_name:
            raise UserError(f"{graphs.name} has targets for {graphs.task}, but the model is for {self.task_name}")
        if not graphs.is_labelled:
            raise UserError(f"{graphs.name} has no labels, so there is nothing to evaluate the model against")
        missing = [name for name in self.target_names if name not in graphs.target_names]
        if missing:
            raise UserError(f"{graphs.name} has no target column {excerpt(missing[0])!r}, which the model predicts")

    def labels_of(self, graphs: GraphSet) -> NDArray[Any]:
        """The labels of graphs in the model's order: classes [G], −1 where missing, or columns [G, T]."""
        if graphs.targets is not None:
            return np.asarray(graphs.targets[:, [graphs.target_names.index(name) for name in self.target_names]])
        code = {name: number for number, name in enumerate(self.class_names)}
        codes = np.array([*(code.get(name, -2) for name in graphs.class_names), -1])[graphs.y]
        if (codes == -2).any():
            name = graphs.class_names[int(graphs.y[codes == -2][0])]
            raise unknown_class(graphs.name, name, self.class_names)
        return codes

    def embed(self, graphs: GraphSet) -> NDArray[np.float32]:
        """[G, M · D] the embeddings of each graph by all members: the D numbers that the head reads. With the paper's
        readout, D is twice the width."""
        parts = [
            torch.cat([answer.embedding for answer in answers], 1).cpu().numpy() for answers in self._answers(graphs)
        ]
        return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)

    def plain(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and the description for a file."""
        tensors = {
            f"member-{number:02d}/{name}": value
            for number, part in enumerate(self.members)
            for name, value in part.items()
        }
        plain = {
            "format": FORMAT,
            "method": self.method,
            "recipe": self.recipe.to_json(),
            "class_names": self.class_names,
            "encoder": self.encoder.to_json(),
            "shares": self.shares,
            "sizes": self.sizes,
            "members": len(self.members),
            "about": self.about,
            "featurizer": self.featurizer,
        }
        if self.task_name != "classification":
            named = {"task": self.task_name, "target_names": self.target_names, "constants": self.constants}
            plain |= named
        return tensors, plain

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        tensors, plain = self.plain()
        try:
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        except TypeError as error:  # labels of `GraphClassifier`, such as dates
            raise UserError(f"cannot write {path}: labels must be numbers or strings ({error})") from None
        save_tensors(Path(path), tensors, {"kind": KIND, "model": text, "checksum": digest_of(tensors, text)})

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", allow_code: bool = False) -> "FittedModel":
        """Read a model. Raise UserError if the file is not a model, is damaged, or was written by a later version.

        A model with a user's own pool names its class, MODULE:CLASS. Importing it runs the code of that module, so it
        needs `allow_code`.
        """
        check_device(device)
        tensors, header = load_tensors(Path(path))
        if header.get("kind") != KIND or "model" not in header:
            raise UserError(f"{path} is not a model file of `cgipool fit`")
        if header.get("checksum") != digest_of(tensors, header["model"]):
            raise UserError(f"{path} is damaged: its content does not match its checksum")
        try:
            plain = parsed(header["model"])
            if plain.get("format") != FORMAT:
                raise UserError(
                    f"{path} has format {excerpt(str(plain.get('format')))}, but this version reads {FORMAT}"
                )
            if "parts" in plain:
                from cgipool.inference.blend import Blend  # which is built on this class

                return Blend.read(plain, tensors, device, allow_code, path)
            return cls.described(plain, tensors, device, allow_code, path)
        except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise UserError(f"{path} cannot be read by version {__version__}: {_said(error)}") from None

    @classmethod
    def described(
        cls, plain: dict[str, Any], tensors: dict[str, Tensor], device: str, allow_code: bool, path: str | Path
    ) -> "FittedModel":
        """Build a model from its description and tensors. Raise ValueError if they do not match."""
        check_description(plain, tensors)
        method, function = plain["method"], ((plain["featurizer"] or {}).get("own") or {}).get("function")
        own = f"the class {excerpt(method)!r}" if is_own(method) else function and f"the function {excerpt(function)!r}"
        if own and not allow_code:
            raise UserError(
                f"{path} uses {own}, and loading it runs the code of that module; if you trust the file, use "
                "--allow-code, or allow_code=True in Python"
            )
        try:
            method_named(method)
            recipe = _recipe(plain["recipe"])
        except UserError as error:
            raise UserError(f"{path}: {excerpt(str(error), 400)}") from None
        encoder, sizes, shares = Encoder.from_json(plain["encoder"]), Sizes(*plain["sizes"]), tuple(plain["shares"])
        members = [_member(tensors, number) for number in range(plain["members"])]
        names, targets = tuple(plain["class_names"]), tuple(plain.get("target_names", ()))
        task = task_named(plain.get("task", "classification"), names or targets)
        check_weights(method, recipe, encoder, task, shares, sizes, members)
        rest: dict[str, Any] = {
            "task_name": task.name,
            "target_names": targets,
            "constants": tuple(plain.get("constants", ())),
        }
        featurizer, about = plain["featurizer"], plain["about"]
        encoder = _named_columns(encoder, featurizer)
        return cls(method, recipe, names, encoder, shares, sizes, members, about, featurizer, device, **rest)


def unknown_class(where: object, name: str, known: Names) -> UserError:
    """The error for a class that the model was not trained on."""
    return UserError(f"{where}: the model does not know the class {excerpt(name)!r}; its classes: {few(known)}")


def _named_columns(encoder: Encoder, featurizer: dict[str, Any] | None) -> Encoder:
    """The encoder of a model of molecules with the names of its columns, so that it can read sets with more columns.
    Earlier versions did not save these names."""
    atoms = [column.get("name") for column in (featurizer or {}).get("atoms", ()) if isinstance(column, dict)]
    if encoder.reads or encoder.source != "label" or len(atoms) != len(encoder.values) - encoder.wl:
        return encoder
    return replace(encoder, reads=tuple(map(str, atoms)))


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its description is nested too deeply"
    return f"it has no entry {error}" if isinstance(error, KeyError) else excerpt(str(error), 400)


def _member(tensors: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    prefix = f"member-{number:02d}/"
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _load_weights(model: Model, weights: dict[str, Tensor]) -> None:
    """Load the weights into a model. They do not match if a user's own pool class has changed since."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the weights do not match the model: {excerpt(str(error), 400)}") from None


def _recipe(plain: dict[str, Any]) -> Recipe:
    """The recipe of a file of this or an earlier version; settings that were added later have their defaults."""
    known = {f.name for f in fields(Recipe)}
    if later := [name for name in plain if name not in known]:
        raise ValueError(f"it has the setting {later[0]!r}, which this version does not know")
    return Recipe(**plain)
