"""JSON numbers: which values are numbers, and how many digits they have."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, TypeGuard

MAX_EXACT_DIGITS: Final = 15
"""Digits of a number that every JSON reader keeps."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a JSON value is a finite number. Booleans are not numbers, although Python treats them as 1
    and 0."""
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)


class InexactNumber(ValueError):
    """A number has digits that a JSON reader would lose."""


def exact_float(literal: str) -> float:
    """Return a JSON number with a fraction or an exponent. Raise InexactNumber if a float can't hold all its digits:
    up to 15 it always can. (Integers are exact.)"""
    number = float(literal)
    is_short = len(literal) <= MAX_EXACT_DIGITS + 1 and "e" not in literal and "E" not in literal
    if is_short or Decimal(literal) == Decimal(repr(number)):
        return number
    raise InexactNumber(f"The number {literal[:60]} has more digits than a JSON number keeps. Write it as text.")


def digit_count(number: Decimal) -> int:
    """Return the number of digits of a finite number, without leading zeros and the trailing zeros of a fraction."""
    _, digits, exponent = number.normalize().as_tuple()
    return len(digits) + (max(0, exponent) if isinstance(exponent, int) else 0)


def decimal_places(number: Decimal) -> int:
    """Return the number of digits after the decimal point, without trailing zeros."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
