"""Filters of documents as SQL. Every value, path and name in it is a parameter; what is composed are fixed pieces.

The pieces stand beside `d`, a document, and `e`, its current extraction (`SOURCE`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.sql import SQL, Composable, Composed

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition, FilterOp
from fieldmark.domain.paths import Each, Pattern
from fieldmark.stores.rows import value_of

SOURCE: Final[LiteralString] = "public.documents as d left join lateral private.current_extraction(d.id) as e on true"
"""A row for each document, with its current extraction if it has one."""

_NOTHING: Final[Mapping[str, str]] = {}
_DAY: Final[LiteralString] = "'^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)'"


@dataclass(slots=True)
class Parameters:
    """The values of a statement, by names of their own: `f0`, `f1`, …"""

    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, value: object, kind: LiteralString) -> Composed:
        """A placeholder for a value, as a type of Postgres."""
        name = f"f{len(self.values)}"
        self.values[name] = value
        return SQL("{}::{}").format(sql.Placeholder(name), SQL(kind))


def where(filters: DocumentFilters, org_id: UUID) -> tuple[Composed, dict[str, Any]]:
    """A condition on the rows of `SOURCE`, and its parameters."""
    parameters = Parameters()
    conditions = [
        of_documents(filters, org_id, parameters),
        *of_type(filters, parameters),
        *(of_field(condition, parameters) for condition in filters.fields),
    ]
    return SQL(" and ").join(conditions), parameters.values


def matching(filters: DocumentFilters, org_id: UUID) -> tuple[Composed, dict[str, Any]]:
    """A statement that answers the ids of the documents, to stand behind `document_id in (…)`, and its parameters."""
    condition, parameters = where(filters, org_id)
    return SQL("select d.id from {} where {}").format(SQL(SOURCE), condition), parameters


async def count(conn: Connection, filters: DocumentFilters, org_id: UUID) -> int:
    """How many documents of the organisation the filters leave."""
    query, parameters = matching(filters, org_id)
    return await value_of(conn, SQL("select count(*) from ({}) as found").format(query), parameters)


def of_documents(filters: DocumentFilters, org_id: UUID, parameters: Parameters) -> Composed:
    """What is asked of the documents themselves, whether they were read or not."""
    conditions: list[Composable] = [SQL("d.org_id = {}").format(parameters.add(org_id, "uuid"))]
    if filters.document_ids:
        conditions.append(SQL("d.id = any ({})").format(parameters.add(list(filters.document_ids), "uuid[]")))
    conditions += [
        SQL(
            """d.id in (
                 select has.document_id from public.tags as t join public.document_tags as has on has.tag_id = t.id
                 where t.org_id = d.org_id and lower(t.name) = lower({}) and t.deleted_at is null)"""
        ).format(parameters.add(tag, "text"))
        for tag in dict.fromkeys(filters.tags)
    ]
    if filters.filename is not None:
        name = parameters.add(filters.filename, "text")
        conditions.append(SQL("position(lower({}) in lower(d.filename)) > 0").format(name))
    if filters.uploaded_after is not None:
        conditions.append(SQL("d.created_at >= {}").format(parameters.add(filters.uploaded_after, "timestamptz")))
    if filters.uploaded_before is not None:
        conditions.append(SQL("d.created_at < {}").format(parameters.add(filters.uploaded_before, "timestamptz")))
    return SQL(" and ").join(conditions)


def of_type(filters: DocumentFilters, parameters: Parameters) -> list[Composed]:
    """What is asked of the document's type, which the extraction tells."""
    if filters.document_type is None:
        return []
    wanted = parameters.add(filters.document_type, "text")
    return [SQL("private.folded(e.document_type) = private.folded({})").format(wanted)]


def of_field(condition: FieldCondition, parameters: Parameters) -> Composed:
    """What is asked of a field. Of a document without a current extraction nothing is known, not even what it lacks."""
    test = Test(condition, parameters)
    values = values_at(condition.pattern, parameters)
    if condition.op is FilterOp.MISSING:
        return SQL("(e.id is not null and not exists (select from {} as v))").format(values)
    counted = test.is_comparable
    if condition.op is FilterOp.NE:
        return SQL(
            "(exists (select from {values} as v where {counted}) "
            "and not exists (select from {values} as v where {counted} and {equal}))"
        ).format(values=values, counted=counted, equal=test.holds)
    return SQL("exists (select from {} as v where {} and {})").format(values, counted, test.holds)


class Test:
    """What is asked of one value `v.value`: whether it can be compared at all, and whether the comparison holds; of
    `!=` whether the two are equal. `holds` is safe for any value: what cannot be compared is not cast."""

    __slots__ = ("holds", "is_comparable")

    def __init__(self, condition: FieldCondition, parameters: Parameters) -> None:
        op, value = condition.op, condition.value
        sign = SQL(_SIGNS[op]) if op in _SIGNS else SQL("=")
        text: LiteralString = "v.value #>> '{}'"
        self.is_comparable: Composed
        self.holds: Composed
        if not op.takes_value:
            self.is_comparable = self.holds = Composed([SQL("true")])
        elif isinstance(value, bool):
            self.is_comparable = Composed([SQL("jsonb_typeof(v.value) = 'boolean'")])
            self.holds = SQL("v.value = to_jsonb({})").format(parameters.add(value, "boolean"))
        elif isinstance(value, Decimal):
            self.is_comparable = Composed([SQL("jsonb_typeof(v.value) = 'number'")])
            self.holds = SQL(
                "case jsonb_typeof(v.value) when 'number' then v.value::numeric {} {} else false end"
            ).format(sign, parameters.add(value, "numeric"))
        elif op.is_ordering:
            self.is_comparable = Composed([SQL(is_day("v.value"))])
            # (Days are compared as they are written: 2024-02-31 is none, and could not be cast.)
            self.holds = SQL('({} and left({}, 10) collate "C" {} {} collate "C")').format(
                SQL(is_day("v.value")), SQL(text), sign, parameters.add(value, "text")
            )
        else:
            self.is_comparable = Composed([SQL("jsonb_typeof(v.value) in ('string', 'number', 'boolean')")])
            given = SQL("private.folded({})").format(parameters.add(value, "text"))
            form = (
                "position({1} in private.folded({0})) > 0" if op is FilterOp.CONTAINS else "private.folded({0}) = {1}"
            )
            self.holds = SQL("({})").format(SQL(form).format(SQL(text), given))


_SIGNS: Final[dict[FilterOp, LiteralString]] = {
    FilterOp.LT: "<",
    FilterOp.LE: "<=",
    FilterOp.GT: ">",
    FilterOp.GE: ">=",
}


def is_day(value: LiteralString) -> LiteralString:
    """Whether a JSON value is written as a day, or as a moment of one."""
    return f"(jsonb_typeof({value}) = 'string' and {value} #>> '{{}}' ~ {_DAY})"


def values_at(
    pattern: Pattern,
    parameters: Parameters,
    *,
    currency_keys: Sequence[str] = (),
    symbols: Mapping[str, str] = _NOTHING,
) -> Composed:
    """The values of `e.extracted_fields` at a pattern, blanks left out: `(select name, at, value, is_verified)`. `at`
    are the numbers of the items that the path goes through, from 1. With `currency_keys` there is `currency` too: what
    stands under one of them beside the value, or else in an object around it. An object or a list is on no page, but
    what is in it: so it counts as verified. Wants to be given an alias.

    A key is looked for in objects only and an item in lists only: `->` with a text, and with an integer. (`#>` would
    take the key "0" of a list.)
    """
    source: Composable = SQL("seen.fields")
    name: Composable | None = None
    items: list[Composed] = []
    around: list[Composable] = []
    begun = 0
    for position, step in enumerate(pattern):
        if isinstance(step, Each):
            alias = sql.Identifier(f"i{len(items)}")
            items.append(
                SQL(
                    "jsonb_array_elements(case jsonb_typeof({0}) when 'array' then {0} else '[]' end) "
                    "with ordinality as {1} (value, n)"
                ).format(source, alias)
            )
            piece = parameters.add(_piece(pattern, begun, position) + "[", "text")
            joined = piece if name is None else SQL("{} || {}").format(name, piece)
            name = SQL("{} || ({}.n - 1)").format(joined, alias)
            source = SQL("{}.value").format(alias)
            begun = position
        else:
            kind: LiteralString = "integer" if isinstance(step, int) else "text"
            if kind == "text":
                around.append(source)
            source = SQL("({} -> {})").format(source, parameters.add(step, kind))
    rest = parameters.add(_piece(pattern, begun, len(pattern)), "text")
    # What is stored compressed is unpacked once, and not for each item.
    is_once = bool(items or currency_keys)
    return SQL(
        """(select at.name, at.at, at.value, {currency} as currency,
              coalesce(seen.evidence -> at.name ->> 'state' = 'found', false) or seen.locks ? at.name
                or jsonb_typeof(at.value) in ('object', 'array') as is_verified
            from {seen} as seen
            cross join lateral (
              select {name} as name, array[{numbers}]::bigint[] as at, {value} as value, {said} as said {items}) as at
            where not private.is_blank(at.value))"""
    ).format(
        seen=SQL(_UNPACKED if is_once else _AS_STORED),
        name=rest if name is None else SQL("{} || {}").format(name, rest),
        numbers=SQL(", ").join(sql.Identifier(f"i{number}", "n") for number in range(len(items))),
        value=source,
        items=SQL("from {}").format(SQL(" cross join lateral ").join(items)) if items else SQL(""),
        said=_currency(pattern, around, currency_keys, parameters) if currency_keys else SQL("null::text"),
        currency=SQL("coalesce({} ->> at.said, at.said)").format(parameters.add(json.dumps(dict(symbols)), "jsonb"))
        if currency_keys
        else SQL("null::text"),
    )


_AS_STORED: Final[LiteralString] = "(select e.extracted_fields as fields, e.evidence, e.locks)"
_UNPACKED: Final[LiteralString] = """(
  select jsonb_path_query_first(e.extracted_fields, '$') as fields, jsonb_path_query_first(e.evidence, '$') as evidence,
    jsonb_path_query_first(e.locks, '$') as locks
  offset 0)"""


def _currency(pattern: Pattern, around: Sequence[Composable], keys: Sequence[str], parameters: Parameters) -> Composed:
    """What stands as the currency of a value, the nearest first, in capitals."""
    own = [f"{step}_currency" for step in pattern[-1:] if isinstance(step, str)]
    said: list[Composed] = []
    for depth, source in enumerate(reversed(around)):
        for key in [*own, *keys] if depth == 0 and own else keys:
            at = SQL("({} -> {})").format(source, parameters.add(key, "text"))
            said.append(
                SQL("case jsonb_typeof({0}) when 'string' then nullif(btrim({0} #>> '{{}}'), '') end").format(at)
            )
    return SQL("left(upper(coalesce({})), 20)").format(SQL(", ").join([*said, SQL("null")]))


def _piece(pattern: Pattern, begun: int, end: int) -> str:
    """The text of a path's name between two of its lists: `items[` and `].price` of `items[].price`."""
    whole, before = paths.name(pattern[:end]), paths.name(pattern[:begun])
    # (What stands behind a list begins with the bracket that closes its number.)
    return whole[len(before) + 1 :] if begun else whole
