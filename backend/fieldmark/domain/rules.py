"""Cross-field rules of a schema: sums, products, equal values, date order, conditionally required fields.

They are listed at the root of the schema as `"x-fieldmark": {"rules": [...]}` and checked when an extraction is
completed:

    {"sum": "items[*].total", "equals": "subtotal", "tolerance": 0.01}
    {"sum": ["subtotal", "tax"], "equals": "total"}
    {"product": ["quantity", "unit_price"], "equals": "total", "each": "items[*]"}
    {"equals": ["total", "payment.amount"]}
    {"date_order": ["issue_date", "due_date"]}
    {"required_if": {"path": "vat_id", "if": {"path": "country", "equals": "DE"}}}

With `each`, the rule applies to every item, and its other paths start at the item. Absent and null fields are not
violations (use `required`): a sum or product with such a field is not checked, nor is a sum over an empty list.
`equals` and `date_order` compare the fields that are present.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, localcontext
from itertools import pairwise
from typing import Final, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.days import is_iso_date
from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.formatting import short_json
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.numbers import decimal_places, is_number
from fieldmark.domain.paths import Path
from fieldmark.domain.schema_walk import unknown_fields
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidPath, InvalidSchema
from valuegrounding.decimals import to_decimal

KEYWORD: Final = "x-fieldmark"
MAX_RULES: Final = 50
MAX_PATHS: Final = 20
"""Maximum number of paths in one rule."""
MAX_VALUES: Final = 500_000
"""Maximum number of values that all rules together may read."""
MAX_BROKEN: Final = 20

# Represents `[*]` in a path: an index beyond the end of every list.
_EACH_INDEX: Final = paths.MAX_INDEX
_EACH_MARK: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|\[\*\]')
# Stored numbers have up to 100 digits on each side of the point, so a product of twenty is exact in this context.
EXACT: Final = Context(prec=200 * MAX_PATHS + 100, Emax=999_999, Emin=-999_999)

Number = int | float

_Broken: TypeAlias = tuple[str, JsonObject]
"""The message of a broken rule, and its values as the `params` of the violation."""


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: str
    paths: tuple[Path, ...]
    equals: Path | Number | None
    """The result of a sum or product: its path, or a fixed number."""
    each: Path | None
    tolerance: Decimal
    condition: tuple[Path, JsonValue] | None

    def all_paths(self) -> list[Path]:
        result = [self.equals] if isinstance(self.equals, tuple) else []
        return [*self.paths, *result, *([self.condition[0]] if self.condition else [])]

    def compared_paths(self) -> Iterator[Path]:
        """Yield the paths that the rule compares, each up to its first `[*]`."""
        for path in self.all_paths():
            yield path[: path.index(_EACH_INDEX)] if _EACH_INDEX in path else path


def check_rules(schema: JsonObject) -> None:
    """Raise InvalidSchema with the index of the first rule that cannot be used."""
    rules = [[(rule.each or ()) + path for path in rule.all_paths()] for rule in _parse_rules(schema)]
    for unknown in unknown_fields(schema, (path for paths_of_rule in rules for path in paths_of_rule)):
        index = next(index for index, paths_of_rule in enumerate(rules) if unknown in paths_of_rule)
        raise _rule_error(index, f"the schema has no field {_name(unknown)}")


def rule_violations(schema: JsonObject, fields: JsonObject) -> list[Violation]:
    """Return the rules that `fields` break, at most 20, with the exact difference in the message.

    Raise InvalidSchema if a rule cannot be used, or if the rules would read more than 500,000 values.
    """
    found: list[Violation] = []
    with localcontext(EXACT):
        for rule, at in _scopes(schema, fields):
            about = tuple(at.path + path for path in rule.compared_paths())
            found.extend(
                Violation(at.path, rule.kind, message, about=about, params=params)
                for message, params in _CHECKS[rule.kind](rule, at)
            )
            if len(found) >= MAX_BROKEN:
                return found[:MAX_BROKEN]
    return found


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A broken rule with the values it compared: each part with its path, and the result."""

    kind: str
    parts: tuple[tuple[Path, JsonValue], ...]
    result_path: Path | None
    result: JsonValue


def iter_broken_rules(schema: JsonObject, fields: JsonObject) -> Iterator[BrokenRule]:
    """Yield each broken rule; a rule with `each` once for every item that breaks it. Raise InvalidSchema if a rule
    cannot be used."""
    for rule, at in _scopes(schema, fields):
        if next(_CHECKS[rule.kind](rule, at), None) is None:
            continue
        parts = tuple(found for path in rule.paths for found in at.iterate(path) if found[1] is not None)
        equals = rule.equals
        if isinstance(equals, tuple):
            yield BrokenRule(rule.kind, parts, *next(at.iterate(equals)))
        else:
            yield BrokenRule(rule.kind, parts, None, equals)


# Checking fields ------------------------------------------------------------------------------------------------------


class _ValueFinder:
    """Finds the values at a path with `[*]`, and limits how many values are read."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def iterate(self, value: JsonValue | Missing, path: Path, above: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
        """Yield (path, value) of every value at a path with `[*]`. Absent values are yielded as None."""
        self._left -= 1
        if self._left < 0:
            raise InvalidSchema(f"The schema's rules read more than {MAX_VALUES:,} values. Use fewer or shorter lists.")
        if _EACH_INDEX not in path:
            found = value_at(None if isinstance(value, Missing) else value, path)
            yield above + path, None if isinstance(found, Missing) else found
            return
        star = path.index(_EACH_INDEX)
        found = value_at(None if isinstance(value, Missing) else value, path[:star])
        if not isinstance(found, list):
            return
        for index, item in enumerate(found):
            yield from self.iterate(item, path[star + 1 :], (*above, *path[:star], index))


@dataclass(frozen=True, slots=True)
class _RuleScope:
    """Where a rule applies: the fields as a whole, or one item of its `each`."""

    finder: _ValueFinder
    path: Path
    item: JsonValue

    def iterate(self, path: Path) -> Iterator[tuple[Path, JsonValue]]:
        return self.finder.iterate(self.item, path, self.path)

    def values(self, path: Path) -> list[tuple[str, JsonValue]]:
        return [(paths.name(found), value) for found, value in self.iterate(path)]

    def value(self, path: Path) -> tuple[str, JsonValue]:
        return self.values(path)[0]

    def present(self, rule: _Rule) -> list[tuple[str, JsonValue]]:
        return [found for path in rule.paths if (found := self.value(path))[1] is not None]

    def name(self, path: Path) -> str:
        return _name(self.path + path)


def _scopes(schema: JsonObject, fields: JsonObject) -> Iterator[tuple[_Rule, _RuleScope]]:
    """Yield the rules in order, each with every scope that it applies to."""
    finder = _ValueFinder()
    for rule in _parse_rules(schema):
        for path, item in finder.iterate(fields, rule.each) if rule.each else [((), fields)]:
            yield rule, _RuleScope(finder, path, item)


def _check_sum(rule: _Rule, scope: _RuleScope) -> Iterator[_Broken]:
    yield from _check_result(
        rule, scope, [found for path in rule.paths for found in scope.values(path)], sum, " and ", "add up to"
    )


def _check_product(rule: _Rule, scope: _RuleScope) -> Iterator[_Broken]:
    yield from _check_result(rule, scope, [scope.value(path) for path in rule.paths], math.prod, " × ", "is")


def _check_result(
    rule: _Rule,
    scope: _RuleScope,
    parts: list[tuple[str, JsonValue]],
    combine: Callable[[list[Decimal]], Decimal | int],
    separator: str,
    verb: str,
) -> Iterator[_Broken]:
    result_name, expected = scope.value(rule.equals) if isinstance(rule.equals, tuple) else ("", rule.equals)
    values = [value for _, value in parts]
    if not parts or expected is None or None in values:
        return
    wrong = [
        _not_a_number_message(name, value) for name, value in [*parts, (result_name, expected)] if not is_number(value)
    ]
    if wrong:
        yield from wrong[:3]
        return
    result = Decimal(combine([to_decimal(value) for value in values]))
    difference = to_decimal(expected) - result
    if abs(difference) > rule.tolerance:
        show = _amount_formatter([*values, expected], result)
        printed_parts = separator.join(map(scope.name, rule.paths))
        end = (
            f"{result_name} is {show(to_decimal(expected))}" if result_name else f"must be {show(to_decimal(expected))}"
        )
        yield (
            f"{printed_parts} {verb} {show(result)} but {end}: {_show_difference(show, difference)}",
            {
                "parts": [*map(scope.name, rule.paths)],
                "total": result_name or None,
                "actual": show(result).replace(",", ""),
                "expected": show(to_decimal(expected)).replace(",", ""),
                "difference": show(abs(difference)).replace(",", ""),
            },
        )


def _check_equal(rule: _Rule, scope: _RuleScope) -> Iterator[_Broken]:
    found = scope.present(rule)
    for (first, one), (second, other) in ((found[0], another) for another in found[1:]):
        if is_number(one) and is_number(other):
            difference = to_decimal(other) - to_decimal(one)
            if abs(difference) > rule.tolerance:
                show = _amount_formatter([one, other])
                amounts = f"{first} is {show(to_decimal(one))} but {second} is {show(to_decimal(other))}"
                params: JsonObject = {"paths": [first, second], "values": [one, other]}
                yield f"{amounts}: {_show_difference(show, difference)}", params
        elif _json_key(one) != _json_key(other):
            yield (
                f"{first} is {short_json(one)} but {second} is {short_json(other)}: they must be equal",
                {"paths": [first, second], "values": [_short(one), _short(other)]},
            )


def _check_date_order(rule: _Rule, scope: _RuleScope) -> Iterator[_Broken]:
    found = scope.present(rule)
    wrong: list[_Broken] = [
        (
            f"{name} is {short_json(value)}, which is not a date: write it as YYYY-MM-DD",
            {"not_a_date": name, "value": _short(value)},
        )
        for name, value in found
        if not (isinstance(value, str) and is_iso_date(value))
    ]
    if wrong:
        yield from wrong[:3]
        return
    days = [(name, date.fromisoformat(str(value))) for name, value in found]
    for (first, earlier), (second, later) in pairwise(days):
        if earlier > later:
            count = (earlier - later).days
            yield (
                f"{first} is {earlier} but {second} is {later}: it must not be earlier, and is by {count} "
                f"{'day' if count == 1 else 'days'}",
                {"paths": [first, second], "values": [str(earlier), str(later)]},
            )


def _check_required(rule: _Rule, scope: _RuleScope) -> Iterator[_Broken]:
    assert rule.condition is not None
    path, expected = rule.condition
    condition, actual = scope.value(path)
    name, value = scope.value(rule.paths[0])
    if value is None and actual is not None and _json_key(actual) == _json_key(expected):
        yield (
            f"{name} is missing: it is required if {condition} is {short_json(actual)}",
            {"missing": name, "condition": condition, "value": _short(actual)},
        )


_CHECKS: Final[Mapping[str, Callable[[_Rule, _RuleScope], Iterator[_Broken]]]] = {
    "sum": _check_sum,
    "product": _check_product,
    "equals": _check_equal,
    "date_order": _check_date_order,
    "required_if": _check_required,
}

KINDS: Final = frozenset(_CHECKS)


def _not_a_number_message(name: str, value: JsonValue) -> _Broken:
    text = f"{name} is {short_json(value)}, which is not a number: write it as a JSON number"
    return text, {"not_a_number": name, "value": _short(value)}


def _short(value: JsonValue) -> JsonValue:
    return value if isinstance(value, int | float) else value[:80] if isinstance(value, str) else short_json(value)


def _show_difference(show: Callable[[Decimal], str], difference: Decimal) -> str:
    return f"{show(abs(difference))} {'more' if difference > 0 else 'less'}"


def _json_key(value: JsonValue) -> str:
    """Return a text that is equal for equal JSON values: for 1 and 1.0, not for 1 and "1"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _amount_formatter(given: Sequence[JsonValue], result: Decimal = Decimal(0)) -> Callable[[Decimal], str]:
    """Return a formatter that gives all amounts the same number of decimal places: as many as the longest has, and at
    least two unless all are integers."""
    most = max(decimal_places(number) for number in [result, *map(to_decimal, given)])
    if any(isinstance(value, float) for value in given):
        most = max(most, 2)
    return lambda number: f"{number:,.{min(most, 30)}f}"


_EXTRA_KEYS: Final = {"sum": ("equals", "tolerance"), "product": ("equals", "tolerance"), "equals": ("tolerance",)}


# Parsing rules --------------------------------------------------------------------------------------------------------


def _parse_rules(schema: JsonObject) -> list[_Rule]:
    extension = schema.get(KEYWORD, {})
    rules = extension.get("rules", []) if isinstance(extension, dict) else None
    if not isinstance(rules, list):
        raise InvalidSchema(f'The schema\'s "{KEYWORD}" must be an object, and its "rules" a list.')
    if len(rules) > MAX_RULES:
        raise InvalidSchema(f"The schema has {len(rules)} rules; the limit is {MAX_RULES}.")
    return [_parse_rule(index, rule) for index, rule in enumerate(rules)]


def _parse_rule(index: int, rule: JsonValue) -> _Rule:
    if not isinstance(rule, dict):
        raise _rule_error(index, "a rule must be an object")
    kinds = [kind for kind in _CHECKS if kind in rule and kind != "equals"] or [
        kind for kind in ["equals"] if kind in rule
    ]
    if len(kinds) != 1:
        raise _rule_error(index, f"a rule must have exactly one of {', '.join(_CHECKS)}")
    (kind,) = kinds
    if unknown := sorted(rule.keys() - {kind, "each", *_EXTRA_KEYS.get(kind, ())}):
        raise _rule_error(index, f"a rule with {kind} cannot have {', '.join(unknown)[:200]}")
    each = _parse_path(index, rule["each"]) if "each" in rule else None
    if each is not None and _EACH_INDEX not in each:
        raise _rule_error(index, 'each must contain [*], as in "items[*]"')
    tolerance = rule.get("tolerance", 0)
    if not is_number(tolerance) or not 0 <= tolerance <= 1e15:
        raise _rule_error(index, "tolerance must be a number of at least 0")
    equals: Path | Number | None = None
    condition: tuple[Path, JsonValue] | None = None
    if kind == "required_if":
        found, condition = _parse_requirement(index, rule[kind])
    else:
        found = _parse_paths(index, kind, rule[kind])
    if kind in ("sum", "product"):
        if "equals" not in rule:
            raise _rule_error(index, f"{kind} needs equals: the path of its result, or a number")
        equals = rule["equals"] if is_number(rule["equals"]) else _parse_plain_path(index, rule["equals"])
    return _Rule(kind, found, equals, each, to_decimal(tolerance), condition)


def _parse_paths(index: int, kind: str, given: JsonValue) -> tuple[Path, ...]:
    listed = [given] if isinstance(given, str) and kind == "sum" else given
    least = 1 if kind == "sum" else 2
    if not isinstance(listed, list) or not least <= len(listed) <= MAX_PATHS:
        raise _rule_error(index, f"{kind} takes a list of {least} to {MAX_PATHS} paths")
    return tuple((_parse_path if kind == "sum" else _parse_plain_path)(index, path) for path in listed)


def _parse_requirement(index: int, given: JsonValue) -> tuple[tuple[Path, ...], tuple[Path, JsonValue]]:
    match given:
        case {"path": path, "if": {"path": other, "equals": str() | int() | float() as wanted, **more}, **rest} if (
            not more and not rest
        ):
            return (_parse_plain_path(index, path),), (_parse_plain_path(index, other), wanted)
        case _:
            raise _rule_error(
                index, 'required_if is {"path": …, "if": {"path": …, "equals": a text, number or boolean}}'
            )


def _parse_plain_path(index: int, given: JsonValue) -> Path:
    path = _parse_path(index, given)
    if _EACH_INDEX in path:
        raise _rule_error(index, f"{_name(path)} refers to several values, but one is needed; use each")
    return path


def _parse_path(index: int, given: JsonValue) -> Path:
    if not isinstance(given, str):
        raise _rule_error(index, f"a path must be a text, not {short_json(given)}")
    try:
        path = paths.parse(
            _EACH_MARK.sub(lambda found: found[1] or f"[{_EACH_INDEX}]", given[: 2 * paths.MAX_CHARACTERS])
        )
    except InvalidPath as error:
        raise _rule_error(index, str(error).removesuffix(".")) from None
    if path.count(_EACH_INDEX) > 2:
        raise _rule_error(index, "a path can have [*] at most twice")
    return path


def _name(path: Path) -> str:
    return paths.name(path).replace(f"[{_EACH_INDEX}]", "[*]")


def _rule_error(index: int, what: str) -> InvalidSchema:
    return InvalidSchema(f"The schema's {KEYWORD}.rules[{index}] cannot be used: {what}.")
