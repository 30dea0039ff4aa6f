"""Exact counts, sums and groups over the fields of many documents, and the check that a filter's fields exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, Literal

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.calculator import as_decimal, format_decimal
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.field_query import (
    Aggregate,
    AggregateOp,
    FieldAnswer,
    FieldGroup,
    FieldQuery,
    FieldResult,
    ValueKind,
)
from fieldmark.domain.formatting import list_names
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.domain.schema_walk import walk_fields
from fieldmark.errors import UnknownField
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_unqueued
from fieldmark.stores import field_queries, known_fields
from fieldmark.stores.field_queries import FieldStatistics
from fieldmark.stores.library import schemas
from fieldmark.stores.query_timeout import MAX_SECONDS

_MAX_SCHEMAS: Final = 200
"""Schemas whose fields are looked up: the newest. The fields of all extractions are known."""
_MAX_COMPARED: Final = 200


async def query(
    conn: Connection, scope: Scope, field_query: FieldQuery, *, seconds: float = MAX_SECONDS
) -> FieldAnswer:
    """Run a query over the fields of the caller's documents. Raise TooLongToAnswer after `seconds`."""
    found = await field_queries.run(conn, scope.org_id, field_query, seconds)
    groups: list[FieldGroup] = []
    for group in found.groups:
        cells = [cell for cell in found.cells if cell.key == group.key]
        results = [
            result for aggregate in field_query.aggregates for result in _results(aggregate, cells, group.documents)
        ]
        groups.append(FieldGroup(group.shown, group.documents, group.spellings, results))
    return FieldAnswer(
        groups=groups,
        groups_total=found.groups_total,
        in_several_groups=found.in_several_groups,
        rows=found.rows,
        rows_total=found.rows_total,
        coverage=found.coverage,
    )


async def check_fields(conn: Connection, scope: Scope, filters: DocumentFilters) -> None:
    """Raise UnknownField if a condition is on a field that no extraction has and no schema describes. In an
    organisation without fields every condition is accepted."""
    wanted = [condition.pattern for condition in filters.fields]
    unknown = [one for one in wanted if not await known_fields.is_in_use(conn, scope.org_id, one)]
    if not unknown:
        return
    stored = (await schemas.list_page(conn, scope, limit=_MAX_SCHEMAS)).items
    rows = await schemas.find_many(conn, [one.id for one in stored])
    described = await run_unqueued(_described, [row.schema for row in rows])
    in_use = await known_fields.list_known_fields(conn, scope.org_id, DocumentFilters())
    names = list(dict.fromkeys([*(one.path for one in in_use.fields), *map(paths.name, described)]))
    for pattern in unknown:
        steps = _without_indexes(pattern)
        if names and not any(steps[: len(one)] == one[: len(steps)] for one in described):
            raise unknown_field(paths.name(pattern), names)


def unknown_field(name: str, names: Sequence[str], what: Literal["field", "column"] = "field") -> UnknownField:
    """Return the error for a field that is not one of `names`, with those most like it."""
    near = difflib.get_close_matches(name[:_MAX_COMPARED], names, n=3)
    like = (
        f"Did you mean {' or '.join(near)}?" if near else f"There are: {list_names(names, characters=1000, most=50)}."
    )
    return UnknownField(f"There is no {what} {name[:_MAX_COMPARED]!r}. {like}")


def _described(stored: Sequence[JsonObject]) -> list[Pattern]:
    """Return the patterns of the fields of schemas."""
    return list(dict.fromkeys(_without_indexes(one) for schema in stored for one, _ in walk_fields(schema).fields))


def _without_indexes(pattern: Pattern) -> Pattern:
    return tuple(step if isinstance(step, str) else EACH for step in pattern)


def _results(aggregate: Aggregate, cells: Sequence[FieldStatistics], documents: int) -> Iterator[FieldResult]:
    """Yield the results of one aggregate in one group: one per currency; nothing if there is no value."""
    op, path = aggregate.op, aggregate.path
    if path is None:
        yield FieldResult(op, None, str(documents), ValueKind.NUMBER, documents)
        return
    of_path = [cell for cell in cells if cell.path == path]
    if op is AggregateOp.COUNT:
        values = sum(cell.values for cell in of_path)
        yield FieldResult(op, path, str(values), ValueKind.NUMBER, values)
        return
    for cell in of_path:
        is_rounded = False
        if op is AggregateOp.MIN:
            value = cell.minimum
        elif op is AggregateOp.MAX:
            value = cell.maximum
        elif cell.total is None:
            continue
        elif op is AggregateOp.SUM:
            value = format_decimal(cell.total)
        else:
            average, is_rounded = as_decimal(Fraction(cell.total) / cell.values)
            value = format_decimal(average)
        if value is not None:
            yield FieldResult(op, path, value, cell.kind, cell.values, cell.currency, is_rounded)
