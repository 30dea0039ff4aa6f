"""JSON Schemas that tenants give: what they say of fields, and what hostile ones cannot do."""

from __future__ import annotations

import pytest

from fieldmark.domain.schema import check_schema, problems
from fieldmark.errors import Invalid


def of(**properties) -> dict:
    return {"type": "object", "properties": properties}


def test_fields_that_follow_have_no_problems_and_others_are_named_by_path():
    schema = {**of(total={"type": "number"}, vendor=of(name={"type": "string"})), "required": ["total"]}
    check_schema(schema)
    assert problems(schema, {"total": 1.5, "vendor": {"name": "Acme"}}) == []
    found = problems(schema, {"vendor": {"name": 3}})
    assert found == ["fields: 'total' is a required property", "vendor.name: 3 is not of type 'string'"]


def test_a_pattern_counts():
    schema = of(number={"type": "string", "pattern": "^RE[0-9]+$"})
    check_schema(schema)
    assert problems(schema, {"number": "RE1001"}) == []
    assert len(problems(schema, {"number": "1001"})) == 1


def test_a_pattern_that_would_never_end_does():
    schema = of(number={"pattern": "^(a|a)*$"})
    check_schema(schema)
    assert "takes too long" in problems(schema, {"number": "a" * 60 + "b"})[0]


def test_references_inside_the_schema_are_followed():
    schema = {**of(total={"$ref": "#/$defs/amount"}), "$defs": {"amount": {"type": "number"}}}
    check_schema(schema)
    assert problems(schema, {"total": 1}) == [] and len(problems(schema, {"total": "1"})) == 1


def test_a_schema_may_refer_to_itself_where_that_ends():
    schema = of(part={"$ref": "#"}, name={"type": "string"})
    check_schema(schema)
    assert len(problems(schema, {"part": {"part": {"name": 3}}})) == 1


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "object"),
        ({"type": "nonsense"}, "not a valid JSON Schema"),
        (of(a={"$ref": "https://example.com/schema"}), "inside"),
        (of(a={"$ref": "file:///etc/passwd"}), "inside"),
        (of(a={"$ref": "#/$defs/none"}), "not in it"),
        ({"$ref": "#"}, "circle"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "properties": {}}, "circle"),
        (of(a={"pattern": "("}), "pattern"),
        (of(a={"pattern": "a" * 501}), "501 characters"),
        ({"patternProperties": {"(a|a)*$": {}}}, "patternProperties"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_run_begins(schema, why):
    with pytest.raises(Invalid, match=why):
        check_schema(schema)
