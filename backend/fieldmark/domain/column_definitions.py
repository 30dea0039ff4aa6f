"""Definitions of a table's columns, and the JSON Schema that they make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from fieldmark.domain import paths
from fieldmark.domain.columns import MAX_COLUMNS, MAX_DEPTH, column_type, column_unit, schema_fields
from fieldmark.domain.folding import alphanumeric, fold
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.measures import UNITS, unit_name
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.domain.rules import KEYWORD
from fieldmark.errors import Invalid

DefinedType: TypeAlias = Literal["text", "number", "date", "boolean", "currency"]
MAX_NAME: Final = 200
_MAX_DESCRIPTION: Final = 2_000
MAX_BYTES: Final = 24_000
"""Of the definitions of a table as JSON: the agent must see all of them."""

_SCHEMAS: Final[dict[DefinedType, JsonObject]] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "boolean": {"type": "boolean"},
    "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
}


class ColumnDefinition(BaseModel):
    """A column of a table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_NAME,
            description="The field's path: vendor, vendor.name, or items[].price for a value of each list item.",
            examples=["total"],
        ),
    ]
    type: DefinedType = Field("text", description="Dates are stored as YYYY-MM-DD, currencies as three-letter codes.")
    description: Annotated[str, Field(max_length=_MAX_DESCRIPTION)] | None = Field(
        None, description="What belongs into the column, for the agent."
    )
    unit: Annotated[str, Field(max_length=10)] | None = Field(
        None,
        description=f"Of a number column: the unit of its values, one of {', '.join(UNITS)}. Values printed in another "
        "unit of the kind are converted.",
        examples=["kg"],
    )


Definitions = Annotated[list[ColumnDefinition], Field(min_length=1, max_length=MAX_COLUMNS)]


def parse_definitions(text: str) -> list[ColumnDefinition]:
    """Parse columns as they are written on the command line: `vendor,date:date,items[].price:number`. Raise Invalid."""
    found: list[ColumnDefinition] = []
    parts = text.split(",")
    _check_count(len(parts))
    for part in parts:
        name, colon, kind = (piece.strip() for piece in part.rpartition(":"))
        unit = None
        if not colon:
            name, kind = kind, "text"
        elif kind not in _SCHEMAS and (before := name.rpartition(":"))[2].strip() == "number":
            name, kind, unit = before[0].strip(), "number", kind
        why = ""
        if not 1 <= len(name) <= MAX_NAME:
            why = f"a name has 1 to {MAX_NAME} characters"
        elif kind not in _SCHEMAS:
            why = f"{kind[:30]!r} is not one of the types {', '.join(_SCHEMAS)}"
        elif unit is not None and unit_name(unit) is None:
            why = f"{unit[:30]!r} is not a known unit, such as kg, m2, kWh or %"
        if why:
            raise Invalid(
                f"{part.strip()[:100]!r} is not a column: {why}. Write name:type or name:number:unit, separated by "
                "commas. The currency of an amount is a column of its own."
            )
        found.append(ColumnDefinition.model_validate({"name": name, "type": kind, "unit": unit}))
    return found


def definitions_of(schema: JsonObject) -> list[ColumnDefinition]:
    """Return the columns that a schema describes, in order."""
    found: list[ColumnDefinition] = []
    for pattern, field in schema_fields(schema):
        said = field.get("description")
        name = paths.name(pattern)
        if len(name) <= MAX_NAME and sum(step is EACH for step in pattern) <= 1 and pattern[-1] is not EACH:
            words = said[:_MAX_DESCRIPTION] if isinstance(said, str) and said else None
            found.append(
                ColumnDefinition(name=name, type=_defined_type(field), description=words, unit=column_unit(field))
            )
    return found[:MAX_COLUMNS]


def list_of_rows(definitions: Sequence[ColumnDefinition]) -> str | None:
    """Return the list whose items are the rows, such as `items`. None if no column is in a list."""
    for pattern in map(_pattern, definitions):
        if EACH in pattern:
            return paths.name(pattern[: pattern.index(EACH)])
    return None


def schema_of(definitions: Sequence[ColumnDefinition], current: JsonObject | None = None) -> JsonObject:
    """Return the JSON Schema of columns. A column that is defined as in the `current` schema keeps its subschema, and
    the `current` schema its other keywords. Raise Invalid if columns clash, or are in more than one list."""
    _check_count(len(definitions))
    known = {} if current is None else {paths.name(pattern): field for pattern, field in schema_fields(current)}
    before = {} if current is None else {one.name: one for one in definitions_of(current)}
    patterns = [_pattern(one) for one in definitions]
    _check_clashes(patterns)
    size = sum(len(json.dumps(one.model_dump(exclude_none=True))) + 1 for one in definitions)
    if size > MAX_BYTES:
        raise Invalid(
            f"The columns take {size:,} bytes as JSON; the limit is {MAX_BYTES:,}. Shorten their descriptions."
        )
    # The database does not keep the order of properties.
    order: list[JsonValue] = [paths.name(pattern) for pattern in patterns]
    root: JsonObject = {**_without_fields(current or {}), "type": "object", "properties": {}}
    root[KEYWORD] = {**as_object(root.get(KEYWORD)), "columns": order}
    for definition, pattern in zip(definitions, patterns, strict=True):
        field: JsonObject = dict(_SCHEMAS[definition.type])
        description = (definition.description or "").strip() or None
        if description is not None:
            field["description"] = description
        if definition.unit is not None:
            if definition.type != "number" or unit_name(definition.unit) is None:
                raise Invalid(
                    f"The column {definition.name[:100]!r} cannot have the unit {definition.unit[:20]!r}. A number "
                    f"column can have one of {', '.join(UNITS)}; the currency of an amount is a column of its own."
                )
            field[KEYWORD] = {"unit": definition.unit}
        canonical = definition.model_copy(update={"name": paths.name(pattern), "description": description})
        if before.get(canonical.name) == canonical:
            field = known[canonical.name]
        _insert(root, pattern, field, current or {})
    _keep_required(root, current or {})
    return root


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_COLUMNS:
        raise Invalid(f"A table can have 1 to {MAX_COLUMNS} columns; {count} are given. Add or remove some.")


def _without_fields(node: JsonObject) -> JsonObject:
    return {key: value for key, value in node.items() if key not in ("properties", "items", "required")}


def _keep_required(node: JsonObject, current: JsonObject) -> None:
    """Require the fields that the current schema requires, as far as they are left."""
    properties, known = as_object(node.get("properties")), as_object(current.get("properties"))
    required: list[JsonValue] = [key for key in as_list(current.get("required")) if key in properties]
    if required:
        node["required"] = required
    for key in properties.keys() & known.keys():
        _keep_required(as_object(properties[key]), as_object(known[key]))
    if "items" in node:
        _keep_required(as_object(node["items"]), as_object(current.get("items")))


def _insert(root: JsonObject, pattern: Pattern, field: JsonObject, current: JsonObject) -> None:
    node = root
    for step, following in zip(pattern, (*pattern[1:], None), strict=True):
        if isinstance(step, str):
            properties = node["properties"]
            assert isinstance(properties, dict)
            if following is None:
                properties[step] = field
                return
            current = as_object(as_object(current.get("properties")).get(step))
            new: JsonObject = {"type": "array"} if following is EACH else {"type": "object", "properties": {}}
            node = properties.setdefault(step, {**_container(current, following is EACH), **new})
        else:
            current = as_object(current.get("items"))
            node = node.setdefault("items", {**_container(current), "type": "object", "properties": {}})
        assert isinstance(node, dict)


def _container(current: JsonObject, is_list: bool = False) -> JsonObject:
    """Return the keywords of an object or a list in the current schema, without its fields."""
    return _without_fields(current) if ("items" if is_list else "properties") in current else {}


def _pattern(definition: ColumnDefinition) -> Pattern:
    pattern = paths.parse_pattern(definition.name)
    lists = sum(step is EACH for step in pattern)
    if any(isinstance(step, int) for step in pattern) or lists > 1 or pattern[-1] is EACH or len(pattern) > MAX_DEPTH:
        raise Invalid(
            f"{definition.name[:200]!r} cannot be a column. Name a single value, such as vendor.name, or one of each "
            "item of a list, such as items[].price."
        )
    return pattern


def _check_clashes(patterns: Sequence[Pattern]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    lists = {pattern[: pattern.index(EACH)] for pattern in patterns if EACH in pattern}
    if len(lists) > 1:
        names = ", ".join(sorted(paths.name(one) for one in lists)[:5])
        raise Invalid(f"The columns are in several lists ({names}), and the rows can be the items of only one.")
    for pattern in patterns:
        folded = tuple("[]" if not isinstance(step, str) else alphanumeric(fold(step)) or step for step in pattern)
        name = paths.name(pattern)
        for depth in range(1, len(folded) + 1):
            if (other := seen.get(folded[:depth])) is not None:
                raise Invalid(f"The columns {other!r} and {name!r} clash: rename or remove one of them.")
        # Names that are equal without dots, such as inv.no and inv_no, have the same name in a SQL view.
        joined = "".join(folded).replace("[]", "")
        clash = next(
            (
                other
                for key, other in seen.items()
                if key[: len(folded)] == folded or "".join(key).replace("[]", "") == joined
            ),
            None,
        )
        if clash is not None:
            raise Invalid(f"The columns {clash!r} and {name!r} clash: rename or remove one of them.")
        seen[folded] = name


def _defined_type(field: JsonObject) -> DefinedType:
    kind = column_type(field)
    return "currency" if kind == "text" and field.get("pattern") == _SCHEMAS["currency"]["pattern"] else kind
