"""The fields that a schema describes: the columns of tables, views and exports, units, and labels."""

from __future__ import annotations

import pytest

from fieldmark.domain.columns import describe_table, field_units, list_columns, list_names
from fieldmark.domain.schema import check_schema
from fieldmark.domain.schema_walk import MAX_FIELDS, walk_fields
from fieldmark.errors import InvalidSchema
from fieldmark.services.labelled_fields import read_fields

TEXT = {"type": "string"}
VENDOR = {"type": "object", "properties": {"name": TEXT, "vat": TEXT}}
VENDOR_FIELDS = ["vendor.name", "vendor.vat"]


def paths_of(schema, rows=None):
    return [column.path for column in list_columns(schema, rows)]


@pytest.mark.parametrize(
    "vendor",
    [
        {"$ref": "#/$defs/Vendor"},
        {"$ref": "#/$defs/Our%20Vendor"},
        {"$ref": "#vendor"},
        {"$ref": "#/$defs/list/anyOf/1"},
        {"$ref": "#/x-shared/0"},
        {"allOf": [{"$ref": "#/$defs/Vendor"}]},
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Vendor"}]},
        {"oneOf": [{"properties": {"name": TEXT}}, {"properties": {"vat": TEXT}}]},
        {**VENDOR, "anyOf": [{"required": ["name"]}, {"required": ["vat"]}]},
        {"properties": {"name": TEXT}, "$ref": "#/$defs/only_vat"},
        {"properties": {"name": TEXT}, "if": {"properties": {"x": TEXT}}, "then": {"$ref": "#/$defs/only_vat"}},
        {"properties": {"name": TEXT}, "dependentSchemas": {"name": {"properties": {"vat": True}}}},
        {"$dynamicRef": "#vendor"},
    ],
    ids=str,
)
def test_fields_are_found_wherever_the_schema_describes_them(vendor):
    definitions = {
        "Vendor": VENDOR,
        "Our Vendor": VENDOR,
        "anchored": {**VENDOR, "$anchor": "vendor"},
        "list": {"anyOf": [TEXT, VENDOR]},
        "only_vat": {"properties": {"vat": TEXT}},
    }
    schema = {"type": "object", "properties": {"vendor": vendor}, "$defs": definitions, "x-shared": [VENDOR]}
    check_schema(schema)
    assert paths_of(schema) == VENDOR_FIELDS
    root = {
        "allOf": [{"properties": {"vendor": vendor}}],
        "$defs": definitions,
        "x-shared": [VENDOR],
        "type": "object",
    }
    assert paths_of(root) == VENDOR_FIELDS
    assert [one.keys for one in read_fields("Name: Acme\n", schema)] == [("vendor", "name")]


def test_keywords_beside_a_reference_or_an_alternative_count():
    weight = {"anyOf": [{"type": "null"}, {"type": "number", "x-fieldmark": {"unit": "kg"}, "title": "Inner"}]}
    schema = {
        "anyOf": [{"required": ["weight"]}],
        "properties": {
            "weight": {**weight, "title": "Weight", "x-fieldmark": {"grounded": True}},
            "day": {"$ref": "#/$defs/day"},
        },
        "$defs": {"day": {"type": "string", "format": "date"}},
    }
    assert [(one.type, one.title, one.unit) for one in list_columns(schema)] == [
        ("number", "Weight", "kg"),
        ("date", None, None),
    ]
    assert field_units(schema) == {"weight": "kg"}


def test_value_that_may_be_a_text_or_an_object_has_columns_for_both():
    schema = {"properties": {"vendor": {"anyOf": [TEXT, VENDOR]}, "none": False, "any": True}}
    assert paths_of(schema) == ["vendor", *VENDOR_FIELDS, "any"]


def test_lists_with_fields_can_be_rows():
    schema = {
        "properties": {
            "items": {"anyOf": [{"type": "array", "items": VENDOR}, {"type": "null"}]},
            "raw": {"type": "array"},
        }
    }
    assert list_names(schema) == ["items"]
    assert paths_of(schema, "items") == ["raw", "items[].name", "items[].vat"]


def test_reference_is_not_followed_inside_its_own_target():
    tree = {
        "properties": {
            "name": TEXT,
            "left": {"$ref": "#"},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        }
    }
    tree["$defs"] = {"part": {"properties": {"name": TEXT, "parts": {"items": {"$ref": "#/$defs/part"}}}}}
    shape = describe_table(tree, "parts")
    assert [one.path for one in shape.columns] == ["name", "left.name", "parts[].name"]
    assert (shape.lists, shape.has_more) == (["left.parts", "parts"], False)


def level(number, last):
    return (
        TEXT if number == last else {"properties": {f"p{at}": {"$ref": f"#/$defs/d{number + 1}"} for at in range(30)}}
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {f"d{number}": level(number, 9) for number in range(10)}, "$ref": "#/$defs/d0"},
        {
            "$defs": {
                f"d{n}": {"properties": {f"p{m}": {"$ref": f"#/$defs/d{m}"} for m in range(30)}} for n in range(30)
            },
            "$ref": "#/$defs/d0",
        },
        {"properties": {f"f{number}": TEXT for number in range(3_600)}},
        {"properties": {"a": {"allOf": [TEXT] * 20_000}}},
    ],
    ids=["branching", "mutual", "wide", "all_of"],
)
def test_work_on_a_schema_is_bounded_and_what_is_left_out_is_reported(schema):
    walked = walk_fields(schema)
    assert not walked.is_complete and len(walked.fields) <= MAX_FIELDS
    assert describe_table(schema).has_more


@pytest.mark.parametrize(
    "broken", [{"properties": []}, {"$ref": 5}, {"allOf": 3, "items": "x"}, {"$ref": "#/a/b"}, {"$id": 4, "$ref": "#x"}]
)
def test_unchecked_schema_is_walked_without_an_error(broken):
    assert paths_of({"properties": {"a": broken, "b": TEXT}})[-1:] == ["b"]


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef", "patternProperties", "x-fieldmark", "pattern", "$schema"])
def test_field_named_like_a_keyword_and_data_with_such_a_key_are_allowed(name):
    for schema in (
        {"properties": {name: TEXT}},
        {"properties": {"a": TEXT}, "examples": [{name: "("}]},
        {"properties": {"a": {"type": "object", "default": {name: "x"}}}},
        {"properties": {"a": {"enum": [{name: 1}]}, "b": {"const": {name: "("}}}},
    ):
        check_schema({"type": "object", **schema})
    assert paths_of({"properties": {name: TEXT}}) == [name]


@pytest.mark.parametrize(
    "hidden", [{"patternProperties": {}}, {"pattern": "("}, {"$ref": "https://example.com"}, {"type": "txt"}]
)
def test_schema_outside_of_keywords_is_checked_if_a_reference_leads_to_it(hidden):
    check_schema({"type": "object", "x-shared": hidden, "properties": {"a": TEXT}})
    with pytest.raises(InvalidSchema):
        check_schema({"type": "object", "x-shared": hidden, "properties": {"a": {"$ref": "#/x-shared"}}})
