"""/api/inbox: what waits for a person."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import Field

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Before, Limit, ListPage, ResponseModel, Since, StackId, Until
from fieldmark.services import inbox
from fieldmark.services.inbox import InboxFilter, InboxKind

router = Routes(prefix="/api/inbox", tags=["inbox"])


class InboxItem(ResponseModel):
    """One thing that waits for a person."""

    kind: InboxKind = Field(
        description="value: a field that needs review or is unclear. approval: a call of an agent that waits. "
        "suggestion: a suggested schema. failed: a file that could not be read."
    )
    created_at: datetime = Field(description="When the document was uploaded or the run started.")
    document_id: UUID | None
    filename: str | None
    extraction_id: UUID | None
    schema_id: UUID | None
    table: str | None = Field(description="The name of the schema, or of the stack that a call is about.")
    path: str | None = Field(description="Of a value. null: no one has completed the extraction.")
    status: str | None = Field(description="The status of the field: needs_review or unclear.")
    reason: str | None = Field(description="Why, as in `statuses` of the extraction.")
    text: str | None = Field(description="The value of the field as text. null: it has none.")
    run_id: UUID | None = Field(description="The run that waits for an approval.")
    stack_id: UUID | None = Field(description="The stack that the call is about.")
    created_by: UUID | None = Field(description="Who started that run.")
    tool: str | None = Field(description="The tool of the call that waits.")
    changes: int | None = Field(description="The number of changes of the call, or of fields of the suggested schema.")
    error_code: str | None = Field(description="Why a file could not be read.")


class InboxCount(ResponseModel):
    """The number of items of a kind."""

    count: int = Field(description="At most 1,000.")
    is_more: bool = Field(description="There are more.")


class InboxPage(ListPage[InboxItem]):
    """A page of the inbox, with the counts of all of it."""

    counts: dict[InboxKind, InboxCount] = Field(description="By kind, with the same filters.")


@router.get("")
async def list_inbox(
    scope: TheScope,
    conn: Conn,
    kind: Annotated[InboxKind | None, Query(description="Only this kind. The counts are of all kinds.")] = None,
    schema_id: Annotated[UUID | None, Query(description="Only the table of this schema.")] = None,
    stack_id: StackId = None,
    created_by: Annotated[UUID | None, Query(description="Only what this user uploaded or started.")] = None,
    since: Since = None,
    until: Until = None,
    field: Annotated[
        str | None, Query(max_length=1000, description="Only questions about this field, such as `items[].price`.")
    ] = None,
    limit: Limit = 50,
    before: Before = None,
) -> InboxPage:
    """List what waits for a person, newest first: the questions of at most `limit` documents and calls. A document has
    a question for each field, at most 100 of an extraction at once."""
    filters = InboxFilter(kind, schema_id, stack_id, created_by, since, until, field)
    items, following = await inbox.list_items(conn, scope, filters, limit=limit, before=before)
    counts = await inbox.count_items(conn, scope, filters)
    return InboxPage(
        items=[InboxItem.of(one) for one in items],
        next=following,
        counts={name: InboxCount.of(one) for name, one in counts.items()},
    )
