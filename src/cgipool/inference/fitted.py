"""A trained model that answers on new graphs, and its file: one safetensors file, no pickle.

The file holds the weights of each member (member-00/…) and, in its header, method, recipe, input encoder, class names,
what it was trained on, and a checksum of all that. Shapes: G graphs, C classes, M members.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cgipool.data.batch import Batch, Batcher
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.data.splits import Split, check_graphs, holdout
from cgipool.errors import UserError, excerpt, whole_number
from cgipool.inference.model_file import check_description, check_weights, parsed
from cgipool.model.network import Model, Output
from cgipool.pool import Sizes, is_own, method_named
from cgipool.training.checkpoint import digest_of, load_tensors, save_tensors
from cgipool.training.ensemble import member_folder
from cgipool.training.evaluate import chunks
from cgipool.training.folder import METRICS
from cgipool.training.initial import class_shares, model_of, read_encoder
from cgipool.training.job import Diverged, ProgressCallback
from cgipool.training.metrics import shown
from cgipool.training.recipe import Recipe, recipe_named
from cgipool.training.result import Log
from cgipool.training.run import check_device, split_folder, train
from cgipool.version import __version__

KIND, FORMAT = "cgipool model", 1


@dataclass(frozen=True, repr=False)
class FittedModel:
    """A model, or an ensemble of several, with all that it needs to answer."""

    method: str
    recipe: Recipe
    class_names: Names
    encoder: Encoder
    shares: tuple[float, ...]
    """[C] of the classes among the training graphs."""
    sizes: Sizes
    """Of the training graphs."""
    members: list[dict[str, Tensor]]
    """[M] weights by name."""
    about: dict[str, Any] = field(default_factory=dict)
    """What it was trained on, and how it did on its validation graphs."""
    featurizer: dict[str, Any] | None = None
    """How raw inputs (SMILES) become graphs, if they do; as `to_json` of the featuriser gives it."""
    device: str = "cpu"
    history: list[dict[str, Any]] = field(default_factory=list)
    """What is known of each epoch of each member, if it was just trained; a file does not keep it."""

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
        """[M] ready to answer."""
        made = []
        for weights in self.members:
            model = model_of(self.method, self.recipe, self.encoder, self.shares, self.sizes)
            _load_weights(model, weights)
            model.compact = True
            made.append(model.to(self.device).eval())
        return made

    def on(self, device: str) -> "FittedModel":
        """The same model, answering on a device."""
        check_device(device)
        return FittedModel(**{f.name: getattr(self, f.name) for f in fields(self)} | {"device": device})

    def batches(self, graphs: GraphSet) -> Iterator[Batch]:
        """The graphs as the networks read them, in order and in large batches."""
        return chunks(Batcher(graphs, self.encoder.encode(graphs), self.device), np.arange(graphs.n_graphs))

    @torch.no_grad()
    def _answers(self, graphs: GraphSet) -> Iterator[list[Output]]:
        for batch in self.batches(graphs):
            yield [network(batch) for network in self.networks]

    def predict_proba(self, graphs: GraphSet) -> NDArray[np.float64]:
        """[G, C] the mean of the members' probabilities."""
        parts = [
            torch.stack([torch.softmax(answer.logits.double(), 1) for answer in answers]).mean(0).cpu().numpy()
            for answers in self._answers(graphs)
        ]
        return np.concatenate([np.empty((0, len(self.class_names))), *parts])

    def embed(self, graphs: GraphSet) -> NDArray[np.float32]:
        """[G, M · D] the vector of D numbers that the head reads of each graph, of each member: with the paper's
        readouts D is twice the width."""
        parts = [
            torch.cat([answer.embedding for answer in answers], 1).cpu().numpy() for answers in self._answers(graphs)
        ]
        return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
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
        try:
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        except TypeError as error:  # labels of `GraphClassifier`, such as dates
            raise UserError(f"cannot write {path}: labels must be numbers or strings ({error})") from None
        save_tensors(Path(path), tensors, {"kind": KIND, "model": text, "checksum": digest_of(tensors, text)})

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", allow_code: bool = False) -> "FittedModel":
        """Read a model; a foreign, damaged or later file is an error of one line.

        A model with a pool of its own names a class, MODULE:CLASS, which is imported: this runs the code of that module
        and needs `allow_code`.
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
            check_description(plain, tensors)
            return cls._of(plain, tensors, device, allow_code, path)
        except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise UserError(f"{path} cannot be read by version {__version__}: {_said(error)}") from None

    @classmethod
    def _of(
        cls, plain: dict[str, Any], tensors: dict[str, Tensor], device: str, allow_code: bool, path: str | Path
    ) -> "FittedModel":
        """The model of a description that has been checked; its tensors are compared with those that follow from it."""
        method = plain["method"]
        if is_own(method) and not allow_code:
            raise UserError(
                f"{path} uses the class {excerpt(method)!r}, and loading it runs the code of that module; if you "
                "trust the file, use --allow-code, or allow_code=True in Python"
            )
        try:
            method_named(method)
            recipe = _recipe(plain["recipe"])
        except UserError as error:
            raise UserError(f"{path}: {excerpt(str(error), 400)}") from None
        encoder, sizes, shares = Encoder.from_json(plain["encoder"]), Sizes(*plain["sizes"]), tuple(plain["shares"])
        members = [_member(tensors, number) for number in range(plain["members"])]
        check_weights(method, recipe, encoder, shares, sizes, members)
        names = tuple(plain["class_names"])
        return cls(method, recipe, names, encoder, shares, sizes, members, plain["about"], plain["featurizer"], device)


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its description is nested too deeply"
    return f"it has no entry {error}" if isinstance(error, KeyError) else excerpt(str(error), 400)


def _member(tensors: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    prefix = f"member-{number:02d}/"
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _load_weights(model: Model, weights: dict[str, Tensor]) -> None:
    """Give a model its weights; where the class of a user's own pool has changed since, they do not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the weights do not match the model: {excerpt(str(error), 400)}") from None


def _recipe(plain: dict[str, Any]) -> Recipe:
    """A recipe of this or an earlier version; settings that came later have their defaults."""
    known = {f.name for f in fields(Recipe)}
    if later := [name for name in plain if name not in known]:
        raise ValueError(f"it has the setting {later[0]!r}, which this version does not know")
    return Recipe(**plain)


def fit(
    graphs: GraphSet,
    *,
    method: str = "cgi",
    recipe: str | Recipe = "paper",
    ensemble: int = 1,
    validation: float = 0.1,
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    featurizer: dict[str, Any] | None = None,
    sample_weight: ArrayLike | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tell: ProgressCallback = lambda progress: None,
    **settings: Any,
) -> FittedModel:
    """Train one model for use, or an ensemble, on all graphs but a share for validation, which early stopping watches.

    `settings` change single settings of the recipe. No graph is held back for a test: what to expect of a model is
    what `train` measures on splits. `sample_weight` [G] is how much each graph counts in the loss. The training is kept
    in `folder`, so that `resume` continues an interrupted one; without a name, in a temporary one.
    """
    seed = whole_number("seed", seed)
    check_graphs(graphs)
    method_named(method)
    chosen = recipe_named(recipe, graphs.family).but(**settings)
    ids, val = holdout(graphs, validation, seed)
    with contextlib.ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="cgipool-")))
        try:
            result = train(
                graphs,
                method=method,
                recipe=chosen,
                splits=[Split(0, ids, val, val)],
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
        home = split_folder(place, 0)
        folders = [home] if ensemble == 1 else [member_folder(home, number) for number in range(ensemble)]
        members = [load_tensors(each / "weights.safetensors")[0] for each in folders]
        encoder = read_encoder(folders[0])
        history = [{"member": m} | row for m, each in enumerate(folders) for row in Log(each / METRICS).rows()]
    about = {
        "dataset": graphs.name,
        "graphs": {"train": len(ids), "val": len(val)},
        "validation": shown(result.rows[0]["test"], None),
        "epochs": result.rows[0]["epochs"],
        "seed": seed,
        "cgipool": __version__,
    }
    weight = None if sample_weight is None else np.asarray(sample_weight)
    shares = tuple(class_shares(graphs, ids, weight).tolist())
    sizes, names = Sizes.of(graphs.sizes[ids]), graphs.class_names
    featurizer = graphs.featurizer if featurizer is None else featurizer
    return FittedModel(
        method, chosen, names, encoder, shares, sizes, members, about, featurizer, device, history=history
    )
