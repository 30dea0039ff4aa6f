"""Units of number fields, and the exact conversion between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from typing import Final

from valuegrounding.decimals import canonical_decimal

# Units of one kind, each with its size. Their names are those of units.py.
_KINDS: Final[tuple[Mapping[str, str], ...]] = (
    {"g": "1", "mg": "0.001", "kg": "1000", "t": "1000000"},
    {"l": "1", "ml": "0.001", "cl": "0.01", "dl": "0.1", "hl": "100", "cm3": "0.001", "m3": "1000"},
    {"m": "1", "mm": "0.001", "cm": "0.01", "km": "1000"},
    {"m2": "1", "cm2": "0.0001"},
    {"s": "1", "min": "60", "h": "3600"},
    {"w": "1", "kw": "1000"},
    {"wh": "1", "kwh": "1000"},
    *({unit: "1"} for unit in ["lb", "oz", "gal", "ft", "in", "yd", "mi", "d", "pc", "%", "‰", "°c", "°f"]),
)
_SIZES: Final = {unit: {name: Decimal(size) for name, size in kind.items()} for kind in _KINDS for unit in kind}
_PRINTED: Final = {"w": "W", "kw": "kW", "wh": "Wh", "kwh": "kWh", "°c": "°C", "°f": "°F"}
UNITS: Final = tuple(_PRINTED.get(unit, unit) for unit in _SIZES)
"""Units that a field can have, as people write them."""
# A result that needs more digits, such as a third, is no conversion that a document can be compared with.
_EXACT: Final = Context(prec=60, traps=[Inexact])


def unit_name(unit: str) -> str | None:
    """Return the name of a unit that a field can have, regardless of case. None for any other text."""
    return unit.lower() if unit.lower() in _SIZES else None


@dataclass(frozen=True, slots=True)
class Measure:
    """A number in a unit: a name of `unit_name`."""

    value: int | float
    unit: str

    def printings(self) -> Iterator[tuple[str, str]]:
        """Yield the ways to print it: unit and decimal number, first in its own unit, then in others of the kind."""
        sizes = _SIZES[self.unit]
        number = canonical_decimal(self.value)
        if number is None:
            return
        yield self.unit, number
        for unit, size in sizes.items():
            if unit == self.unit:
                continue
            try:
                with localcontext(_EXACT):
                    converted = canonical_decimal(Decimal(number) * sizes[self.unit] / size)
            except Inexact:
                continue
            if converted is not None:
                yield unit, converted
