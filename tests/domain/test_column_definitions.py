"""Definitions of a table's columns, and the schema that they make."""

from __future__ import annotations

from typing import get_args

import pytest

from fieldmark.domain.column_definitions import (
    ColumnDefinition,
    DefinedType,
    definitions_of,
    list_of_rows,
    parse_definitions,
    schema_of,
)
from fieldmark.domain.columns import field_units, list_columns
from fieldmark.domain.schema import check_schema, violations, write_violations
from fieldmark.errors import Invalid, InvalidSchema

LINE = "vendor.name,date:date,items[].price:number,paid:boolean,items[].currency: currency,items[].load: number : kWh"


def columns(*names: str) -> list[ColumnDefinition]:
    return [ColumnDefinition(name=name) for name in names]


def test_columns_become_a_schema_and_are_read_back_in_order():
    defined = parse_definitions(LINE)
    schema = schema_of(defined)
    check_schema(schema)
    assert definitions_of(schema) == defined
    assert list_of_rows(defined) == "items" and list_of_rows(columns("a", "b.c")) is None


def test_column_of_any_type_can_be_null():
    """The agent writes null if a document has no such value. The other values of its row are stored."""
    schema = schema_of([ColumnDefinition(name=kind, type=kind) for kind in get_args(DefinedType)])
    fields = dict.fromkeys(get_args(DefinedType))
    assert write_violations(schema, {}, fields, [(name,) for name in fields]) == violations(schema, fields) == []


def test_properties_of_the_schema_are_in_the_order_of_the_columns():
    known = schema_of(columns("date", "items[].name", "items[].price", "vendor.name", "vendor.vat"))
    known["properties"] = {"tags": {"type": "array", "items": {}}, **known["properties"]}
    moved = columns("vendor.vat", "vendor.name", "date", "items[].price", "items[].name")
    schema = schema_of(moved, known)
    assert list(schema["properties"]) == ["vendor", "date", "items", "tags"]
    assert list(schema["properties"]["items"]["items"]["properties"]) == ["price", "name"]
    assert definitions_of(schema) == moved and "x-fieldmark" not in schema
    # Only a column between those of an object needs more than the order of the properties.
    between = columns("vendor.vat", "date", "vendor.name")
    apart = schema_of(between, schema)
    assert definitions_of(apart) == between and apart["x-fieldmark"] == {"columns": [one.name for one in between]}
    assert "x-fieldmark" not in schema_of(moved, apart)


@pytest.mark.parametrize("separator", [";", "|", "\t", "\n"])
def test_another_separator_than_a_comma_is_refused(separator):
    with pytest.raises(Invalid, match="separated by commas"):
        parse_definitions(f"vendor{separator}total")
    (quoted,) = parse_definitions('["a;b"]')
    assert quoted.name == '["a;b"]'


def test_column_defined_as_before_keeps_its_subschema():
    known = {"type": "object", "properties": {"total": {"type": "number", "minimum": 0}, "tax": {"type": "number"}}}
    kept, changed = definitions_of(known)
    changed = changed.model_copy(update={"description": "The rate in percent."})
    schema = schema_of([kept, changed, *columns("note")], known)
    assert schema["properties"]["total"] == {"type": "number", "minimum": 0}
    assert list(schema["properties"]) == ["total", "tax", "note"]
    assert schema["properties"]["tax"] != known["properties"]["tax"]
    assert schema_of([kept], schema)["properties"] == {"total": schema["properties"]["total"]}
    lines = schema_of(columns("items[].name", "items[].tax", "vendor.name", "vendor.vat"))
    assert schema_of(columns("items[].name", "vendor.name"), lines) == schema_of(columns("items[].name", "vendor.name"))


def test_unit_of_a_column_is_a_keyword_of_its_field():
    with pytest.raises(Invalid):
        schema_of([ColumnDefinition(name="weight", unit="kg")])
    with pytest.raises(Invalid):
        schema_of([ColumnDefinition(name="weight", type="number", unit="stone")])
    schema = schema_of(parse_definitions("weight:number:kg,height:number"))
    assert field_units(schema) == {"weight": "kg"}
    assert [column.heading for column in list_columns(schema)] == ["weight (kg)", "height"]
    for unit in ("stone", 1, None):
        with pytest.raises(InvalidSchema):
            check_schema({"properties": {"a": {"type": "number", "x-fieldmark": {"unit": unit}}}})


def test_other_keywords_of_the_current_schema_are_kept():
    line = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    known = {
        "type": "object",
        "title": "Receipt",
        "required": ["total", "tax"],
        "properties": {
            "total": {"type": "number", "minimum": 0},
            "tax": {"type": "number"},
            "items": {"type": "array", "minItems": 1, "items": line},
        },
    }
    defined = definitions_of(known)
    assert schema_of(defined, known)["properties"] == known["properties"]
    blank = schema_of([one.model_copy(update={"description": " "}) for one in defined], known)
    assert blank["properties"] == known["properties"]
    schema = schema_of([*(one for one in defined if one.name != "tax"), *columns("items[].price")], known)
    check_schema(schema)
    assert (schema["required"], schema["title"]) == (["total"], "Receipt")
    assert schema["properties"]["items"]["minItems"] == 1
    assert schema["properties"]["items"]["items"]["required"] == ["name"]


HIDDEN = {
    "type": "object",
    "anyOf": [{"required": ["total"]}, {"required": ["tax"]}],
    "required": ["total", "tags"],
    "properties": {
        "total": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "odd": {"$ref": "#/$defs/missing"},
        "vendor": {"$ref": "#/$defs/vendor"},
        "buyer": {"type": "object", "properties": {"name": {"type": "string"}, "marks": {"type": "array"}}},
    },
    "allOf": [{"properties": {"tax": {"type": "number"}}}],
    "$defs": {"vendor": {"properties": {"name": {"type": "string"}}}},
}


def test_setting_columns_keeps_what_columns_cannot_show():
    shown = definitions_of(HIDDEN)
    assert [one.name for one in shown] == ["total", "vendor.name", "buyer.name", "buyer.marks", "tax"]
    schema = schema_of([*shown, *columns("note", "vendor.phone")], HIDDEN)
    properties = schema["properties"]
    assert {key: properties[key] for key in ("total", "tags", "odd")} == {
        key: HIDDEN["properties"][key] for key in ("total", "tags", "odd")
    }
    assert [one.name for one in definitions_of(schema)] == [*(one.name for one in shown), "note", "vendor.phone"]
    assert schema["anyOf"] == HIDDEN["anyOf"] and schema["required"] == ["total", "tags"]
    without = schema_of([one for one in shown if one.name not in ("total", "buyer.name", "buyer.marks")], HIDDEN)
    assert without["properties"].keys() == {"tags", "odd", "vendor"} and without["required"] == ["tags"]


@pytest.mark.parametrize("kept", [["total", "vendor.name"], ["total", "tax"]])
def test_column_of_a_reference_or_an_alternative_cannot_be_dropped(kept: list[str]):
    with pytest.raises(Invalid):
        schema_of([one for one in definitions_of(HIDDEN) if one.name in kept], HIDDEN)


@pytest.mark.parametrize("name", ["tags", "odd", "tags[].name"])
def test_column_cannot_take_the_place_of_a_field_that_is_not_shown(name: str):
    with pytest.raises(Invalid):
        schema_of([*definitions_of(HIDDEN), *columns(name)], HIDDEN)


def test_columns_with_too_long_descriptions_are_refused():
    long = [ColumnDefinition(name=f"c{number}", description="d" * 2_000) for number in range(12)]
    assert schema_of(long[:11])
    with pytest.raises(Invalid):
        schema_of(long)


@pytest.mark.parametrize(
    "names",
    [
        ["Total", "total"],
        ["in-voice", "invoice"],
        ["inv.no", "invno"],
        ["inv_no", "inv.no"],
        ["items_price", "items[].price"],
        ["vendor", "vendor.name"],
        ["vendor.name", "vendor"],
        ["a[].x", "b[].x"],
        ["a[].b[].c"],
        ["a[]"],
        ["a[0]"],
        [".a"],
        [f"c{number}" for number in range(201)],
        [],
    ],
)
def test_columns_that_clash_or_cannot_be_columns_are_refused(names: list[str]):
    with pytest.raises(Invalid):
        schema_of(columns(*names))


@pytest.mark.parametrize(
    "line",
    ["", "a:money", ":date", "a,,b", "a:number:EUR", "a:date:kg", ":number:kg", ",".join(f"c{n}" for n in range(201))],
)
def test_line_that_is_no_list_of_columns_is_refused(line: str):
    with pytest.raises(Invalid):
        parse_definitions(line)
