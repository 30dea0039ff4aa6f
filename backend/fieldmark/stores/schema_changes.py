"""Extractions that use an earlier version of a schema, and how to move them to another version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from fieldmark.db.pool import Connection
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.schema_changes import SchemaDifference
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import fetch_all, value_of

FOLLOWERS: Final = "schema changes"
"""The kind of list that `followers` returns."""


@dataclass(frozen=True, slots=True)
class FollowerRow:
    """An extraction that uses a version of a schema."""

    id: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FollowedVersionRow:
    """A version of a schema, and the number of extractions that use it."""

    schema_revid: UUID
    number: int
    schema: JsonObject
    extractions: int


@dataclass(frozen=True, slots=True)
class MissingColumnRow:
    """A column, and the number of rows without a value in it."""

    path: str
    rows: int


async def followed_versions(
    conn: Connection, schema_id: UUID, other_than: UUID | None, *, limit: int, max_counted: int
) -> list[FollowedVersionRow]:
    """Return the newest versions that extractions use, without `other_than`. Counts end at `max_counted`."""
    return await fetch_all(
        conn,
        FollowedVersionRow,
        """select v.id as schema_revid, v.number, v.schema, e.extractions
           from public.schema_versions as v cross join lateral (
             select count(*) as extractions from (
               select from public.extractions where schema_revid = v.id limit %s) as counted) as e
           where v.schema_id = %s and v.id is distinct from %s and e.extractions > 0
           order by v.number desc limit %s""",
        (max_counted, schema_id, other_than, limit),
    )


async def compare_schemas(conn: Connection, old: JsonObject, new: JsonObject) -> SchemaDifference:
    """Return how two versions of a schema differ. Titles, defaults and examples are ignored."""
    found = await value_of(conn, "select private.compare_schemas(%s, %s)", (Jsonb(old), Jsonb(new)))
    return SchemaDifference.of(old, new, found)


async def differences(conn: Connection, schema_id: UUID) -> dict[UUID, JsonObject]:
    """Return how the latest version of a schema differs from older ones, by their ids: `added` and `changed` top-level
    fields, `everything`, `rules`. It differs in all from older versions that are not listed."""
    query = "select differences from public.schemas where id = %s"
    found: dict[str, JsonObject] | None = await value_of(conn, query, (schema_id,))
    return {UUID(revid): difference for revid, difference in (found or {}).items()}


async def rows_without(conn: Connection, schema_id: UUID, columns: Sequence[str]) -> list[MissingColumnRow]:
    """Return the columns of these that no row has to have today and some rows have no value in, with the number of
    those rows. A row in which a person confirmed that there is no value is not among them."""
    return await fetch_all(
        conn,
        MissingColumnRow,
        """select c.name as path, count(*) as rows
           from public.schemas as s join public.schema_versions as v on v.schema_id = s.id
           join public.extractions as e on e.schema_revid = v.id
           cross join unnest(%s::text[]) with ordinality as c (name, place)
           where s.id = %s and c.name <> all (s.required_fields)
             and e.id in (select id from private.current_by_schema where id = e.id)
             and not exists (
               select from public.fields as f where f.extraction_id = e.id and f.pattern_key = md5(c.name)::uuid
                 and (f.kind <> 'blank' or f.reason = 'person'))
           group by c.name, c.place order by c.place""",
        (list(columns), schema_id),
    )


async def average_cost(conn: Connection, org_id: UUID, schema_id: UUID | None, last: int = 50) -> Decimal | None:
    """Return the average cost of the `last` completed extraction runs with this schema; if there is none, of those of
    the organisation. With a second reading if a new run has one: as it cost, or else as much as the first. None if not
    known."""
    return await value_of(
        conn,
        """with mode as (
             select coalesce((
               select schema #>> '{x-fieldmark,second_reading}' from public.schema_versions
               where schema_id = %(schema)s order by number desc limit 1), second_reading) as mode
             from public.organisations where id = %(org)s
           ), last as ((
             select true as is_own, r.id, r.input from public.schema_versions as v
             join public.extractions as e on e.schema_revid = v.id
             join public.runs as r on r.extraction_id = e.id
             where v.schema_id = %(schema)s and r.task = 'extract' and r.status = 'completed'
             order by r.created_at desc limit %(last)s)
             union all (select false, id, input from public.runs
               where org_id = %(org)s and task = 'extract' and status = 'completed'
               order by created_at desc limit %(last)s)
           ), cost as (
             select is_own, coalesce(input ->> 'second_reading', 'off') = mode as is_same,
               private.cost_of_run(id) as whole,
               (select sum(cost_usd) from public.usage where run_id = last.id)
                 * case mode when 'off' then 1 else 2 end as alone
             from last cross join mode
           )
           select coalesce(avg(whole) filter (where is_own and is_same), avg(alone) filter (where is_own),
             avg(whole) filter (where is_same), avg(alone)) as cost from cost""",
        {"org": org_id, "schema": schema_id, "last": last},
    )


async def followers(
    conn: Connection,
    schema_id: UUID,
    *,
    other_than: UUID | None = None,
    among: Sequence[UUID] | None = None,
    limit: int,
    before: str | None = None,
) -> ListPage[FollowerRow]:
    """Return a page of the extractions that use a version of a schema, newest first. Those with the version
    `other_than` are left out. With `among`, only these extractions are returned. Raise Invalid for an invalid
    cursor."""
    request = PageRequest(FOLLOWERS, limit, before)
    where: list[LiteralString] = ["schema_revid = v.id", *request.conditions()]
    if among is not None:
        where.append("id = any (%(among)s)")
    # The newest of each version are found by an index, and there are few versions.
    rows = await fetch_all(
        conn,
        FollowerRow,
        f"""select e.id, e.created_at
            from public.schema_versions as v
            cross join lateral (
              select id, created_at from public.extractions
              where {" and ".join(where)} order by created_at desc, id desc limit %(limit)s) as e
            where v.schema_id = %(schema)s and v.id is distinct from %(other)s
            order by e.created_at desc, e.id desc limit %(limit)s""",
        {"schema": schema_id, "other": other_than, "among": list(among or ()), **request.parameters()},
    )
    return request.page(rows)


async def has_active_run(conn: Connection, extraction_id: UUID) -> bool:
    return bool(await value_of(conn, "select private.has_active_run(%s) as is_active", (extraction_id,)))


async def follow(conn: Connection, extraction_id: UUID, revid: UUID) -> None:
    """Move an extraction to a version of a schema and set it to in progress. Raise NotFound."""
    await conn.execute("select private.follow_schema(%s, %s)", (extraction_id, revid))
