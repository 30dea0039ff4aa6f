"""Applies a new version of a schema to the extractions that use an older one: previews the differences, and moves the
extractions. Values are never removed. A background run reads the changed top-level fields again; values set by people
are locked, so different findings become proposals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Final, Literal, TypeAlias
from uuid import UUID

from pydantic import BaseModel, Field

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.columns import list_names, required_fields
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.schema_changes import SchemaDifference
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.errors import Deleted, DocumentFailed, Invalid, NotFound, OutOfCredit, QueueFull
from fieldmark.identity.scope import Scope
from fieldmark.services import extractions
from fieldmark.services.fair_share import run_unqueued
from fieldmark.services.schemas import check
from fieldmark.stores import extractions as stored
from fieldmark.stores import schema_changes as store
from fieldmark.stores import stacks
from fieldmark.stores.library import PromptText, prompts, schemas
from fieldmark.stores.paging import Cursor
from fieldmark.stores.rows import ExtractionRow, Position, Schema
from fieldmark.stores.schema_changes import FollowedVersionRow, FollowerRow

MAX_COUNTED: Final = 10_000
"""Extractions of one version that are counted."""
MAX_VERSIONS: Final = 50
"""Older versions that are compared: the newest that extractions follow."""
MAX_MERGED_PROMPTS: Final = 200
MAX_PROMPTS: Final = 50
"""Prompts of a schema that are listed."""

StartReading: TypeAlias = Callable[[Connection, ExtractionRow, Sequence[str] | None], Awaitable[UUID]]
"""Starts a run that reads the named fields of an extraction again, or all of them, in the caller's transaction."""


class SkipReason(StrEnum):
    """Why an extraction keeps its version."""

    NOT_FOUND = "not_found"
    FOLLOWS_ALREADY = "follows_already"
    AT_WORK = "at_work"
    DOCUMENT_FAILED = "document_failed"


class VersionDifference(BaseModel):
    """How an older version differs from the new one, by top-level field."""

    schema_revid: UUID = Field(description="The older version.")
    number: int
    extractions: int = Field(description="Extractions that follow the older version. 10,000 means as many or more.")
    added: list[str]
    removed: list[str] = Field(description="Fields that are dropped, also those in lists and objects.")
    changed: list[str] = Field(description="Fields whose schema differs in more than a title, a default or examples.")
    everything: bool = Field(description="A keyword at the root differs that may concern any field.")
    rules: bool = Field(description="The rules differ.")


class SchemaPrompt(BaseModel):
    """A prompt that uses a schema."""

    prompt_id: UUID
    name: str
    schema_version: int | None = Field(description="The version that it is pinned to. null: it follows the latest.")


class MissingColumn(BaseModel):
    """A field that the new version requires, and the current one does not."""

    path: str
    rows: int = Field(description="The documents of the schema's table that have no value there.")


class SchemaChanges(BaseModel):
    """The changes for the extractions that use another version of the schema."""

    versions: list[VersionDifference] = Field(description="The versions that extractions follow, newest first: 50.")
    prompts: list[SchemaPrompt] = Field(description="The prompts that use the schema, newest first: 50.")
    extractions: int = Field(description="Extractions that follow another version.")
    read_again: int = Field(description="Extractions whose changed fields will be read again.")
    missing: list[MissingColumn] = Field(description="Fields that some rows would miss from then on.")
    estimated_cost_usd: float | None = Field(
        description="If each costs as much as a first extraction did on average. null where that is not known."
    )


class SkippedExtraction(BaseModel):
    """An extraction that keeps its version."""

    extraction_id: UUID
    why: SkipReason


class AppliedVersion(BaseModel):
    """The result of applying a version."""

    followed: int = Field(description="How many extractions follow the version now.")
    runs: list[UUID] = Field(description="The runs that read the changed fields: one for each extraction.")
    skipped: list[SkippedExtraction]
    next: str | None = Field(description="Pass it as `before` of the same request to continue. null when all is done.")
    stopped: Literal["queue_full", "out_of_credit"] | None = Field(
        description="Why it ended early. Continue from `next` later."
    )


class MergedSchema(BaseModel):
    """The result of merging a schema into another."""

    moved: int = Field(description="How many extractions follow the other schema now.")
    skipped: list[SkippedExtraction] = Field(description="They keep the merged schema, which can still be read.")
    next: str | None = Field(description="Pass it as `before` of the same request to continue. null when all is done.")


async def list_prompts(conn: Connection, scope: Scope, schema_id: UUID) -> list[SchemaPrompt]:
    """Return the newest prompts that use a schema: a new version applies to those that are not pinned."""
    page = await prompts.list_page(conn, scope, limit=MAX_PROMPTS, schema_id=schema_id)
    return [SchemaPrompt(prompt_id=row.id, name=row.name, schema_version=row.schema_version) for row in page.items]


async def preview(
    database: Database,
    scope: Scope,
    schema_id: UUID,
    *,
    schema: JsonObject | None = None,
    revid: UUID | None = None,
) -> SchemaChanges:
    """Compare the versions that extractions use with the latest one, with the version `revid`, or with a `schema` that
    is not stored. Nothing is changed. Raise NotFound, Invalid, InvalidSchema."""
    if schema is not None and revid is not None:
        raise Invalid("Give a schema or a version of one, not both.")
    async with database.as_user(scope) as conn:
        head = await _schema(conn, schema_id)
        version = await _version(conn, head, revid)
        other_than = version.schema_revid if schema is None else None
        rows = await store.followed_versions(conn, schema_id, other_than, limit=MAX_VERSIONS, max_counted=MAX_COUNTED)
        cost = await store.average_cost(conn, scope.org_id, schema_id)
        required = [name for name in required_fields(schema or {}) if name not in required_fields(head.schema or {})]
        missing = await store.rows_without(conn, schema_id, required)
        users = await list_prompts(conn, scope, schema_id)
        if schema is not None and head.schema_revid not in {row.schema_revid for row in rows}:
            rows.insert(0, FollowedVersionRow(head.schema_revid, head.number, head.schema, 0))
    target = schema if schema is not None else version.schema
    await check(target)
    found = SchemaChanges(
        versions=[],
        prompts=users,
        extractions=0,
        read_again=0,
        missing=[MissingColumn(path=one.path, rows=one.rows) for one in missing],
        estimated_cost_usd=None,
    )
    async with database.as_user(scope) as conn:
        differences = [await store.compare_schemas(conn, row.schema, target) for row in rows]
    for row, difference in zip(rows, differences, strict=True):
        version = {"schema_revid": row.schema_revid, "number": row.number, "extractions": row.extractions}
        found.versions.append(VersionDifference.model_validate({**asdict(difference), **version}))
        found.extractions += row.extractions
        found.read_again += row.extractions if difference.needs_reading else 0
    if cost is not None or not found.read_again:
        found.estimated_cost_usd = float((cost or 0) * found.read_again)
    return found


async def apply(
    database: Database,
    scope: Scope,
    schema_id: UUID,
    begin_reading: StartReading,
    *,
    revid: UUID | None = None,
    extraction_ids: Sequence[UUID] | None = None,
    limit: int,
    before: str | None = None,
) -> AppliedVersion:
    """Move extractions to the latest version of a schema, or to `revid`, newest first: the named ones, or `limit` of
    those that use another version. A run reads the changed fields. Raise NotFound and InvalidSchema; QueueFull or
    OutOfCredit if not even the first could be moved."""
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
    await check(target.schema)
    done = AppliedVersion(followed=0, runs=[], skipped=[], next=page.next, stopped=None)
    if extraction_ids is not None and before is None and page.next is None:
        found = {row.id for row in page.items}
        done.skipped += [
            SkippedExtraction(extraction_id=one, why=SkipReason.NOT_FOUND)
            for one in dict.fromkeys(extraction_ids)
            if one not in found
        ]
    last = before
    for follower in page.items:
        try:
            async with database.as_user(scope) as conn:
                why = await _move_to_version(conn, follower.id, target, begin_reading, done)
        except DocumentFailed:
            why = SkipReason.DOCUMENT_FAILED
        except (QueueFull, OutOfCredit) as full:
            if last == before:
                raise
            done.next = last
            done.stopped = "queue_full" if isinstance(full, QueueFull) else "out_of_credit"
            return done
        if why is not None:
            done.skipped.append(SkippedExtraction(extraction_id=follower.id, why=why))
        last = _cursor(follower)
    return done


async def merge(
    database: Database, scope: Scope, schema_id: UUID, into: UUID, *, limit: int, before: str | None = None
) -> MergedSchema:
    """Merge a schema into another: delete it, let its stacks and prompts use the other one, and move `limit` of its
    extractions to the latest version of the other, newest first. No value is removed, and nothing is read again. A
    repeated request continues. Raise NotFound, Invalid if both are the same, Deleted if the other one is deleted."""
    if schema_id == into:
        raise Invalid("A schema cannot be merged into itself. Give the id of another schema as `into`.")
    async with database.as_user(scope) as conn:
        source, target = await schemas.get(conn, schema_id), await _schema(conn, into)
        if not source.is_deleted:
            lists = await run_unqueued(list_names, target.schema)
            await stacks.use_schema(conn, scope, schema_id, into, lists)
            for row in (await prompts.list_page(conn, scope, limit=MAX_MERGED_PROMPTS, schema_id=schema_id)).items:
                text = PromptText(row.name, row.content, into, row.model, row.tag_ids)
                await prompts.update(conn, row.id, text)
            await schemas.remove(conn, schema_id)
        page = await store.followers(conn, schema_id, limit=limit, before=before)
    done = MergedSchema(moved=0, skipped=[], next=page.next)
    for follower in page.items:
        async with database.as_user(scope) as conn:
            row = await stored.find(conn, follower.id, lock=True)
            if row is None or await store.has_active_run(conn, follower.id):
                why = SkipReason.NOT_FOUND if row is None else SkipReason.AT_WORK
                done.skipped.append(SkippedExtraction(extraction_id=follower.id, why=why))
            else:
                await move_to_version(conn, row, target, is_read_again=False)
                done.moved += 1
    return done


async def _move_to_version(
    conn: Connection, extraction_id: UUID, target: Schema, begin_reading: StartReading, done: AppliedVersion
) -> SkipReason | None:
    """Move one extraction to a version. Return the reason if it was skipped."""
    row = await stored.find(conn, extraction_id, lock=True)
    if row is None or row.schema is None:
        return SkipReason.NOT_FOUND
    if row.schema_revid == target.schema_revid:
        return SkipReason.FOLLOWS_ALREADY
    if await store.has_active_run(conn, extraction_id):
        return SkipReason.AT_WORK
    difference = await move_to_version(conn, row, target)
    if difference.needs_reading:
        done.runs.append(await begin_reading(conn, row, difference.fields))
    done.followed += 1
    return None


async def move_to_version(
    conn: Connection, row: ExtractionRow, target: Schema, *, is_read_again: bool = True
) -> SchemaDifference:
    """Move a locked extraction with a schema to another version, and return the difference. The caller must have its
    changed fields read again, if it has any and they are read again; otherwise it is completed again if it was."""
    difference = await store.compare_schemas(conn, row.schema or {}, target.schema)
    await store.follow(conn, row.id, target.schema_revid)
    if (
        not (is_read_again and difference.needs_reading)
        and row.status is ExtractionStatus.COMPLETED
        and not await extractions.completion_violations(replace(row, schema=target.schema))
    ):
        await extractions.complete(conn, row.id)
    return difference


def _cursor(row: FollowerRow) -> str:
    return str(Cursor(store.FOLLOWERS, Position(row.created_at, row.id)))


async def _schema(conn: Connection, schema_id: UUID) -> Schema:
    head = await schemas.get(conn, schema_id)
    if head.is_deleted:
        raise Deleted(f"The schema {head.name!r} is deleted, so no version of it can be applied.")
    return head


async def _version(conn: Connection, head: Schema, revid: UUID | None) -> Schema:
    row = head if revid in (None, head.schema_revid) else await schemas.get_version(conn, revid or head.schema_revid)
    if row.id != head.id:
        raise NotFound("There is no such version of this schema.")
    return row
