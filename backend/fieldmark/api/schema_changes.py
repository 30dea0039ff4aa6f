"""/api/schemas/{id}/changes and …/apply: what a version of a schema would do to extractions, and doing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from fieldmark.api.agent import ModelName
from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.problems import FieldError, responses
from fieldmark.api.shapes import json_of
from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.paths import Path
from fieldmark.domain.schema_changes import ConflictReason, SchemaDifference
from fieldmark.runs.lifecycle import launch
from fieldmark.services import schema_changes
from fieldmark.services.paging import MAX_CURSOR_CHARACTERS
from fieldmark.services.schema_changes import ConflictPolicy, PlannedChange, PlannedChanges, SkipReason
from fieldmark.stores.rows import ExtractionRow

router = APIRouter(prefix="/api/schemas", tags=["schemas"])

_MOST_PATHS = 500
"""How many paths of a kind are named of one extraction. All are counted."""

Before = Annotated[
    str | None, Field(min_length=1, max_length=MAX_CURSOR_CHARACTERS, description="The `next` of the last answer.")
]


class ChangesRequest(BaseModel):
    """Ask what a version of a schema would do. Left empty: its latest version."""

    model_config = ConfigDict(extra="forbid")

    json_schema: dict[str, Any] | None = Field(None, alias="schema", description="One that is not kept yet.")
    schema_revid: UUID | None = Field(None, description="A version of this schema.")
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    before: Before = None


class ValueConflict(BaseModel):
    """A value that cannot be brought under the version without a person."""

    path: str
    why: ConflictReason = Field(
        description="locked: a person set it, and the version does not admit it. no_place: it has no such field."
    )


class ExtractionChange(BaseModel):
    """What the version would do to one extraction. At most 500 paths of a kind are named; `counts` has all."""

    extraction_id: UUID
    document_id: UUID
    filename: str
    schema_revid: UUID = Field(description="The version that it follows.")
    carries: list[str] = Field(description="Values that stay as they are.")
    read_again: list[str] = Field(description="Places that are read again: of a list or an object, all that is below.")
    conflicts: list[ValueConflict]
    violations: list[FieldError] = Field(description="Rules of the version that the values break which stay.")
    counts: dict[Literal["carries", "read_again", "conflicts"], int]

    @classmethod
    def of(cls, planned: PlannedChange) -> Self:
        """It as the service answers it."""
        change, row = planned.change, planned.extraction
        return cls(
            extraction_id=row.id,
            document_id=row.document_id,
            filename=row.filename,
            schema_revid=row.schema_revid,
            carries=_names(change.carries),
            read_again=_names(change.read_again),
            conflicts=[ValueConflict(path=paths.name(one.path), why=one.why) for one in change.conflicts[:_MOST_PATHS]],
            violations=[
                FieldError(path=paths.name(one.path), code=one.code, message=one.message) for one in change.violations
            ],
            counts={
                "carries": len(change.carries),
                "read_again": len(change.read_again),
                "conflicts": len(change.conflicts),
            },
        )


class VersionDifference(BaseModel):
    """How a version and the new one differ, by path: `items[*].price` is said of every item."""

    schema_revid: UUID = Field(description="The older version.")
    added: list[str]
    removed: list[str]
    changed: list[str] = Field(description="What is said of them otherwise: their type, say, or their description.")
    rules: bool = Field(description="Whether the rules are others.")
    more: bool = Field(description="There are more of them than are named: a thousand.")

    @classmethod
    def of(cls, revid: UUID, found: SchemaDifference) -> Self:
        """It as the service answers it."""
        return cls(
            schema_revid=revid,
            added=found.added,
            removed=found.removed,
            changed=found.changed,
            rules=found.rules,
            more=found.more,
        )


class ChangesSummary(BaseModel):
    """What changes in the schema itself, and how many extractions follow another version of it."""

    differences: list[VersionDifference] = Field(
        description="One for each version that an extraction of this page follows."
    )
    extractions: int = Field(description="10,000 stands for as many or more.")


class SchemaChanges(BaseModel):
    """A page of extractions that follow another version, newest first."""

    items: list[ExtractionChange]
    next: str | None
    summary: ChangesSummary | None = Field(description="On the first page.")

    @classmethod
    def of(cls, planned: PlannedChanges) -> Self:
        """It as the service answers it."""
        summary = None
        if planned.differences is not None and planned.extractions is not None:
            told = [VersionDifference.of(revid, found) for revid, found in planned.differences.items()]
            summary = ChangesSummary(differences=told, extractions=planned.extractions)
        return cls(items=[ExtractionChange.of(one) for one in planned.items], next=planned.next, summary=summary)


class ApplyRequest(BaseModel):
    """Bring extractions to a version of a schema. Left empty: those that follow another version, to its latest."""

    model_config = ConfigDict(extra="forbid")

    schema_revid: UUID | None = None
    extraction_ids: Annotated[list[UUID], Field(min_length=1, max_length=200)] | None = Field(
        None, description="These alone, of all that follow a version of this schema."
    )
    conflicts: ConflictPolicy = Field(
        ConflictPolicy.SKIP,
        description="skip: an extraction with conflicts stays as it is. keep: it follows, and the values stay. remove: "
        "they are taken away in your name, and what has a place is read again.",
    )
    approval: Literal["auto", "ask"] | None = Field(None, description="As for a run.")
    model: ModelName | None = Field(None, description="As for a run.")
    limit: Annotated[int, Field(ge=1, le=200)] = 200
    before: Before = None


class SkippedExtraction(BaseModel):
    """An extraction that stays at its version."""

    extraction_id: UUID
    why: SkipReason


class AppliedVersion(BaseModel):
    """What was done."""

    followed: int = Field(description="How many extractions follow the version now.")
    runs: list[UUID] = Field(description="The runs that read what is to be read: one an extraction.")
    skipped: list[SkippedExtraction]
    next: str | None = Field(description="Where to go on, as `before` of the same request. null where all is done.")
    stopped: Literal["queue_full", "out_of_credit"] | None = Field(
        description="Why it did not go on by itself. Go on from `next` a while later."
    )


@router.post("/{schema_id}/changes", response_model=SchemaChanges, responses=responses(401, 404, 422))
async def plan_schema_changes(schema_id: UUID, body: ChangesRequest, scope: TheScope, runtime: TheRuntime) -> Response:
    """What a version of a schema, or a schema that is not kept yet, would do to each extraction that follows another
    version: what stays, what is read again, what neither. Nothing is changed."""
    planned = await schema_changes.plan(
        runtime.database,
        scope,
        schema_id,
        schema=body.json_schema,
        revid=body.schema_revid,
        limit=body.limit,
        before=body.before,
    )
    return await json_of(SchemaChanges.of, planned)


@router.post("/{schema_id}/apply", responses=responses(401, 402, 404, 422, 429))
async def apply_schema_changes(
    schema_id: UUID, body: ApplyRequest, scope: TheScope, runtime: TheRuntime
) -> AppliedVersion:
    """Bring extractions to a version of a schema. One in which all stays follows it at once. Where fields are to be
    read, a run in the background reads these and can write nowhere else. It does no harm to ask again: what follows
    the version already is left alone."""
    options = launch.RunOptions(approval=body.approval, model=body.model, background=True)

    async def begin(conn: Connection, row: ExtractionRow, fields: Sequence[str] | None) -> UUID:
        given = {"document_id": row.document_id, "extraction_id": row.id, "fields": fields}
        request = launch.request_of("extract", given)
        return await launch.start_within(conn, scope, "extract", request, prices=runtime.prices, options=options)

    done = await schema_changes.apply(
        runtime.database,
        scope,
        schema_id,
        begin,
        revid=body.schema_revid,
        extraction_ids=body.extraction_ids,
        conflicts=body.conflicts,
        limit=body.limit,
        before=body.before,
    )
    return AppliedVersion.model_validate(
        {
            "followed": done.followed,
            "runs": done.runs,
            "skipped": [SkippedExtraction(extraction_id=one, why=why) for one, why in done.skipped],
            "next": done.next,
            "stopped": done.stopped,
        }
    )


def _names(found: Sequence[Path]) -> list[str]:
    return [paths.name(path) for path in found[:_MOST_PATHS]]
