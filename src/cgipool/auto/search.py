"""The search of `fit --auto`: successive halving over candidates on cross-validation folds, within a budget of time.

A tenth of the graphs is held out and evaluated once, at the very end. The others form folds: in fold i a candidate is
trained on the rest, except a tenth for early stopping, and scored on the fold. First all candidates are scored on one
fold, networks with a quarter of their epochs; the better half continues on two folds, the best few on all. Every graph
is then predicted once by models that were not trained on it; these models, one per fold, are the members of the result.
"""

import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.auto.alarm import OutOfTime, alarm
from cgipool.auto.attempt import Attempt, Found, common_folds
from cgipool.auto.candidates import Candidate
from cgipool.auto.folds import FOLDS, HELD_OUT, check_data, folds_of
from cgipool.auto.rare import RARE_METRIC, has_rare_classes
from cgipool.classical import MODELS
from cgipool.data.digests import content_read
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, holdout
from cgipool.errors import UnusedDataWarning, UserError, counted, excerpt
from cgipool.files import read_json, write_json
from cgipool.task.base import Task
from cgipool.task.metrics import classes_of, described
from cgipool.task.registry import task_of
from cgipool.training.folder import is_free, split_folder
from cgipool.training.job import Progress
from cgipool.training.recipe import Recipe
from cgipool.training.result import RESULT, read_probabilities
from cgipool.training.run import train

STATE = "search.json"

FINALISTS = 4
RUNGS = (0.3, 0.9)
"""The share of the budget for the first look, and for everything except the learning curve."""

FEWEST_EPOCHS = 3
"""A network is left out if the budget does not allow this many epochs."""

CLASSICAL_SHARE = 0.25
"""The share of the budget that one training of a classical method may take."""

AVERAGED = 10.0
"""The moving average of the weights reaches back over at most 1 / `AVERAGED` of a training's steps: in a short one,
that of the recipe would still hold weights of the first steps."""

ONCE = 1.0
"""Seconds beside the epochs from which they are measured again."""

TOO_LONG = "stopped: it took far more than its share of the budget"
NOT_TRIED = "not tried: the budget was spent"


class AutoSearch:
    """One search in its folder. It can be interrupted at any time; the same search in the same folder continues."""

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
        doing: Callable[[str], None] = lambda text: None,
    ) -> None:
        check_data(graphs)
        self.graphs, self.folder, self.budget = graphs, folder, budget
        self.task: Task = task_of(graphs)
        self.classes = classes_of(graphs) if graphs.task == "classification" else None
        self.metric = metric or (RARE_METRIC if has_rare_classes(graphs) else self.task.primary)
        self.seed, self.device, self.say, self.doing = seed, device, say, doing
        self.dev, self.held = holdout(graphs, HELD_OUT, seed)
        self.folds = folds_of(graphs, self.dev, seed)
        self.trials = [Attempt(candidate) for candidate in candidates]
        self._state = self._stored()
        self._before = float(self._state["seconds"])
        self._began = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds that the search has taken, including earlier runs."""
        return self._before + time.monotonic() - self._began

    def run(self) -> Found:
        """Search until the last rung is finished or the budget is spent."""
        sides = f"{counted(len(self.dev), 'graph')} to search on, {len(self.held):,} held out"
        self.say(f"{self.graphs.name}: {sides}; first look at {counted(len(self.trials), 'candidate')}")
        baselines = [trial for trial in self.trials if trial.candidate.is_baseline]
        self._rung(list(range(FOLDS)), baselines, 1.0)
        self._rung([0], [trial for trial in self.trials if trial not in baselines], RUNGS[0], short=True)
        self._need_one()
        better = self._best(self.trials, (sum(bool(trial.scores) for trial in self.trials) + 1) // 2)
        self.say(f"{counted(len(better), 'candidate')} on two folds:")
        likely = [(trial, fold) for trial in self._best(better, FINALISTS) for fold in range(2, FOLDS)]
        self._rung([0, 1], better, RUNGS[1], likely)
        finalists = self._best([trial for trial in better if 1 in trial.answers] or better, FINALISTS)
        self.say(f"{counted(len(finalists), 'finalist')} on all {FOLDS} folds:")
        for fold in range(2, FOLDS):
            later = [(trial, other) for trial in finalists for other in range(fold + 1, FOLDS)]
            # No share is left for the learning curve: a fold less would cost every finalist a model.
            self._rung([fold], finalists, 1.0, later, announce=fold == FOLDS - 1)
        return self._found(finalists)

    def _rung(
        self,
        folds: list[int],
        trials: Sequence[Attempt],
        share: float,
        later: Sequence[tuple[Attempt, int]] = (),
        short: bool = False,
        announce: bool = True,
    ) -> None:
        """Train some trials on some folds, one after another, within a share of the budget. The share is also meant
        for the trainings of `later`."""
        todo = [*((trial, fold) for trial in trials for fold in folds), *later]
        for trial in trials:
            for fold in folds:
                todo.remove((trial, fold))
                if trial.reason or fold in trial.answers:
                    continue
                spent = self.spent >= share * self.budget or self.spent + trial.cost > self.budget
                if spent and self._has_scores() and not self._is_done(trial, fold, short):
                    trial.reason = "stopped: the budget was spent" if trial.scores else NOT_TRIED
                    break
                self._train(trial, fold, short, self._seconds(share, [(trial, fold), *todo]))
            if announce and not trial.reason:
                seen = f"{len(trial.answers) or 1} of {FOLDS} folds"
                self.say(f"{trial.candidate.name}: {described(self.metric, trial.scores[-1])} on {seen}")

    def _seconds(self, share: float, todo: Sequence[tuple[Attempt, int]]) -> float:
        """How long a network may train, if these trainings are to end within a share of the budget: what classical
        methods leave, at least half, in equal parts."""
        left = max(share * self.budget - self.spent, 0.0)
        todo = [(trial, fold) for trial, fold in todo if not trial.reason and fold not in trial.answers]
        networks = sum(trial.candidate.is_network for trial, _ in todo)
        others = sum(trial.cost for trial, _ in todo if not trial.candidate.is_network)
        return (left - min(others, left / 2.0)) / max(networks, 1)

    def _train(self, trial: Attempt, fold: int, short: bool, seconds: float) -> None:
        """Train a trial on a fold, or read its stored result; an error ends only this trial."""
        candidate, began, split = trial.candidate, time.monotonic(), self.folds[fold]
        self.doing(f"{candidate.name}, fold {fold + 1} of {FOLDS}")
        try:
            recipe, expected = self._recipe(trial, short, seconds)
            short = short and candidate.is_network
            patience = 0.0 if candidate.is_network else CLASSICAL_SHARE * self.budget
            deadline = self.spent + max(4.0 * seconds, 2.0 * expected, patience, 5.0)
            started = self._prepared(candidate, deadline)
            answers = self.answers(candidate, recipe, split, self._place(candidate, fold, short), deadline)
        except OutOfTime as stop:
            trial.reason, trial.slow = str(stop), True
        except (UserError, MemoryError) as error:
            trial.reason = excerpt(str(error) or type(error).__name__, 200)
        else:
            if short:
                trial.scores.append(self.score([fold], {fold: answers}))
            else:
                home = split_folder(self._place(candidate, fold), split.index)
                trial.answers[fold], trial.homes[fold], trial.recipe = answers, home, recipe
                trial.scores.append(self.score(sorted(trial.answers), trial.answers))
                trial.cost = time.monotonic() - started
        trial.seconds += time.monotonic() - began
        if trial.reason:
            self.say(f"{candidate.name}: {trial.reason}")
        self._note()

    def _prepared(self, candidate: Candidate, deadline: float) -> float:
        """Compute what all folds of a classical method share, such as descriptors, and return the time."""
        if candidate.method in MODELS:
            with alarm(self._limit(deadline), OutOfTime(TOO_LONG)):
                MODELS[candidate.method].prepare(self.graphs)
        return time.monotonic()

    def _limit(self, deadline: float) -> float:
        """The seconds that a computation without a callback may take; the first may take any time."""
        return max(deadline - self.spent, 0.0) if self._has_scores() else math.inf

    def _place(self, candidate: Candidate, fold: int, short: bool = False) -> Path:
        """The folder of a training."""
        return self.folder / f"{plain(candidate.name)}-{fold}{'-short' if short else ''}"

    def _is_done(self, trial: Attempt, fold: int, short: bool) -> bool:
        """Whether an earlier run of the search finished this training, so that its result can be read."""
        place = self._place(trial.candidate, fold, short and trial.candidate.is_network)
        return (split_folder(place, self.folds[fold].index) / RESULT).is_file()

    def _recipe(self, trial: Attempt, short: bool, seconds: float) -> tuple[Recipe, float]:
        """The settings of a training that may take `seconds`, and its expected duration. A network gets as many epochs
        as fit, at most those of its recipe. The decision is stored, so that all folds and a resumed search use the same
        settings."""
        candidate = trial.candidate
        if not candidate.is_network:
            return candidate.recipe, 0.0
        key = f"{candidate.name}{', short' if short else ''}"
        epoch, start = self._epoch_seconds(candidate)
        if key not in self._state["epochs"]:
            most = candidate.recipe.epochs
            wanted = min(max(10, most // 4), most) if short else most
            fit, least = int((seconds - start) / epoch), start + FEWEST_EPOCHS * epoch
            if fit < FEWEST_EPOCHS:
                # The first network may take more than its share if all its folds fit into what is left.
                networks = any(t.scores for t in self.trials if t.candidate.is_network and t is not trial)
                left = (RUNGS[1] * self.budget - self.spent) / (FOLDS + 1 if self._has_scores() else 1)
                if (networks and not trial.scores) or least > left:
                    raise OutOfTime(f"too slow for the budget: an epoch takes {epoch:.2g} s")
            epochs = self._state["epochs"][key] = max(min(wanted, fit), FEWEST_EPOCHS)
            steps = epochs * math.ceil(len(self.folds[0].train) / candidate.recipe.batch_size)
            self._state["averages"][key] = min(candidate.recipe.average, max(0.0, 1.0 - AVERAGED / steps))
            self._note()
        epochs, average = self._state["epochs"][key], self._state["averages"].get(key, candidate.recipe.average)
        return candidate.recipe.but(epochs=epochs, average=average), start + epochs * epoch

    def _epoch_seconds(self, candidate: Candidate) -> tuple[float, float]:
        """The seconds of an epoch of a candidate, and of the rest of a training; measured once."""
        known = self._state["epoch_seconds"]
        if candidate.name not in known:
            for _ in range(2):
                began, ends = time.monotonic(), list[float]()
                with tempfile.TemporaryDirectory(prefix="cgipool-") as out:
                    recipe = candidate.recipe.but(epochs=2)
                    self.answers(candidate, recipe, self.folds[0], Path(out) / "run", self.budget, ends)
                epoch = max(ends[1] - ends[0], 1e-4)
                known[candidate.name] = epoch, max(time.monotonic() - began - 2.0 * epoch, 0.0)
                if known[candidate.name][1] < ONCE:
                    break  # else the first training of this kind may have compiled code, and the next will not
        epoch, rest = known[candidate.name]
        return epoch, rest

    def answers(
        self,
        candidate: Candidate,
        recipe: Recipe,
        split: Split,
        out: Path,
        deadline: float,
        ends: list[float] | None = None,
    ) -> NDArray[np.float64]:
        """Train on a split, and return predictions [n, O] for its test part. The times at which epochs end are added to
        `ends`."""

        def tell(progress: Progress) -> None:
            if ends is not None:
                ends.append(time.monotonic())
            if candidate.is_network and not progress.done:
                self.doing(f"{candidate.name}, epoch {progress.epoch} of {recipe.epochs}")
                if self.spent > deadline:
                    raise OutOfTime(TOO_LONG)

        run: dict[str, Any] = {"method": candidate.method, "recipe": recipe, "splits": [split], "seed": self.seed}
        limit = math.inf if candidate.is_network else self._limit(deadline)
        with warnings.catch_warnings(), alarm(limit, OutOfTime(TOO_LONG)):
            warnings.simplefilter("ignore", UnusedDataWarning)  # another candidate may use these data
            train(self.graphs, **run, device=self.device, out=out, resume=out.exists(), tell=tell)
        return read_probabilities(split_folder(out, split.index))

    def score(self, folds: Sequence[int], answers: dict[int, NDArray[np.float64]]) -> float:
        """The metric of predictions for the graphs of some folds, taken together."""
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
        """The best of some trials; always includes the best network and the best other method."""
        going = [t for t in among if t.scores and not t.reason and not t.candidate.is_baseline]
        going.sort(key=lambda trial: -self.better(trial.scores[-1]))
        chosen = list({trial.candidate.is_network: trial for trial in reversed(going)}.values())
        chosen += [trial for trial in going if trial not in chosen][: max(0, count - len(chosen))]
        return sorted(chosen, key=lambda trial: -self.better(trial.scores[-1]))

    def _found(self, finalists: list[Attempt]) -> Found:
        """The finalists, sorted by their scores on the folds that all of them finished, then the others."""
        finalists = [trial for trial in finalists if trial.answers]
        if not finalists:  # the budget ended in the first rung: classical methods were trained in full there
            finished = [trial for trial in self.trials if trial.answers]
            finalists = [trial for trial in finished if not trial.candidate.is_baseline] or finished
        complete = common_folds(finalists)
        best = max(finalists, key=lambda trial: self.better(self.score(complete, trial.answers)))
        finalists = [trial for trial in finalists if len(trial.answers) >= len(best.answers) - 1]  # not far behind it
        complete = common_folds(finalists)

        def worth(trial: Attempt) -> float:
            return self.better(self.score(complete, trial.answers))

        # The baseline takes part only where nothing that was learned is better.
        for trial in self.trials:
            scored = trial.candidate.is_baseline and set(complete) <= set(trial.answers)
            if scored and trial not in finalists and worth(trial) > max(map(worth, finalists)):
                finalists.append(trial)
        finalists.sort(key=worth, reverse=True)
        rest = [trial for trial in self.trials if trial not in finalists]
        rest.sort(key=lambda t: (bool(t.reason), -self.better(t.scores[-1]) if t.scores else math.inf))
        return Found(finalists, rest, complete, self.dev, self.held, self.metric)

    def _has_scores(self) -> bool:
        return any(trial.scores for trial in self.trials if not trial.candidate.is_baseline)

    def _need_one(self) -> None:
        """Raise UserError if nothing could be trained."""
        if not self._has_scores():
            reasons = "; ".join(f"{trial.candidate.name}: {trial.reason}" for trial in self.trials if trial.reason)
            slow = any(trial.slow for trial in self.trials)
            more = f" within {self.budget:.0f} s; give a larger budget" if slow else ""
            raise UserError(f"no candidate could be trained{more} ({excerpt(reasons, 600)})")

    def _stored(self) -> dict[str, Any]:
        """The decisions of earlier runs of the same search, and how long they took."""
        path, about = self.folder / STATE, {"content": content_read(self.graphs, edges=True), "seed": self.seed}
        about |= {"metric": self.metric, "candidates": [trial.candidate.name for trial in self.trials]}
        if not path.exists():
            if not is_free(self.folder):
                raise UserError(f"{self.folder} is not empty and is not a search; choose another folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, about | {"seconds": 0.0, "epochs": {}, "averages": {}, "epoch_seconds": {}})
        held = {"averages": {}} | read_json(path)  # earlier versions had the averages of the recipes
        if {name: held.get(name) for name in about} != about:
            raise UserError(f"{self.folder} holds a search with other data or settings; --overwrite replaces it")
        return held

    def _note(self) -> None:
        write_json(self.folder / STATE, self._state | {"seconds": round(self.spent, 3)})


def plain(name: str) -> str:
    """A name for a folder."""
    return json.dumps(name)[1:-1].replace(", ", "-").replace("=", "")
