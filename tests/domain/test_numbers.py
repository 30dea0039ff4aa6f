from __future__ import annotations

from fieldmark.domain.numbers import is_number
from fieldmark.domain.values import rounded_number_problem


def test_only_finite_numbers_are_numbers() -> None:
    assert all(map(is_number, [0, -1, 0.5, 10**400]))
    assert not any(map(is_number, [True, False, None, "1", [1], {}, float("nan"), float("inf")]))


def test_number_of_more_than_15_digits_may_have_been_rounded() -> None:
    for exact in (0, -12.5, 1e-7, 123456789012345, 0.123456789012345, {"a": [1, "12345678901234567", True]}):
        assert rounded_number_problem(exact) is None
    for value in (10**16, 1e16, 1234567890123456, 12345678901234.56, {"a": [1, 1e22]}):
        assert rounded_number_problem(value) is not None
