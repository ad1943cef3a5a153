"""Distribution functions that NumPy does not have and the statistics need: Student's t, χ², the studentized range."""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist


def t_two_sided(t: float, df: float) -> float:
    """The probability that |T| is at least |t|; exact to rounding far out in the tails, too."""
    if math.isinf(t):
        return 0.0
    root = math.sqrt(df)
    radius = math.hypot(t, root)
    return _beta(df / 2, 0.5, (root / radius) ** 2, (t / radius) ** 2)


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The value that T does not exceed with probability p, 0 < p < 1; infinite df means the normal distribution."""
    if math.isinf(df):
        return NormalDist().inv_cdf(p)
    both = 2 * min(p, 1 - p)
    return math.copysign(_solve(lambda t: -t_two_sided(t, df), -both), p - 0.5)


def chi2_survival(x: float, df: float) -> float:
    """The probability that a χ² variable of so many degrees of freedom exceeds x."""
    return _upper_gamma(df / 2, x / 2) if x > 0 else 1.0


@lru_cache(maxsize=64)
def studentized_range_quantile(p: float, k: int) -> float:
    """The value that the range of k standard normal variables does not exceed with probability p, 0 < p < 1.

    That is the studentized range of k groups with infinite degrees of freedom. Its distribution function is
    k ∫ φ(z) [Φ(z + q) − Φ(z)]^(k−1) dz, where z is the least of the k; the trapezoidal rule converges geometrically,
    as the integrand is smooth and vanishes at both ends.
    """
    step = 1 / 32
    places = [step * i for i in range(-288, 289)]
    weight = [k * step * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in places]
    below = [_phi(z) for z in places]

    def cdf(q: float) -> float:
        return sum(w * (_phi(z + q) - b) ** (k - 1) for w, z, b in zip(weight, places, below, strict=True))

    return _solve(cdf, p)


def _phi(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def _solve(rising: Callable[[float], float], target: float) -> float:
    """Where on [0, ∞) a rising function reaches the target, by bisection; a huge number where it never does."""
    high = 1.0
    while rising(high) < target and high < 1e300:
        high *= 2
    low = 0.0
    while high - low > 1e-15 * high and high > 1e-30:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2


def _beta(a: float, b: float, x: float, y: float) -> float:
    """The regularised incomplete beta function I_x(a, b). It takes y = 1 − x as well: neither may suffer cancellation.

    The continued fraction (Abramowitz and Stegun 26.5.8) converges fast where x is below the mean of the distribution,
    and I_x(a, b) = 1 − I_y(b, a) brings it there.
    """
    if x == 0 or y == 0:
        return 0.0 if x == 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, y, x)
    fraction = 1.0
    for m in range(_terms(a + b), 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        fraction = 1 + odd / (1 + even / fraction)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(a * math.log(x) + b * math.log(y) + scale) / (a * fraction)


def _upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x).

    One minus the power series of P(a, x) below the mean, Legendre's continued fraction above (Abramowitz and Stegun
    6.5.29 and 6.5.31, the latter contracted).
    """
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    terms = 4 * _terms(a)
    if x < a + 1:
        series = 1.0
        for m in range(terms, 0, -1):
            series = 1 + x / (a + m) * series
        return 1 - front / a * series
    fraction = 0.0
    for m in range(terms, 0, -1):
        fraction = m * (a - m) / (x + 2 * m + 1 - a + fraction)
    return front / (x + 1 - a + fraction)


def _terms(size: float) -> int:
    """How many terms give full precision: found by trial, they grow as the root of the parameters."""
    return 20 + int(5 * math.sqrt(size))
