"""Document filters as SQL conditions. They are composed of constant SQL; every value, path and name is a parameter.

The conditions apply to the rows of `source_of`: `d` is a document and `e` its extraction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.sql import SQL, Composable, Composed

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition, FilterOp
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.stores.rows import value_of

_SOURCE: Final[LiteralString] = """public.documents as d left join lateral (
    select * from public.current_extractions where document_id = d.id) as e on true"""
_COLUMNS: Final[LiteralString] = """id, document_id, created_at, updated_at, document_type, schema_revid, version,
    extracted_fields, evidence, locks, status, review_count, reviewed_by"""
# If the stack has a table, the extractions are those in its rows: duplicates have none.
_STACK_SOURCE: Final[LiteralString] = f"""public.documents as d left join lateral (
    select {_COLUMNS} from private.schema_extractions
    where schema_id = (select schema_id from public.stack_tables where stack_id = {{stack_id}})
      and document_id = d.id and not exists (
        select from private.stack_copies as s where s.stack_id = {{stack_id}} and s.org_id = d.org_id
          and s.content_sha256 = d.content_sha256 and s.document_id = d.id and s.first_copy <> d.id)
    union all
    select {_COLUMNS} from public.current_extractions
    where document_id = d.id and not exists (select from public.stack_tables where stack_id = {{stack_id}})
  ) as e on true"""


@dataclass(slots=True)
class Parameters:
    """Collects the parameters of a statement and names them `f0`, `f1`, …"""

    values: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, value: object, kind: LiteralString) -> Composed:
        """Add a value and return its placeholder, cast to the Postgres type `kind`."""
        name = f"f{len(self.values)}"
        self.values[name] = value
        return SQL("{}::{}").format(sql.Placeholder(name), SQL(kind))


def source_of(filters: DocumentFilters, parameters: Parameters) -> Composed:
    """Return a source of all documents, each with its current extraction if it has one, or with that of its row in the
    table of the stack that is filtered by."""
    if filters.stack_id is None:
        return Composed([SQL(_SOURCE)])
    return SQL(_STACK_SOURCE).format(stack_id=parameters.add(filters.stack_id, "uuid"))


def matching(filters: DocumentFilters, org_id: UUID) -> tuple[Composed, dict[str, Any]]:
    """Return a subquery for the ids of the matching documents, and its parameters."""
    parameters = Parameters()
    conditions = [
        *document_conditions(filters, parameters, org_id),
        *type_conditions(filters, parameters),
    ]
    for one in filters.fields:
        values = SQL("{} as v where true").format(values_at(one.pattern, parameters))
        # (A document without a current extraction never matches, not even `missing`.)
        conditions.append(SQL("(e.id is not null and {})").format(field_condition(one, values, parameters)))
    query = SQL("select d.id from {} where {}").format(source_of(filters, parameters), SQL(" and ").join(conditions))
    return query, parameters.values


async def count(conn: Connection, filters: DocumentFilters, org_id: UUID) -> int:
    query, parameters = matching(filters, org_id)
    return await value_of(conn, SQL("select count(*) from ({}) as found").format(query), parameters)


def document_conditions(
    filters: DocumentFilters, parameters: Parameters, org_id: UUID | None = None
) -> list[Composable]:
    """Return the conditions on the documents themselves, which also apply before a document is read."""
    conditions = list[Composable]()
    if org_id is not None:
        conditions.append(SQL("d.org_id = {}").format(parameters.add(org_id, "uuid")))
    if filters.document_ids:
        conditions.append(SQL("d.id = any ({})").format(parameters.add(list(filters.document_ids), "uuid[]")))
    if filters.stack_id is not None:
        stack = parameters.add(filters.stack_id, "uuid")
        conditions.append(
            SQL("d.id in (select document_id from public.stack_documents where stack_id = {})").format(stack)
        )
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
    return conditions


def folded(text: LiteralString) -> LiteralString:
    """Return an SQL expression for a text in lower case with single spaces."""
    return rf"lower(btrim(regexp_replace({text}, '\s+', ' ', 'g')))"


def type_conditions(filters: DocumentFilters, parameters: Parameters) -> list[Composed]:
    """Return the condition on the document type, which is a property of the extraction."""
    if filters.document_type is None:
        return []
    document_type = parameters.add(filters.document_type, "text")
    return [SQL(f"{folded('e.document_type')} = {folded('{}')}").format(document_type)]


def field_condition(condition: FieldCondition, values: Composed, parameters: Parameters) -> Composed:
    """Return the condition on a field. `values`: the values to which it applies, `… as v where …`."""
    comparison = FieldComparison(condition, parameters)
    if condition.op is FilterOp.MISSING:
        return SQL("not exists (select from {})").format(values)
    if condition.op is FilterOp.NE:
        return SQL(
            """(exists (select from {values} and {usable})
                and not exists (select from {values} and {usable} and {equal}))"""
        ).format(values=values, usable=comparison.is_comparable, equal=comparison.holds)
    return SQL("exists (select from {} and {} and {})").format(values, comparison.is_comparable, comparison.holds)


class FieldComparison:
    """A comparison of a row `v` of `fields` as SQL. `is_comparable`: the value has a suitable type. `holds`: the
    comparison is true (for `!=`, the values are equal)."""

    __slots__ = ("holds", "is_comparable")

    def __init__(self, condition: FieldCondition, parameters: Parameters) -> None:
        op, value = condition.op, condition.value
        sign = SQL(_SIGNS[op]) if op in _SIGNS else SQL("=")
        self.is_comparable: Composed
        self.holds: Composed
        if not op.takes_value:
            self.is_comparable = self.holds = Composed([SQL("true")])
        elif isinstance(value, bool):
            self.is_comparable = Composed([SQL("v.kind = 'boolean'")])
            self.holds = SQL("(v.kind = 'boolean' and v.text = {}::text)").format(parameters.add(value, "boolean"))
        elif isinstance(value, Decimal):
            self.is_comparable = Composed([SQL("v.kind = 'number'")])
            self.holds = SQL("coalesce(v.number {} {}, false)").format(sign, parameters.add(value, "numeric"))
        elif op.is_ordering:
            self.is_comparable = Composed([SQL("v.kind = 'day'")])
            self.holds = SQL("coalesce(v.day {} {}, false)").format(sign, parameters.add(value, "date"))
        else:
            self.is_comparable = Composed([SQL("v.kind <> 'container'")])
            form = "(position({} in {}) > 0)" if op is FilterOp.CONTAINS else "({} = {})"
            given = SQL(folded("{}")).format(parameters.add(value, "text"))
            self.holds = SQL(form).format(given, SQL(folded("v.text")))


_SIGNS: Final[dict[FilterOp, LiteralString]] = {
    FilterOp.LT: "<",
    FilterOp.LE: "<=",
    FilterOp.GT: ">",
    FilterOp.GE: ">=",
}


def values_at(pattern: Pattern, parameters: Parameters, extraction_id: LiteralString = "e.id") -> Composed:
    """Return a subquery for the values of an extraction at a pattern: rows of `fields`. The caller adds an alias."""
    return SQL("({} and kind <> 'blank')").format(fields_at(pattern, parameters, extraction_id))


def fields_at(pattern: Pattern, parameters: Parameters, extraction_id: LiteralString = "e.id") -> Composed:
    """Return a query for the fields of an extraction at a pattern, also for those without a value."""
    lists = [step for step in pattern if not isinstance(step, str)]
    without_indexes = parameters.add(paths.name([step if isinstance(step, str) else EACH for step in pattern]), "text")
    fixed = [
        SQL("indexes[{}] = {}").format(position, parameters.add(step, "integer"))
        for position, step in enumerate(lists, 1)
        if isinstance(step, int)
    ]
    return SQL("select * from public.fields where extraction_id = {} and pattern_key = md5({})::uuid{}").format(
        SQL(extraction_id), without_indexes, Composed([SQL(" and ") + one for one in fixed])
    )
