"""Counts and sums over the fields of many documents, in one SQL statement: all figures are of the same moment.

The statement is composed of constant SQL. Every path, value and name is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.sql import SQL, Composed, Identifier

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.document_filters import FilterOp
from fieldmark.domain.field_query import (
    MAX_DUPLICATES,
    MAX_ROWS,
    AggregateOp,
    Coverage,
    DuplicateFile,
    FieldQuery,
    FieldRow,
    GroupBy,
    GroupKind,
    PathCoverage,
    Role,
    ValueKind,
)
from fieldmark.stores.document_filters import (
    FieldComparison,
    Parameters,
    document_conditions,
    folded,
    source_of,
    type_conditions,
    values_at,
)
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import location_in

ALL_KINDS: Final = tuple(ValueKind)
_NUMBERS: Final = (ValueKind.NUMBER,)
_ORDERED: Final = (ValueKind.NUMBER, ValueKind.DAY)
_SCALARS: Final = (ValueKind.NUMBER, ValueKind.DAY, ValueKind.TEXT, ValueKind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """Count, sum, minimum and maximum of the values with the same group, path, kind and currency."""

    key: str | None
    path: str
    kind: ValueKind
    currency: str | None
    values: int
    total: Decimal | None
    minimum: str | None
    maximum: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its number of documents. `key` ignores case, `shown` is the key as written in a document, and
    `spellings` counts its different spellings."""

    key: str | None
    shown: str | None
    spellings: int
    documents: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    groups: Sequence[Group]
    groups_total: int
    in_several_groups: int
    cells: Sequence[FieldStatistics]
    rows: Sequence[FieldRow]
    rows_total: int
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class _QueriedPath:
    """A path whose values are read, with its number in the statement and the kinds of values that count."""

    number: int
    path: str
    kinds: Sequence[ValueKind]
    role: Role


def aggregated_paths(query: FieldQuery) -> dict[str, Sequence[ValueKind]]:
    """Return the paths of the aggregates, each with the kinds of values that all its aggregates accept."""
    found: dict[str, Sequence[ValueKind]] = {}
    for aggregate in query.aggregates:
        if aggregate.path is not None:
            kinds = found.get(aggregate.path, ALL_KINDS)
            accepted = _ACCEPTED_KINDS.get(aggregate.op, ALL_KINDS)
            found[aggregate.path] = min(kinds, accepted, key=len)
    return found


_ACCEPTED_KINDS: Final[Mapping[AggregateOp, Sequence[ValueKind]]] = {
    AggregateOp.SUM: _NUMBERS,
    AggregateOp.AVG: _NUMBERS,
    AggregateOp.MIN: _ORDERED,
    AggregateOp.MAX: _ORDERED,
}


async def run(conn: Connection, org_id: UUID, query: FieldQuery, seconds: float = MAX_SECONDS) -> QueryResult:
    """Run a query. Raise TooLongToAnswer."""
    statement, parameters = _statement(org_id, query)
    async with query_timeout(conn, seconds):
        cursor = await conn.execute(statement, parameters)
        row = await cursor.fetchone()
    assert row is not None
    return _result(query, row)


def _result(query: FieldQuery, row: Mapping[str, Any]) -> QueryResult:
    queried = _paths(query)
    roles: list[tuple[Role, str]] = [("where", condition.path) for condition in query.where.fields]
    roles.extend((queried_path.role, queried_path.path) for queried_path in queried)
    counted: list[dict[str, int]] = [*row["conditions"], *row["paths"]]
    paths = [PathCoverage(role=role, path=path, **counts) for (role, path), counts in zip(roles, counted, strict=True)]
    return QueryResult(
        groups=[Group(**group) for group in row["groups"]],
        groups_total=row["groups_total"],
        in_several_groups=row["in_several_groups"],
        cells=[_cell(queried, **cell) for cell in row["cells"]],
        rows=[_row(**found) for found in row["rows"]],
        rows_total=row["rows_total"],
        coverage=Coverage(
            **row["documents"],
            duplicate_files=[_duplicate(**queried_path) for queried_path in row["duplicate_files"]],
            paths=paths,
        ),
    )


def _duplicate(*, document_id: str, filename: str, counted_document_id: str) -> DuplicateFile:
    return DuplicateFile(UUID(document_id), filename, UUID(counted_document_id))


def _cell(
    queried: Sequence[_QueriedPath], *, number: int, kind: str, total: str | None, **columns: Any
) -> FieldStatistics:
    exact = None if total is None else Decimal(total)
    return FieldStatistics(path=queried[number].path, kind=ValueKind(kind), total=exact, **columns)


def _row(*, document_id: str, extraction_id: str, kind: str | None, page: Any, boxes: Any, **columns: Any) -> FieldRow:
    page, boxes = location_in(page, boxes)
    return FieldRow(
        document_id=UUID(document_id),
        extraction_id=UUID(extraction_id),
        kind=None if kind is None else ValueKind(kind),
        page=page,
        boxes=boxes,
        **columns,
    )


def _paths(query: FieldQuery) -> list[_QueriedPath]:
    found = [
        _QueriedPath(number, path, kinds, "aggregate")
        for number, (path, kinds) in enumerate(aggregated_paths(query).items())
    ]
    if query.group_by is not None and query.group_by.path is not None:
        kinds = _SCALARS if query.group_by.kind is GroupKind.FIELD else (ValueKind.DAY,)
        found.append(_QueriedPath(len(found), query.group_by.path, kinds, "group_by"))
    return found


def _statement(org_id: UUID, query: FieldQuery) -> tuple[Composed, dict[str, Any]]:
    parameters = Parameters()
    queried = _paths(query)
    aggregated = [path for path in queried if path.role == "aggregate"]
    statement = SQL(
        """with selected as materialized ({docs}),
        docs as materialized (
          select *, fits and copy = 1 as is_of_kind, copy > 1 and (fits or extraction_id is null) as is_duplicate
          from (
            select *, row_number() over content as copy, first_value(id) over content as counted_document_id
            from selected window content as (
              partition by coalesce(content_sha256, id::text)
              order by fits desc, extraction_id is null, created_at, id)) as ranked),
        matched as materialized (select * from docs where {matches}),
        found as materialized ({found}),
        keyed as materialized ({keyed}),
        cells as materialized ({cells}),
        names as (
          select key, min(shown collate "C") as shown, count(distinct shown collate "C") as spellings
          from keyed group by key),
        sizes as (
          select key, sum(documents)::bigint as documents from (
            {sizes} union all select distinct key, 0::bigint from cells) as s group by key),
        ranked as materialized (select * from (
          select s.key, coalesce(n.shown, s.key) as shown, coalesce(n.spellings, 0) as spellings, s.documents,
            row_number() over (order by {order}) as position
          from sizes as s left join names as n on n.key = s.key
          left join (select key, {rank} as rank from cells where number = 0 group by key) as r
            on r.key is not distinct from s.key
          ) as r where position <= {limit} or key is null),
        shown as ({shown})
        select
          (select jsonb_build_object(
             'of_kind', count(*) filter (where is_of_kind), 'matched', (select count(*) from matched),
             'no_extraction', count(*) filter (where status = 'ready' and is_unknown and not is_unfinished),
             'needs_review', count(*) filter (where status = 'ready' and is_unknown and is_unfinished),
             'reading', count(*) filter (where status = 'reading' and is_unknown),
             'failed', count(*) filter (where status = 'failed' and is_unknown),
             'other_types', count(*) filter (where extraction_id is not null and not fits and copy = 1),
             'duplicates', count(*) filter (where is_duplicate))
           from (select *, extraction_id is null and not is_duplicate as is_unknown from docs) as d) as documents,
          (select coalesce(jsonb_agg(to_jsonb(d)), '[]') from (
             select id as document_id, filename, counted_document_id from docs where is_duplicate
             order by created_at, id limit {duplicates}) as d) as duplicate_files,
          {conditions} as conditions,
          {coverage} as paths,
          (select count(*) from sizes) as groups_total,
          (select count(*) from (select from keyed group by document_id having count(distinct key) > 1) as several)
            as in_several_groups,
          (select coalesce(jsonb_agg(jsonb_build_object(
             'key', key, 'shown', shown, 'spellings', spellings, 'documents', documents) order by position), '[]')
           from ranked) as groups,
          (select coalesce(jsonb_agg(jsonb_build_object(
             'key', c.key, 'number', c.number, 'kind', c.kind, 'currency', c.currency, 'values', c.n,
             'total', c.total::text, 'minimum', coalesce(trim_scale(c.least)::text, to_char(c.first, 'YYYY-MM-DD')),
             'maximum', coalesce(trim_scale(c.most)::text, to_char(c.last, 'YYYY-MM-DD')))
             order by c.number, c.kind, c.n desc, c.currency), '[]')
           from cells as c join ranked as r on r.key is not distinct from c.key) as cells,
          (select coalesce(jsonb_agg(to_jsonb(t) - 'position' order by position), '[]') from (
             select t.position, t.document_id, t.filename, t.extraction_id, t.name as path, t.text as value, t.kind,
               t.currency, t.is_verified, e.evidence -> t.name -> 'page' as page,
               e.evidence -> t.name -> 'boxes' as boxes
             from shown as t
             cross join lateral (select evidence from public.extractions where id = t.extraction_id offset 0) as e
             ) as t) as rows,
          ({rows_total}) as rows_total"""
    ).format(
        docs=_documents(org_id, query, parameters),
        matches=_matches(query),
        found=_matching_documents(query, queried, parameters),
        keyed=_keyed(query.group_by, queried),
        cells=_cells(query, aggregated),
        sizes=_sizes(query.group_by),
        order=SQL(_order(query.group_by)),
        rank=SQL(_rank(query)),
        limit=parameters.add(query.limit, "bigint"),
        duplicates=parameters.add(MAX_DUPLICATES, "bigint"),
        shown=_shown(query, aggregated, parameters),
        conditions=_condition_coverage(query),
        coverage=_path_coverage(queried, parameters),
        rows_total=SQL(
            "select count(*) from found where is_usable and number < {}"
            if aggregated
            else "select count(*) from matched"
        ).format(parameters.add(len(aggregated), "integer")),
    )
    return statement, parameters.values


def _documents(org_id: UUID, query: FieldQuery, parameters: Parameters) -> Composed:
    """Select the documents that meet the conditions on documents. For each condition on a field, count the values
    (`c0_n`) and those that are unverified, counted, comparable (`usable`), and meet the condition (`hits`)."""
    is_of_kind = SQL(" and ").join([SQL("e.id is not null"), *type_conditions(query.where, parameters)])
    columns, joins = list[Composed](), list[Composed]()
    for number, condition in enumerate(query.where.fields):
        comparison = FieldComparison(condition, parameters)
        counted = SQL("true") if query.include_unverified else SQL("v.is_verified")
        alias = Identifier(f"c{number}")
        joins.append(
            SQL(
                """left join lateral (
                     select count(*) as n, count(*) filter (where not v.is_verified) as unverified,
                       count(*) filter (where {counted}) as counted,
                       count(*) filter (where {counted} and {comparable}) as usable,
                       count(*) filter (where {counted} and {comparable} and {holds}) as hits
                     from {values} as v) as {alias} on {is_of_kind}"""
            ).format(
                counted=counted,
                comparable=comparison.is_comparable,
                holds=comparison.holds,
                values=values_at(condition.pattern, parameters),
                alias=alias,
                is_of_kind=is_of_kind,
            )
        )
        columns += [
            SQL("{}.{} as {}").format(alias, Identifier(name), Identifier(f"c{number}_{name}")) for name in _COUNTS
        ]
    return SQL(
        "select {columns} from {source} {joins} where {where}",
    ).format(
        columns=SQL(", ").join(
            [
                SQL(
                    "d.id, d.filename, d.created_at, d.status, d.content_sha256, e.id as extraction_id, "
                    "e.document_type, e.id is null and exists (select from public.extractions as x "
                    "where x.document_id = d.id and x.status <> 'failed') as is_unfinished"
                ),
                SQL("({}) as fits").format(is_of_kind),
                *columns,
            ]
        ),
        source=source_of(query.where, parameters),
        joins=SQL(" ").join(joins),
        where=SQL(" and ").join(document_conditions(query.where, parameters, org_id)),
    )


_COUNTS: Final = ("n", "unverified", "counted", "usable", "hits")


def _matches(query: FieldQuery) -> Composed:
    conditions = [Composed([SQL("is_of_kind")])]
    for number, condition in enumerate(query.where.fields):
        n, usable, hits = (Identifier(f"c{number}_{name}") for name in ("n", "usable", "hits"))
        match condition.op:
            case FilterOp.MISSING:
                conditions.append(SQL("{} = 0").format(n))
            case FilterOp.NE:
                conditions.append(SQL("{} > 0 and {} = 0").format(usable, hits))
            case _:
                conditions.append(SQL("{} > 0").format(hits))
    return SQL(" and ").join(conditions)


def _matching_documents(query: FieldQuery, queried: Sequence[_QueriedPath], parameters: Parameters) -> Composed:
    """Select every value at the queried paths in the matching documents."""
    parts = [
        SQL(
            """select m.id as document_id, {number} as number, v.path as name, v.indexes as at, v.is_verified,
                 v.currency, v.kind, v.number as amount, v.day, {text} as text,
                 {counted} as is_counted, {counted} and v.kind = any ({kinds}) as is_usable
               from matched as m cross join lateral {values} as v"""
        ).format(
            number=parameters.add(one.number, "integer"),
            text=SQL(_SHOWN_TEXT),
            counted=SQL("true") if query.include_unverified else SQL("v.is_verified"),
            kinds=parameters.add([str(kind) for kind in one.kinds], "text[]"),
            values=values_at(paths.parse_pattern(one.path), parameters, "m.extraction_id"),
        )
        for one in queried
    ]
    nothing = SQL(
        """select null::uuid as document_id, null::integer as number, null::text as name, null::integer[] as at,
             null::boolean as is_verified, null::text as currency, null::text as kind, null::numeric as amount,
             null::date as day, null::text as text, null::boolean as is_counted, null::boolean as is_usable
           where false"""
    )
    return SQL(" union all ").join(parts) if parts else Composed([nothing])


def _keyed(group_by: GroupBy | None, queried: Sequence[_QueriedPath]) -> Composed:
    """Select the group keys of documents or of their list items. `at` holds the indexes of the items with the key."""
    if group_by is None:
        return Composed([SQL(_NO_KEYS)])
    if group_by.kind is GroupKind.DOCUMENT_TYPE:
        return Composed([SQL(_BY_TYPE)])
    if group_by.kind is GroupKind.TAG:
        return Composed([SQL(_BY_TAG)])
    return SQL(
        f"select document_id, at, {folded('{key}')} as key, {{key}} as shown from found where number = {{number}} "
        "and is_usable"
    ).format(key=SQL(_KEYS[group_by.kind]), number=queried[-1].number)


_KEYS: Final[Mapping[GroupKind, LiteralString]] = {
    GroupKind.FIELD: "text",
    GroupKind.MONTH: "to_char(day, 'YYYY-MM')",
    GroupKind.YEAR: "to_char(day, 'YYYY')",
}
_NO_KEYS: Final[LiteralString] = """
  select null::uuid as document_id, null::integer[] as at, null::text as key, null::text as shown where false"""
_BY_TYPE: Final[LiteralString] = f"""
  select id as document_id, array[]::integer[] as at, {folded("document_type")} as key, document_type as shown
  from matched where document_type is not null"""
_BY_TAG: Final[LiteralString] = f"""
  select m.id as document_id, array[]::integer[] as at, {folded("t.name")} as key, t.name as shown
  from matched as m join public.document_tags as has on has.document_id = m.id
  join public.tags as t on t.id = has.tag_id and t.deleted_at is null"""


def _cells(query: FieldQuery, aggregated: Sequence[_QueriedPath]) -> Composed:
    """Select the figures of each group. A value belongs to the group whose key is in the same list items, for the
    lists that both paths share."""
    path = query.group_by.path if query.group_by is not None else None
    group = () if path is None else paths.parse_pattern(path)
    parts = [
        SQL(
            """select k.key, f.number, f.kind, f.currency, count(*) as n, sum(f.amount) as total,
                 min(f.amount) as least, max(f.amount) as most, min(f.day) as first, max(f.day) as last
               from (select *, at[:{shared}] as of_items from found where number = {number} and is_usable) as f
               left join (select distinct document_id, at[:{shared}] as of_items, key from keyed) as k
                 on k.document_id = f.document_id and k.of_items = f.of_items
               group by k.key, f.number, f.kind, f.currency"""
        ).format(shared=paths.shared_lists(paths.parse_pattern(one.path), group), number=one.number)
        for one in aggregated
    ]
    nothing = SQL(
        """select null::text as key, null::integer as number, null::text as kind, null::text as currency,
             null::bigint as n, null::numeric as total, null::numeric as least, null::numeric as most,
             null::date as first, null::date as last where false"""
    )
    return SQL(" union all ").join(parts) if parts else Composed([nothing])


def _sizes(group_by: GroupBy | None) -> SQL:
    if group_by is None:
        return SQL("select null::text as key, count(*) as documents from matched")
    return SQL(
        """select k.key, count(*) as documents
           from matched as m left join (select distinct document_id, key from keyed) as k on k.document_id = m.id
           group by k.key"""
    )


def _order(group_by: GroupBy | None) -> LiteralString:
    """Order months and years by date and other groups by figure, largest first. The group without a key comes last."""
    if group_by is not None and group_by.kind in (GroupKind.MONTH, GroupKind.YEAR):
        return 's.key collate "C" nulls last'
    return 's.key is null, r.rank desc nulls last, s.documents desc, s.key collate "C"'


def _rank(query: FieldQuery) -> LiteralString:
    """Return the figure that groups are ordered by: that of the first aggregate, if it has a path."""
    first = query.aggregates[0] if query.aggregates else None
    if first is None or first.path is None:
        return "null::numeric"
    return _RANKS[first.op]


_RANKS: Final[Mapping[AggregateOp, LiteralString]] = {
    AggregateOp.COUNT: "sum(n)",
    AggregateOp.SUM: "max(total)",
    AggregateOp.MIN: "max(least)",
    AggregateOp.MAX: "max(most)",
    AggregateOp.AVG: "max(total / n)",
}


def _shown(query: FieldQuery, aggregated: Sequence[_QueriedPath], parameters: Parameters) -> Composed:
    """Select the first rows behind the figures: the aggregated values, else the values that met the conditions, else
    the documents."""
    most = parameters.add(MAX_ROWS, "bigint")
    if aggregated:
        return SQL(
            """select row_number() over (order by {order}) as position, m.id as document_id, m.filename,
                 m.extraction_id, f.name, f.text, f.kind, f.currency, f.is_verified
               from found as f join matched as m on m.id = f.document_id
               where f.is_usable and f.number < {count} order by {order} limit {most}"""
        ).format(
            order=SQL("m.created_at desc, m.id, f.number, f.at"),
            count=parameters.add(len(aggregated), "integer"),
            most=most,
        )
    shown = [condition for condition in query.where.fields if condition.op is not FilterOp.MISSING]
    counted = SQL("true") if query.include_unverified else SQL("v.is_verified")
    parts = [
        SQL("select {}::integer as condition, v.* from {} as v where {} and {} and {}").format(
            number,
            values_at(condition.pattern, parameters, "m.extraction_id"),
            counted,
            (comparison := FieldComparison(condition, parameters)).is_comparable,
            SQL("not {}").format(comparison.holds) if condition.op is FilterOp.NE else comparison.holds,
        )
        for number, condition in enumerate(shown)
    ]
    values = SQL(" union all ").join(parts or [SQL("select 0 as condition, v.* from public.fields as v where false")])
    return SQL(
        """select row_number() over (order by {order}) as position, m.id as document_id, m.filename, m.extraction_id,
             v.path as name, {text} as text, v.kind, v.currency, v.is_verified
           from (select * from matched order by created_at desc, id limit {most}) as m
           left join lateral ({values}) as v on true
           order by {order} limit {most}"""
    ).format(
        text=SQL(_SHOWN_TEXT),
        order=SQL("m.created_at desc, m.id, v.condition, v.indexes"),
        most=most,
        values=values,
    )


_SHOWN_TEXT: Final[LiteralString] = "coalesce(trim_scale(v.number)::text, left(v.text, 500))"


def _condition_coverage(query: FieldQuery) -> Composed:
    """Count, for each condition on a field, the documents of the type and the values that can be compared."""
    parts = [
        SQL(
            """(select jsonb_build_object(
                 'documents', count(*),
                 'have', count(*) filter (where {usable} > 0),
                 'lack', count(*) filter (where {n} = 0),
                 'unverified', count(*) filter (where {n} > 0 and {counted} = 0),
                 'unusable', count(*) filter (where {counted} > 0 and {usable} = 0),
                 'values', coalesce(sum({n}), 0)::bigint,
                 'values_unverified', coalesce(sum({unverified}), 0)::bigint,
                 'values_unusable', coalesce(sum({counted} - {usable}), 0)::bigint)
               from docs where is_of_kind)"""
        ).format(**{name: Identifier(f"c{number}_{name}") for name in _COUNTS})
        for number in range(len(query.where.fields))
    ]
    return SQL("jsonb_build_array({})").format(SQL(", ").join(parts))


def _path_coverage(queried: Sequence[_QueriedPath], parameters: Parameters) -> Composed:
    """Count, for each queried path, the matching documents and values that have it, lack it, or cannot be used."""
    part = """(select jsonb_build_object(
                 'documents', (select count(*) from matched),
                 'have', count(*) filter (where usable > 0),
                 'lack', (select count(*) from matched) - count(*),
                 'unverified', count(*) filter (where counted = 0),
                 'unusable', count(*) filter (where counted > 0 and usable = 0),
                 'values', coalesce(sum(n), 0)::bigint,
                 'values_unverified', coalesce(sum(unverified), 0)::bigint,
                 'values_unusable', coalesce(sum(counted - usable), 0)::bigint)
               from (
                 select count(*) as n, count(*) filter (where not is_verified) as unverified,
                   count(*) filter (where is_counted) as counted, count(*) filter (where is_usable) as usable
                 from found where number = {} group by document_id) as of_document)"""
    return SQL("jsonb_build_array({})").format(
        SQL(", ").join(SQL(part).format(parameters.add(one.number, "integer")) for one in queried)
    )
