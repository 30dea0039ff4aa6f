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
    ({"vendor": {"name": "string"}}, of(vendor=of(name=TEXT))),
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
        of(a={}, b=True, c={"description": "anything"}),
        of(a={"type": "string", "x-ours": 1, "example": "x", "nullable": True, "hint": "top right"}),
        of(required=TEXT, total=NUMBER, type=TEXT, properties=of(a=TEXT)),
        of(a={"default": {"total": "number"}, "const": {"b": "string"}, "enum": [{"c": "string"}]}),
    ],
)
def test_what_is_a_schema_is_taken(came: Any) -> None:
    check_schema(came)


@pytest.mark.parametrize(
    "came",
    [
        *({"type": "munber"}, of(total="number"), of(vendor={"name": TEXT}), {"x" * 30_000: "string"}),
        of(lines={"type": "array", "items": {"price": "number"}}),
    ],
)
def test_every_other_unusable_schema_is_refused_without_a_suggestion(came: Any) -> None:
    with pytest.raises(InvalidSchema) as refused:
        check_schema(came)
    assert "suggestion" not in refused.value.details
