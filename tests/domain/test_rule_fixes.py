from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain import paths
from fieldmark.domain.rule_fixes import possible_fixes, would_fix


def with_rules(*rules: Any) -> dict[str, Any]:
    return {"x-fieldmark": {"rules": list(rules)}}


ITEMS = {"sum": "items[*].total", "equals": "subtotal"}
TAXED = {"sum": ["subtotal", "tax"], "equals": "total"}
ROWS = {"product": ["quantity", "price"], "equals": "total", "each": "items[*]"}


def fixes_by_path(schema: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in possible_fixes(schema, fields):
        if would_fix(schema, fields, one):
            found.setdefault(paths.name(one.path), []).append(one.value)
    return found


@pytest.mark.parametrize(
    ("rules", "fields", "expected"),
    [
        ([TAXED], {"subtotal": 100, "tax": 19, "total": 191}, {"total": [119], "subtotal": [172], "tax": [91]}),
        ([TAXED], {"subtotal": 100, "tax": 19, "total": 119}, {}),
        ([TAXED], {"subtotal": 100, "tax": None, "total": 191}, {}),
        ([TAXED], {"subtotal": "100", "tax": 19, "total": 191}, {}),
        (
            [ITEMS],
            {"items": [{"total": 0.1}, {"total": 1}], "subtotal": 0.3},
            {"subtotal": [1.1], "items[0].total": [-0.7], "items[1].total": [0.2]},
        ),
        (
            [ROWS],
            {"items": [{"quantity": 3, "price": 2.5, "total": 7.5}, {"quantity": 3, "price": 2, "total": 60}]},
            {"items[1].total": [6], "items[1].quantity": [30], "items[1].price": [20]},
        ),
        ([ROWS], {"items": [{"quantity": 0, "price": 2, "total": 60}]}, {"items[0].total": [0]}),
        ([{"equals": ["total", "paid"]}], {"total": 12, "paid": 21}, {"total": [21], "paid": [12]}),
        ([{"sum": ["a", "b"], "equals": 100}], {"a": 60, "b": 30}, {"a": [70], "b": [40]}),
        ([{"date_order": ["a", "b"]}], {"a": "2024-02-01", "b": "2024-01-01"}, {}),
        # Fixes that break no other rule: the total is in two rules.
        (
            [TAXED, {"equals": ["total", "paid"]}],
            {"subtotal": 100, "tax": 19, "total": 191, "paid": 191},
            {"subtotal": [172], "tax": [91]},
        ),
    ],
)
def test_possible_fixes_satisfy_the_rule(rules: list[Any], fields: dict[str, Any], expected: dict[str, Any]):
    assert fixes_by_path(with_rules(*rules), fields) == expected


def test_value_that_breaks_another_rule_is_not_a_fix():
    rules = [TAXED, {"sum": ["a", "b"], "equals": "total"}, {"equals": ["total", "paid"]}]
    fields = {"subtotal": 100, "tax": 19, "a": 60, "b": 59, "total": 191, "paid": 191}
    assert fixes_by_path(with_rules(*rules), fields) == {"subtotal": [172], "tax": [91], "a": [132], "b": [131]}
    # With the third broken as well, one value fixes all three.
    assert fixes_by_path(with_rules(*rules), {**fields, "paid": 119})["total"] == [119]


def test_number_of_fixes_is_limited():
    fields = {"items": [{"total": 1}] * 1_000, "subtotal": 999}
    assert len(possible_fixes(with_rules(ITEMS), fields)) == 200
