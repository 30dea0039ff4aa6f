"""Prompts by name: made, changed, listed, deleted; and what an extraction is asked for by one."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.attempts import again_while_stale
from fieldmark.domain.values import problem_with
from fieldmark.errors import Invalid, NotFound, Stale, VersionChanged
from fieldmark.identity.scope import Scope
from fieldmark.services.paging import Cursor, Page, page_of
from fieldmark.stores import prompts
from fieldmark.stores.prompts import PromptText
from fieldmark.stores.rows import PromptRow


async def create(conn: Connection, scope: Scope, text: PromptText) -> PromptRow:
    """A new prompt. Raises NotFound for its schema or a tag, NameTaken, Invalid."""
    _check(text)
    return await get_version(conn, await prompts.add(conn, scope.org_id, text))


async def update(conn: Connection, prompt_id: UUID, text: PromptText, *, revid: UUID | None = None) -> PromptRow:
    """The version that a prompt has after a change: all of it is given. `revid` is the version that was looked at.
    Raises NotFound, NameTaken, VersionChanged, Invalid."""
    _check(text)
    return await get_version(conn, await prompts.update(conn, prompt_id, text, revid=revid))


async def change(
    database: Database,
    scope: Scope,
    prompt_id: UUID,
    made: Callable[[PromptRow], PromptText],
    *,
    revid: UUID | None = None,
) -> PromptRow:
    """The version that a prompt has after a change of what stands there. Raises VersionChanged where `revid`, the
    version that was looked at, is the latest no more; without one it is made again of what stands then. Else as
    `update`."""

    async def attempt() -> PromptRow:
        try:
            async with database.as_user(scope) as conn:
                row = await get(conn, prompt_id)
                return await update(conn, prompt_id, made(row), revid=revid or row.prompt_revid)
        except VersionChanged as error:
            if revid is None:
                raise Stale(str(error)) from error
            raise

    return await again_while_stale(attempt)


async def get(conn: Connection, prompt_id: UUID) -> PromptRow:
    """The latest version of a prompt, also of a deleted one. Raises NotFound."""
    return _found(await prompts.get(conn, prompt_id))


async def get_version(conn: Connection, revid: UUID) -> PromptRow:
    """One version. Raises NotFound."""
    return _found(await prompts.get_version(conn, revid))


async def versions(
    conn: Connection, prompt_id: UUID, *, limit: int = 1000, before: int | None = None
) -> list[PromptRow]:
    """The newest `limit` versions of a prompt, or those before a number. Raises NotFound."""
    rows = await prompts.versions(conn, prompt_id, limit=limit, before=before)
    if not rows:
        await get(conn, prompt_id)
    return rows


async def named(conn: Connection, scope: Scope, name: str) -> Page[PromptRow]:
    """The prompt that has a name, in capitals or not, as a list of one in its latest version; else an empty one."""
    row = await prompts.by_name(conn, scope.org_id, name)
    return Page([] if row is None else [row], None)


async def list_page(
    conn: Connection,
    scope: Scope,
    *,
    name: str | None = None,
    schema_id: UUID | None = None,
    tag_id: UUID | None = None,
    limit: int,
    before: str | None = None,
) -> Page[PromptRow]:
    """A page of the organisation's prompts, the newest first. Raises Invalid for a cursor that is none."""
    behind = None if before is None else Cursor.parse(before, "prompts").position
    rows = await prompts.list_prompts(
        conn, scope.org_id, name=name, schema_id=schema_id, tag_id=tag_id, limit=limit + 1, behind=behind
    )
    return page_of(rows, limit, "prompts")


async def remove(conn: Connection, prompt_id: UUID) -> int:
    """Hide a prompt; the extractions that were made with it keep it. How many those are. Raises NotFound."""
    return await prompts.remove(conn, prompt_id)


async def references(conn: Connection, prompt_id: UUID) -> int:
    """How many extractions were made with a prompt."""
    return await prompts.references(conn, prompt_id)


def _check(text: PromptText) -> None:
    if problem := problem_with(text.content):
        raise Invalid(f"The words of the prompt cannot be used. {problem}")


def _found(row: PromptRow | None) -> PromptRow:
    if row is None:
        raise NotFound("There is no such prompt.")
    return row
