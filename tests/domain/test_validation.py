from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fieldmark.domain.validation import grounded, validate, validate_partial
from fieldmark.errors import InvalidSchema


def schema_of(**properties) -> dict:
    return {"type": "object", "properties": properties}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}

# Few names and values, so that drawn fields often match the schema.
NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, "", "x", "xy"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
KINDS = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])


def _keywords(inner: st.SearchStrategy) -> st.SearchStrategy:
    properties = st.dictionaries(NAMES, inner, max_size=3)
    some = st.lists(inner, min_size=1, max_size=3)
    small = st.integers(0, 3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=4, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=4),
            "const": VALUES,
            "pattern": st.sampled_from(["^x", "y$"]),
            "minimum": small,
            "exclusiveMaximum": small,
            "maxLength": small,
            "minLength": small,
            "properties": properties,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "minProperties": small,
            "maxProperties": small,
            "unevaluatedProperties": inner,
            "items": inner,
            "prefixItems": some,
            "contains": inner,
            "minContains": small,
            "maxContains": small,
            "minItems": small,
            "maxItems": small,
            "uniqueItems": st.booleans(),
            "unevaluatedItems": inner,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": st.just("#/$defs/one"),
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.builds(lambda kind: {"type": kind}, KINDS), _keywords, max_leaves=8).filter(
    lambda schema: isinstance(schema, dict)
)


def _with_definition(schema: dict, one: object) -> dict:
    return {**schema, "$defs": {"one": one}}


ROOTS = st.builds(_with_definition, SCHEMAS, st.builds(lambda kind: {"type": kind}, KINDS) | st.just({}))


@st.composite
def pruned(draw, value):
    """Draw an earlier state of `value`: with fewer properties at any depth, and lists without their last items."""
    if isinstance(value, dict):
        return {key: draw(pruned(item)) for key, item in value.items() if draw(st.booleans())}
    if isinstance(value, list):
        return [draw(pruned(item)) for item in value[: draw(st.integers(0, len(value)))]]
    return value


MANY_EXAMPLES = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@MANY_EXAMPLES
@given(schema=ROOTS, value=OBJECTS)
def test_validate_reports_violations_exactly_where_the_library_does(schema, value):
    assert (validate(schema, value) == []) == Draft202012Validator(schema).is_valid(value)


@MANY_EXAMPLES
@given(data=st.data(), schema=ROOTS, value=OBJECTS)
def test_partial_validation_accepts_what_can_become_valid(data, schema, value):
    assume(validate(schema, value) == [])
    assert validate_partial(schema, data.draw(pruned(value))) == []


INVOICE = schema_of(
    number={"type": "string", "pattern": "^RE"},
    currency={"enum": ["EUR", "USD"]},
    party={
        "oneOf": [
            {
                **schema_of(kind={"const": "person"}, name=TEXT),
                "required": ["kind", "name"],
                "additionalProperties": False,
            },
            {**schema_of(kind={"const": "firm"}, vat=TEXT), "required": ["kind", "vat"], "additionalProperties": False},
        ]
    },
    items={"type": "array", "items": {**schema_of(total=NUMBER), "required": ["text"], "additionalProperties": False}},
)


@pytest.mark.parametrize(
    ("value", "path", "code"),
    [
        ({"number": 12}, ("number",), "type"),
        ({"number": "12"}, ("number",), "pattern"),
        ({"currency": "Euro"}, ("currency",), "enum"),
        ({"items": {"0": 1}}, ("items",), "type"),
        ({"items": [{"sum": 1}]}, ("items", 0, "sum"), "additionalProperties"),
        ({"party": {"kind": "club"}}, ("party",), "oneOf"),
        ({"party": {"kind": "firm", "vat": 1}}, ("party", "kind"), "const"),
    ],
)
def test_permanent_violation_is_reported_while_fields_are_written(value, path, code):
    (found,) = validate_partial(INVOICE, value)
    assert (found.path, found.code) == (path, code)
    assert any(one.path == path for one in validate(INVOICE, value))


@pytest.mark.parametrize(
    ("schema", "good", "bad", "code"),
    [
        ({"format": "date"}, "2024-02-29", "2023-02-29", "format"),
        ({"multipleOf": 0.01}, 19.99, 19.999, "multipleOf"),
        ({"multipleOf": 0.1}, 1e100, 0.05, "multipleOf"),
        ({"maxItems": 1}, [1], [1, 2], "maxItems"),
        ({"not": {"const": "n/a"}}, "x", "n/a", "not"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 1, 2, "oneOf"),
        ({"enum": [1, "1"]}, 1.0, True, "enum"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, 1, [], "anyOf"),
    ],
)
def test_value_is_validated_while_fields_are_written(schema, good, bad, code):
    assert validate_partial(schema_of(a=schema), {"a": good}) == []
    (found,) = validate_partial(schema_of(a=schema), {"a": bad})
    assert (found.path, found.code) == (("a",), code)


def test_false_schema_allows_no_value():
    assert [one.code for one in validate(schema_of(a=False), {"a": 1})] == ["false"]
    assert validate(schema_of(a=False), {}) == [] and validate(schema_of(a={"format": "email"}), {"a": "no mail"}) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        # Properties evaluated by a branch that only complete fields choose.
        ({"if": {"required": ["z"]}, "else": schema_of(x=TEXT), "unevaluatedProperties": False}, {"x": "1"}),
        ({"oneOf": [schema_of(x=TEXT), {**schema_of(x=TEXT), "required": ["y"]}]}, {"x": "1"}),
        ({"not": {"required": ["x"]}}, {"y": 1}),
        (schema_of(a={"maxContains": 1, "contains": {"required": ["x"]}}), {"a": [{"x": 1}, {}]}),
        (schema_of(a={"unevaluatedItems": False, "if": {"minItems": 2}, "else": {"items": NUMBER}}), {"a": [1]}),
    ],
)
def test_partial_validation_skips_what_only_complete_fields_can_violate(schema, value):
    assert validate(schema, value) == [] and validate_partial(schema, value) == []


def test_missing_field_is_a_violation_of_complete_fields():
    schema = {
        **schema_of(
            a={**schema_of(b=TEXT), "required": ["b"]}, c={"type": "array", "minItems": 2, "contains": TEXT}, e=TEXT
        ),
        "required": ["d"],
        "dependentRequired": {"c": ["e"]},
    }
    value = {"a": {}, "c": [1]}
    assert validate_partial(schema, value) == []
    assert [fault.path for fault in validate(schema, value)] == [("a", "b"), ("c",), ("c",), ("d",), ("e",)]


def test_grounded_applies_through_every_kind_of_branch():
    said = {"x-fieldmark": {"grounded": True}}
    schema = {
        **schema_of(
            total=said,
            tax={"x-fieldmark": {"grounded": False}},
            vendor={"$ref": "#/$defs/vendor"},
            items={"items": schema_of(price={"anyOf": [{**NUMBER, **said}, {"type": "null"}]})},
        ),
        "$defs": {"vendor": said},
        "if": {"required": ["total"]},
        "then": schema_of(date=said),
        "additionalProperties": said,
    }
    fields = {"total": 1, "tax": 2, "vendor": {"name": "A"}, "items": [{"price": 1}, {"other": 1}], "date": 1, "z": 1}
    assert sorted(map(str, grounded(schema, fields))) == sorted(
        map(str, [("total",), ("vendor",), ("items", 0, "price"), ("date",), ("z",)])
    )


BRANCHING = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ({"$ref": "#/$defs/a0", "$defs": {**BRANCHING, "a40": {}}}, {}),
        (schema_of(a={"allOf": [{"uniqueItems": True}] * 2000}), {"a": [[n] for n in range(2000)]}),
        (schema_of(a={"items": {"enum": list(range(3000))}}), {"a": [2999] * 3000}),
        (schema_of(a={"items": {"pattern": "^(a|a)*$"}}), {"a": ["a" * 60 + "b"] * 100}),
    ],
)
def test_expensive_schema_is_refused(schema, fields):
    for check in (validate, validate_partial):
        with pytest.raises(InvalidSchema):
            check(schema, fields)


def test_reference_to_the_root_ends():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema_of(a={"$ref": "#"}, b={"pattern": "^(a|a)*$"}),
    }
    (fault,) = validate(schema, {"a": {"b": "a" * 60 + "b"}})
    assert (fault.path, fault.code) == (("a", "b"), "pattern")
