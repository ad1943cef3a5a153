"""The search of `fit --auto`: successive halving over candidates on cross-validation folds, within a budget of time.

A tenth of the graphs is held out and looked at once, at the very end. The others form folds: in fold i a candidate
trains on the rest, less a tenth that early stopping watches, and is scored on the fold. First all candidates see one
fold, networks with a quarter of their epochs; the better half goes on to two folds, the best few to all. Every graph is
then scored once by models that were not trained on it, and these models, one per fold, are the members of the result.
"""

import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.auto.candidates import BASELINE, Candidate
from cgipool.auto.rare import RARE_METRIC, has_rare_classes
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, fold_splits, holdout
from cgipool.errors import UnusedDataWarning, UserError, excerpt
from cgipool.files import read_json, write_json
from cgipool.task.base import Task
from cgipool.task.metrics import classes_of, described
from cgipool.task.registry import task_of
from cgipool.training.folder import content_of, is_free, split_folder
from cgipool.training.job import Progress
from cgipool.training.recipe import Recipe
from cgipool.training.result import read_probabilities
from cgipool.training.run import train

STATE = "search.json"

FOLDS = 5
HELD_OUT, STOPPING = 0.1, 0.1
"""Shares of the graphs: for the estimate at the end, and of each fold's training graphs for early stopping."""

FEWEST = 30
"""Graphs that a search needs."""

CURVE = (0.25, 0.5)
"""Shares of the training graphs for the learning curve."""

FINALISTS = 4
RUNGS = (0.3, 0.9)
"""The share of the budget for the first look, and for all but the learning curve."""

FEWEST_EPOCHS = 3
"""A network that cannot be trained for so long is left out."""


class OutOfTime(Exception):
    """A training reached the end of its share of the budget."""


@dataclass
class Attempt:
    """A candidate and its scores so far."""

    candidate: Candidate
    recipe: Recipe | None = None
    """Its settings with the epochs that fit into the budget, once it was trained in full."""
    answers: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    """By fold, [n, O] predictions for the graphs of the fold, from a full training."""
    homes: dict[int, Path] = field(default_factory=dict)
    """By fold, the folder of the trained model."""
    scores: list[float] = field(default_factory=list)
    """The metric after each rung that it was part of."""
    seconds: float = 0.0
    reason: str = ""
    """Why it was not trained to the end: an error, or the budget."""


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    finalists: list[Attempt]
    """The trials that were scored on all of `folds`, the best first."""
    rest: list[Attempt]
    """The others, those that were not trained to the end last."""
    folds: list[int]
    """The folds that all finalists finished."""
    dev: NDArray[np.int64]
    held: NDArray[np.int64]
    """The graphs that were searched on, and those held out."""
    metric: str


class AutoSearch:
    """One search in its folder. Stopped at any time, the same search in the same folder goes on."""

    def __init__(
        self,
        graphs: GraphSet,
        candidates: Sequence[Candidate],
        folder: Path,
        budget: float,
        *,
        metric: str | None = None,
        seed: int = 0,
        device: str = "cpu",
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        check_data(graphs)
        self.graphs, self.folder, self.budget = graphs, folder, budget
        self.task: Task = task_of(graphs)
        self.classes = classes_of(graphs) if graphs.task == "classification" else None
        self.metric = metric or (RARE_METRIC if has_rare_classes(graphs) else self.task.primary)
        self.seed, self.device, self.say = seed, device, say
        self.dev, self.held = holdout(graphs, HELD_OUT, seed)
        self.folds = folds_of(graphs, self.dev, seed)
        self.trials = [Attempt(candidate) for candidate in candidates]
        self._state = self._stored()
        self._before = float(self._state["seconds"])
        self._began = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the search began, those of earlier starts included."""
        return self._before + time.monotonic() - self._began

    def run(self) -> Found:
        """Search until the last rung is over or the budget is spent."""
        self._rung([0], self.trials, RUNGS[0], len(self.trials), short=True)
        self._need_one()
        better = self._best(self.trials, (len(self.trials) + 1) // 2)
        self._rung([0, 1], better, RUNGS[1], 2 * len(better) + (FOLDS - 2) * FINALISTS)
        finalists = self._best([trial for trial in better if 1 in trial.answers] or better, FINALISTS)
        for fold in range(2, FOLDS):
            self._rung([fold], finalists, RUNGS[1], FINALISTS)
        for fold in range(1, FOLDS):
            self._rung([fold], [trial for trial in self.trials if trial.candidate.name == BASELINE], 1.0, 1)
        return self._found(finalists)

    def _rung(
        self, folds: list[int], trials: Sequence[Attempt], share: float, planned: int, short: bool = False
    ) -> None:
        """Train some trials on some folds, one after another, within a share of the budget. `planned` is the number of
        trainings that the share is meant for."""
        for trial in trials:
            for fold in folds:
                if trial.reason or fold in trial.answers:
                    continue
                seconds = (share * self.budget - self.spent) / max(planned, 1)
                planned -= 1
                if self.spent >= share * self.budget and self._has_scores():
                    trial.reason = "not tried: the budget was spent"
                    break
                self._train(trial, fold, short, seconds)
            if not trial.reason:
                seen = f"{len(trial.answers) or 1} of {FOLDS} folds"
                self.say(f"{trial.candidate.name}: {described(self.metric, trial.scores[-1])} on {seen}")

    def _train(self, trial: Attempt, fold: int, short: bool, seconds: float) -> None:
        """Train a trial on a fold, or read the result if it is there; an error ends this trial alone."""
        candidate, began, split = trial.candidate, time.monotonic(), self.folds[fold]
        try:
            recipe = self._recipe(trial, short, seconds)
            short = short and candidate.is_network
            out = self.folder / f"{_plain(candidate.name)}-{fold}{'-short' if short else ''}"
            answers = self._answers(candidate, recipe, split, out, self.spent + max(4.0 * seconds, 5.0))
        except OutOfTime as stop:
            trial.reason = str(stop)
        except (UserError, MemoryError) as error:
            trial.reason = excerpt(str(error) or type(error).__name__, 200)
        else:
            if short:
                trial.scores.append(self.score([fold], {fold: answers}))
            else:
                trial.answers[fold], trial.homes[fold], trial.recipe = answers, split_folder(out, split.index), recipe
                trial.scores.append(self.score(sorted(trial.answers), trial.answers))
        trial.seconds += time.monotonic() - began
        if trial.reason:
            self.say(f"{candidate.name}: {trial.reason}")
        self._note()

    def _recipe(self, trial: Attempt, short: bool, seconds: float) -> Recipe:
        """The settings of a training that may take so long: a network has as many epochs as fit, up to its recipe's.
        What was decided is kept, so that all folds, and a search that goes on, train alike."""
        candidate = trial.candidate
        if not candidate.is_network:
            return candidate.recipe
        key = f"{candidate.name}{', short' if short else ''}"
        if key not in self._state["epochs"]:
            wanted = max(10, candidate.recipe.epochs // 4) if short else candidate.recipe.epochs
            fit = int(seconds / max(self._epoch_seconds(candidate), 1e-4))
            if fit < FEWEST_EPOCHS and self._has_scores():
                raise OutOfTime(f"too slow: {fit} epochs would fit into its share of the budget")
            self._state["epochs"][key] = max(min(wanted, fit), FEWEST_EPOCHS)
        return candidate.recipe.but(epochs=self._state["epochs"][key])

    def _epoch_seconds(self, candidate: Candidate) -> float:
        """How long an epoch of a candidate takes, measured once."""
        known = self._state["epoch_seconds"]
        if candidate.name not in known:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="cgipool-") as out:
                recipe = candidate.recipe.but(epochs=2)
                self._answers(candidate, recipe, self.folds[0], Path(out) / "run", math.inf)
            known[candidate.name] = (time.monotonic() - began) / 2.0
        return known[candidate.name]

    def _answers(
        self, candidate: Candidate, recipe: Recipe, split: Split, out: Path, deadline: float
    ) -> NDArray[np.float64]:
        """[n, O] predictions for the test part of a split."""

        def tell(progress: Progress) -> None:
            if self.spent > deadline and candidate.is_network and not progress.done and self._has_scores():
                raise OutOfTime("stopped: it took four times its share of the budget")

        run: dict[str, Any] = {"method": candidate.method, "recipe": recipe, "splits": [split], "seed": self.seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedDataWarning)  # another candidate may read what this one does not
            train(self.graphs, **run, device=self.device, out=out, resume=out.exists(), tell=tell)
        return read_probabilities(split_folder(out, split.index))

    def curve(self, trial: Attempt, folds: Sequence[int]) -> list[tuple[int, float]]:
        """How a trial does when it is trained on fewer graphs: their number, and the mean of the metric over as many
        folds as the budget allows. Empty if it does not allow one."""
        found: list[list[float]] = []
        for fold in folds:
            split = self.folds[fold]
            parts = [holdout(self.graphs.subset(split.train), 1.0 - share, self.seed)[0] for share in CURVE]
            row = []
            for share, kept in zip(CURVE, parts, strict=True):
                if self.spent > self.budget:
                    break
                part = Split(split.index, split.train[kept], split.val, split.test)
                out = self.folder / f"{_plain(trial.candidate.name)}-{fold}-share-{share:g}"
                answers = self._answers(trial.candidate, trial.recipe or trial.candidate.recipe, part, out, math.inf)
                row.append(self.score([fold], {fold: answers}))
            if len(row) < len(CURVE):
                break
            found.append([*row, self.score([fold], trial.answers)])
            counts = [*map(len, parts), len(split.train)]
        return list(zip(counts, np.mean(found, axis=0).tolist(), strict=True)) if found else []

    def score(self, folds: Sequence[int], answers: dict[int, NDArray[np.float64]]) -> float:
        """The metric of predictions for the graphs of some folds, all together."""
        ids = np.concatenate([self.folds[fold].test for fold in folds])
        given = np.concatenate([answers[fold] for fold in folds])
        return self.value(self.task.targets(self.graphs, ids), given)

    def value(self, targets: NDArray[Any], answers: NDArray[np.float64]) -> float:
        """The metric of predictions; NaN if it is not defined."""
        return self.task.value(self.metric, targets, answers, None if self.classes is None else self.classes.positive)

    def better(self, value: float) -> float:
        """A number that is larger for a better value of the metric."""
        if math.isnan(value):
            return -math.inf
        return value if self.task.metrics[self.metric].higher else -value

    def _best(self, among: Sequence[Attempt], count: int) -> list[Attempt]:
        """The best of some trials; the best network and the best that is not one are always chosen."""
        going = [t for t in among if t.scores and not t.reason and t.candidate.name != BASELINE]
        going.sort(key=lambda trial: -self.better(trial.scores[-1]))
        chosen = list({trial.candidate.is_network: trial for trial in reversed(going)}.values())
        chosen += [trial for trial in going if trial not in chosen][: max(0, count - len(chosen))]
        return sorted(chosen, key=lambda trial: -self.better(trial.scores[-1]))

    def _found(self, finalists: list[Attempt]) -> Found:
        """The finalists by their scores on the folds that all of them finished, then the others."""
        finalists = [trial for trial in finalists if trial.answers]
        if not finalists:  # the budget ended in the first rung: classical methods were trained in full there
            finalists = [trial for trial in self.trials if trial.answers]
        complete = sorted(set.intersection(*(set(trial.answers) for trial in finalists)))
        finalists.sort(key=lambda trial: -self.better(self.score(complete, trial.answers)))
        rest = [trial for trial in self.trials if trial not in finalists]
        rest.sort(key=lambda t: (bool(t.reason), -self.better(t.scores[-1]) if t.scores else math.inf))
        return Found(finalists, rest, complete, self.dev, self.held, self.metric)

    def _has_scores(self) -> bool:
        return any(trial.scores for trial in self.trials if trial.candidate.name != BASELINE)

    def _need_one(self) -> None:
        """Raise UserError if nothing could be trained."""
        if not self._has_scores():
            reasons = "; ".join(f"{trial.candidate.name}: {trial.reason}" for trial in self.trials if trial.reason)
            raise UserError(f"no candidate could be trained ({excerpt(reasons, 600)})")

    def _stored(self) -> dict[str, Any]:
        """What earlier starts of the same search decided and how long they took."""
        path, about = self.folder / STATE, {"content": content_of(self.graphs, edges=True), "seed": self.seed}
        about |= {"metric": self.metric, "candidates": [trial.candidate.name for trial in self.trials]}
        if not path.exists():
            if not is_free(self.folder):
                raise UserError(f"{self.folder} is not empty and is not a search; choose another folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            state = about | {"seconds": 0.0, "epochs": {}, "epoch_seconds": {}}
            write_json(path, state)
            return state
        held = read_json(path)
        if {name: held.get(name) for name in about} != about:
            raise UserError(f"{self.folder} holds a search of other data or settings; --overwrite replaces it")
        return held

    def _note(self) -> None:
        write_json(self.folder / STATE, self._state | {"seconds": round(self.spent, 3)})


def check_data(graphs: GraphSet) -> None:
    """Raise UserError for data that a search cannot work with."""
    if graphs.n_graphs < FEWEST:
        raise UserError(f"{graphs.name} has {graphs.n_graphs} graphs; --auto needs at least {FEWEST}")
    if graphs.task == "classification":
        if np.count_nonzero(np.bincount(graphs.y, minlength=1)) < 2:
            raise UserError(f"{graphs.name} has one class only; there is nothing to learn")
    elif not any(len(np.unique(column[~np.isnan(column)])) > 1 for column in np.asarray(graphs.targets).T):
        raise UserError(f"{graphs.name}: every target column has one value only; there is nothing to learn")


def folds_of(graphs: GraphSet, dev: NDArray[np.int64], seed: int) -> list[Split]:
    """The folds of the graphs searched on, as splits: the fold is the test part."""
    folds = []
    for split in fold_splits(graphs.subset(dev), FOLDS, seed):
        rest = np.sort(np.concatenate([split.train, split.val]))
        kept, stopping = holdout(graphs.subset(dev[rest]), STOPPING, seed)
        folds.append(Split(split.index, dev[rest[kept]], dev[rest[stopping]], dev[split.test]))
    return folds


def _plain(name: str) -> str:
    """A name for a folder."""
    return json.dumps(name)[1:-1].replace(", ", "-").replace("=", "")
