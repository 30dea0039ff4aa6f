"""The columns of a table of extractions: the fields that a schema describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.domain.measures import unit_name
from fieldmark.domain.paths import EACH, Each, Pattern
from fieldmark.domain.rules import KEYWORD

MAX_COLUMNS: Final = 200
MAX_DEPTH: Final = 8
ColumnType = Literal["number", "date", "boolean", "text"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `path` is that of its field, such as `total` or `items[].price`. `title` and `unit` are the schema's,
    if any."""

    path: str
    type: ColumnType
    title: str | None
    unit: str | None = None

    @property
    def heading(self) -> str:
        return self.path if self.unit is None else f"{self.path} ({self.unit})"


def list_columns(schema: JsonObject, rows: str | None = None) -> list[Column]:
    """Return the columns of a schema in the order of its `columns`, of its `required` lists, and of its properties.

    Without `rows`, only fields outside lists. `rows` is a list such as `items`: its fields follow, since each item is a
    row. At most 200 columns, 8 levels deep.
    """
    lists = (EACH,) * (0 if rows is None else 1)
    inside = () if rows is None else (*paths.parse_pattern(rows), *lists)
    columns: list[Column] = []
    for pattern, field in schema_fields(schema):
        depth = max((at for at, step in enumerate(pattern) if isinstance(step, Each)), default=-1)
        if pattern[: depth + 1] == inside[: depth + 1] and depth < len(inside):
            title = field.get("title")
            shown = title if isinstance(title, str) else None
            columns.append(Column(paths.name(pattern), column_type(field), shown, column_unit(field)))
            if len(columns) == MAX_COLUMNS:
                break
    return sorted(columns, key=lambda column: column.path.count("[]"))


def cell_path(column: str, indexes: Sequence[int]) -> str:
    """Return the path of a column's field in a row: `items[2].price` for `items[].price` in the row with index 2."""
    remaining = iter(indexes)
    return paths.name(
        [next(remaining, step) if isinstance(step, Each) else step for step in paths.parse_pattern(column)]
    )


def list_names(schema: JsonObject) -> list[str]:
    """Return the lists of a schema whose items can be rows, such as `items`: those whose items have fields."""
    patterns = [pattern for pattern, _ in _fields(schema, schema, ()) if EACH in pattern]
    return list(dict.fromkeys(paths.name(pattern[: pattern.index(EACH)]) for pattern in patterns))


def schema_fields(schema: JsonObject) -> Iterator[tuple[Pattern, JsonObject]]:
    """Yield the single values that a schema describes, each with its subschema: first those that the schema's `columns`
    (in its `x-fieldmark`) name, in that order."""
    named = as_object(schema.get(KEYWORD)).get("columns")
    order = {name: at for at, name in enumerate(named)} if isinstance(named, list) else {}
    yield from sorted(_fields(schema, schema, ()), key=lambda found: order.get(paths.name(found[0]), len(order)))


def _fields(root: JsonObject, schema: JsonValue, at: Pattern) -> Iterator[tuple[Pattern, JsonObject]]:
    field = _resolve(root, schema)
    if len(at) > MAX_DEPTH or field is None:
        return
    properties, items = field.get("properties"), field.get("items")
    if isinstance(properties, dict):
        required = field.get("required")
        first = required if isinstance(required, list) else []
        for key in dict.fromkeys([*(key for key in first if isinstance(key, str) and key in properties), *properties]):
            yield from _fields(root, properties[key], (*at, key))
    elif isinstance(items, dict):
        yield from _fields(root, items, (*at, EACH))
    elif at:
        yield at, field


def _resolve(root: JsonObject, schema: JsonValue) -> JsonObject | None:
    """Return a subschema with its reference followed, or the first alternative that is not null."""
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, dict):
            return None
        alternatives = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
            schema = _at_pointer(root, reference)
        elif isinstance(alternatives, list):
            schema = next((one for one in alternatives if one != {"type": "null"}), None)
        else:
            return schema
    return None


def _at_pointer(root: JsonObject, reference: str) -> JsonValue:
    node: JsonValue = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def field_units(schema: JsonObject) -> dict[str, str]:
    """Return the units of the fields of a schema that have one, by path name, such as `items[].weight`."""
    return {paths.name(pattern): unit for pattern, field in schema_fields(schema) if (unit := column_unit(field))}


def column_unit(field: JsonObject) -> str | None:
    """Return the unit of a column from the subschema of its field."""
    unit = as_object(field.get(KEYWORD)).get("unit")
    return unit if isinstance(unit, str) and column_type(field) == "number" and unit_name(unit) else None


def column_type(field: JsonObject) -> ColumnType:
    """Return the type of a column from the subschema of its field."""
    named = field.get("type")
    types = [one for one in (named if isinstance(named, list) else [named]) if one != "null"]
    if types and all(one in ("number", "integer") for one in types):
        return "number"
    if types == ["boolean"]:
        return "boolean"
    return "date" if field.get("format") in ("date", "date-time") else "text"
