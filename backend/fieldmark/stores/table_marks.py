"""Duplicates among the rows of a table, and the usual range of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from typing import Final, LiteralString
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed, Identifier

from fieldmark.db.pool import Connection
from fieldmark.domain.identifying_columns import IdentifyingRole
from fieldmark.domain.table_query import TableQuery
from fieldmark.stores.document_filters import Parameters
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import large_rows
from fieldmark.stores.tables import Table, matching_rows, values_of_rows

_MIN_AGREEING: Final = 3
_MIN_VALUES: Final = 8

# Compared without punctuation, spaces and case.
_COMPARED: Final[LiteralString] = """case kind
  when 'number' then concat_ws(' ', trim_scale(number), currency)
  when 'day' then day::text
  else nullif(regexp_replace(lower(left(text, 200)), '[^[:alnum:]]+', '', 'g'), '') end"""


@dataclass(frozen=True, slots=True)
class DuplicateRow:
    """An extraction that agrees with that of an earlier document in `columns`."""

    extraction_id: UUID
    of_document_id: UUID
    of_filename: str
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class ColumnDistribution:
    """The quartiles of the logarithms of a column's numbers in one currency, or the median of its days."""

    column: str
    currency: str | None
    lower_quartile: float | None
    upper_quartile: float | None
    median_day: date | None


async def find_duplicates(
    conn: Connection,
    table: Table,
    columns: Mapping[IdentifyingRole, str],
    extraction_ids: Sequence[UUID],
    seconds: float = MAX_SECONDS,
) -> list[DuplicateRow]:
    """Return which of the extractions agree with an earlier document's in at least three of the columns. Documents with
    different numbers never agree. Raise TooLongToAnswer."""
    combinations_of_roles = list(combinations(columns, _MIN_AGREEING))
    if not combinations_of_roles:
        return []
    parameters = Parameters()
    statement = SQL(
        """with matching as materialized ({rows}), identified as materialized (
             select r.id, r.document_id, r.created_at, v.*
             from matching as r cross join lateral (
               select {values}
               from (select pattern, {compared} as value from public.fields
                 where extraction_id = r.id and pattern_key = any ({keys})
                   and kind not in ('container', 'blank') offset 0) as v) as v
           ), grouped as (
             select i.id, coalesce({firsts}) as first_id from identified as i
           )
           select i.id as extraction_id, o.document_id as of_document_id, d.filename as of_filename,
             array_remove(array[{agreeing}], null) as columns
           from grouped as g join identified as i on i.id = g.id join identified as o on o.id = g.first_id
           join public.documents as d on d.id = o.document_id
           where g.id = any ({ids})"""
    ).format(
        rows=matching_rows(table, TableQuery(), parameters),
        values=SQL(", ").join(
            SQL("max(value) filter (where pattern = {}) as {}").format(parameters.add(path, "text"), Identifier(role))
            for role, path in columns.items()
        ),
        compared=SQL(_COMPARED),
        keys=SQL("(select array_agg(md5(p)::uuid) from unnest({}) as p)::uuid[]").format(
            parameters.add(list(columns.values()), "text[]")
        ),
        firsts=SQL(", ").join(
            _first(roles, has_number=IdentifyingRole.NUMBER in columns) for roles in combinations_of_roles
        ),
        agreeing=SQL(", ").join(
            SQL("case when i.{role} = o.{role} then {path} end").format(
                role=Identifier(role), path=parameters.add(path, "text")
            )
            for role, path in columns.items()
        ),
        ids=parameters.add(list(extraction_ids), "uuid[]"),
    )
    async with query_timeout(conn, seconds):
        return await large_rows(conn, DuplicateRow, statement, parameters.values)


def _first(roles: Sequence[IdentifyingRole], *, has_number: bool) -> Composed:
    """Return the earliest extraction that agrees in these columns; null if it is the extraction itself."""
    present: list[Composable] = [SQL("i.{} is not null").format(Identifier(role)) for role in roles]
    alike = SQL("(partition by {}").format(SQL(", ").join(SQL("i.{}").format(Identifier(role)) for role in roles))
    if has_number and IdentifyingRole.NUMBER not in roles:
        present.append(
            SQL("min(i.number) over {alike}) is not distinct from max(i.number) over {alike})").format(alike=alike)
        )
    return SQL("case when {} then nullif(first_value(i.id) over {} order by i.created_at, i.id), i.id) end").format(
        SQL(" and ").join(present), alike
    )


async def column_distributions(
    conn: Connection, table: Table, seconds: float = MAX_SECONDS
) -> list[ColumnDistribution]:
    """Return the distributions of the numbers (other than 0) and days of each column with at least 8 of them. A field
    outside the list of the rows counts once per document. Raise TooLongToAnswer."""
    parameters = Parameters()
    statement = SQL(
        """with matching as materialized ({rows}), value as (
             select v.pattern, v.currency, v.number, v.day from {values} as v
           ), measured as (
             select pattern, currency, day, ln(abs(number)::float8) as magnitude from value)
           select pattern as column, currency,
             percentile_cont(0.25) within group (order by magnitude) as lower_quartile,
             percentile_cont(0.75) within group (order by magnitude) as upper_quartile,
             percentile_disc(0.5) within group (order by day) as median_day
           from measured group by pattern, currency, day is null having count(*) >= {least}"""
    ).format(
        rows=matching_rows(table, TableQuery(), parameters),
        values=values_of_rows(
            table, SQL("(kind = 'day' or kind = 'number' and abs(number) between 1e-100 and 1e100)"), parameters
        ),
        least=parameters.add(_MIN_VALUES, "bigint"),
    )
    async with query_timeout(conn, seconds):
        return await large_rows(conn, ColumnDistribution, statement, parameters.values)
