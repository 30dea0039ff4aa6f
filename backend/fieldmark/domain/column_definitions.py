"""Definitions of a table's columns, and the JSON Schema that they make."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from fieldmark.domain import paths
from fieldmark.domain.columns import MAX_COLUMNS, column_type, column_unit, required_columns, schema_fields
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.domain.rules import KEYWORD
from fieldmark.domain.schema_walk import BESIDE, MAX_DEPTH, REFERENCES
from fieldmark.errors import Invalid
from valuegrounding.folding import alphanumeric, fold
from valuegrounding.measures import UNITS, unit_name

DefinedType: TypeAlias = Literal["text", "number", "date", "boolean", "currency"]
MAX_NAME: Final = 200
_MAX_DESCRIPTION: Final = 2_000
MAX_BYTES: Final = 24_000
"""Of the definitions of a table as JSON: the agent must see all of them."""

_QUOTED_KEY: Final = re.compile(r'\["[^"]*"\]')
_CONTENT: Final = frozenset((*REFERENCES, *BESIDE, "items", "prefixItems"))
"""Keywords of an object or a list by which it has fields, besides `properties`."""
_SCHEMAS: Final[dict[DefinedType, JsonObject]] = {
    "text": {"type": ["string", "null"]},
    "number": {"type": ["number", "null"]},
    "date": {"type": ["string", "null"], "format": "date"},
    "boolean": {"type": ["boolean", "null"]},
    "currency": {"type": ["string", "null"], "pattern": "^[A-Z]{3}$"},
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
    required: bool | None = Field(
        None,
        description="Whether each row should have a value; one without needs review. Default: if at least 80 % of the "
        "rows have one, and there are 5.",
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
        elif (separator := next((one for one in ";|\t\n" if one in _QUOTED_KEY.sub("", part)), None)) is not None:
            why = f"columns are not separated by {separator!r}"
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
    """Return the columns that a schema describes, in order, at most 200."""
    return list(_defined_fields(schema))[:MAX_COLUMNS]


def _defined_fields(schema: JsonObject) -> dict[ColumnDefinition, Pattern]:
    found: dict[ColumnDefinition, Pattern] = {}
    required = required_columns(schema)
    for pattern, field in schema_fields(schema):
        said = field.get("description")
        name = paths.name(pattern)
        if len(name) <= MAX_NAME and sum(step is EACH for step in pattern) <= 1 and pattern[-1] is not EACH:
            words = said[:_MAX_DESCRIPTION] if isinstance(said, str) and said else None
            unit = column_unit(field)
            one = ColumnDefinition(
                name=name, type=_defined_type(field), description=words, unit=unit, required=required.get(name)
            )
            found[one] = pattern
    return found


def list_of_rows(definitions: Sequence[ColumnDefinition]) -> str | None:
    """Return the list whose items are the rows, such as `items`. None if no column is in a list."""
    for pattern in map(_pattern, definitions):
        if EACH in pattern:
            return paths.name(pattern[: pattern.index(EACH)])
    return None


def schema_of(definitions: Sequence[ColumnDefinition], current: JsonObject | None = None) -> JsonObject:
    """Return the JSON Schema of columns: the `current` schema with these in place of its own columns. All else in it is
    kept: columns that are defined as before, and fields that cannot be columns. Raise Invalid if columns clash, are in
    more than one list, or if the current schema cannot be changed in this way."""
    _check_count(len(definitions))
    patterns = [_pattern(one) for one in definitions]
    _check_clashes(patterns)
    size = sum(len(json.dumps(one.model_dump(exclude_none=True))) + 1 for one in definitions)
    if size > MAX_BYTES:
        raise Invalid(
            f"The columns take {size:,} bytes as JSON; the limit is {MAX_BYTES:,}. Shorten their descriptions."
        )
    wanted = {
        one.model_copy(
            update={"name": paths.name(pattern), "description": (one.description or "").strip() or None}
        ): pattern
        for one, pattern in zip(definitions, patterns, strict=True)
    }
    root = copy.deepcopy(current or {})
    root["type"] = "object"
    required: JsonObject = {one.name: one.required for one in wanted if one.required is not None}
    before = {_without_required(one): pattern for one, pattern in _defined_fields(root).items()}
    wanted = {_without_required(one): pattern for one, pattern in wanted.items()}
    dropped = [pattern for one, pattern in list(before.items())[:MAX_COLUMNS] if one not in wanted]
    for pattern in dropped:
        _remove(root, pattern)
    odd = set(dropped) & {pattern for pattern, _ in schema_fields(root)}
    for definition, pattern in wanted.items():
        if definition not in before and not _insert(root, pattern, _field(definition)):
            odd.add(pattern)
    for pattern in dropped:
        _remove_empty(root, pattern)
    _arrange(root, wanted.values())
    extension = {
        name: value for name, value in as_object(root.pop(KEYWORD, None)).items() if name not in ("columns", "required")
    }
    extension |= {"required": required} if required else {}
    root |= {KEYWORD: extension} if extension else {}
    names: list[JsonValue] = [one.name for one in wanted]
    found = map(_without_required, _defined_fields(root))
    if [one for one in found if one in wanted] != [*wanted]:  # such as vendor.name, total, vendor.vat
        root[KEYWORD] = {**extension, "columns": names}
    after = set(map(_without_required, _defined_fields(root)))
    if odd := {*odd, *(pattern for one, pattern in wanted.items() if one not in after)}:
        raise Invalid(
            f"The columns {', '.join(sorted(map(paths.name, odd)))[:500]} cannot be set: the schema defines a field of "
            "this name that columns cannot describe, by a reference, alternatives or a list. Change the schema itself."
        )
    return root


def _without_required(definition: ColumnDefinition) -> ColumnDefinition:
    return definition.model_copy(update={"required": None})


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_COLUMNS:
        raise Invalid(f"A table can have 1 to {MAX_COLUMNS} columns; {count} are given. Add or remove some.")


def _field(definition: ColumnDefinition) -> JsonObject:
    """Return the subschema of a column. Raise Invalid if it cannot have its unit."""
    field: JsonObject = dict(_SCHEMAS[definition.type])
    if definition.description is not None:
        field["description"] = definition.description
    if definition.unit is not None:
        if definition.type != "number" or unit_name(definition.unit) is None:
            raise Invalid(
                f"The column {definition.name[:100]!r} cannot have the unit {definition.unit[:20]!r}. A number "
                f"column can have one of {', '.join(UNITS)}; the currency of an amount is a column of its own."
            )
        field[KEYWORD] = {"unit": definition.unit}
    return field


def _remove(node: JsonObject, pattern: Pattern) -> None:
    """Remove a field, unless a reference or an alternative defines it."""
    for step in pattern[:-1]:
        node = as_object(node.get("items") if step is EACH else as_object(node.get("properties")).get(str(step)))
    as_object(node.get("properties")).pop(str(pattern[-1]), None)


def _insert(node: JsonObject, pattern: Pattern, field: JsonObject) -> bool:
    """Insert a field, and the objects and the list around it. Return False if something else has its place."""
    for step, following in itertools.pairwise((*pattern, None)):
        kind = "array" if following is EACH else "object"
        inside = node if step is EACH else as_object(node.setdefault("properties", {}))
        key = "items" if step is EACH else str(step)
        if following is None:
            return inside.setdefault(key, field) is field
        node = as_object(inside.setdefault(key, {"type": kind}))
        if kind not in (as_list(node.get("type")) or [node.get("type", kind)]):
            return False
    return False


def _remove_empty(node: JsonObject, pattern: Pattern) -> bool:
    """Remove what removed fields left: their names in `required`, objects without properties, lists of those. Return
    whether nothing is left in the node."""
    step, remaining = pattern[0], pattern[1:]
    inside = node if step is EACH else as_object(node.get("properties"))
    key = "items" if step is EACH else str(step)
    if remaining and isinstance(below := inside.get(key), dict) and _remove_empty(below, remaining):
        del inside[key]
    if key not in inside and (required := node.pop("required", None)):
        left = [one for one in as_list(required) if one != key]
        node.update({"required": left} if left else {})
    return not node.get("properties") and not node.keys() & _CONTENT


def _arrange(node: JsonObject, patterns: Iterable[Pattern]) -> None:
    """Put properties in the order of these fields, and others after them."""
    below: dict[object, list[Pattern]] = {}
    for step, *remaining in filter(None, patterns):
        below.setdefault(step, []).append(tuple(remaining))
    properties = as_object(node.get("properties"))
    if named := {step: properties[step] for step in below if isinstance(step, str) and step in properties}:
        node["properties"] = {**named, **properties}
    for step, patterns_below in below.items():
        _arrange(as_object(node.get("items") if step is EACH else properties.get(str(step))), patterns_below)


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
    lists = {pattern[: pattern.index(EACH)] for pattern in patterns if EACH in pattern}
    if len(lists) > 1:
        names = ", ".join(sorted(paths.name(one) for one in lists)[:5])
        raise Invalid(f"The columns are in several lists ({names}), and the rows can be the items of only one.")
    # Each column by its folded steps, and by the joined steps: inv.no and inv_no have the same name in a SQL view.
    seen: dict[tuple[str, ...] | str, str] = {}
    above: dict[tuple[str, ...], str] = {}
    for pattern in patterns:
        folded = tuple("[]" if not isinstance(step, str) else alphanumeric(fold(step)) or step for step in pattern)
        joined = "".join(folded).replace("[]", "")
        name = paths.name(pattern)
        parents = [folded[:depth] for depth in range(1, len(folded))]
        clashes = (*(seen.get(one) for one in (*parents, folded, joined)), above.get(folded))
        if (clash := next((one for one in clashes if one is not None), None)) is not None:
            raise Invalid(f"The columns {clash!r} and {name!r} clash: rename or remove one of them.")
        seen |= {folded: name, joined: name}
        above |= dict.fromkeys(parents, name)


def _defined_type(field: JsonObject) -> DefinedType:
    kind = column_type(field)
    return "currency" if kind == "text" and field.get("pattern") == _SCHEMAS["currency"]["pattern"] else kind
