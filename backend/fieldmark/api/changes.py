"""/api/changes: the feed of what happened, for systems that ask instead of being called."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Response
from pydantic import BaseModel, Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import Limit, json_response
from fieldmark.domain.statuses import ChangeType
from fieldmark.stores import changes
from fieldmark.stores.changes import Change

router = Routes(prefix="/api/changes", tags=["changes"])


class ChangesPage(BaseModel):
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
    return await json_response(ChangesPage, items=shown, last=last, has_more=has_more)
