"""Tools that compute: a calculator, and queries over the extracted fields."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, JsonValue

from fieldmark.agents.library.question import Question
from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnswerCoverage, FieldCoverage, Source
from fieldmark.domain.calculator import MAX_CHARACTERS, calculate
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.domain.field_query import (
    MAX_AGGREGATES,
    Aggregate,
    Coverage,
    FieldAnswer,
    FieldQuery,
    GroupBy,
    ValueKind,
)
from fieldmark.services.field_queries import query
from fieldmark.services.filter_intersection import intersect
from fieldmark.stores import known_fields
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.fields import cut
from fieldmark.tools.toolset import ShownResult, ToolEffect, ToolInput, ToolResult, tool

MOST_GROUPS: Final = 50
MOST_SOURCES: Final = 20
_ROOM: Final = 14_000
_FIELDS_ROOM: Final = 6_000


class Calculator(ToolInput):
    """Calculate exactly, with decimals: + - * / % ^, parentheses, sum, min, max, avg, round. Numbers are written as
    1234.5, without separators."""

    expression: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]


class QueryFields(ToolInput):
    """Query the extracted fields of all documents: counts, sums, minima, maxima, averages, optionally in groups. Only
    values that were found on the page or confirmed by a person count. A count without a path counts documents. The
    result names its coverage and the locations of its values. Paths: total, vendor.name, items[].price. If no document
    has a path, the result lists the existing paths."""

    where: DocumentFilters = DocumentFilters()
    aggregates: Annotated[tuple[Aggregate, ...], Field(max_length=MAX_AGGREGATES)] = ()
    group_by: GroupBy | None = None


class CalculationTools:
    """Tools that compute figures for a question."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.context = question.context

    @tool(QueryFields, lambda args: f"Computing {query_text(args)[:200]}", ToolEffect.NOTE, is_independent=True)
    async def query_fields(self, conn: Connection, args: QueryFields) -> ToolResult:
        said = query_text(args)
        where = intersect(self.question.filters, args.where)
        if where is None:
            raise ModelRetry(
                "These filters exclude all documents that the question is limited to. Use other filters.", "none_left"
            )
        asked = FieldQuery(where=where, aggregates=args.aggregates, group_by=args.group_by, limit=MOST_GROUPS)
        found = await query(conn, self.context.scope, asked)
        covers = answer_coverage(found.coverage, where.document_type)
        sources = [source.model_dump(mode="json") for source in _sources(found)]
        results = [str(found.coverage.matched)]
        groups: list[JsonValue] = []
        for group in found.groups:
            figures: list[JsonValue] = []
            for one in group.results:
                figures.append({"op": one.op.value, "path": one.path, "value": one.value, "currency": one.currency})
                results += [one.value] if one.kind is ValueKind.NUMBER else []
            results.append(str(group.documents))
            groups.append({"key": group.key, "documents": group.documents, "results": figures})
        data: dict[str, JsonValue] = {
            "searched": said,
            "expression": said,
            "matched": found.coverage.matched,
            "groups": cut(groups, _ROOM),
            "groups_total": found.groups_total,
            "in_several_groups": found.in_several_groups,
            "where": where.model_dump(mode="json", exclude_defaults=True),
            "group_by": None if args.group_by is None else args.group_by.model_dump(mode="json"),
            "results": list[JsonValue](dict.fromkeys(results)),
            "coverage": covers.model_dump(mode="json"),
            "is_complete": found.coverage.is_complete,
            "sources": cut(sources, _ROOM),
            "rows_total": found.rows_total,
        }
        text = f"{found.coverage.matched} documents match. Covers {covers.text}."
        if unknown := unknown_paths(found.coverage, args.where):
            there, data["fields"] = await available_fields(conn, self.question)
            text += f" No document searched has {', '.join(unknown)}. {there}"
        if found.in_several_groups:
            text += f" {found.in_several_groups} documents are in several groups: the groups do not add up."
        if left := found.groups_total - len(found.groups):
            text += f" {left} more groups are not listed. The listed groups do not add up to all."
        details: dict[str, JsonValue] = {"matched": found.coverage.matched, "groups": data["groups"]}
        shown = ShownResult(
            f"Computed {said[:200]}", details, "\n".join([text, *_lines(found, is_grouped=args.group_by is not None)])
        )
        return ToolResult(text, "computed", data, shown=shown)

    @tool(Calculator, lambda args: f"Computing {args.expression[:100]}", ToolEffect.NOTE, is_independent=True)
    async def calculator(self, conn: Connection, args: Calculator) -> ToolResult:
        found = calculate(args.expression)
        about = " (rounded)" if found.is_rounded else ""
        text = f"{found.expression} = {found.text}{about}"
        data: dict[str, JsonValue] = {
            "expression": found.expression,
            "results": [found.text],
            "is_rounded": found.is_rounded,
        }
        return ToolResult(text, "calculated", data, shown=ShownResult(f"Computed {text[:200]}", data))


def unknown_paths(found: Coverage, where: DocumentFilters) -> list[str]:
    """Return the queried paths, or the document type, that no document has."""
    if found.of_kind == 0:
        return [f"the type {where.document_type}"] if where.document_type else []
    return list(dict.fromkeys(path.path for path in found.paths if path.documents and path.lack == path.documents))


async def available_fields(conn: Connection, question: Question) -> tuple[str, JsonValue]:
    """Return the fields that can be queried, the most common of each type first, and a sentence about them."""
    known = await known_fields.list_known_fields(
        conn, question.context.scope.org_id, question.filters or DocumentFilters()
    )
    fields: list[JsonValue] = [
        {
            "document_type": one.document_type,
            "path": one.path,
            "documents": one.documents,
            "kinds": [kind.value for kind in one.kinds],
        }
        for one in known.fields
    ]
    return f"The fields of the newest {known.looked_at} documents are listed.", cut(fields, _FIELDS_ROOM)


def query_text(args: QueryFields) -> str:
    """Return a field query in words.

    >>> query_text(QueryFields(aggregates=(Aggregate(op="sum", path="total"),), group_by=GroupBy(path="vendor")))
    'sum of total by vendor'
    """
    figures = [one.op if one.path is None else f"{one.op} of {one.path}" for one in args.aggregates] or ["count"]
    said = ", ".join(figures)
    if args.group_by is not None:
        said += f" by {args.group_by.path or args.group_by.kind}"
        said += "" if args.group_by.path is None or args.group_by.kind == "field" else f" ({args.group_by.kind})"
    conditions = [f"{one.path} {one.op} {'' if one.value is None else one.value}".strip() for one in args.where.fields]
    conditions += [] if args.where.document_type is None else [f"type {args.where.document_type}"]
    conditions += [f"tag {tag}" for tag in args.where.tags]
    conditions += [] if args.where.filename is None else [f"name contains {args.where.filename}"]
    return (f"{said} where {' and '.join(conditions)}" if conditions else said)[:500]


def answer_coverage(found: Coverage, document_type: str | None) -> AnswerCoverage:
    """Return the coverage of a field query, in numbers and words."""
    kind = f"documents of type {document_type}" if document_type else "documents"
    without = found.no_extraction + found.reading + found.failed
    unknown = without + found.needs_review
    asked = {path.path: path for path in reversed(found.paths) if path.documents}.values()  # of all before of some
    parts = [f"{path.path} in {path.have} of {path.documents} {kind}" for path in reversed(asked)]
    text = "; ".join(parts) or f"{found.matched} of {found.of_kind} {kind}"
    if unknown:
        left_out = {"with an incomplete extraction": found.needs_review, "without extracted fields": without}
        text += (
            f"; documents not counted: {', '.join(f'{number} {what}' for what, number in left_out.items() if number)}"
        )
    if found.other_types:
        text += f"; documents of other types: {found.other_types}"
    if found.duplicates:  # (No names: the numbers in this text count as proven.)
        text += f"; byte-identical copies counted once: {found.duplicates}"
    duplicates = [one.filename for one in found.duplicate_files]
    have = min((path.have for path in asked), default=found.matched)
    return AnswerCoverage(
        documents=found.of_kind,
        with_field=have,
        not_read=unknown,
        text=text,
        document_type=document_type,
        fields=[FieldCoverage(path=one.path, have=one.have, documents=one.documents) for one in reversed(asked)],
        to_review=found.needs_review,
        without_fields=without,
        other_types=found.other_types,
        copies=found.duplicates,
        duplicates=duplicates,
    )


def _lines(found: FieldAnswer, *, is_grouped: bool) -> list[str]:
    """Return the figures as text, one line per group: `ACME: sum of total = 1234.50 EUR, documents = 3`."""
    lines: list[str] = []
    for group in found.groups:
        figures = [
            f"{one.op}{'' if one.path is None else f' of {one.path}'} = {one.value} {one.currency or ''}".strip()
            for one in group.results
        ]
        name = "(none)" if group.key is None else group.key
        lines.append((f"{name}: " if is_grouped else "") + ", ".join([*figures, f"documents = {group.documents}"]))
    return lines


def _sources(found: FieldAnswer) -> list[Source]:
    """Return the locations of the values. Values that no page shows are left out."""
    rows = [row for row in found.rows if row.page is not None][:MOST_SOURCES]
    return [
        Source(
            number=number,
            document_id=row.document_id,
            filename=row.filename,
            page=row.page or 1,
            boxes=[(box[0], box[1], box[2], box[3]) for box in row.boxes],
            quote=row.value or "",
        )
        for number, row in enumerate(rows, 1)
    ]
