"""Decimal numbers: the exact value and canonical text of a JSON number."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

from pydantic import JsonValue

MAX_DIGITS: Final = 40  # a longer run of digits is an identifier, not a number


def to_decimal(value: JsonValue) -> Decimal:
    """Return a JSON number exactly as written: 0.1, not the nearest binary fraction."""
    return Decimal(repr(value))


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
