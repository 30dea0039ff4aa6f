"""Schemas that list fields in place of keywords are refused. Pairs: the schema that came, the suggested one."""

from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.schema import check_schema
from fieldmark.errors import InvalidSchema

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


MEANT: list[tuple[Any, Any]] = [
    ({"total": "number"}, of(total=NUMBER)),
    ({"name": "str", "paid": "bool", "n": "int"}, of(name=TEXT, paid={"type": "boolean"}, n={"type": "integer"})),
    ({"due": "date"}, of(due={"type": "string", "format": "date"})),
    ({"number": "The invoice's number"}, of(number={"type": "string", "description": "The invoice's number"})),
    ({"total": 12.5, "paid": None}, of(total=NUMBER, paid={})),
    ({"vendor": {"name": "string"}}, of(vendor=of(name=TEXT))),
    ({"lines": [{"price": "number"}]}, of(lines={"type": "array", "items": of(price=NUMBER)})),
    ({"type": "object", "title": "An invoice", "total": NUMBER}, {"title": "An invoice", **of(total=NUMBER)}),
]


@pytest.mark.parametrize(("came", "meant"), MEANT, ids=[str(came) for came, _ in MEANT])
def test_field_names_at_the_root_are_suggested_as_properties(came: Any, meant: Any) -> None:
    check_schema(meant)
    with pytest.raises(InvalidSchema) as refused:
        check_schema(came)
    assert refused.value.details["suggestion"] == meant
    assert all(one["path"] and one["code"] and one["message"] for one in refused.value.details["errors"])


@pytest.mark.parametrize(
    "came",
    [
        {},
        {"title": "An invoice"},
        of(a={}, b=True, c={"description": "anything"}),
        of(a={"type": "string", "x-ours": 1, "example": "x", "nullable": True, "hint": "top right"}),
        of(required=TEXT, total=NUMBER, type=TEXT, properties=of(a=TEXT)),
        of(a={"default": {"total": "number"}, "const": {"b": "string"}, "enum": [{"c": "string"}]}),
        {"definitions": {"a": NUMBER}, "$defs": {"b": TEXT}, "properties": {"c": {"$ref": "#/$defs/b"}}},
    ],
)
def test_what_is_a_schema_is_taken(came: Any) -> None:
    check_schema(came)


@pytest.mark.parametrize(
    "came",
    [
        *({"type": "array"}, {"type": "munber"}, of(a={"pattern": "("}), {"x" * 30_000: "string"}),
        *(of(total="number"), of(total={"type": "munber"}), of(vendor={"name": TEXT}), {"properties": ["a", "b"]}),
        of(lines={"type": "array", "items": {"price": "number"}}),
        {"type": "object", "propertys": {"a": TEXT}},
        {"vendor": "string", "items": [{"price": "number"}]},
    ],
)
def test_every_other_unusable_schema_is_refused_without_a_suggestion(came: Any) -> None:
    with pytest.raises(InvalidSchema) as refused:
        check_schema(came)
    assert "suggestion" not in refused.value.details


def test_a_hostile_one_is_answered_soon() -> None:
    deep: Any = "number"
    for _ in range(60):
        deep = {"a": [deep]}
    wide = {f"field {n}": {"type": "string", "hint": "number"} for n in range(2_000)}
    hostile: list[Any] = [{"a": deep}, dict.fromkeys(wide, "number"), {"a": "string", **of(**wide)}]
    for came in hostile:
        with pytest.raises(InvalidSchema) as refused:
            check_schema(came)
        assert len(refused.value.details["errors"]) <= 20
