"""/api/stacks: named sets of documents with one table, which the stack agent fills (`POST /api/agent/stack`). Its rows
are those of `/api/tables/{id}`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field

from fieldmark.agents.stack.agent import StackRequest
from fieldmark.api.auth import Conn, ThePerson, TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Before, Limit, RequestBody
from fieldmark.db.pool import Connection
from fieldmark.domain.column_definitions import ColumnDefinition, Definitions
from fieldmark.domain.names import name_problem
from fieldmark.domain.statuses import RowStatus
from fieldmark.errors import Invalid
from fieldmark.runs.lifecycle import launch
from fieldmark.services import stacks
from fieldmark.services.schema_changes import SchemaChanges
from fieldmark.stores import stacks as stored
from fieldmark.stores.paging import ListPage
from fieldmark.stores.runs import RunOptions
from fieldmark.stores.stacks import NewestRun, ReplacedValue, StackProgress, StackRow

router = Routes(prefix="/api/stacks", tags=["stacks"])

_MOST_DOCUMENTS = 1_000

StackName = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE, examples=["Receipts 2026"])]
DocumentIds = Annotated[list[UUID], Field(max_length=_MOST_DOCUMENTS)]


class NewStack(RequestBody):
    """A stack to create."""

    name: StackName
    document_ids: DocumentIds = Field([], description="Its first documents.")
    columns: Definitions | None = Field(
        None, description="The columns of its table. Left out: the agent proposes columns when it fills the table."
    )


class NewSamples(RequestBody):
    """A stack of sample receipts to create."""

    name: StackName = "Sample receipts"


class StackChange(RequestBody):
    """A new name of a stack."""

    name: StackName


class DocumentsToAdd(RequestBody):
    """Documents to add to a stack. Those that are in it already are skipped."""

    document_ids: Annotated[list[UUID], Field(min_length=1, max_length=_MOST_DOCUMENTS)]


class AddedDocuments(BaseModel):
    """How many documents were added."""

    added: int = Field(description="How many were not in the stack before.")


class ColumnsChange(RequestBody):
    """All columns of a table, in order."""

    columns: Definitions
    preview: bool = Field(False, description="true: change nothing, and return what would change.")


class ColumnsChanged(BaseModel):
    """The columns of a table, and what they change for its rows."""

    columns: list[ColumnDefinition]
    changes: SchemaChanges | None = Field(
        description="The rows that follow older columns, how many are read again when the table is next filled, and "
        "what that is likely to cost. null for the first columns."
    )


class Progress(BaseModel):
    """The number of rows in each state."""

    documents: int = Field(description="All documents of the stack.")
    done: int
    incomplete: int = Field(description="The agent ended without completing the row.")
    failed: int
    unreadable: int = Field(description="Of the failed ones: files that could not be read. Another run does not help.")
    waiting: int
    running: int
    awaiting_approval: int = Field(description="A run waits for a person to approve the row's values.")
    stale: int = Field(description="Read before a column was added or changed.")
    duplicates: int = Field(
        description="Documents with the same bytes as one that is longer in the stack. They have no row."
    )
    containers: int = Field(description="Archives. Their files are documents of the stack, with rows of their own.")
    cost_usd: float | None = Field(description="Of all runs of the stack. null: a model's price is not known.")


class Stack(BaseModel):
    """A stack, its columns and how far its table is filled."""

    id: UUID
    name: str
    created_by: UUID
    created_at: datetime
    schema_id: UUID | None = Field(description="The schema that the columns make. null until they are defined.")
    schema_revid: UUID | None
    schema_deleted: bool = Field(description="Whether the schema was deleted. New columns make a new one.")
    rows: str | None = Field(description="The list whose items are the rows. null: one row for each document.")
    columns: list[ColumnDefinition]
    progress: Progress
    run: NewestRun | None


class ReplacedValues(BaseModel):
    """The values that a run replaced."""

    run_id: UUID | None = Field(description="The run that replaced them. null if no run has replaced a value.")
    items: Sequence[ReplacedValue]
    next: int | None = Field(description="Pass it as `after` for the following values. null: these are the last.")


@router.get("")
async def list_stacks(
    scope: TheScope,
    conn: Conn,
    name: Annotated[
        str | None, Query(max_length=200, pattern=STORABLE, description="Only the stack of this name.")
    ] = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[Stack]:
    """List the stacks of the organisation, newest first."""
    page = await stored.list_page(conn, scope, limit=limit, before=before, name=name)
    return ListPage(items=await _to_stacks(conn, page.items), next=page.next)


@router.post("", status_code=201)
async def create_stack(body: NewStack, scope: TheScope, conn: Conn) -> Stack:
    """Create a stack. 409 (`name_taken`) if another stack has this name."""
    _check_name(body.name)
    stack_id = await stored.add(conn, scope, body.name)
    await stored.add_documents(conn, scope, stack_id, body.document_ids)
    if body.columns is not None:
        await stacks.define_columns(conn, scope, stack_id, body.columns)
    return await get_stack(stack_id, conn)


@router.post("/samples", status_code=201)
async def create_samples(body: NewSamples, _: ThePerson, scope: TheScope, runtime: TheRuntime) -> Stack:
    """Create a stack of five sample receipts and start to fill its table: one date is ambiguous, one total is missing.
    If there is a stack with this name, return it unchanged. Only a person can."""
    _check_name(body.name)
    stack_id, is_new = await stacks.create_samples(runtime.documents, runtime.database, scope, body.name)
    if is_new:
        fill = StackRequest.model_validate({"stack_id": stack_id})
        options = RunOptions(approval="auto")
        await launch.start(runtime.database, scope, "stack", fill, prices=runtime.prices, options=options)
    async with runtime.database.as_user(scope) as conn:
        return await get_stack(stack_id, conn)


@router.get("/{stack_id}")
async def get_stack(stack_id: UUID, conn: Conn) -> Stack:
    """Return a stack with its columns and its progress."""
    (stack,) = await _to_stacks(conn, [await stored.get(conn, stack_id)])
    return stack


@router.patch("/{stack_id}")
async def update_stack(stack_id: UUID, body: StackChange, conn: Conn) -> Stack:
    """Rename a stack."""
    _check_name(body.name)
    await stored.rename(conn, stack_id, body.name)
    return await get_stack(stack_id, conn)


@router.delete("/{stack_id}", status_code=204)
async def delete_stack(stack_id: UUID, conn: Conn) -> None:
    """Delete a stack with its runs. Its documents, its schema and their extractions stay. A member can delete their own
    stacks, an owner any."""
    await stored.remove(conn, stack_id)


@router.post("/{stack_id}/documents")
async def add_documents(stack_id: UUID, body: DocumentsToAdd, scope: TheScope, conn: Conn) -> AddedDocuments:
    """Add documents to a stack, with the files inside archives and mails. They get rows when the table is filled
    again."""
    await stored.get(conn, stack_id)
    return AddedDocuments(added=await stored.add_documents(conn, scope, stack_id, body.document_ids))


@router.delete("/{stack_id}/documents/{document_id}", status_code=204)
async def remove_document(stack_id: UUID, document_id: UUID, conn: Conn) -> None:
    """Take a document out of a stack. The document and its extraction stay, and so do the rows of files inside it."""
    await stored.remove_document(conn, stack_id, document_id)


@router.put("/{stack_id}/columns")
async def set_columns(stack_id: UUID, body: ColumnsChange, scope: TheScope, runtime: TheRuntime) -> ColumnsChanged:
    """Set the columns of a stack's table: a new version of its schema. If a column is added or changed, rows that were
    read before become stale until the table is filled again. Values of a dropped column stay in the extractions."""
    changes = await stacks.preview_columns(runtime.database, scope, stack_id, body.columns)
    if body.preview:
        return ColumnsChanged(columns=body.columns, changes=changes)
    async with runtime.database.as_user(scope) as conn:
        await stacks.define_columns(conn, scope, stack_id, body.columns)
        return ColumnsChanged(columns=(await stored.get(conn, stack_id)).columns, changes=changes)


@router.get("/{stack_id}/changes")
async def list_changes(
    stack_id: UUID,
    conn: Conn,
    limit: Annotated[int, Query(ge=1, le=1000, description="The most values.")] = 200,
    after: Annotated[int, Query(ge=0, lt=2**63, description="`next` of the previous page.")] = 0,
) -> ReplacedValues:
    """List the values that a run on the stack replaced or removed, for example because a column changed: the newest run
    that did."""
    await stored.get(conn, stack_id)
    run_id = await stored.newest_run_with_changes(conn, stack_id)
    if run_id is None:
        return ReplacedValues(run_id=None, items=[], next=None)
    replaced = await stored.replaced_values(conn, stack_id, run_id, limit=limit + 1, after=after)
    page = replaced[:limit]
    following = page[-1].id if len(replaced) > limit else None
    return ReplacedValues(run_id=run_id, items=page, next=following)


def _check_name(name: str) -> None:
    if problem := name_problem(name):
        raise Invalid(problem)


async def _to_stacks(conn: Connection, rows: Sequence[StackRow]) -> list[Stack]:
    progress = await stored.progress(conn, [row.id for row in rows])
    found: list[Stack] = []
    for row in rows:
        newest = progress[row.id].run
        found.append(
            Stack(
                id=row.id,
                name=row.name,
                created_by=row.created_by,
                created_at=row.created_at,
                schema_id=row.schema and row.schema.id,
                schema_revid=row.schema and row.schema.schema_revid,
                schema_deleted=row.is_schema_deleted,
                rows=row.row_path,
                columns=row.columns,
                progress=_to_progress(progress[row.id]),
                run=newest,
            )
        )
    return found


def _to_progress(progress: StackProgress) -> Progress:
    counts = {state: progress.counts.get(state, 0) for state in RowStatus}
    return Progress(
        documents=sum(counts.values()),
        done=counts[RowStatus.DONE],
        incomplete=counts[RowStatus.INCOMPLETE],
        failed=counts[RowStatus.FAILED],
        unreadable=progress.unreadable,
        waiting=counts[RowStatus.WAITING],
        running=counts[RowStatus.RUNNING],
        awaiting_approval=counts[RowStatus.AWAITING_APPROVAL],
        stale=counts[RowStatus.STALE],
        duplicates=counts[RowStatus.DUPLICATE],
        containers=counts[RowStatus.CONTAINER],
        cost_usd=None if progress.cost_usd is None else float(progress.cost_usd),
    )
