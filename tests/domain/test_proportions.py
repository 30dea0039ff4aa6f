"""The exact upper bound of a proportion."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmark.domain.proportions import upper_bound


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(deadline=None)
def test_so_few_wrong_values_are_seen_in_one_of_twenty_samples_at_the_bound(sample: tuple[int, int]) -> None:
    wrong, checked = sample
    bound = upper_bound(wrong, checked)
    assert bound is not None
    if wrong == checked:
        assert bound == 1
        return
    terms = (comb(checked, n) * bound**n * (1 - bound) ** (checked - n) for n in range(wrong + 1))
    assert sum(terms) == pytest.approx(0.05, rel=1e-6)
    higher = upper_bound(wrong + 1, checked)
    assert higher is not None and wrong / checked < bound < higher


@pytest.mark.parametrize(
    ("wrong", "checked", "bound"),
    # No error in n values: 1 - 0.05^(1/n), about 3 / n. The others are from tables.
    [
        (0, 100, 0.029513),
        (1, 100, 0.046560),
        (5, 100, 0.102255),
        (0, 1_000_000, 2.9957e-6),
        (10_000, 1_000_000, 0.010166),
    ],
)
def test_known_bounds(wrong: int, checked: int, bound: float) -> None:
    assert upper_bound(wrong, checked) == pytest.approx(bound, rel=1e-3)


def test_without_a_checked_value_nothing_is_known() -> None:
    assert upper_bound(0, 0) is None
