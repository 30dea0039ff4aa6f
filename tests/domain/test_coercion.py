"""Values in the wrong JSON type are converted exactly when nothing is lost and the schema says so."""

from __future__ import annotations

import pytest

from fieldmark.domain.coercion import coerce
from fieldmark.domain.paths import parse

NUMBER, INTEGER, TEXT, YES = ({"type": name} for name in ("number", "integer", "string", "boolean"))


def of(schema):
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (NUMBER, "279.84", 279.84),
        (NUMBER, "-3", -3),
        (NUMBER, "10.00", 10),
        (NUMBER, ["279.84"], 279.84),
        (INTEGER, "3", 3),
        (INTEGER, "3.0", 3),
        (YES, "true", True),
        (YES, "False", False),
        (TEXT, 1017, "1017"),
        (TEXT, ["x"], "x"),
        ({"type": "array", "items": NUMBER}, "1.5", [1.5]),
        ({"type": "array", "items": {"type": "object"}}, {"b": 1}, [{"b": 1}]),
        ({"type": ["number", "null"]}, "1.5", 1.5),
        ({"anyOf": [NUMBER, {"type": "null"}]}, "1.5", 1.5),
        ({"$ref": "#/$defs/n"}, "1.5", 1.5),
    ],
)
def test_content_in_another_type_is_converted(schema, value, expected):
    whole = {**of(schema), "$defs": {"n": NUMBER}}
    found = coerce(whole, (), {"a": value, "b": "1"})
    assert found == {"a": expected, "b": "1"} and type(found["a"]) is type(expected)
    assert coerce(whole, ("a",), value) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NUMBER, "1,234.50"),
        (NUMBER, "007"),
        (NUMBER, "1e5"),
        (NUMBER, " 1"),
        (NUMBER, "12 %"),
        (NUMBER, "0.1234567890123456789"),
        (NUMBER, "1234567890123456"),
        (NUMBER, ""),
        (NUMBER, ["1", "2"]),
        (NUMBER, []),
        (NUMBER, True),
        (NUMBER, None),
        (NUMBER, {"value": 1}),
        ({**NUMBER, "maximum": 5}, "7"),
        (INTEGER, "3.5"),
        (INTEGER, 3.5),
        (YES, "yes"),
        (YES, 1),
        (TEXT, 10.5),
        (TEXT, True),
        ({**TEXT, "pattern": "^x"}, 5),
        ({}, "1"),
        (TEXT, "1"),
    ],
)
def test_what_would_lose_something_or_break_the_schema_stays(schema, value):
    assert coerce(of(schema), (), {"a": value}) == {"a": value}
    assert coerce(of(schema), ("a",), value) == value


def test_parts_of_lists_are_converted_where_they_are_written():
    schema = of({"type": "array", "items": {"type": "object", "properties": {"price": NUMBER, "name": TEXT}}})
    rows = [{"price": "1.5", "name": "A"}, {"price": "x", "name": 7}]
    assert coerce(schema, ("a",), rows) == [{"price": 1.5, "name": "A"}, {"price": "x", "name": "7"}]
    assert coerce(schema, parse("a[2].price"), "2.5") == 2.5
    assert coerce(schema, parse("a[2]"), {"price": "2.5"}) == {"price": 2.5}
    assert coerce(schema, parse("a[5000].price"), "2.5") == "2.5"
    assert rows[0]["price"] == "1.5"


def test_a_schema_that_cannot_be_applied_changes_nothing():
    assert coerce({"$ref": "#/nowhere"}, (), {"a": "1"}) == {"a": "1"}
