"""Thresholds for rare classes: the ones that scikit-learn's Matthews correlation prefers, and where they act."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

from cgipool.task.decisions import best_thresholds, class_of, ones_in, thresholds_in
from cgipool.task.metrics import PER_COLUMN, label_report, report
from cgipool.task.registry import task_named


def rare(seed: int, n: int = 300, digits: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Classes, 8 % of them 1, and probabilities of 1 that are never above 0.4; few digits give ties."""
    draw = np.random.default_rng(seed)
    y = (draw.random(n) < 0.08).astype(int)
    return y, np.clip(0.2 * draw.random(n) + 0.15 * y, 0.0, 0.4).round(digits)


@pytest.mark.parametrize("digits", [2, 12])
@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_has_a_higher_correlation(seed: int, digits: int) -> None:
    y, p = rare(seed, digits=digits)
    both = np.stack([1.0 - p, p], 1)
    thresholds = best_thresholds(y, both)
    assert thresholds is not None
    assert sum(thresholds) == pytest.approx(1.0)
    found = matthews_corrcoef(y, class_of(both, np.array(thresholds)))
    values = np.unique(p)
    middles = (values[1:] + values[:-1]) / 2
    assert found == pytest.approx(max(matthews_corrcoef(y, p > cut) for cut in middles))
    assert found > 0.3
    assert class_of(both).max() == 0, "without thresholds one class alone is predicted"


def test_each_column_has_its_own_threshold_from_the_known_values() -> None:
    (y, p), (z, q) = rare(0), rare(1)
    targets, answers = np.stack([y, z], 1).astype(float), np.stack([p, 0.5 * q], 1)
    targets[::7, 1] = np.nan
    known = ~np.isnan(targets[:, 1])
    alone = best_thresholds(targets[known][:, [1]], answers[known][:, [1]])
    found = best_thresholds(targets, answers)
    assert found is not None
    assert found[1:] == alone
    assert found[0] != found[1]


@pytest.mark.parametrize("ones", [0, 4, 296, 300])
def test_too_few_of_a_value_leave_the_threshold_at_one_half(ones: int) -> None:
    y = (np.arange(300) < ones).astype(int)
    assert best_thresholds(y, np.stack([1.0 - rare(0)[1], rare(0)[1]], 1)) is None


def test_a_correlation_that_chance_can_give_leaves_one_half() -> None:
    y = (np.random.default_rng(0).random(400) < 0.1).astype(int)
    p = np.repeat([0.09, 0.1], 200)
    assert best_thresholds(y, np.stack([1.0 - p, p], 1)) is None
    (z, q), half = rare(0), y.astype(float)
    found = best_thresholds(np.stack([half[:300], z], 1), np.stack([p[:300], q], 1))
    assert found is not None
    assert found[0] == 0.5 > found[1], "the other column has its own"


@pytest.mark.parametrize(("n", "share"), [(100, 0.1), (1000, 0.05), (1000, 0.5)])
def test_random_predictions_seldom_have_a_threshold(n: int, share: float) -> None:
    """The best of many correlations is high by chance much more often than a single one."""
    draw = np.random.default_rng(0)
    chosen = 0
    for _ in range(100):
        y, p = (draw.random(n) < share).astype(int), draw.random(n)
        chosen += best_thresholds(y, np.stack([1.0 - p, p], 1)) is not None
    assert chosen <= 18


@pytest.mark.parametrize("turned", [False, True])
def test_a_threshold_may_be_near_to_0_or_1(turned: bool) -> None:
    """Networks that are too sure give a rare class tiny probabilities, which still rank the graphs."""
    y = (np.arange(120) < 10).astype(int)
    p = np.where(y == 1, 1e-8, 1e-10)
    both = np.stack([1.0 - p, p], 1)
    y, both = (1 - y, both[:, ::-1]) if turned else (y, both)
    thresholds = best_thresholds(y, both)
    assert thresholds is not None
    assert thresholds_in(thresholds, 2) is not None
    assert class_of(both, np.array(thresholds)).tolist() == y.tolist()


def test_equal_probabilities_and_three_classes_have_no_threshold() -> None:
    y = np.arange(300) % 2
    assert best_thresholds(y, np.full((300, 2), 0.5)) is None
    assert best_thresholds(np.arange(300) % 3, np.full((300, 3), 1 / 3)) is None


def test_metrics_of_decisions_follow_the_thresholds_and_others_do_not() -> None:
    y, p = rare(2)
    both, thresholds = np.stack([1.0 - p, p], 1), np.array([0.82, 0.18])
    plain, found = report(y, both), report(y, both, thresholds)
    guess = (p > 0.18).astype(int)
    assert found["accuracy"] == pytest.approx(np.mean(guess == y))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, guess))
    assert found["mcc"] == pytest.approx(matthews_corrcoef(y, guess))
    for name in ("roc_auc", "pr_auc", "log_loss", "brier", "ece", "per_class"):
        assert found[name] == plain[name]
    columns = np.stack([p, p], 1)
    labels = label_report(np.stack([y, y], 1).astype(float), columns, np.array([0.18, 0.5]))
    assert labels[PER_COLUMN]["accuracy"] == pytest.approx([np.mean(guess == y), np.mean(y == 0)])
    assert labels[PER_COLUMN]["balanced_accuracy"] == pytest.approx([balanced_accuracy_score(y, guess), 0.5])
    assert list(ones_in(columns, np.array([0.18, 0.5])).sum(0)) == [guess.sum(), 0]


@pytest.mark.parametrize("value", [None, "0.5", [0.5], [0.5, 1.0], [0.0, 0.5], [0.5, "a"], [True, 0.5], {}])
def test_thresholds_of_a_file_that_are_not_valid_are_none(value: object) -> None:
    assert thresholds_in(value, 2) is None


def test_thresholds_of_a_file() -> None:
    assert thresholds_in([0.9, 0.1], 2) == pytest.approx([0.9, 0.1])


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_single_metrics_follow_the_thresholds_as_all_of_them_do(task: str) -> None:
    (y, p), (z, q) = rare(3), rare(4)
    named = task_named(task, ("a", "b"))
    targets = y if task == "classification" else np.stack([y, z], 1).astype(float)
    answers, cuts = (1.0 - p, np.array([0.8, 0.2])) if task == "classification" else (q, np.array([0.15, 0.2]))
    answers = np.stack([answers, p], 1) if task == "classification" else np.stack([p, answers], 1)
    every = named.evaluate(targets, answers, cuts)
    for metric in named.metrics:
        assert named.value(metric, targets, answers, thresholds=cuts) == pytest.approx(every[metric], abs=1e-6)
    assert named.value("balanced_accuracy", targets, answers) < every["balanced_accuracy"]
