"""For a rule that fails: changes of a single field that would make it pass.

If a sum is 0.50 too low, the fixes are a different result, and each part increased by 0.50. The caller checks whether a
page prints such a value: only then was a value misread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, DivisionByZero, InvalidOperation, localcontext
from typing import Final

from pydantic import JsonValue

from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.numbers import decimal_places, is_number
from fieldmark.domain.paths import Path
from fieldmark.domain.rules import EXACT, BrokenRule, iter_broken_rules, rule_violations
from valuegrounding.decimals import to_decimal

MAX_FIXES: Final = 200
_MAX_DECIMAL_PLACES: Final = 6
"""Decimal places of a factor that does not divide evenly."""


@dataclass(frozen=True, slots=True)
class RuleFix:
    """Setting `path` to `value` would make a rule of this `kind` pass."""

    path: Path
    value: JsonValue
    kind: str


def possible_fixes(schema: JsonObject, fields: JsonObject) -> list[RuleFix]:
    """Return up to 200 fixes, in rule order, unverified: see `would_fix`. Raise Invalid for rules that cannot be
    used."""
    found: dict[tuple[Path, str], RuleFix] = {}
    with localcontext(EXACT):
        for broken in iter_broken_rules(schema, fields):
            for path, value in _fixes(broken):
                found.setdefault((path, repr(value)), RuleFix(path, value, broken.kind))
                if len(found) >= MAX_FIXES:
                    return list(found.values())
    return list(found.values())


def would_fix(schema: JsonObject, fields: JsonObject, fix: RuleFix) -> bool:
    """Return whether a fix makes a failing rule pass and breaks no further rule."""
    return _broken(schema, _with_value(fields, fix.path, fix.value)) < _broken(schema, fields)


def _broken(schema: JsonObject, fields: JsonObject) -> Counter[tuple[Path, str, tuple[Path, ...]]]:
    return Counter((one.path, one.code, one.about) for one in rule_violations(schema, fields))


def _fixes(broken: BrokenRule) -> Iterator[tuple[Path, JsonValue]]:
    if broken.kind == "equals":
        values = [value for _, value in broken.parts]
        for path, value in broken.parts:
            yield from ((path, other) for other in values if other != value)
        return
    if broken.kind not in ("sum", "product") or not is_number(broken.result):
        return
    numbers = [(path, to_decimal(value)) for path, value in broken.parts if is_number(value)]
    if len(numbers) < len(broken.parts):
        return
    expected = to_decimal(broken.result)
    places = max(2, decimal_places(expected), *(decimal_places(number) for _, number in numbers))
    combine = sum if broken.kind == "sum" else math.prod
    computed = Decimal(combine(number for _, number in numbers))
    if broken.result_path is not None:
        yield broken.result_path, _as_json(computed, places)
    for path, number in numbers:
        if broken.kind == "sum":
            yield path, _as_json(number + expected - computed, places)
        elif computed != 0:
            try:
                yield path, _as_json(expected / (computed / number), _MAX_DECIMAL_PLACES)
            except (DivisionByZero, InvalidOperation):
                continue


def _as_json(number: Decimal, places: int) -> JsonValue:
    rounded = round(number, places)
    return int(rounded) if rounded == rounded.to_integral_value() else float(rounded)


def _with_value(fields: JsonValue, path: Path, value: JsonValue) -> JsonObject:
    """Return a copy of the fields with the value at an existing path replaced."""

    def replace(node: JsonValue, remaining_path: Path) -> JsonValue:
        if not remaining_path:
            return value
        step = remaining_path[0]
        if isinstance(node, dict) and isinstance(step, str):
            return {**node, step: replace(node[step], remaining_path[1:])}
        if isinstance(node, list) and isinstance(step, int):
            return [replace(one, remaining_path[1:]) if index == step else one for index, one in enumerate(node)]
        return node

    made = replace(fields, path)
    assert isinstance(made, dict)
    return made
