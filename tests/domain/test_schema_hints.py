"""Schemas that list fields instead of keywords."""

from __future__ import annotations

from typing import Any

import pytest

from fieldmark.domain.schema import check_schema
from fieldmark.errors import InvalidSchema

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        {"total": "number"},
        {"name": "str", "paid": "bool", "n": "int"},
        {"due": "date"},
        {"number": "The invoice's number"},
        {"vendor": {"name": "string"}},
        {"type": "object", "title": "An invoice", "total": NUMBER},
        schema_of(lines={"type": "array", "items": {"price": "number"}}),
    ],
)
def test_field_names_instead_of_keywords_are_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchema) as refused:
        check_schema(schema)
    assert all(one["path"] and one["code"] == "unknown_keyword" for one in refused.value.details["errors"])


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


@pytest.mark.parametrize("schema", [{"type": "munber"}, schema_of(total="number"), schema_of(vendor={"name": TEXT})])
def test_other_unusable_schema_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchema):
        check_schema(schema)
