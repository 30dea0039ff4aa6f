"""What a change of a schema would do to the extractions that follow an older version of it, and doing that.

Nothing is looked through while anything is locked. Each extraction is brought to the new version in one transaction of
its own, which first sees whether it stands as it was looked at; with it begins the run that reads what is left open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Final, TypeAlias
from uuid import UUID

from fieldmark.db.pool import Connection, Database
from fieldmark.domain import paths
from fieldmark.domain.attempts import again_while_stale
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.paths import Path
from fieldmark.domain.schema_changes import (
    MOST_PLACES,
    SchemaChange,
    SchemaDifference,
    change_of,
    difference_of,
    read_once_removed,
)
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.errors import DocumentFailed, Invalid, NotFound, OutOfCredit, QueueFull, Stale
from fieldmark.identity.scope import Scope
from fieldmark.services import extractions, schemas
from fieldmark.services.paging import Cursor, page_of
from fieldmark.services.turns import in_turn
from fieldmark.stores import extractions as stored
from fieldmark.stores import schema_changes as store
from fieldmark.stores.rows import ExtractionRow, Position, SchemaRow
from fieldmark.stores.schema_changes import FollowerRow

MOST_COUNTED: Final = 10_000
MOST_REMOVED: Final = 200
"""ConflictPolicy of one extraction that are taken away at once: each is a change of its own in the journal."""
MOST_SECONDS: Final = 20
"""How long one answer looks at extractions, of which each may take long. At least one is looked at."""
_KIND: Final = "schema changes"

BeginReading: TypeAlias = Callable[[Connection, ExtractionRow, Sequence[str] | None], Awaitable[UUID]]
"""Starts a run that reads fields of an extraction again, or all of them, in a transaction of the caller's."""


class ConflictPolicy(StrEnum):
    """What becomes of an extraction with values that cannot be brought under the new version."""

    SKIP = "skip"
    KEEP = "keep"
    REMOVE = "remove"


class SkipReason(StrEnum):
    """Why an extraction stays at its version."""

    NOT_FOUND = "not_found"
    FOLLOWS_ALREADY = "follows_already"
    AT_WORK = "at_work"
    CONFLICTS = "conflicts"
    CHANGED = "changed"
    DOCUMENT_FAILED = "document_failed"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What another version does to one extraction."""

    extraction: FollowerRow
    change: SchemaChange


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """A page of them. On the first, by the version that an extraction there follows, how that one and the new differ;
    and how many extractions follow another version, as far as they are counted."""

    items: Sequence[PlannedChange]
    next: str | None
    differences: dict[UUID, SchemaDifference] | None = None
    extractions: int | None = None


@dataclass(slots=True)
class AppliedChanges:
    """What was done. `next`: where to go on. `stopped` is the code of what kept it from going on by itself."""

    followed: int = 0
    runs: list[UUID] = field(default_factory=list[UUID])
    skipped: list[tuple[UUID, SkipReason]] = field(default_factory=list[tuple[UUID, SkipReason]])
    next: str | None = None
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class _Target:
    """The version that extractions are brought to; without a revid one that is not kept yet."""

    schema: JsonObject
    revid: UUID | None


async def plan(
    database: Database,
    scope: Scope,
    schema_id: UUID,
    *,
    schema: JsonObject | None = None,
    revid: UUID | None = None,
    limit: int,
    before: str | None = None,
    seconds: float = MOST_SECONDS,
) -> PlannedChanges:
    """What the latest version of a schema, or another of its versions, or a schema that is not kept yet would do to the
    extractions that follow another version. Nothing is changed. Raises NotFound, Invalid, InvalidSchema, and
    TooManyAtOnce."""
    if schema is not None:
        if revid is not None:
            raise Invalid("Give a schema or a version of one, not both.")
        await schemas.check(schema)
    behind = None if before is None else Cursor.parse(before, _KIND).position
    async with database.as_user(scope) as conn:
        head = await _schema(conn, schema_id)
        target = _Target(schema, None) if schema is not None else await _version(conn, head, revid)
        rows = await store.followers(conn, schema_id, other_than=target.revid, limit=limit + 1, behind=behind)
        count = None
        if before is None:
            count = await store.count_followers(conn, schema_id, target.revid, MOST_COUNTED)
        # With no extraction at all it can still be seen what changes.
        olds = {head.schema_revid: head.schema} if before is None and target.revid != head.schema_revid else {}
    page = page_of(rows, limit, _KIND)
    items: list[PlannedChange] = []
    following, until = page.next, monotonic() + seconds
    for at, follower in enumerate(page.items):
        if at > 0 and monotonic() > until:
            following = _behind(page.items[at - 1])
            break
        async with database.as_user(scope) as conn:
            row = await stored.get(conn, follower.id)
        if row is None or row.schema is None:
            continue
        olds.setdefault(follower.schema_revid, row.schema)
        items.append(PlannedChange(follower, await _change(scope, row, target)))
    differences = None
    if before is None:
        differences = {
            of: await in_turn(scope.org_id, difference_of, old or {}, target.schema) for of, old in olds.items()
        }
    return PlannedChanges(items, following, differences, count)


async def apply(
    database: Database,
    scope: Scope,
    schema_id: UUID,
    begin_reading: BeginReading,
    *,
    revid: UUID | None = None,
    extraction_ids: Sequence[UUID] | None = None,
    conflicts: ConflictPolicy = ConflictPolicy.SKIP,
    limit: int,
    before: str | None = None,
    seconds: float = MOST_SECONDS,
) -> AppliedChanges:
    """Bring extractions to the latest version of a schema, or to another of its versions, the newest first: those that
    are named, or `limit` of those that follow another one. Where fields are to be read, a run begins that reads these
    alone. Raises NotFound and InvalidSchema; QueueFull or OutOfCredit where nothing could be done for it."""
    behind = None if before is None else Cursor.parse(before, _KIND).position
    async with database.as_user(scope) as conn:
        head = await _schema(conn, schema_id)
        target = await _version(conn, head, revid)
        rows = await store.followers(
            conn,
            schema_id,
            other_than=None if extraction_ids is not None else target.revid,
            among=extraction_ids,
            limit=limit + 1,
            behind=behind,
        )
    page = page_of(rows, limit, _KIND)
    done = AppliedChanges(next=page.next)
    if extraction_ids is not None and before is None and page.next is None:
        found = {row.id for row in rows}
        done.skipped += [(one, SkipReason.NOT_FOUND) for one in dict.fromkeys(extraction_ids) if one not in found]
    last, until = before, monotonic() + seconds
    for at, follower in enumerate(page.items):
        if at > 0 and monotonic() > until:
            done.next = last
            return done
        try:
            why = await again_while_stale(
                lambda of=follower.id: _bring(database, scope, of, target, conflicts, begin_reading, done)
            )
        except Stale:
            why = SkipReason.CHANGED
        except DocumentFailed:
            why = SkipReason.DOCUMENT_FAILED
        except (QueueFull, OutOfCredit) as full:
            if at == 0:
                raise
            done.next, done.stopped = last, full.code
            return done
        if why is not None:
            done.skipped.append((follower.id, why))
        last = _behind(follower)
    return done


async def _bring(
    database: Database,
    scope: Scope,
    extraction_id: UUID,
    target: _Target,
    conflicts: ConflictPolicy,
    begin_reading: BeginReading,
    done: AppliedChanges,
) -> SkipReason | None:
    """Bring one extraction to a version, or say why not. Raises Stale where it changed meanwhile."""
    assert target.revid is not None
    async with database.as_user(scope) as conn:
        row = await stored.get(conn, extraction_id)
        if row is None or row.schema is None:
            return SkipReason.NOT_FOUND
        if row.schema_revid == target.revid:
            return SkipReason.FOLLOWS_ALREADY
    change = await _change(scope, row, target)
    removes = conflicts is ConflictPolicy.REMOVE and bool(change.conflicts)
    if change.conflicts and (conflicts is ConflictPolicy.SKIP or (removes and len(change.conflicts) > MOST_REMOVED)):
        return SkipReason.CONFLICTS
    read = change.read_again
    if removes:
        read = await in_turn(scope.org_id, read_once_removed, change, target.schema, row.extracted_fields)
    async with database.as_user(scope) as conn:
        standing = await stored.lock(conn, extraction_id)
        if standing is None:
            return SkipReason.NOT_FOUND
        if (standing.version, standing.locks, standing.status) != (row.version, row.locks, row.status) or (
            await store.revid_of(conn, extraction_id) != row.schema_revid
        ):
            raise Stale("The extraction changed while it was looked at.")
        if await store.is_worked_on(conn, extraction_id):
            return SkipReason.AT_WORK
        if removes:
            for path in _from_behind([one.path for one in change.conflicts]):
                await stored.remove_field(conn, extraction_id, paths.to_sql(path))
        await store.follow(conn, extraction_id, target.revid)
        run_id = None
        if read:
            names = [paths.name(path) for path in read]
            run_id = await begin_reading(conn, row, names if len(names) <= MOST_PLACES else None)
        elif row.status is ExtractionStatus.COMPLETED and not change.violations and (removes or not change.conflicts):
            # It was complete, and is so by the new version too.
            await extractions.complete(conn, extraction_id)
    done.followed += 1
    done.runs += [] if run_id is None else [run_id]
    return None


def _behind(row: FollowerRow) -> str:
    return str(Cursor(_KIND, Position(row.created_at, row.id)))


async def _change(scope: Scope, row: ExtractionRow, target: _Target) -> SchemaChange:
    return await in_turn(
        scope.org_id, change_of, row.schema or {}, target.schema, row.extracted_fields, row.evidence, row.locks
    )


async def _schema(conn: Connection, schema_id: UUID) -> SchemaRow:
    head = await schemas.get(conn, schema_id)
    if head.is_deleted:
        raise NotFound("There is no such schema.")
    return head


async def _version(conn: Connection, head: SchemaRow, revid: UUID | None) -> _Target:
    row = head if revid in (None, head.schema_revid) else await schemas.get_version(conn, revid or head.schema_revid)
    if row.id != head.id or row.schema is None:
        raise NotFound("There is no such version of this schema.")
    return _Target(row.schema, row.schema_revid)


def _from_behind(found: Sequence[Path]) -> list[Path]:
    """Paths in an order in which none moves when those before it are removed; without what goes with another."""
    known = set(found)
    outermost = [path for path in found if not any(path[:steps] in known for steps in range(1, len(path)))]
    return sorted(
        outermost, key=lambda path: [(isinstance(step, str), str(step).rjust(9)) for step in path], reverse=True
    )
