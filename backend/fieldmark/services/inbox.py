"""The inbox: one list of what waits for a person, newest first, or the questions by what a look is worth.

A question is a field of a document that needs review, with the status and reason that are stored with the field. The
other kinds are calls that wait for approval, suggested schemas, and files that could not be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final
from uuid import UUID

from pydantic import ConfigDict, Field

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import DocumentOrder, DocumentStage, RunStatus
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.stores import documents, inbox, runs
from fieldmark.stores.documents import DocumentListFilter
from fieldmark.stores.inbox import MAX_COUNT
from fieldmark.stores.paging import Cursor, ListPage, position_of
from fieldmark.stores.rows import ALL_REQUIRED, DocumentRow, Position
from fieldmark.stores.runs import RunFilter, RunRow
from fieldmark.stores.tool_calls import waiting_calls


class InboxKind(StrEnum):
    """VALUE a field of a document; APPROVAL a call that waits; SUGGESTION a suggested schema; FAILED a file that could
    not be read."""

    VALUE = "value"
    APPROVAL = "approval"
    SUGGESTION = "suggestion"
    FAILED = "failed"


class InboxOrder(StrEnum):
    """NEWEST by time of upload or start; VALUE of documents by what a look at their next question is worth."""

    NEWEST = "newest"
    VALUE = "value"


_STAGES: Final[Mapping[InboxKind, DocumentStage]] = {
    InboxKind.VALUE: DocumentStage.NEEDS_REVIEW,
    InboxKind.SUGGESTION: DocumentStage.PROPOSED,
    InboxKind.FAILED: DocumentStage.FAILED,
}


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """Filters of the inbox; None matches all. Items came from `since` (inclusive) to `until` (exclusive). `field` is
    the pattern of a field, such as `items[].price`: only questions match it."""

    kind: InboxKind | None = None
    schema_id: UUID | None = None
    stack_id: UUID | None = None
    created_by: UUID | None = None
    assignee_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    field: str | None = None

    @property
    def possible(self) -> list[InboxKind]:
        """Return the kinds that match the filters other than `kind`."""
        return list(InboxKind) if self.field is None else [InboxKind.VALUE]

    @property
    def kinds(self) -> list[InboxKind]:
        return [kind for kind in self.possible if self.kind in (None, kind)]

    def of_documents(self, kind: InboxKind) -> DocumentListFilter:
        return DocumentListFilter(
            since=self.since,
            until=self.until,
            stage=_STAGES[kind],
            stack_id=self.stack_id,
            schema_id=self.schema_id,
            created_by=self.created_by,
            assignee_id=self.assignee_id,
            open_field=self.field,
        )

    def of_runs(self) -> RunFilter:
        return RunFilter(
            stack_id=self.stack_id,
            since=self.since,
            until=self.until,
            schema_id=self.schema_id,
            created_by=self.created_by,
            assignee_id=self.assignee_id,
        )


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One thing that waits for a person."""

    __pydantic_config__: ClassVar[ConfigDict] = ALL_REQUIRED

    kind: Annotated[
        InboxKind,
        Field(
            description="value: a field that needs review or is unclear. approval: a call of an agent that waits. "
            "suggestion: a suggested schema. failed: a file that could not be read."
        ),
    ]
    created_at: Annotated[datetime, Field(description="When the document was uploaded or the run started.")]
    document_id: UUID | None = None
    filename: str | None = None
    extraction_id: UUID | None = None
    schema_id: UUID | None = None
    table: Annotated[str | None, Field(description="The name of the schema, or of the stack that a call is about.")] = (
        None
    )
    path: Annotated[str | None, Field(description="Of a value. null: no one has completed the extraction.")] = None
    status: Annotated[str | None, Field(description="The status of the field: needs_review or unclear.")] = None
    reason: Annotated[str | None, Field(description="Why, as in `statuses` of the extraction.")] = None
    text: Annotated[str | None, Field(description="The value of the field as text. null: it has none.")] = None
    run_id: Annotated[UUID | None, Field(description="The run that waits for an approval.")] = None
    stack_id: Annotated[UUID | None, Field(description="The stack that the call is about.")] = None
    created_by: Annotated[UUID | None, Field(description="Who started that run.")] = None
    assignee_id: Annotated[UUID | None, Field(description="The member who checks the document.")] = None
    tool: Annotated[str | None, Field(description="The tool of the call that waits.")] = None
    changes: Annotated[
        int | None, Field(description="The number of changes of the call, or of fields of the suggested schema.")
    ] = None
    error_code: Annotated[str | None, Field(description="Why a file could not be read.")] = None


@dataclass(frozen=True, slots=True)
class InboxCount:
    """The number of items of a kind."""

    count: Annotated[int, Field(description="At most 1,000.")]
    is_more: Annotated[bool, Field(description="There are more.")]


@dataclass(frozen=True, slots=True)
class InboxPage:
    """A page of the inbox, with the counts of all of it."""

    items: Sequence[InboxItem]
    next: Annotated[str | None, Field(description="Pass it as `before` to get the next page. null at the end.")]
    counts: Annotated[Mapping[InboxKind, InboxCount], Field(description="By kind, with the same filters.")]


_Subject = tuple[InboxKind, DocumentRow | RunRow]


async def list_items(
    conn: Connection,
    scope: Scope,
    filters: InboxFilter,
    *,
    limit: int,
    before: str | None,
    order: InboxOrder = InboxOrder.NEWEST,
) -> tuple[list[InboxItem], str | None]:
    """Return the items of at most `limit` documents and calls, and the cursor of the next page. Raise Invalid for an
    invalid cursor, and for an order that a kind does not have."""
    if order is InboxOrder.VALUE:
        if filters.kinds != [InboxKind.VALUE]:
            raise Invalid("Only values have this order: add `kind=value`.")
        page = await documents.list_documents(
            conn,
            scope.org_id,
            limit=limit,
            before=before,
            filters=filters.of_documents(InboxKind.VALUE),
            sort=DocumentOrder.REVIEW,
            descending=True,
        )
        return await _items(conn, [(InboxKind.VALUE, row) for row in page.items], filters, order), page.next
    position = position_of(before, "inbox")
    subjects: list[_Subject] = []
    for kind in filters.kinds:
        subjects += [(kind, row) for row in (await _list(conn, scope, kind, filters, limit + 1, position)).items]
    subjects.sort(key=lambda one: (one[1].created_at, one[1].id), reverse=True)
    shown = subjects[:limit]
    last = shown[-1][1] if len(subjects) > limit else None
    following = None if last is None else str(Cursor("inbox", Position(last.created_at, last.id)))
    return await _items(conn, shown, filters), following


async def _list(
    conn: Connection, scope: Scope, kind: InboxKind, filters: InboxFilter, limit: int, position: Position | None
) -> ListPage[DocumentRow] | ListPage[RunRow]:
    if kind is InboxKind.APPROVAL:
        before = None if position is None else str(Cursor("runs", position))
        waiting = RunStatus.AWAITING_APPROVAL
        return await runs.list_runs(conn, scope, status=waiting, limit=limit, before=before, filters=filters.of_runs())
    before = None if position is None else str(Cursor("documents", position))
    return await documents.list_documents(
        conn, scope.org_id, limit=limit, before=before, filters=filters.of_documents(kind)
    )


async def _items(
    conn: Connection, subjects: Sequence[_Subject], filters: InboxFilter, order: InboxOrder = InboxOrder.NEWEST
) -> list[InboxItem]:
    questions = defaultdict[UUID, list[inbox.QuestionRow]](list)
    asked = [row.id for kind, row in subjects if kind is InboxKind.VALUE]
    found = (
        await inbox.list_questions(
            conn, asked, filters.schema_id, filters.field, least_certain_first=order is InboxOrder.VALUE
        )
        if asked
        else ()
    )
    for question in found:
        questions[question.document_id].append(question)
    waiting = [row for _, row in subjects if isinstance(row, RunRow)]
    calls = await waiting_calls(conn, [run.id for run in waiting]) if waiting else {}
    about = await inbox.calls_of_runs(conn, list(calls)) if calls else {}
    suggested = {row.id: revid for _, row in subjects if isinstance(row, DocumentRow) and (revid := _revid(row))}
    schemas = await inbox.suggested_schemas(conn, list(suggested.values())) if suggested else {}

    items: list[InboxItem] = []
    for kind, row in subjects:
        if isinstance(row, RunRow):
            call = calls.get(row.id)
            if call is not None:
                items.append(
                    InboxItem(
                        kind,
                        row.created_at,
                        row.document_id,
                        about[row.id].filename,
                        row.extraction_id,
                        about[row.id].schema_id,
                        about[row.id].table,
                        run_id=row.id,
                        stack_id=row.stack_id,
                        created_by=row.created_by,
                        tool=call.tool,
                        changes=len(call.changes or ()),
                    )
                )
            continue
        item = InboxItem(
            kind, row.created_at, row.id, row.filename, error_code=row.error_code, assignee_id=row.assignee_id
        )
        if kind is InboxKind.VALUE:
            items += [
                replace(
                    item,
                    extraction_id=one.extraction_id,
                    schema_id=one.schema_id,
                    table=one.table,
                    path=one.path,
                    status=one.status,
                    reason=one.reason,
                    text=one.text,
                )
                for one in questions[row.id]
            ]
        elif row.id in suggested:
            schema = schemas[suggested[row.id]]
            items.append(replace(item, schema_id=schema.schema_id, table=schema.name, changes=schema.fields))
        else:
            items.append(item)
    return items


def _revid(row: DocumentRow) -> UUID | None:
    """Return the version of the schema that is suggested for a document."""
    if row.stage is not DocumentStage.PROPOSED or row.auto_create is None or row.auto_create["schema_revid"] is None:
        return None
    return UUID(str(row.auto_create["schema_revid"]))


async def count_items(conn: Connection, scope: Scope, filters: InboxFilter) -> dict[InboxKind, InboxCount]:
    """Return the number of items of each kind, whatever the kind of the filter."""
    counts = dict.fromkeys(InboxKind, 0)
    for kind in filters.possible:
        if kind is InboxKind.APPROVAL:
            counts[kind] = await inbox.count_waiting_calls(conn, scope, filters.of_runs())
        else:
            count = inbox.count_questions if kind is InboxKind.VALUE else inbox.count_documents
            counts[kind] = await count(conn, scope.org_id, filters.of_documents(kind))
    return {kind: InboxCount(min(counts[kind], MAX_COUNT), counts[kind] > MAX_COUNT) for kind in InboxKind}
