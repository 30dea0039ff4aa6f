"""/api/changes: the feed of what happened, for systems that ask instead of being called."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query, Response
from pydantic import Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Limit, ResponseModel, json_response
from fieldmark.domain.statuses import ChangeType
from fieldmark.stores import changes

router = Routes(prefix="/api/changes", tags=["changes"])


class Change(ResponseModel):
    """Something that happened."""

    id: UUID = Field(description="Also the `webhook-id` of its deliveries.")
    number: int = Field(description="Its position in the feed of the organisation: 1, 2, 3 …")
    type: ChangeType
    created_at: datetime
    data: dict[str, Any] = Field(
        description="The ids (`document_id`, `extraction_id`, `run_id`, `stack_id`) and what they stand for, as it is "
        "now: `document` with your `external_id` and `metadata`; `extraction` with `fields`, the `initial_fields` as "
        "the agent wrote them, and the `edits` by people; `run`; `table`. What is deleted is left out."
    )


class ChangesPage(ResponseModel):
    """A part of the feed, oldest first."""

    items: list[Change]
    last: int = Field(description="Pass it as `after` to go on from here.")
    has_more: bool = Field(description="Whether more changes follow already.")


@router.get("", response_model=ChangesPage)
async def read_changes(
    scope: TheScope,
    runtime: TheRuntime,
    after: Annotated[
        int | Literal["latest"],
        Query(
            union_mode="left_to_right",
            description="The `last` of the previous page. 0: from the oldest that is kept. `latest`: none, to learn "
            "where the feed ends now.",
        ),
    ] = 0,
    type: Annotated[list[ChangeType] | None, Query(max_length=20, description="Only changes of these types.")] = None,
    limit: Limit = 50,
) -> Response:
    """List changes in the order of their numbers. None appears later with a number that is lower than one that was
    listed already. Changes are kept as long as records of runs (FIELDMARK_KEEP_DAYS)."""
    async with runtime.database.as_service() as conn:
        await changes.publish(conn)
    async with runtime.database.as_user(scope) as conn:
        end = await changes.last_number(conn, scope.org_id)
        if isinstance(after, str):
            return await json_response(ChangesPage, items=[], last=end, has_more=False)
        # (Beyond any number of the feed: kept within what Postgres accepts.)
        rows = await changes.list_after(conn, scope.org_id, min(max(after, 0), end), types=type or [], limit=limit + 1)
    shown = rows[:limit]
    has_more = len(rows) > limit
    last = shown[-1].number if has_more else end
    return await json_response(ChangesPage, items=[Change.of(row) for row in shown], last=last, has_more=has_more)
