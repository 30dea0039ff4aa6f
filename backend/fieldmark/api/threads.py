"""/api/threads: conversations with an agent about one document, or about all documents. Each turn is a run."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field, JsonValue

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Before, Limit, RequestBody
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.runs.lifecycle.views import Turn, to_turns
from fieldmark.stores import threads
from fieldmark.stores.paging import ListPage
from fieldmark.stores.threads import ThreadFilter, ThreadRow

router = Routes(prefix="/api/threads", tags=["threads"])

Title = Annotated[
    str,
    Field(min_length=1, max_length=200, description="One line without invisible characters.", examples=["Invoices"]),
]


class ThreadSummary(BaseModel):
    """A thread without its turns."""

    id: UUID
    agent: str
    document_id: UUID | None
    title: str | None
    shared: bool = Field(description="Whether the other members of the organisation can read it.")
    mine: bool = Field(description="Whether you started it. Only then can you continue, rename, share or delete it.")
    created_by: UUID
    created_at: datetime
    updated_at: datetime


class Thread(ThreadSummary):
    """A thread and a page of its turns, newest first."""

    working_state: dict[str, JsonValue] = Field(
        description="Ids that the next turn uses by default, such as the schema's. Initially those of the document's "
        "suggestion, or else of its shown extraction."
    )
    turns: list[Turn]
    next: str | None = Field(description="Pass it as `before` to get earlier turns. null at the start.")


class NewThread(RequestBody):
    """A thread to create, without a message."""

    document_id: UUID | None = Field(None, description="Default: a conversation about all documents.")
    agent: Annotated[str, Field(min_length=1, max_length=63, pattern=STORABLE)] | None = Field(
        None, description="Default: the agent for conversations about a document, or about all documents."
    )
    title: Title | None = None


class ThreadChange(RequestBody):
    """Changes of a thread. Fields that are left out stay unchanged."""

    title: Title | None = Field(None, description="null: remove the title.")
    shared: bool = Field(False, description="Whether the other members of the organisation can read it.")


@router.get("")
async def list_threads(
    scope: TheScope,
    conn: Conn,
    document_id: Annotated[UUID | None, Query(description="Only threads about this document.")] = None,
    agent: Annotated[
        str | None, Query(max_length=63, pattern=STORABLE, description="Only threads with this agent.")
    ] = None,
    mine: Annotated[bool | None, Query(description="true: only your own. false: only those shared by others.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[ThreadSummary]:
    """List your own threads and those that others share with the organisation, newest first."""
    filters = ThreadFilter(document_id, agent, mine)
    page = await threads.list_threads(conn, scope, filters, limit=limit, before=before)
    return ListPage(items=[_summary(scope, row) for row in page.items], next=page.next)


@router.post("", status_code=201)
async def create_thread(body: NewThread, scope: TheScope, conn: Conn) -> ThreadSummary:
    """Create a thread without a message. A first message without a `thread_id` also creates one."""
    _check_title(body.title)
    row = await threads.create(conn, scope, body.document_id, agent=body.agent, title=body.title)
    return _summary(scope, row)


@router.get("/{thread_id}")
async def get_thread(
    thread_id: UUID,
    scope: TheScope,
    conn: Conn,
    limit: Annotated[int, Query(ge=1, le=100, description="The most turns to return.")] = 20,
    before: Before = None,
) -> Thread:
    """Return one of your threads, or one that is shared with you, with a page of its turns."""
    row = await threads.get(conn, thread_id)
    page = await threads.turns(conn, thread_id, limit=limit, before=before)
    items = await to_turns(conn, page.items)
    start = {} if row.document_id is None else await threads.starting_state(conn, row.document_id)
    state: dict[str, JsonValue] = {name: str(one) for name, one in start.items() if one is not None}
    return Thread(**dict(_summary(scope, row)), working_state=state | row.working_state, turns=items, next=page.next)


@router.patch("/{thread_id}")
async def update_thread(thread_id: UUID, body: ThreadChange, scope: TheScope, conn: Conn) -> ThreadSummary:
    """Rename, share or unshare a thread of yours. Unsharing also ends the streams of other members at once."""
    _check_title(body.title)
    changes: dict[str, str | bool | None] = body.model_dump(exclude_unset=True)
    return _summary(scope, await threads.change(conn, scope, thread_id, changes))


@router.delete("/{thread_id}", status_code=204)
async def delete_thread(thread_id: UUID, scope: TheScope, conn: Conn) -> None:
    """Delete a thread of yours with all its turns. What the turns created or changed stays."""
    await threads.remove(conn, scope, thread_id)


def _check_title(title: str | None) -> None:
    if title is not None and (problem := value_problem(title)):
        raise Invalid(f"The title cannot be used. {problem}")


def _summary(scope: Scope, row: ThreadRow) -> ThreadSummary:
    return ThreadSummary.model_validate({**asdict(row), "mine": row.created_by == scope.user_id})
