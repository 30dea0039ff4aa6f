"""Numbers: which JSON values are numbers, what they are exactly, and their one spelling by which two are compared."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Final, TypeGuard

from pydantic import JsonValue

MAX_DIGITS: Final = 40  # of a number; a longer run of digits is something else


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a finite number. True and false are none, though Python counts them as 1 and 0."""
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)


def to_decimal(value: JsonValue) -> Decimal:
    """A JSON number as it is written: of a float its shortest spelling, 0.1, and not the nearest binary fraction."""
    return Decimal(repr(value))


def decimal_places(number: Decimal) -> int:
    """How many digits stand behind its point, without zeros at the end."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def canonical_decimal(value: int | float | Decimal | str) -> str | None:
    """The number's one spelling: `1250`, `-0.5`, without an exponent, without leading and trailing zeros.

    None for what is not a finite number of at most MAX_DIGITS digits before or behind the point. A float counts as it
    is written: 0.1, and not as the nearest binary fraction.
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
    """The canonical spelling of digits before and behind the point: `0012` and `50` give `12.5`."""
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def with_sign(value: str, negative: bool) -> str:
    """The canonical spelling with its sign; zero has none."""
    return f"-{value}" if negative and value != "0" else value
