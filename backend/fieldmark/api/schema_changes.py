"""/api/schemas/{id}/changes and …/apply: what a version of a schema changes for extractions, and applying it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from fieldmark.api.agent import ModelName
from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.shapes import Body
from fieldmark.db.pool import Connection
from fieldmark.runs.lifecycle import launch
from fieldmark.services import schema_changes
from fieldmark.services.schema_changes import SkipReason
from fieldmark.stores.paging import MAX_CURSOR_CHARACTERS
from fieldmark.stores.rows import ExtractionRow

router = APIRouter(prefix="/api/schemas", tags=["schemas"])


class ChangesRequest(Body):
    """Ask what a version of a schema changes. Left empty: its latest version."""

    json_schema: dict[str, Any] | None = Field(None, alias="schema", description="A schema that is not stored yet.")
    schema_revid: UUID | None = Field(None, description="A version of this schema.")


class VersionDifference(BaseModel):
    """How an older version differs from the new one, by top-level field."""

    schema_revid: UUID = Field(description="The older version.")
    number: int
    extractions: int = Field(description="Extractions that follow the older version. 10,000 means as many or more.")
    added: list[str]
    removed: list[str]
    changed: list[str] = Field(description="Fields whose schema differs in more than a title, a default or examples.")
    everything: bool = Field(description="A keyword at the root differs that may concern any field.")
    rules: bool = Field(description="The rules differ.")


class SchemaChanges(BaseModel):
    """What a version changes for the extractions that follow another one."""

    versions: list[VersionDifference] = Field(description="The versions that extractions follow, newest first: 50.")
    extractions: int = Field(description="Extractions that follow another version.")
    read_again: int = Field(description="Extractions of which fields are read again.")
    estimated_cost_usd: float | None = Field(
        description="If each costs as much as a first extraction did on average. null where that is not known."
    )


class ApplyRequest(Body):
    """Bring extractions to a version of a schema. Left empty: those that follow another version, to its latest."""

    schema_revid: UUID | None = None
    extraction_ids: Annotated[list[UUID], Field(min_length=1, max_length=200)] | None = Field(
        None, description="Only these, of all that follow a version of this schema."
    )
    approval: Literal["auto", "ask"] | None = Field(None, description="As for a run.")
    model: ModelName | None = Field(None, description="As for a run.")
    limit: Annotated[int, Field(ge=1, le=200)] = 200
    before: str | None = Field(
        None, min_length=1, max_length=MAX_CURSOR_CHARACTERS, description="The `next` of the last answer."
    )


class SkippedExtraction(BaseModel):
    """An extraction that stays at its version."""

    extraction_id: UUID
    why: SkipReason


class AppliedVersion(BaseModel):
    """What was done."""

    followed: int = Field(description="How many extractions follow the version now.")
    runs: list[UUID] = Field(description="The runs that read the changed fields: one for each extraction.")
    skipped: list[SkippedExtraction]
    next: str | None = Field(description="Pass it as `before` of the same request to continue. null when all is done.")
    stopped: Literal["queue_full", "out_of_credit"] | None = Field(
        description="Why it ended early. Continue from `next` later."
    )


@router.post("/{schema_id}/changes")
async def plan_schema_changes(
    schema_id: UUID, body: ChangesRequest, scope: TheScope, runtime: TheRuntime
) -> SchemaChanges:
    """Show what a version of a schema, or a schema that is not stored yet, changes: which top-level fields, for how
    many extractions, and what reading them again may cost. Nothing is changed."""
    found = await schema_changes.preview(
        runtime.database, scope, schema_id, schema=body.json_schema, revid=body.schema_revid
    )
    return SchemaChanges(
        versions=[
            VersionDifference(
                schema_revid=row.schema_revid,
                number=row.number,
                extractions=row.extractions,
                added=difference.added,
                removed=difference.removed,
                changed=difference.changed,
                everything=difference.everything,
                rules=difference.rules,
            )
            for row, difference in found.versions
        ],
        extractions=found.extractions,
        read_again=found.read_again,
        estimated_cost_usd=None if found.estimated_cost is None else float(found.estimated_cost),
    )


@router.post("/{schema_id}/apply")
async def apply_schema_changes(
    schema_id: UUID, body: ApplyRequest, scope: TheScope, runtime: TheRuntime
) -> AppliedVersion:
    """Bring extractions to a version of a schema. A run in the background reads the changed fields and can write
    nowhere else. No value is removed; what a person set stays. Extractions that follow the version already are left
    alone, so the request can be repeated. A key needs runs:write besides."""
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
