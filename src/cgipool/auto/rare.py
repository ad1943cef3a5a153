"""Rare classes in `fit --auto`: the metric to optimise, and candidates that give rare classes more weight."""

from collections.abc import Sequence

import numpy as np

from cgipool.auto.candidates import Candidate
from cgipool.data.graphs import GraphSet
from cgipool.task.metrics import classes_of

RARE = 0.1
"""The positive class is rare if its share of the graphs is below this. Of more than two classes, one is rare if its
share is below twice this fraction of an equal share."""

RARE_METRIC = "pr_auc"
"""With rare classes, accuracy rewards a model that never predicts them, and ROC-AUC counts easy negatives."""

CHANGES = ({"class_weight": "balanced"}, {"focal": 2.0}, {"balanced_batches": True})
"""Changes of the settings to try for rare classes."""

NETWORKS = ("none, conv=gine, rdkit_descriptors", "none")
"""The first of these that is among the candidates is also tried with all changes."""

CLASSICAL = ("rdkit-svm", "rdkit-et", "rdkit-rf", "ecfp-count-rf")
"""Candidates that are also tried with weighted classes."""


def has_rare_classes(graphs: GraphSet) -> bool:
    """Whether a class is rare or, for several 0/1 columns, whether 1 is rare in half of them."""
    if graphs.targets is not None:
        known = np.maximum((~np.isnan(graphs.targets)).sum(0), 1)
        return graphs.task == "multilabel" and float(np.median((graphs.targets == 1.0).sum(0) / known)) < RARE
    share = np.bincount(graphs.y, minlength=graphs.n_classes) / graphs.n_graphs
    positive = classes_of(graphs).positive
    if positive is not None:
        return bool(share[positive] < RARE)
    return bool(share[share > 0].min() < 2.0 * RARE / graphs.n_classes)


def rare_candidates(graphs: GraphSet, among: Sequence[Candidate]) -> list[Candidate]:
    """Additional candidates that give rare classes more weight; none if no class is rare."""
    if not has_rare_classes(graphs):
        return []
    names = [candidate.name for candidate in among]
    varied = (*[name for name in NETWORKS if name in names][:1], *CLASSICAL)
    found = []
    for candidate in among:
        for change in CHANGES if candidate.name in varied else ():
            name, value = next(iter(change.items()))
            if candidate.is_network:
                recipe = candidate.recipe.but(**change, stop_by=_watched(graphs))
            elif name == "class_weight":
                recipe = candidate.recipe.but(**change)
            else:
                continue
            words = name if value is True else f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            found.append(Candidate(f"{candidate.name}, {words}", candidate.method, recipe))
    return found


def with_rare_candidates(graphs: GraphSet, among: Sequence[Candidate]) -> list[Candidate]:
    """Candidates, each followed by those of `rare_candidates` that weigh classes beside it."""
    found = rare_candidates(graphs, among)
    return [
        each
        for candidate in among
        for each in (candidate, *(one for one in found if one.name.rpartition(", ")[0] == candidate.name))
    ]


def _watched(graphs: GraphSet) -> str:
    """The metric for early stopping. PR-AUC is that of class 1; if class 0 is positive, ROC-AUC is used, which is the
    same for both classes."""
    other = graphs.targets is None and classes_of(graphs).positive == 0
    return "roc_auc" if other else RARE_METRIC
