"""What an organisation's documents cost and how good their values were, in Postgres. All days are in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Final, LiteralString
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import CountedKind
from fieldmark.stores.audits import ReviewFigures
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import fetch_all, fetch_one, page_in, value_of

MAX_PAUSE: Final = timedelta(minutes=5)
"""The longest time between two checks of a person that counts as work."""

_SHORT_LOOK: Final = timedelta(seconds=3)
_SOME_LOOKS: Final = 20
"""Looks of a person from which it is said that half of them were short."""


@dataclass(frozen=True, slots=True)
class Period:
    """Days of an organisation, both included. `schema_id`: only what belongs to this schema."""

    org_id: UUID
    since: date
    until: date
    schema_id: UUID | None = None

    def parameters(self) -> dict[str, object]:
        return {
            "org": self.org_id,
            "since": self.since,
            "until": self.until,
            "schema": self.schema_id,
            "pause": MAX_PAUSE,
            "short": _SHORT_LOOK,
            "some": _SOME_LOOKS,
        }


@dataclass(frozen=True, slots=True)
class CostRow:
    """Costs of one agent's task on one day, for one table and model. `table`: the name of the schema, if it has one and
    still exists. `unpriced` messages have no known price and add nothing to `cost_usd`."""

    day: date
    agent: str
    task: str | None
    schema_id: UUID | None
    stack_id: UUID | None
    table: str | None
    model: str
    documents_read: int
    messages: int
    unpriced: int
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class CheckedColumn:
    """The values of a field that people checked: `unchanged` ones, and `corrected` ones. The agent had no value where
    people `found` one."""

    schema_id: UUID | None
    table: str | None
    pattern: str
    unchanged: int
    corrected: int
    found: int


@dataclass(frozen=True, slots=True)
class OpenColumn:
    """The values of a field that a person has to look at, because they are missing or not found on the page."""

    schema_id: UUID | None
    table: str | None
    pattern: str
    missing: int
    not_found: int


@dataclass(frozen=True, slots=True)
class Work:
    """The time that people spent on checks."""

    people: int
    documents: int
    gaps: Annotated[
        int, Field(description="The times between one check of a person and the next, of at most five minutes.")
    ]
    seconds: Annotated[
        float,
        Field(description="Their sum. Longer times count as breaks, the first check of a person as none."),
    ]
    median_seconds: Annotated[
        float | None, Field(description="Half of the times are shorter: a look of two seconds proves little.")
    ]
    hasty: Annotated[
        list[UUID], Field(description="People with at least 20 such times, half of them shorter than three seconds.")
    ]


@dataclass(frozen=True, slots=True)
class DoneOnDay:
    """What people did on a day."""

    day: date
    confirmed: Annotated[int, Field(description="Values that a person confirmed one by one.")]
    corrected: int
    found: Annotated[int, Field(description="Values that a person entered where the agent had none.")]
    absent: Annotated[int, Field(description="Values that a person said are not in the document.")]
    reviewed_documents: Annotated[
        int, Field(description="Documents with values that were reviewed without a look at each.")
    ]


@dataclass(frozen=True, slots=True)
class FillingRun:
    """A run that fills the table of a stack."""

    stack_id: UUID
    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class CheckedWeek:
    """The values that were checked in a week, which starts on `monday`."""

    monday: date
    unchanged: int
    corrected: int


@dataclass(frozen=True, slots=True)
class CountedValue:
    """A value that a number of a table's quality counts."""

    document_id: UUID
    filename: str
    extraction_id: UUID
    path: str
    pattern: str
    was: Annotated[str | None, Field(description="The agent's value, if a person looked at it.")]
    now: Annotated[str | None, Field(description="The value. null: the document has none.")]
    checked_by: UUID | None
    checked_at: datetime | None
    page: Annotated[int | None, Field(description="The page of the value.")]
    box: Annotated[
        Sequence[float] | None,
        Field(description="Its first box there: x0, y0, x1, y1 in fractions of the page, from its upper left corner."),
    ]


@dataclass(frozen=True, slots=True)
class Correction(CountedValue):
    """A value that a person corrected."""

    checked_by: UUID
    checked_at: datetime


@dataclass(frozen=True, slots=True)
class VersionDate:
    """A version of the schema."""

    number: int
    created_at: datetime


# Read from the index alone. (A bound of the day: `checked_at` has an index, its day has none.)
_CHECKED: Final[LiteralString] = """public.fields as f where f.org_id = %(org)s and f.outcome is not null
    and f.checked_at >= (%(since)s::timestamp at time zone 'utc')
    and f.checked_at < ((%(until)s::date + 1)::timestamp at time zone 'utc')
    and (%(schema)s::uuid is null or f.checked_revid in (
      select id from public.schema_versions where schema_id = %(schema)s))"""
# The extractions that were started in the period, by an index, and the join that leaves current ones (a lookup
# for each: otherwise all extractions of the organisation would be compared).
_STARTED: Final[LiteralString] = """select e.id, e.schema_revid from public.extractions as e
    where e.org_id = %(org)s and e.created_at >= (%(since)s::timestamp at time zone 'utc')
      and e.created_at < ((%(until)s::date + 1)::timestamp at time zone 'utc')"""
_IS_CURRENT: Final[LiteralString] = """cross join lateral (
                 select from private.current_by_schema where id = e.id offset 0) as c"""
_UNCHANGED: Final[LiteralString] = "f.outcome in ('confirmed', 'reviewed')"


async def costs(conn: Connection, period: Period) -> list[CostRow]:
    """Return the costs of a period, oldest day first."""
    return await fetch_all(
        conn,
        CostRow,
        """select u.*, t.stack_id, s.name as table
           from (
             select day, agent, task, schema_id, model, sum(documents_read)::bigint as documents_read,
               sum(messages)::bigint as messages, sum(unpriced)::bigint as unpriced, sum(cost_usd) as cost_usd
             from public.usage_by_day
             where org_id = %(org)s and day between %(since)s and %(until)s
             group by day, agent, task, schema_id, model) as u
           left join public.schemas as s on s.id = u.schema_id
           left join public.stack_tables as t on t.schema_id = u.schema_id
           order by day, agent, task, schema_id, model""",
        period.parameters(),
    )


async def checked_columns(conn: Connection, period: Period) -> list[CheckedColumn]:
    """Return the fields whose values people checked in a period, the most corrections first. Raise TooLongToAnswer."""
    query: LiteralString = f"""
        select v.schema_id, s.name as table, p.pattern, sum(c.unchanged)::bigint as unchanged,
          sum(c.corrected)::bigint as corrected, sum(c.found)::bigint as found
        from (
          select f.checked_revid, max(f.id) as example, count(*) filter (where {_UNCHANGED}) as unchanged,
            count(*) filter (where f.outcome = 'corrected') as corrected,
            count(*) filter (where f.outcome = 'found') as found
          from {_CHECKED} and f.outcome <> 'absent' group by f.checked_revid, f.pattern_key) as c
        cross join lateral (select pattern from public.fields where id = c.example) as p
        left join public.schema_versions as v on v.id = c.checked_revid
        left join public.schemas as s on s.id = v.schema_id
        group by v.schema_id, s.name, p.pattern
        order by corrected desc, found desc, unchanged desc, s.name, p.pattern"""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        return await fetch_all(conn, CheckedColumn, query, period.parameters())


async def open_columns(conn: Connection, period: Period) -> list[OpenColumn]:
    """Return the fields with missing or not found values in the extractions that were started in a period."""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        return await fetch_all(
            conn,
            OpenColumn,
            f"""with started as materialized ({_STARTED} and e.review_count > 0)
               select v.schema_id, s.name as table, f.pattern, count(*) filter (where f.reason = 'missing') as missing,
                 count(*) filter (where f.reason = 'not_found') as not_found
               from started as e
               {_IS_CURRENT}
               cross join lateral (
                 select pattern, reason from public.fields
                 where extraction_id = e.id and status in ('needs_review', 'unclear')
                   and reason in ('missing', 'not_found')) as f
               left join public.schema_versions as v on v.id = e.schema_revid
               left join public.schemas as s on s.id = v.schema_id
               group by v.schema_id, s.name, f.pattern""",
            period.parameters(),
        )


async def work(conn: Connection, period: Period) -> Work:
    """Return the time that people spent in a period. Raise TooLongToAnswer."""
    query: LiteralString = f"""
        with checked as materialized (
          select f.checked_by, f.checked_at, f.extraction_id from {_CHECKED} group by 1, 2, 3
        ), gap as (
          select checked_by, checked_at - lag(checked_at) over (partition by checked_by order by checked_at) as length
          from (select distinct checked_by, checked_at from checked) as moment
        )
        select (select count(distinct checked_by) from checked) as people,
          (select count(distinct extraction_id) from checked) as documents, count(*) as gaps,
          coalesce(extract(epoch from sum(length)), 0)::float8 as seconds,
          percentile_cont(0.5) within group (order by extract(epoch from length)::float8) as median_seconds,
          array(
            select checked_by from gap where length <= %(pause)s group by checked_by
            having count(*) >= %(some)s and percentile_cont(0.5) within group (order by length) < %(short)s
          ) as hasty
        from gap where length <= %(pause)s"""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        found = await fetch_one(conn, Work, query, period.parameters())
    assert found is not None
    return found


async def done_by_day(conn: Connection, period: Period) -> list[DoneOnDay]:
    """Return what people did on each day of a period with work, oldest first. Raise TooLongToAnswer."""
    query: LiteralString = f"""
        select (f.checked_at at time zone 'utc')::date as day,
          count(*) filter (where f.outcome = 'confirmed') as confirmed,
          count(*) filter (where f.outcome = 'corrected') as corrected,
          count(*) filter (where f.outcome = 'found') as found,
          count(*) filter (where f.outcome = 'absent') as absent,
          count(distinct f.extraction_id) filter (where f.outcome = 'reviewed') as reviewed_documents
        from {_CHECKED} group by 1 order by 1"""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        return await fetch_all(conn, DoneOnDay, query, period.parameters())


async def filling_runs(conn: Connection, org_id: UUID, limit: int) -> list[FillingRun]:
    """Return the unended runs that fill tables of stacks, the newest first."""
    return await fetch_all(
        conn,
        FillingRun,
        """select s.id as stack_id, s.name, r.created_at as since from public.stacks as s
           cross join lateral (
             select created_at, status from public.runs
             where stack_id = s.id and parent_run_id is null order by created_at desc, id desc limit 1) as r
           where s.org_id = %s and r.status in ('queued', 'running', 'awaiting_runs')
           order by r.created_at desc limit %s""",
        (org_id, limit),
    )


async def count_reading(conn: Connection, org_id: UUID) -> int:
    """Return the number of documents that runs outside of stacks read now."""
    query = """select count(distinct r.document_id) from public.runs as r
               join public.runs as root on root.id = r.root_run_id and root.stack_id is null
               where r.org_id = %s and r.status = 'running' and r.document_id is not null"""
    return await value_of(conn, query, (org_id,))


async def checked_weeks(conn: Connection, period: Period) -> list[CheckedWeek]:
    """Return the weeks of a period in which values were checked, oldest first. Raise TooLongToAnswer."""
    query: LiteralString = f"""
        select date_trunc('week', f.checked_at at time zone 'utc')::date as monday,
          count(*) filter (where {_UNCHANGED}) as unchanged,
          count(*) filter (where f.outcome = 'corrected') as corrected
        from {_CHECKED} and (f.outcome = 'corrected' or {_UNCHANGED}) group by 1 order by 1"""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        return await fetch_all(conn, CheckedWeek, query, period.parameters())


_LIVE: Final[LiteralString] = f"""public.fields as f join (
    select e.id from ({_STARTED} and e.schema_revid in (
      select id from public.schema_versions where schema_id = %(schema)s)) as e {_IS_CURRENT}) as live
    on live.id = f.extraction_id where true"""
_AUDITED: Final[LiteralString] = """public.audits as a join public.fields as f
    on f.extraction_id = a.extraction_id and f.path = a.path
    join public.extractions as e on e.id = a.extraction_id
    where a.schema_revid = any (%(revids)s) and a.model = %(model)s and a.is_accepted"""
_COUNTED: Final[LiteralString] = "a.draw < %(rate)s and coalesce(e.layout, e.id) <> all (%(uncovered)s)"
_VALUES: Final[Mapping[CountedKind, LiteralString]] = {
    CountedKind.CONFIRMED: f"{_CHECKED} and {_UNCHANGED}",
    CountedKind.CORRECTED: f"{_CHECKED} and f.outcome = 'corrected'",
    CountedKind.FOUND: f"{_CHECKED} and f.outcome = 'found'",
    CountedKind.CHECKED: f"{_CHECKED} and (f.outcome = 'corrected' or {_UNCHANGED})",
    CountedKind.FILLED: f"{_LIVE} and f.kind <> 'blank' and f.indexes = '{{}}'",
    CountedKind.MISSING: f"{_LIVE} and f.reason = 'missing' and f.status = 'needs_review'",
    CountedKind.ACCEPTED: """public.fields as f join public.extractions as e on e.id = f.extraction_id
        where e.schema_revid = any (%(revids)s) and e.model = %(model)s and e.audit_rate > 0
          and f.status = 'found' and f.kind <> 'container' and f.state = 'found' and f.outcome is null""",
    CountedKind.AUDITED: f"{_AUDITED} and {_COUNTED} and a.outcome is not null",
    CountedKind.WRONG: f"{_AUDITED} and {_COUNTED} and a.outcome = 'wrong'",
    CountedKind.WAITING: f"{_AUDITED} and a.outcome is null and f.outcome is null",
}


async def counted_values(
    conn: Connection,
    period: Period,
    kind: CountedKind,
    figures: ReviewFigures | None,
    column: str | None,
    *,
    limit: int,
    offset: int = 0,
) -> list[CountedValue]:
    """Return the values that a number of a table's quality counts: the last look first, then the newest. `figures` are
    needed for those of the claim. `column`: only of this field. Values that a person removed are left out. Raise
    TooLongToAnswer."""
    # (The keys come from the index: the page, the values and the names are read only for the rows that are returned.)
    query: LiteralString = f"""
        select c.document_id, d.filename, c.extraction_id, c.path, c.pattern, e.locks -> c.path ->> 'was' as was,
          c.text as now, c.checked_by, c.checked_at, {page_in("e.evidence -> c.path")} as page,
          case when jsonb_array_length(place.box) = 4 then place.box end as box
        from (
          select f.id, f.checked_at from {_VALUES[kind]}
            and (%(column)s::text is null or f.pattern_key = md5(%(column)s)::uuid)
          order by f.checked_at desc nulls last, f.id desc limit %(limit)s offset %(offset)s) as found
        join public.fields as c on c.id = found.id
        join public.extractions as e on e.id = c.extraction_id
        join public.documents as d on d.id = c.document_id
        cross join lateral jsonb_path_query_array(
          e.evidence -> c.path, 'lax $.boxes[0][*] ? (@.type() == "number")') as place(box)
        order by found.checked_at desc nulls last, c.id desc"""
    parameters = period.parameters() | {"column": column, "limit": limit, "offset": offset}
    if figures is not None:
        parameters |= {"revids": figures.schema_revids, "model": figures.model, "rate": figures.rate}
        parameters |= {"uncovered": figures.uncovered}
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        return await fetch_all(conn, CountedValue, query, parameters)


async def filled_columns(conn: Connection, period: Period, columns: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Return the number of a schema's extractions that were started in a period, and how many of them have a value in
    each of these columns. Raise TooLongToAnswer."""
    query: LiteralString = f"""
        with started as materialized (
          {_STARTED} and e.schema_revid in (select id from public.schema_versions where schema_id = %(schema)s)
        ), live as materialized (
          select e.id from started as e {_IS_CURRENT}
        )
        select null as pattern, count(*) as filled from live
        union all
        select f.pattern, count(*) from live cross join lateral (
          select distinct pattern from public.fields
          where extraction_id = live.id and kind <> 'blank'
            and pattern_key in (select md5(name)::uuid from unnest(%(columns)s::text[]) as name)) as f
        group by f.pattern"""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        cursor = await conn.execute(query, period.parameters() | {"columns": list(columns)})
        found = {row["pattern"]: row["filled"] for row in await cursor.fetchall()}
    return found.pop(None), found


async def stack_of(conn: Connection, schema_id: UUID) -> UUID | None:
    """Return the stack whose columns a schema is."""
    return await value_of(conn, "select stack_id from public.stack_tables where schema_id = %s", (schema_id,))


async def schema_versions(conn: Connection, schema_id: UUID) -> list[VersionDate]:
    """Return the versions of a schema, oldest first; at most the newest 100."""
    newest = await fetch_all(
        conn,
        VersionDate,
        "select number, created_at from public.schema_versions where schema_id = %s order by number desc limit 100",
        (schema_id,),
    )
    return newest[::-1]
