"""/api/threads: conversations with an agent about a document, or about all. What is said in them is said by runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field, JsonValue

from fieldmark.api.auth import Conn, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import STORABLE, Before, Body, Limit, ListPage
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid
from fieldmark.identity.scope import Scope
from fieldmark.runs.lifecycle.views import Turn, turns
from fieldmark.stores import threads
from fieldmark.stores.threads import ThreadFilter, ThreadRow

router = Routes(prefix="/api/threads", tags=["threads"])

Title = Annotated[
    str,
    Field(min_length=1, max_length=200, description="One line, of characters that are seen.", examples=["Invoices"]),
]


class ThreadSummary(BaseModel):
    """A thread in a list."""

    id: UUID
    agent: str
    document_id: UUID | None
    title: str | None
    shared: bool = Field(description="Whether the other members of the organisation may read it.")
    mine: bool = Field(description="Whether you have begun it: then you go on with it, rename, share and delete it.")
    created_by: UUID
    created_at: datetime
    updated_at: datetime


class Thread(ThreadSummary):
    """A thread, and a page of what was said in it, the newest first."""

    working_state: dict[str, JsonValue] = Field(
        description="What its tools remember from turn to turn: ids that the next turn takes for granted. At the start "
        "those of the document's proposal, else of its current extraction."
    )
    turns: list[Turn]
    next: str | None = Field(description="Give it as `before` to get the turns before these. null at the beginning.")


class NewThread(Body):
    """Begin a conversation, before anything is said in it."""

    document_id: UUID | None = Field(None, description="Left out: a conversation about all documents.")
    agent: Annotated[str, Field(min_length=1, max_length=63, pattern=STORABLE)] | None = Field(
        None, description="Left out: the one that talks about a document, or about all."
    )
    title: Title | None = None


class ThreadChange(Body):
    """What is left out stays as it is."""

    title: Title | None = Field(None, description="null: none.")
    shared: bool = Field(False, description="Whether the other members may read it, from now on.")


@router.get("")
async def list_threads(
    scope: TheScope,
    conn: Conn,
    document_id: Annotated[UUID | None, Query(description="Only those about this document.")] = None,
    agent: Annotated[str | None, Query(max_length=63, pattern=STORABLE, description="Only with this agent.")] = None,
    mine: Annotated[bool | None, Query(description="true: your own; false: those that others share.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[ThreadSummary]:
    """Your own threads, and those of others that are shared with the organisation."""
    wanted = ThreadFilter(document_id, agent, mine)
    page = await threads.list_threads(conn, scope, wanted, limit=limit, before=before)
    return ListPage[ThreadSummary](items=[_summary(scope, row) for row in page.items], next=page.next)


@router.post("", status_code=201)
async def create_thread(body: NewThread, scope: TheScope, conn: Conn) -> ThreadSummary:
    """Begin a thread before anything is said in it. The first message without a `thread_id` begins one too."""
    _check(body.title)
    row = await threads.create(conn, scope, body.document_id, agent=body.agent, title=body.title)
    return _summary(scope, row)


@router.get("/{thread_id}")
async def get_thread(
    thread_id: UUID,
    scope: TheScope,
    conn: Conn,
    limit: Annotated[int, Query(ge=1, le=100, description="How many turns at the most.")] = 20,
    before: Annotated[str | None, Query(description="The `next` of the last answer: the turns before those.")] = None,
) -> Thread:
    """A thread of yours, or one that is shared, and what was said in it."""
    row = await threads.find(conn, thread_id)
    page = await threads.turns(conn, thread_id, limit=limit, before=before)
    said = await turns(conn, page.items)
    start = {} if row.document_id is None else await threads.starting_state(conn, row.document_id)
    state: dict[str, JsonValue] = {name: str(one) for name, one in start.items() if one is not None}
    return Thread(**dict(_summary(scope, row)), working_state=state | row.working_state, turns=said, next=page.next)


@router.patch("/{thread_id}")
async def update_thread(thread_id: UUID, body: ThreadChange, scope: TheScope, conn: Conn) -> ThreadSummary:
    """Rename a thread of yours, or share it, or share it no longer: at once, for whoever follows it too."""
    _check(body.title)
    given: dict[str, str | bool | None] = body.model_dump(exclude_unset=True)
    return _summary(scope, await threads.change(conn, scope, thread_id, given))


@router.delete("/{thread_id}", status_code=204)
async def delete_thread(thread_id: UUID, scope: TheScope, conn: Conn) -> None:
    """Delete a thread of yours with all that was said in it. What it has made or changed stays."""
    await threads.remove(conn, scope, thread_id)


def _check(title: str | None) -> None:
    if title is not None and (problem := value_problem(title)):
        raise Invalid(f"The title cannot be used. {problem}")


def _summary(scope: Scope, row: ThreadRow) -> ThreadSummary:
    return ThreadSummary.model_validate({**asdict(row), "mine": row.created_by == scope.user_id})
