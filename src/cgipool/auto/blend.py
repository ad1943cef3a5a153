"""Choose the finalists of a search that form the model, and their weights.

Greedy forward selection with replacement (Caruana et al.: Ensemble Selection from Libraries of Models. ICML 2004) on
predictions for graphs that the models were not trained on. It starts with the best finalist alone and stops when no
addition improves the score, so the result never scores worse than that finalist.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

PICKS = 8
"""Maximum number of additions; a finalist may be added several times."""

LEAST = 1e-9
"""The smallest gain that counts."""


def chosen(answers: Sequence[Doubles], value: Callable[[Doubles], float]) -> dict[int, int]:
    """The weight of each finalist, by its index, from the predictions [n, O] of each; `value` is larger if better."""
    best = max(range(len(answers)), key=lambda place: (value(answers[place]), -place))
    picked, total, reached = [best], answers[best].copy(), value(answers[best])
    while len(picked) < PICKS:
        values = [value((total + more) / (len(picked) + 1)) for more in answers]
        place = int(np.argmax(values))
        if not values[place] > reached + LEAST:
            break
        picked.append(place)
        total, reached = total + answers[place], values[place]
    return dict(sorted(Counter(picked).items()))
