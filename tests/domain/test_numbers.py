"""Which values are numbers, and how two spellings of one number become one."""

from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.numbers import canonical_decimal, is_number


@pytest.mark.parametrize("value", [0, -1, 0.5, 10**400])
def test_finite_numbers_are_numbers(value: Any) -> None:
    assert is_number(value)


@pytest.mark.parametrize("value", [True, False, None, "1", [1], {}, float("nan"), float("inf")])
def test_nothing_else_is_a_number(value: Any) -> None:
    assert not is_number(value)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (1250, "1250"),
        (1250.0, "1250"),
        ("01250.50", "1250.5"),
        (-0.5, "-0.5"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e22, "10000000000000000000000"),
        (1e-7, "0.0000001"),
        (10**39 + 1, "1" + "0" * 38 + "1"),
        (1e300, None),
        (float("nan"), None),
        (float("inf"), None),
        ("12,50", None),
    ],
)
def test_a_number_has_one_spelling(value: Any, spelling: str | None) -> None:
    assert canonical_decimal(value) == spelling
