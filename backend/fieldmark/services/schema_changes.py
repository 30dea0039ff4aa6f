"""A new version of a schema: what it changes for the extractions that follow an older one, and bringing them to it.

Values are never removed. A background run reads the changed top-level fields again; what a person set is locked, so a
different finding becomes a proposal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.schema_changes import SchemaDifference, compare_schemas
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.errors import DocumentFailed, Invalid, NotFound, OutOfCredit, QueueFull
from fieldmark.identity.scope import Scope
from fieldmark.services import extractions
from fieldmark.services.schemas import check
from fieldmark.services.turns import in_turn, without_turn
from fieldmark.stores import extractions as stored
from fieldmark.stores import schema_changes as store
from fieldmark.stores.library import schemas
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import ExtractionRow, Position, SchemaRow
from fieldmark.stores.schema_changes import FollowedVersionRow, FollowerRow

MAX_COUNTED: Final = 10_000
"""Extractions of one version that are counted."""
MAX_VERSIONS: Final = 50
"""Older versions that are compared: the newest that extractions follow."""
_RUNS_OF_ESTIMATE: Final = 50

BeginReading: TypeAlias = Callable[[Connection, ExtractionRow, Sequence[str] | None], Awaitable[UUID]]
"""Starts a run that reads the named fields of an extraction again, or all of them, in the caller's transaction."""


class SkipReason(StrEnum):
    """Why an extraction stays at its version."""

    NOT_FOUND = "not_found"
    FOLLOWS_ALREADY = "follows_already"
    AT_WORK = "at_work"
    DOCUMENT_FAILED = "document_failed"


@dataclass(frozen=True, slots=True)
class SchemaPreview:
    """How each followed version differs from the new one. `average_cost`: of one extraction, None if not known."""

    versions: list[tuple[FollowedVersionRow, SchemaDifference]]
    average_cost: Decimal | None

    @property
    def extractions(self) -> int:
        """How many extractions follow another version."""
        return sum(row.extractions for row, _ in self.versions)

    @property
    def read_again(self) -> int:
        """How many of them are read again."""
        return sum(row.extractions for row, difference in self.versions if difference.needs_reading)

    @property
    def estimated_cost(self) -> Decimal | None:
        """What reading them costs if each costs as much as a first extraction. None if not known."""
        if not self.read_again:
            return Decimal()
        return None if self.average_cost is None else self.average_cost * self.read_again


@dataclass(slots=True)
class AppliedChanges:
    """What was done. `next`: the cursor to continue from. `stopped`: the error code that ended it early."""

    followed: int = 0
    runs: list[UUID] = field(default_factory=list[UUID])
    skipped: list[tuple[UUID, SkipReason]] = field(default_factory=list[tuple[UUID, SkipReason]])
    next: str | None = None
    stopped: str | None = None


async def preview(
    database: Database,
    scope: Scope,
    schema_id: UUID,
    *,
    schema: JsonObject | None = None,
    revid: UUID | None = None,
) -> SchemaPreview:
    """Compare the versions that extractions follow with the latest one, with the version `revid`, or with a `schema`
    that is not stored. Nothing is changed. Raise NotFound, Invalid, InvalidSchema, and TooManyAtOnce."""
    if schema is not None and revid is not None:
        raise Invalid("Give a schema or a version of one, not both.")
    async with database.as_user(scope) as conn:
        head = await _schema(conn, schema_id)
        version = await _version(conn, head, revid)
        other_than = version.schema_revid if schema is None else None
        rows = await store.followed_versions(conn, schema_id, other_than, limit=MAX_VERSIONS, max_counted=MAX_COUNTED)
        cost = await store.average_cost(conn, schema_id, _RUNS_OF_ESTIMATE)
        if schema is not None and head.schema_revid not in {row.schema_revid for row in rows}:
            rows.insert(0, FollowedVersionRow(head.schema_revid, head.number, head.schema or {}, 0))
    target = schema if schema is not None else version.schema or {}
    await check(target)
    versions = [(row, await in_turn(scope.org_id, compare_schemas, row.schema, target)) for row in rows]
    return SchemaPreview(versions, cost)


async def apply(
    database: Database,
    scope: Scope,
    schema_id: UUID,
    begin_reading: BeginReading,
    *,
    revid: UUID | None = None,
    extraction_ids: Sequence[UUID] | None = None,
    limit: int,
    before: str | None = None,
) -> AppliedChanges:
    """Bring extractions to the latest version of a schema, or to `revid`, newest first: the named ones, or `limit` of
    those that follow another version. A run reads the changed fields. Raise NotFound and InvalidSchema; QueueFull or
    OutOfCredit if not even the first could be brought to it."""
    async with database.as_user(scope) as conn:
        target = await _version(conn, await _schema(conn, schema_id), revid)
        page = await store.followers(
            conn,
            schema_id,
            other_than=None if extraction_ids is not None else target.schema_revid,
            among=extraction_ids,
            limit=limit,
            before=before,
        )
    await check(target.schema or {})
    done = AppliedChanges(next=page.next)
    if extraction_ids is not None and before is None and page.next is None:
        found = {row.id for row in page.items}
        done.skipped += [(one, SkipReason.NOT_FOUND) for one in dict.fromkeys(extraction_ids) if one not in found]
    last = before
    for follower in page.items:
        try:
            async with database.as_user(scope) as conn:
                why = await _bring(conn, follower.id, target, begin_reading, done)
        except DocumentFailed:
            why = SkipReason.DOCUMENT_FAILED
        except (QueueFull, OutOfCredit) as full:
            if last == before:
                raise
            done.next, done.stopped = last, full.code
            return done
        if why is not None:
            done.skipped.append((follower.id, why))
        last = _cursor(follower)
    return done


async def _bring(
    conn: Connection, extraction_id: UUID, target: SchemaRow, begin_reading: BeginReading, done: AppliedChanges
) -> SkipReason | None:
    """Bring one extraction to a version. Return why not, if it stays."""
    row = await stored.get(conn, extraction_id, lock=True)
    if row is None or row.schema is None or target.schema is None:
        return SkipReason.NOT_FOUND
    if row.schema_revid == target.schema_revid:
        return SkipReason.FOLLOWS_ALREADY
    if await store.is_worked_on(conn, extraction_id):
        return SkipReason.AT_WORK
    difference = await without_turn(compare_schemas, row.schema, target.schema)
    await store.follow(conn, extraction_id, target.schema_revid)
    if difference.needs_reading:
        done.runs.append(await begin_reading(conn, row, difference.fields))
    elif row.status is ExtractionStatus.COMPLETED and not await extractions.incomplete(
        replace(row, schema=target.schema)
    ):
        await extractions.complete(conn, extraction_id)
    done.followed += 1
    return None


def _cursor(row: FollowerRow) -> str:
    return str(Cursor(store.FOLLOWERS, Position(row.created_at, row.id)))


async def _schema(conn: Connection, schema_id: UUID) -> SchemaRow:
    head = await schemas.get(conn, schema_id)
    if head.is_deleted:
        raise NotFound("There is no such schema.")
    return head


async def _version(conn: Connection, head: SchemaRow, revid: UUID | None) -> SchemaRow:
    row = head if revid in (None, head.schema_revid) else await schemas.get_version(conn, revid or head.schema_revid)
    if row.id != head.id or row.schema is None:
        raise NotFound("There is no such version of this schema.")
    return row
