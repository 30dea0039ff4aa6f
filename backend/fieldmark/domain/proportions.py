"""Bounds of proportions: how high the true share of wrong values may be, given a sample."""

from __future__ import annotations

from math import exp, lgamma, log, log1p
from typing import Final

CONFIDENCE: Final = 0.95

_HALVINGS: Final = 40


def upper_bound(wrong: int, checked: int, confidence: float = CONFIDENCE) -> float | None:
    """Return the exact one-sided upper bound of a proportion (Clopper and Pearson): the largest share of wrong values
    with which `wrong` or fewer of `checked` values are wrong with a probability of at least 1 - confidence. None if no
    value was checked."""
    if checked == 0:
        return None
    low, high = wrong / checked, 1.0
    if wrong == checked:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _probability_of_at_most(wrong, checked, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def lower_bound(wrong: int, checked: int, confidence: float = CONFIDENCE) -> float | None:
    """Return the exact one-sided lower bound of a proportion. None if no value was checked."""
    of_right = upper_bound(checked - wrong, checked, confidence)
    return None if of_right is None else 1 - of_right


def _probability_of_at_most(most: int, checked: int, share: float) -> float:
    """Return the probability that at most `most` of `checked` values are wrong. `share` is above most / checked, so the
    terms of the sum fall quickly."""
    ways = lgamma(checked + 1) - lgamma(most + 1) - lgamma(checked - most + 1)
    term = exp(ways + most * log(share) + (checked - most) * log1p(-share))
    total, odds = term, (1 - share) / share
    for wrong in range(most, 0, -1):
        term *= wrong / (checked - wrong + 1) * odds
        total += term
        if term < total * 1e-12:
            break
    return total
