"""Document filters as SQL conditions. They are composed of constant SQL; every value, path and name is a parameter.

The conditions apply to the rows of `SOURCE`: `d` is a document and `e` its current extraction.
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
"""All documents, each with its current extraction if it has one."""

_NO_SYMBOLS: Final[Mapping[str, str]] = {}
_DAY: Final[LiteralString] = "'^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)'"


@dataclass(slots=True)
class Parameters:
    """Collects the parameters of a statement and names them `f0`, `f1`, …"""

    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, value: object, kind: LiteralString) -> Composed:
        """Add a value and return its placeholder, cast to the Postgres type `kind`."""
        name = f"f{len(self.values)}"
        self.values[name] = value
        return SQL("{}::{}").format(sql.Placeholder(name), SQL(kind))


def where(filters: DocumentFilters, org_id: UUID) -> tuple[Composed, dict[str, Any]]:
    """Return a condition on the rows of `SOURCE`, and its parameters."""
    parameters = Parameters()
    conditions = [
        document_conditions(filters, org_id, parameters),
        *type_conditions(filters, parameters),
        *(field_condition(condition, parameters) for condition in filters.fields),
    ]
    return SQL(" and ").join(conditions), parameters.values


def matching(filters: DocumentFilters, org_id: UUID) -> tuple[Composed, dict[str, Any]]:
    """Return a subquery for the ids of the matching documents, and its parameters."""
    condition, parameters = where(filters, org_id)
    return SQL("select d.id from {} where {}").format(SQL(SOURCE), condition), parameters


async def count(conn: Connection, filters: DocumentFilters, org_id: UUID) -> int:
    query, parameters = matching(filters, org_id)
    return await value_of(conn, SQL("select count(*) from ({}) as found").format(query), parameters)


def document_conditions(filters: DocumentFilters, org_id: UUID, parameters: Parameters) -> Composed:
    """Return the conditions on the documents themselves, which also apply before a document is read."""
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


def type_conditions(filters: DocumentFilters, parameters: Parameters) -> list[Composed]:
    """Return the condition on the document type, which is a property of the extraction."""
    if filters.document_type is None:
        return []
    document_type = parameters.add(filters.document_type, "text")
    return [SQL("private.folded(e.document_type) = private.folded({})").format(document_type)]


def field_condition(condition: FieldCondition, parameters: Parameters) -> Composed:
    """Return the condition on a field. A document without a current extraction never matches, not even `missing`."""
    comparison = FieldComparison(condition, parameters)
    values = values_at(condition.pattern, parameters)
    if condition.op is FilterOp.MISSING:
        return SQL("(e.id is not null and not exists (select from {} as v))").format(values)
    counted = comparison.is_comparable
    if condition.op is FilterOp.NE:
        return SQL(
            "(exists (select from {values} as v where {counted}) "
            "and not exists (select from {values} as v where {counted} and {equal}))"
        ).format(values=values, counted=counted, equal=comparison.holds)
    return SQL("exists (select from {} as v where {} and {})").format(values, counted, comparison.holds)


class FieldComparison:
    """A comparison of one value `v.value` as SQL. `is_comparable`: the value has a suitable type. `holds`: the
    comparison is true (for `!=`, the values are equal). `holds` never raises: values of other types are not cast."""

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
            # (Compared as text: an invalid day such as 2024-02-31 could not be cast.)
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
    """Return a condition that is true if a JSON value is an ISO 8601 date or timestamp."""
    return f"(jsonb_typeof({value}) = 'string' and {value} #>> '{{}}' ~ {_DAY})"


def values_at(
    pattern: Pattern,
    parameters: Parameters,
    *,
    currency_keys: Sequence[str] = (),
    symbols: Mapping[str, str] = _NO_SYMBOLS,
) -> Composed:
    """Return a subquery for the values of `e.extracted_fields` at a pattern: `name, at, value, currency, is_verified`.

    Blanks are left out. `at` holds the 1-based indexes of the list items on the path. `currency` is null without
    `currency_keys`; otherwise it is the value of the nearest of these keys, beside the value or in an object around it.
    Objects and lists count as verified, because only the values in them are located on a page. The caller adds an
    alias.

    Keys are read with `-> text` and items with `-> integer`, since `#>` would also read the key "0" from a list.
    """
    source: Composable = SQL("seen.fields")
    name: Composable | None = None
    items: list[Composed] = []
    around: list[Composable] = []
    start = 0
    for position, step in enumerate(pattern):
        if isinstance(step, Each):
            alias = sql.Identifier(f"i{len(items)}")
            items.append(
                SQL(
                    "jsonb_array_elements(case jsonb_typeof({0}) when 'array' then {0} else '[]' end) "
                    "with ordinality as {1} (value, n)"
                ).format(source, alias)
            )
            segment = parameters.add(_segment(pattern, start, position) + "[", "text")
            joined = segment if name is None else SQL("{} || {}").format(name, segment)
            name = SQL("{} || ({}.n - 1)").format(joined, alias)
            source = SQL("{}.value").format(alias)
            start = position
        else:
            kind: LiteralString = "integer" if isinstance(step, int) else "text"
            if kind == "text":
                around.append(source)
            source = SQL("({} -> {})").format(source, parameters.add(step, kind))
    rest = parameters.add(_segment(pattern, start, len(pattern)), "text")
    # Decompress the stored JSON once, rather than once per item.
    is_once = bool(items or currency_keys)
    return SQL(
        """(select at.name, at.at, at.value, {currency} as currency,
              coalesce(seen.evidence -> at.name ->> 'state' = 'found', false) or seen.locks ? at.name
                or jsonb_typeof(at.value) in ('object', 'array') as is_verified
            from {seen} as seen
            cross join lateral (
              select {name} as name, array[{numbers}]::bigint[] as at, {value} as value,
                {own_currency} as currency {items}) as at
            where not private.is_blank(at.value))"""
    ).format(
        seen=SQL(_UNPACKED if is_once else _AS_STORED),
        name=rest if name is None else SQL("{} || {}").format(name, rest),
        numbers=SQL(", ").join(sql.Identifier(f"i{number}", "n") for number in range(len(items))),
        value=source,
        items=SQL("from {}").format(SQL(" cross join lateral ").join(items)) if items else SQL(""),
        own_currency=_currency(pattern, around, currency_keys, parameters) if currency_keys else SQL("null::text"),
        currency=SQL("coalesce({} ->> at.currency, at.currency)").format(
            parameters.add(json.dumps(dict(symbols)), "jsonb")
        )
        if currency_keys
        else SQL("null::text"),
    )


_AS_STORED: Final[LiteralString] = "(select e.extracted_fields as fields, e.evidence, e.locks)"
_UNPACKED: Final[LiteralString] = """(
  select jsonb_path_query_first(e.extracted_fields, '$') as fields, jsonb_path_query_first(e.evidence, '$') as evidence,
    jsonb_path_query_first(e.locks, '$') as locks
  offset 0)"""


def _currency(pattern: Pattern, around: Sequence[Composable], keys: Sequence[str], parameters: Parameters) -> Composed:
    """Return SQL for a value's currency in capitals: the nearest non-blank text under one of the keys."""
    own = [f"{step}_currency" for step in pattern[-1:] if isinstance(step, str)]
    found: list[Composed] = []
    for depth, source in enumerate(reversed(around)):
        for key in [*own, *keys] if depth == 0 and own else keys:
            at = SQL("({} -> {})").format(source, parameters.add(key, "text"))
            found.append(
                SQL("case jsonb_typeof({0}) when 'string' then nullif(btrim({0} #>> '{{}}'), '') end").format(at)
            )
    return SQL("left(upper(coalesce({})), 20)").format(SQL(", ").join([*found, SQL("null")]))


def _segment(pattern: Pattern, start: int, end: int) -> str:
    """Return the part of a path's name between two lists: `items` and `].price` for `items[].price`."""
    whole, before = paths.name(pattern[:end]), paths.name(pattern[:start])
    # (After a list, the segment begins with the bracket that closes the index.)
    return whole[len(before) + 1 :] if start else whole
