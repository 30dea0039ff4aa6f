"""The columns of a table of extractions: the fields that a schema describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import EACH, Each, Pattern
from fieldmark.domain.rules import KEYWORD
from fieldmark.domain.schema_walk import SchemaFields, walk_fields
from valuegrounding.measures import unit_name

MAX_COLUMNS: Final = 200
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


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table, and the lists of its schema whose items can be rows, such as `items`. `has_more`: the
    schema describes more fields than are walked or shown."""

    columns: list[Column]
    lists: list[str]
    has_more: bool


def describe_table(schema: JsonObject, rows: str | None = None) -> TableShape:
    """Return the shape of a table, in bounded time. Its columns are in the order of the schema's `columns`, of its
    `required` lists, and of its properties.

    Without `rows`, only fields outside lists. `rows` is a list such as `items`: its fields follow, since each item is a
    row. At most 200 columns, 8 levels deep.
    """
    inside = () if rows is None else (*paths.parse_pattern(rows), EACH)
    columns: list[Column] = []
    walked = walk_fields(schema)
    for pattern, field in _in_order(schema, walked):
        depth = max((at for at, step in enumerate(pattern) if isinstance(step, Each)), default=-1)
        if pattern[: depth + 1] == inside[: depth + 1] and depth < len(inside):
            title = field.get("title")
            shown = title if isinstance(title, str) else None
            columns.append(Column(paths.name(pattern), column_type(field), shown, column_unit(field)))
    first = sorted(columns[:MAX_COLUMNS], key=lambda column: column.path.count("[]"))
    has_more = len(first) < len(columns) or not walked.is_complete
    return TableShape(first, _list_names(walked), has_more)


def list_columns(schema: JsonObject, rows: str | None = None) -> list[Column]:
    """Return the columns of a table, as `describe_table` does."""
    return describe_table(schema, rows).columns


def cell_path(column: str, indexes: Sequence[int]) -> str:
    """Return the path of a column's field in a row: `items[2].price` for `items[].price` in the row with index 2."""
    remaining = iter(indexes)
    return paths.name(
        [next(remaining, step) if isinstance(step, Each) else step for step in paths.parse_pattern(column)]
    )


def list_names(schema: JsonObject) -> list[str]:
    """Return the lists of a schema whose items can be rows, such as `items`: those whose items have fields."""
    return _list_names(walk_fields(schema))


def _list_names(walked: SchemaFields) -> list[str]:
    patterns = [pattern for pattern, _ in walked.fields if EACH in pattern]
    return list(dict.fromkeys(paths.name(pattern[: pattern.index(EACH)]) for pattern in patterns))


def schema_fields(schema: JsonObject) -> list[tuple[Pattern, JsonObject]]:
    """Return the single values that a schema describes, each with its keywords: first those that the schema's `columns`
    (in its `x-fieldmark`) name, in that order."""
    return _in_order(schema, walk_fields(schema))


def _in_order(schema: JsonObject, walked: SchemaFields) -> list[tuple[Pattern, JsonObject]]:
    named = as_list(as_object(schema.get(KEYWORD)).get("columns"))
    order = {name: at for at, name in enumerate(named) if isinstance(name, str)}
    return sorted(walked.fields, key=lambda found: order.get(paths.name(found[0]), len(order)))


def field_units(schema: JsonObject) -> dict[str, str]:
    """Return the units of the fields of a schema that have one, by path name, such as `items[].weight`."""
    return {paths.name(pattern): unit for pattern, field in schema_fields(schema) if (unit := column_unit(field))}


def required_columns(schema: JsonObject) -> dict[str, bool]:
    """Return which fields a schema's `x-fieldmark` says should have a value, or need none, by path name."""
    given = as_object(as_object(schema.get(KEYWORD)).get("required"))
    return {name: value for name, value in given.items() if isinstance(value, bool)}


def required_fields(schema: JsonObject) -> list[str]:
    """Return the fields that a schema requires, by its `required` at the root or its `x-fieldmark`, by path name."""
    columns = required_columns(schema)
    listed = [paths.name((name,)) for name in as_list(schema.get("required")) if isinstance(name, str)]
    named = dict.fromkeys([*listed, *columns])
    return [name for name in named if columns.get(name, True)]


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
