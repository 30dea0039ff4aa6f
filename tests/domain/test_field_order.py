"""The order of an extraction's fields."""

from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.field_order import FieldOrder
from fieldmark.domain.fields import leaves


def at(page: int, top: float, left: float = 0.1) -> dict[str, Any]:
    return {"page": page, "boxes": [[left, top, left + 0.1, top + 0.01]]}


def order_of(fields: dict[str, Any], schema: dict[str, Any] | None = None, **evidence: Any) -> list[str]:
    return [name for name, _ in leaves(FieldOrder(schema, evidence.get("evidence", evidence)).arrange(fields))]


RECEIPT = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "vendor": {"$ref": "#/$defs/vendor"},
        "date": {"type": "string"},
        "items": {"type": "array", "items": {"properties": {"name": {}, "price": {}}}},
        "number": {"type": "string"},
        "total": {"type": "number"},
    },
    "allOf": [{"properties": {"tax": {}}}],
    "$defs": {"vendor": {"properties": {"name": {}, "id": {}}}},
}


def test_fields_of_the_schema_come_first_in_its_order():
    fields = {
        "tax": 1,
        "date": "2026-01-02",
        "total": 2,
        "vendor": {"id": 1, "vat": "x", "name": "A"},
        "items": [{"price": 1, "name": "b"}, {"extra": 1, "name": "a"}],
        "number": "1",
        "other": 1,
    }
    assert order_of(fields, RECEIPT, other=at(1, 0), total=at(1, 0), date=at(1, 0.5)) == [
        *("vendor.name", "vendor.id", "vendor.vat", "date", "items[0].name", "items[0].price", "items[1].name"),
        *("items[1].extra", "number", "total", "tax", "other"),
    ]


def test_fields_outside_the_schema_are_ordered_by_place_then_name():
    fields = {
        "b": 1, "a": 1, "items": [{"p": 1, "q": 2}, {"p": 3, "q": 4}], "total": 9, "vendor": {"x": 1, "y": 2},
    }  # fmt: skip
    evidence = {
        "total": at(1, 0.9), "items[1].q": at(1, 0.3), "items[1].p": at(1, 0.3, 0.5), "vendor.y": at(1, 0.1),
        "vendor.x": at(1, 0.95), "items[0].q": at(1, 0.4),
    }  # fmt: skip
    grouped = ["vendor.y", "vendor.x", "items[0].q", "items[0].p", "items[1].q", "items[1].p"]
    assert order_of(fields, None, evidence=evidence) == [*grouped, "total", "a", "b"]
    assert order_of(fields, {"properties": {"b": {}}}, evidence=evidence) == ["b", *grouped, "total", "a"]


@pytest.mark.parametrize("evidence", [None, 1, {"page": True}, {"page": 1, "boxes": [["x", 1, 2, 3]]}, {"boxes": [1]}])
def test_malformed_evidence_is_no_place(evidence: Any):
    assert order_of({"b": 1, "a": 1}, a=evidence) == ["a", "b"]
    assert order_of({"b": 1, "a": 1}, b=evidence, a=at(1, 1)) == ["a", "b"]


def test_hostile_schema_is_ordered_in_bounded_work():
    node: dict[str, Any] = {"anyOf": [{"$ref": "#"}] * 2000, "properties": {"b": {"$ref": "#"}, "a": {"$ref": "#"}}}
    fields: dict[str, Any] = {"a": 1, "b": 1}
    for _ in range(20):
        fields = {"a": fields, "b": fields}
        if len(str(fields)) > 100_000:
            break
    assert list(FieldOrder(node, {}).arrange(fields)) == ["b", "a"]
