"""Exact counts, sums and groups over the fields of many documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from fieldmark.db.pool import Connection
from fieldmark.domain.calculator import as_decimal, format_decimal
from fieldmark.domain.field_query import (
    Aggregate,
    AggregateOp,
    FieldAnswer,
    FieldGroup,
    FieldQuery,
    FieldResult,
    ValueKind,
)
from fieldmark.identity.scope import Scope
from fieldmark.stores import field_queries
from fieldmark.stores.field_queries import FieldStatistics
from fieldmark.stores.query_timeout import MAX_SECONDS


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
