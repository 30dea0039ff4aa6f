"""/api/inbox: what waits for a person."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.named_items import SchemaFilter
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Before, Limit, Since, StackId, Until
from fieldmark.services import inbox
from fieldmark.services.inbox import InboxFilter, InboxKind, InboxOrder, InboxPage

router = Routes(prefix="/api/inbox", tags=["inbox"])


@router.get("")
async def list_inbox(
    scope: TheScope,
    conn: Conn,
    kind: Annotated[InboxKind | None, Query(description="Only this kind. The counts are of all kinds.")] = None,
    schema_id: SchemaFilter = None,
    stack_id: StackId = None,
    created_by: Annotated[UUID | None, Query(description="Only what this user uploaded or started.")] = None,
    assignee_id: Annotated[UUID | None, Query(description="Only documents that this member checks.")] = None,
    since: Since = None,
    until: Until = None,
    field: Annotated[
        str | None, Query(max_length=1000, description="Only questions about this field, such as `items[].price`.")
    ] = None,
    order: Annotated[
        InboxOrder,
        Query(
            description="newest: by time. value (only with kind=value): first the documents in which one look probably "
            "finds an error and few looks are left; in a document what is least certain. Audits come last."
        ),
    ] = InboxOrder.NEWEST,
    limit: Limit = 50,
    before: Before = None,
) -> InboxPage:
    """List what waits for a person: the questions of at most `limit` documents and calls. A document has
    a question for each field, at most 100 of an extraction at once."""
    filters = InboxFilter(kind, schema_id, stack_id, created_by, assignee_id, since, until, field)
    items, following = await inbox.list_items(conn, scope, filters, limit=limit, before=before, order=order)
    counts = await inbox.count_items(conn, scope, filters)
    return InboxPage(items, following, counts)
