"""JSON numbers: their exact value and canonical text."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Final, TypeGuard

from pydantic import JsonValue

MAX_EXACT_DIGITS: Final = 15
"""Digits of a number that every JSON reader keeps."""
MAX_DIGITS: Final = 40  # a longer run of digits is an identifier, not a number


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


def to_decimal(value: JsonValue) -> Decimal:
    """Return a JSON number exactly as written: 0.1, not the nearest binary fraction."""
    return Decimal(repr(value))


def digit_count(number: Decimal) -> int:
    """Return the number of digits of a finite number, without leading zeros and the trailing zeros of a fraction."""
    _, digits, exponent = number.normalize().as_tuple()
    return len(digits) + (max(0, exponent) if isinstance(exponent, int) else 0)


def decimal_places(number: Decimal) -> int:
    """Return the number of digits after the decimal point, without trailing zeros."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def canonical_decimal(value: int | float | Decimal | str) -> str | None:
    """Return a number's canonical text: `1250`, `-0.5`; no exponent, no leading or trailing zeros.

    None if it is not finite, or has more than MAX_DIGITS digits before or after the point. A float counts as written:
    0.1.
    """
    try:
        number = to_decimal(value) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > MAX_DIGITS:
        return None
    text = format(number, "f")
    negative, text = text.startswith("-"), text.lstrip("-")
    whole, _, fraction = text.partition(".")
    return with_sign(join_decimal(whole, fraction), negative)


def join_decimal(whole: str, fraction: str) -> str:
    """Return the canonical text of the digits before and after the point: `0012` and `50` give `12.5`."""
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def with_sign(value: str, negative: bool) -> str:
    """Add a minus sign if `negative`; zero has no sign."""
    return f"-{value}" if negative and value != "0" else value
