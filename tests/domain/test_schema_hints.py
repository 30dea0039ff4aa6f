"""Schemas that list fields instead of keywords: each with the suggested schema."""

from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.schema import check_schema
from fieldmark.errors import InvalidSchema

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SUGGESTIONS: list[tuple[Any, Any]] = [
    ({"total": "number"}, schema_of(total=NUMBER)),
    (
        {"name": "str", "paid": "bool", "n": "int"},
        schema_of(name=TEXT, paid={"type": "boolean"}, n={"type": "integer"}),
    ),
    ({"due": "date"}, schema_of(due={"type": "string", "format": "date"})),
    ({"number": "The invoice's number"}, schema_of(number={"type": "string", "description": "The invoice's number"})),
    ({"vendor": {"name": "string"}}, schema_of(vendor=schema_of(name=TEXT))),
    ({"type": "object", "title": "An invoice", "total": NUMBER}, {"title": "An invoice", **schema_of(total=NUMBER)}),
]


@pytest.mark.parametrize(("schema", "suggestion"), SUGGESTIONS, ids=[str(schema) for schema, _ in SUGGESTIONS])
def test_field_names_at_the_root_are_suggested_as_properties(schema: Any, suggestion: Any) -> None:
    check_schema(suggestion)
    with pytest.raises(InvalidSchema) as refused:
        check_schema(schema)
    assert refused.value.details["suggestion"] == suggestion
    assert all(one["path"] and one["code"] and one["message"] for one in refused.value.details["errors"])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        schema_of(a={}, b=True, c={"description": "anything"}),
        schema_of(a={"type": "string", "x-ours": 1, "example": "x", "nullable": True, "hint": "top right"}),
        schema_of(required=TEXT, total=NUMBER, type=TEXT, properties=schema_of(a=TEXT)),
        schema_of(a={"default": {"total": "number"}, "const": {"b": "string"}, "enum": [{"c": "string"}]}),
    ],
)
def test_valid_schema_is_accepted(schema: Any) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        *({"type": "munber"}, schema_of(total="number"), schema_of(vendor={"name": TEXT}), {"x" * 30_000: "string"}),
        schema_of(lines={"type": "array", "items": {"price": "number"}}),
    ],
)
def test_other_unusable_schema_is_refused_without_a_suggestion(schema: Any) -> None:
    with pytest.raises(InvalidSchema) as refused:
        check_schema(schema)
    assert "suggestion" not in refused.value.details
