from __future__ import annotations

import pytest

from fieldmark.domain.rules import MAX_RULES, check_rules, rule_violations
from fieldmark.errors import Invalid


def with_rules(*rules) -> dict:
    return {"x-fieldmark": {"rules": list(rules)}}


ITEMS = {"sum": "items[*].total", "equals": "subtotal"}
TAXED = {"sum": ["subtotal", "tax"], "equals": "total"}
ROWS = {"product": ["quantity", "unit_price"], "equals": "total", "each": "items[*]"}
SAME = {"equals": ["total", "payment.amount"]}
DAYS = {"date_order": ["issued", "delivered", "due"]}
VAT = {"required_if": {"path": "vat_id", "if": {"path": "country", "equals": "DE"}}}


def fields_with_totals(*totals) -> list:
    return [{"total": total} for total in totals]


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        (ITEMS, {"items": fields_with_totals(1000.0, 190.0), "subtotal": 1190.0}),
        (ITEMS, {"items": fields_with_totals(0.1, 0.2), "subtotal": 0.3}),
        (TAXED, {"subtotal": 100, "tax": 19.0, "total": 119}),
        (
            ROWS,
            {"items": [{"quantity": 3, "unit_price": 0.1, "total": 0.3}, {"quantity": 1, "unit_price": 2, "total": 2}]},
        ),
        ({"equals": ["a", "b"]}, {"a": {"x": 1, "y": [1.0]}, "b": {"y": [1.0], "x": 1}}),
        (DAYS, {"issued": "2024-02-29", "delivered": "2024-02-29", "due": "2024-03-01"}),
        (VAT, {"country": "DE", "vat_id": "DE1"}),
        ({"sum": ["a[*]", "b"], "equals": "c"}, {"a": [1, 2], "b": 3, "c": 6}),
        ({"sum": "rows[*].cells[*]", "equals": "all"}, {"rows": [{"cells": [1, 2]}, {"cells": [3]}], "all": 6}),
        ({"sum": '["a.b"][*]["[*]"]', "equals": "c"}, {"a.b": [{"[*]": 1}], "c": 1}),
        (
            {"sum": "parts[*]", "equals": "all", "each": "rows[*]"},
            {"rows": [{"parts": [1], "all": 1}, {"parts": [2], "all": 2}]},
        ),
    ],
)
def test_satisfied_rule_has_no_violation(rule, fields):
    assert rule_violations(with_rules(rule), fields) == []


@pytest.mark.parametrize(
    ("rule", "fields", "parts"),
    [
        (
            ITEMS,
            {"items": fields_with_totals(1000.0, 190.0), "subtotal": 1191.0},
            ("items[*].total", "1,190.00", "subtotal", "1,191.00", "1.00 more"),
        ),
        (ITEMS, {"items": fields_with_totals(1, 2), "subtotal": 1}, ("items[*].total", " 3 ", "subtotal", "2 less")),
        (
            ITEMS,
            {"items": fields_with_totals(10**39, 0.001), "subtotal": 10**39},
            ("items[*].total", f"{10**39:,}.001", "subtotal", f"{10**39:,}.000", "0.001 less"),
        ),
        (
            TAXED,
            {"subtotal": 100.0, "tax": 19, "total": 119.5},
            ("subtotal", "tax", "119.00", "total", "119.50", "0.50 more"),
        ),
        (
            ROWS,
            {
                "items": [
                    {"quantity": 1, "unit_price": 1, "total": 1},
                    {"quantity": 3, "unit_price": 6.5, "total": 19.0},
                ]
            },
            ("items[1].quantity", "items[1].unit_price", "19.50", "items[1].total", "19.00", "0.50 less"),
        ),
        ({"sum": "s[*]", "equals": 100}, {"s": [50, 49]}, ("s[*]", "99", "100", "1 more")),
        (SAME, {"total": 12.5, "payment": {"amount": 12}}, ("total", "12.50", "payment.amount", "12.00", "0.50 less")),
        ({"equals": ["a", "b"]}, {"a": "x", "b": "y"}, ('a is "x"', 'b is "y"')),
        ({"equals": ["a", "b"]}, {"a": 1, "b": "1"}, ("a is 1", 'b is "1"')),
        (
            DAYS,
            {"issued": "2024-03-12", "due": "2024-03-10"},
            ("issued", "2024-03-12", "due", "2024-03-10", "2 days"),
        ),
        (VAT, {"country": "DE"}, ("vat_id", "country", '"DE"')),
    ],
)
def test_violation_has_the_compared_paths_and_the_difference(rule, fields, parts):
    (one,) = rule_violations(with_rules(rule), fields)
    assert all(part in one.message for part in parts) and one.code in rule


@pytest.mark.parametrize(
    ("rule", "fields", "params"),
    [
        (
            TAXED,
            {"subtotal": 1000.0, "tax": 19, "total": 1119.5},
            {"parts": ["subtotal", "tax"], "total": "total", "actual": "1019.00", "expected": "1119.50"}
            | {"difference": "100.50"},
        ),
        (
            {"sum": "s[*]", "equals": 100},
            {"s": [50, 49]},
            {"parts": ["s[*]"], "total": None, "actual": "99", "expected": "100", "difference": "1"},
        ),
        (
            SAME,
            {"total": 12.5, "payment": {"amount": 12}},
            {"paths": ["total", "payment.amount"], "values": [12.5, 12]},
        ),
        (
            DAYS,
            {"issued": "2024-03-12", "due": "2024-03-10"},
            {"paths": ["issued", "due"], "values": ["2024-03-12", "2024-03-10"]},
        ),
        (DAYS, {"issued": "soon", "due": "2024-03-10"}, {"not_a_date": "issued", "value": "soon"}),
        (TAXED, {"subtotal": "1", "tax": 1, "total": 2}, {"not_a_number": "subtotal", "value": "1"}),
        (VAT, {"country": "DE"}, {"missing": "vat_id", "condition": "country", "value": "DE"}),
    ],
)
def test_violation_has_the_values_of_its_message(rule, fields, params):
    (one,) = rule_violations(with_rules(rule), fields)
    assert one.params == params


@pytest.mark.parametrize(("total", "violations"), [(1.01, 0), (0.99, 0), (1.0100001, 1), (0.98, 1), (1, 0)])
def test_difference_equal_to_the_tolerance_is_accepted(total, violations):
    rule = {"sum": ["a", "b"], "equals": "c", "tolerance": 0.01}
    assert len(rule_violations(with_rules(rule), {"a": 0.7, "b": 0.3, "c": total})) == violations
    assert (
        len(rule_violations(with_rules({"equals": ["a", "c"], "tolerance": 0.01}), {"a": 1, "c": total})) == violations
    )


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        (ITEMS, {}),
        (ITEMS, {"items": [], "subtotal": 5}),
        (ITEMS, {"items": [{"total": 1}, {}], "subtotal": 5}),
        (ROWS, {"items": [{"quantity": 2, "total": 5}]}),
        (DAYS, {"issued": "2024-03-12"}),
    ],
)
def test_absent_values_violate_no_rule(rule, fields):
    assert rule_violations(with_rules(rule), fields) == []


@pytest.mark.parametrize(
    ("rule", "fields", "parts"),
    [
        (TAXED, {"subtotal": "1,190.00", "tax": 1, "total": 2}, ("subtotal", '"1,190.00"')),
        (TAXED, {"subtotal": 1, "tax": True, "total": 2}, ("tax", "true")),
        (TAXED, {"subtotal": 1, "tax": 1, "total": [2]}, ("total", "a list of 1 items")),
        (DAYS, {"issued": "12.03.2024", "due": "2024-03-12"}, ("issued", '"12.03.2024"')),
        (DAYS, {"issued": "2023-02-29", "due": "2024-03-12"}, ("issued", '"2023-02-29"')),
    ],
)
def test_value_of_the_wrong_type_is_a_violation(rule, fields, parts):
    (one,) = rule_violations(with_rules(rule), fields)
    assert all(part in one.message for part in parts) and one.code in rule


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"sum": "a[*]", "product": ["a", "b"], "equals": "c"}, "exactly one of"),
        ({"sum": "a[*]"}, "sum needs equals"),
        ({"sum": "a[*]", "equals": "b[*]"}, r"b\[\*\]"),
        ({"sum": "a[", "equals": "b"}, "character 2"),
        ({"sum": "a[*].b[*].c[*]", "equals": "b"}, "twice"),
        ({"sum": "a[*]", "equals": "b", "tolerance": -1}, "tolerance"),
        ({"sum": "a[*]", "equals": "b", "tolerance": float("nan")}, "tolerance"),
        ({"sum": "a[*]", "equals": "b", "round": 2}, "sum.*round"),
        ({"product": ["a"], "equals": "b"}, "list of 2 to 20 paths"),
        ({"product": ["a[*]", "b"], "equals": "c"}, "use each"),
        ({"product": ["a", "b"], "equals": "c", "each": "items"}, "each"),
        ({"date_order": ["a", "b"], "tolerance": 1}, "date_order.*tolerance"),
        ({"required_if": "a"}, "required_if is"),
        ({"required_if": {"path": "a", "if": {"path": "b", "equals": 1}, "else": 1}}, "required_if is"),
    ],
)
def test_invalid_rule_is_refused_with_its_index(rule, why):
    with pytest.raises(Invalid, match=rf"x-fieldmark\.rules\[1\] cannot be used: .*{why}.*(?<!\.)\.$"):
        check_rules(with_rules(ITEMS, rule))


def test_rule_about_an_unknown_field_is_refused():
    fields = {
        "items": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "subtotal": {"type": "number"},
        "free": {"type": "object"},
        "one": {"oneOf": [{"properties": {"a": {}}}]},
    }
    schema = {"properties": fields, "$defs": {"row": {"properties": {"total": {}}}}}
    for good in (
        ITEMS,
        {"sum": "items[*].total", "equals": "free.anything"},
        {"equals": ["one.b", "subtotal"]},
        {"sum": ["total"], "equals": "total", "each": "items[*]"},
    ):
        check_rules({**schema, **with_rules(good)})
    for bad, name in (
        ({"sum": "items[*].totl", "equals": "subtotal"}, r"items\[\*\]\.totl"),
        ({"sum": "items[*].total", "equals": "sub_total"}, "sub_total"),
        (ROWS, r"items\[\*\]\.quantity"),
        (VAT, "vat_id"),
    ):
        with pytest.raises(Invalid, match=f"the schema has no field {name}"):
            check_rules({**schema, **with_rules(bad)})


def test_number_of_rules_and_values_is_limited():
    with pytest.raises(Invalid, match="51 rules"):
        check_rules(with_rules(*[ITEMS] * (MAX_RULES + 1)))
    fields = {"items": fields_with_totals(*range(30_000)), "subtotal": sum(range(30_000))}
    assert rule_violations(with_rules(*[ITEMS] * 3), fields) == []
    with pytest.raises(Invalid, match="500,000 values"):
        rule_violations(with_rules(*[ITEMS] * MAX_RULES), fields)


def test_number_of_violations_is_limited():
    wrong = [{"quantity": 2, "unit_price": 2, "total": 5}] * 1000
    assert len(rule_violations(with_rules(ROWS), {"items": wrong})) == 20
