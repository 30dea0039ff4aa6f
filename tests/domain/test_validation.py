"""Validation of fields: whole as the library has it, so far without ever refusing what can still become valid."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fieldmark.domain.validation import grounded, validate, validate_partial
from fieldmark.errors import InvalidSchema


def of(**properties) -> dict:
    return {"type": "object", "properties": properties}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}

# Small on purpose: few names and values, so that what is drawn often meets what is asked.
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
    """`value` at an earlier time: with fewer properties at any depth, and lists without their last items."""
    if isinstance(value, dict):
        return {key: draw(pruned(item)) for key, item in value.items() if draw(st.booleans())}
    if isinstance(value, list):
        return [draw(pruned(item)) for item in value[: draw(st.integers(0, len(value)))]]
    return value


MANY = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(schema=ROOTS, value=OBJECTS)
def test_whole_finds_a_fault_exactly_where_the_library_does(schema, value):
    assert (validate(schema, value) == []) == Draft202012Validator(schema).is_valid(value)


@MANY
@given(data=st.data(), schema=ROOTS, value=OBJECTS)
def test_nothing_is_refused_that_can_still_become_valid(data, schema, value):
    assume(validate(schema, value) == [])
    assert validate_partial(schema, data.draw(pruned(value))) == []


INVOICE = of(
    number={"type": "string", "pattern": "^RE"},
    currency={"enum": ["EUR", "USD"]},
    party={
        "oneOf": [
            {**of(kind={"const": "person"}, name=TEXT), "required": ["kind", "name"], "additionalProperties": False},
            {**of(kind={"const": "firm"}, vat=TEXT), "required": ["kind", "vat"], "additionalProperties": False},
        ]
    },
    items={"type": "array", "items": {**of(total=NUMBER), "required": ["text"], "additionalProperties": False}},
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
def test_violation_that_no_growth_removes_is_reported_at_once(value, path, code):
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
    assert validate_partial(of(a=schema), {"a": good}) == []
    (found,) = validate_partial(of(a=schema), {"a": bad})
    assert (found.path, found.code) == (("a",), code)


def test_false_schema_allows_no_value():
    assert [one.code for one in validate(of(a=False), {"a": 1})] == ["false"]
    assert validate(of(a=False), {}) == [] and validate(of(a={"format": "email"}), {"a": "no mail"}) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        # What is evaluated by a branch that only the whole chooses.
        ({"if": {"required": ["z"]}, "else": of(x=TEXT), "unevaluatedProperties": False}, {"x": "1"}),
        ({"oneOf": [of(x=TEXT), {**of(x=TEXT), "required": ["y"]}]}, {"x": "1"}),
        ({"not": {"required": ["x"]}}, {"y": 1}),
        (of(a={"maxContains": 1, "contains": {"required": ["x"]}}), {"a": [{"x": 1}, {}]}),
        (of(a={"unevaluatedItems": False, "if": {"minItems": 2}, "else": {"items": NUMBER}}), {"a": [1]}),
    ],
)
def test_what_only_the_whole_can_tell_is_no_fault_yet(schema, value):
    assert validate(schema, value) == [] and validate_partial(schema, value) == []


def test_what_only_lacks_is_a_fault_at_the_end():
    schema = {
        **of(a={**of(b=TEXT), "required": ["b"]}, c={"type": "array", "minItems": 2, "contains": TEXT}, e=TEXT),
        "required": ["d"],
        "dependentRequired": {"c": ["e"]},
    }
    value = {"a": {}, "c": [1]}
    assert validate_partial(schema, value) == []
    assert [fault.path for fault in validate(schema, value)] == [("a", "b"), ("c",), ("c",), ("d",), ("e",)]


def test_grounded_holds_for_what_stands_there_through_every_kind_of_branch():
    said = {"x-fieldmark": {"grounded": True}}
    schema = {
        **of(
            total=said,
            tax={"x-fieldmark": {"grounded": False}},
            vendor={"$ref": "#/$defs/vendor"},
            items={"items": of(price={"anyOf": [{**NUMBER, **said}, {"type": "null"}]})},
        ),
        "$defs": {"vendor": said},
        "if": {"required": ["total"]},
        "then": of(date=said),
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
        (of(a={"allOf": [{"uniqueItems": True}] * 2000}), {"a": [[n] for n in range(2000)]}),
        (of(a={"items": {"enum": list(range(3000))}}), {"a": [2999] * 3000}),
        (of(a={"items": {"pattern": "^(a|a)*$"}}), {"a": ["a" * 60 + "b"] * 100}),
    ],
)
def test_a_schema_that_would_take_ages_is_given_up(schema, fields):
    for check in (validate, validate_partial):
        with pytest.raises(InvalidSchema):
            check(schema, fields)


def test_a_reference_to_the_root_does_not_lead_to_patterns_without_end():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **of(a={"$ref": "#"}, b={"pattern": "^(a|a)*$"}),
    }
    (fault,) = validate(schema, {"a": {"b": "a" * 60 + "b"}})
    assert (fault.path, fault.code) == (("a", "b"), "pattern")
