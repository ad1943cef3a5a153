"""`fit --auto`: search for the best candidates, blend them, and estimate the result."""

import math
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from cgipool.auto.attempt import Attempt, Found
from cgipool.auto.blend import chosen
from cgipool.auto.candidates import Candidate, candidates_for
from cgipool.auto.curve import learning_curve
from cgipool.auto.folds import FOLDS, STOPPING, check_data
from cgipool.auto.rare import with_rare_candidates
from cgipool.auto.search import AutoSearch
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, excerpt
from cgipool.inference.blend import Blend
from cgipool.inference.evaluation import ModelEvaluation
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import trained_model, versions
from cgipool.study.statistics import paired
from cgipool.task.decisions import best_thresholds
from cgipool.task.metrics import Classes, check_metric, shown
from cgipool.training.folder import alone_in
from cgipool.training.run import check_device

TEST_TO_TRAIN = 1.0 / (FOLDS - 1) / (1.0 - STOPPING)
"""The number of graphs of a fold over the number that its models are trained on."""

DRAWS = 200
"""Number of bootstrap samples of the held-out graphs for the interval of the estimate."""

OF_RANKS = ("roc_auc", "pr_auc", "mcc", "balanced_accuracy")
"""Metrics that rank graphs, or weigh the classes alike: a model that does well by these may still predict one class
only, unless thresholds are chosen."""

LEAST_SECONDS = 10.0
"""The smallest budget; a shorter one is too small for one network."""


@dataclass(frozen=True)
class AutoResult:
    """A model and how it was found."""

    model: FittedModel
    table: list[dict[str, Any]]
    """A row for each candidate, the best first."""
    crossed: ModelEvaluation
    """Predictions for the graphs of the search, each by members of the model that were not trained on it."""
    estimate: dict[str, Any]
    """The metrics on the held-out graphs; `low` and `high` are the interval of the one that was optimised."""
    curve: list[tuple[int, float]]
    """The learning curve of the best candidate: numbers of training graphs, and the mean metric over folds."""
    curve_folds: int
    """The number of folds that the curve is a mean over."""
    searched: GraphSet
    """The graphs of `crossed`, in its order."""


def fit_auto(
    graphs: GraphSet,
    folder: str | Path | None = None,
    *,
    budget: float = 300.0,
    metric: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    candidates: list[Candidate] | None = None,
    say: Callable[[str], None] = lambda text: None,
    doing: Callable[[str], None] = lambda text: None,
) -> AutoResult:
    """Search for the best model of a data set within `budget` seconds.

    The search is saved in `folder`, so that the same call continues an interrupted search; without a folder it is not
    saved. `say` is called with each result, and `doing` with what is being trained.
    """
    check_device(device)
    check_metric(graphs.task, metric)
    check_data(graphs)
    tried = candidates or with_rare_candidates(graphs, candidates_for(graphs, budget))
    with _place_of(folder) as place:
        settings: dict[str, Any] = {"metric": metric, "seed": seed, "device": device, "say": say, "doing": doing}
        search = AutoSearch(graphs, tried, place, budget, **settings)
        return _blended(search, search.run())


@contextmanager
def _place_of(folder: str | Path | None) -> Iterator[Path]:
    """The folder of a search, which no other process may use; a temporary one if none is given."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="cgipool-") as name:
            yield Path(name)
        return
    with alone_in(Path(folder)):
        yield Path(folder)


def _blended(search: AutoSearch, found: Found) -> AutoResult:
    """The best blend of the finalists, and an estimate of its performance."""
    graphs, ids = search.graphs, np.concatenate([search.folds[fold].test for fold in found.folds])
    targets = search.task.targets(graphs, ids)

    def value(answers: NDArray[np.float64]) -> float:
        return search.better(search.value(targets, answers))

    answers = [np.concatenate([trial.answers[fold] for fold in found.folds]) for trial in found.finalists]
    counts = chosen(answers, value)
    groups = {place: _parts(search, found, found.finalists[place]) for place in counts}
    weights = [counts[place] for place, group in groups.items() for _ in group]
    mixed = np.asarray(sum(answers[place] * count for place, count in counts.items()) / sum(counts.values()))
    cuts = best_thresholds(targets, mixed) if found.metric in OF_RANKS else None
    metrics = search.task.evaluate(targets, mixed, None if cuts is None else np.array(cuts))
    about = _about(search, found, counts, shown(metrics, search.classes)) | ({"thresholds": cuts} if cuts else {})
    model = Blend.of([part for group in groups.values() for part in group], weights, about)
    held = graphs.subset(found.held)
    about["estimate"] = estimate = estimated(model, held, found.metric, search.classes, search.seed)
    names = [str(place) for place in ids] if graphs.graph_ids is None else [graphs.graph_ids[place] for place in ids]
    blend = " + ".join(f"{name} × {count}" if count > 1 else name for name, count in about["blend"].items())
    what = (blend, graphs.name, search.task, names, targets, mixed, metrics, search.classes)
    crossed = ModelEvaluation(*what, thresholds=model.thresholds)
    curve = learning_curve(search, found.finalists[0], found.folds)
    return AutoResult(model, _table(search, found, counts), crossed, estimate, *curve, graphs.subset(ids))


def _parts(search: AutoSearch, found: Found, trial: Attempt) -> list[FittedModel]:
    """The models of a trial, one per fold."""
    recipe, method = trial.recipe or trial.candidate.recipe, trial.candidate.method
    return [
        trained_model(trial.homes[fold], search.graphs, search.folds[fold].train, method, recipe, device=search.device)
        for fold in found.folds
    ]


def _about(search: AutoSearch, found: Found, counts: dict[int, int], validation: dict[str, Any]) -> dict[str, Any]:
    """The description of the training in the model file."""
    plain = {name: value for name, value in validation.items() if isinstance(value, float)}
    return {
        "dataset": search.graphs.name,
        "graphs": {"train": len(found.dev), "held out": len(found.held)},
        "folds": len(found.folds),
        "blend": {found.finalists[place].candidate.name: count for place, count in counts.items()},
        "metric": found.metric,
        "validation": plain,
        "seed": search.seed,
        **versions(),
    }


def estimated(
    model: FittedModel, held: GraphSet, metric: str, classes: Classes | None = None, seed: int = 0
) -> dict[str, Any]:
    """All metrics on the held-out graphs, and a 95 % interval of the one that was optimised: Wilson's for the
    accuracy of classes, else by bootstrap."""
    targets, answers = model.labels_of(held), model.predictions(held)
    every = shown(model.task.evaluate(targets, answers, model.thresholds), classes)
    found = {name: value for name, value in every.items() if isinstance(value, float)}
    generator, values = np.random.default_rng(seed), []
    positive = None if classes is None else classes.positive
    for _ in range(DRAWS):
        ids = generator.integers(held.n_graphs, size=held.n_graphs)
        value = model.task.value(metric, targets[ids], answers[ids], positive, model.thresholds)
        if not math.isnan(value):
            values.append(value)
    low, high = np.quantile(values, [0.025, 0.975]).tolist() if values else (None, None)
    if metric == "accuracy" and classes is not None:  # resampling gives no width where all graphs are right
        low, high = binomtest(round(found[metric] * held.n_graphs), held.n_graphs).proportion_ci(method="wilson")
    return {"graphs": held.n_graphs, "metric": metric, "low": low, "high": high, **found}


def _table(search: AutoSearch, found: Found, counts: dict[int, int]) -> list[dict[str, Any]]:
    """A row for each candidate, the best first."""
    rows = []
    best = _by_fold(search, found, found.finalists[0])
    for place, trial in enumerate([*found.finalists, *found.rest]):
        final = place < len(found.finalists)
        against = paired(_by_fold(search, found, trial), best, test_to_train=TEST_TO_TRAIN) if final and place else None
        score = search.score(found.folds, trial.answers) if final else (trial.scores[-1] if trial.scores else None)
        baseline = trial.candidate.is_baseline
        seen = len(found.folds) if final else len(trial.answers)
        folds = f"{seen} of {FOLDS} folds" if seen else "a short look" if trial.scores else ""
        rows.append(
            {
                "name": trial.candidate.name,
                "method": trial.candidate.method,
                "score": score,
                "low": None if against is None else against.low,
                "high": None if against is None else against.high,
                "scored on": folds,
                "counts": counts.get(place, 0) if final else 0,
                "final": final,
                "seconds": round(trial.seconds, 1),
                "note": "ignores the graphs" if baseline else "" if final else trial.reason,
            }
        )
    return rows


def _by_fold(search: AutoSearch, found: Found, trial: Attempt) -> dict[int, float]:
    """The metric of a trial on each fold that all finalists finished, without folds where it is not defined."""
    scores = {fold: search.score([fold], trial.answers) for fold in found.folds}
    return {fold: score for fold, score in scores.items() if not math.isnan(score)}


def seconds_of(budget: str | float) -> float:
    """A budget in seconds, from a number of seconds or a text such as 90s, 5m or 2h."""
    if isinstance(budget, str):
        match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*([smh])", budget.strip().lower())
        if match is None:
            raise UserError(f"budget {excerpt(budget)!r} is not a time such as 90s, 5m or 2h")
        units: dict[str, float] = {"s": 1.0, "m": 60.0, "h": 3600.0}
        seconds = float(match[1]) * units[match[2]]
    elif isinstance(budget, bool) or not isinstance(budget, Real):
        raise UserError(f"budget must be a time such as '5m', or a number of seconds, not {budget!r}")
    else:
        seconds = float(budget)
    if not LEAST_SECONDS <= seconds < math.inf:
        raise UserError(f"a budget of {budget} is too small for one network; give at least {LEAST_SECONDS:.0f}s")
    return seconds
