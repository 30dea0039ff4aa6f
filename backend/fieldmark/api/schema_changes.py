"""/api/schemas/{id}/changes and …/apply: preview a version of a schema, and bring extractions to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from fieldmark.api.agent import ModelName
from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.named_items import SchemaId, SchemaName
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import RequestBody
from fieldmark.db.pool import Connection
from fieldmark.runs.lifecycle import launch
from fieldmark.services import schema_changes
from fieldmark.services.schema_changes import AppliedVersion, MergedSchema, SchemaChanges
from fieldmark.stores.library import schemas
from fieldmark.stores.paging import MAX_CURSOR_CHARACTERS
from fieldmark.stores.rows import ExtractionRow
from fieldmark.stores.runs import RunOptions

router = Routes(prefix="/api/schemas", tags=["schemas"])


class ChangesRequest(RequestBody):
    """The version to compare with. Default: the schema's latest version."""

    json_schema: dict[str, Any] | None = Field(None, alias="schema", description="A schema that is not stored yet.")
    schema_revid: UUID | None = Field(None, description="A version of this schema.")


class ApplyRequest(RequestBody):
    """The version to apply, and to which extractions. Default: the latest version, to all that follow another one."""

    schema_revid: UUID | None = None
    extraction_ids: Annotated[list[UUID], Field(min_length=1, max_length=200)] | None = Field(
        None, description="Only these extractions."
    )
    approval: Literal["auto", "ask"] | None = Field(None, description="As for a run.")
    model: ModelName | None = Field(None, description="As for a run.")
    limit: Annotated[int, Field(ge=1, le=200)] = 200
    before: str | None = Field(
        None, min_length=1, max_length=MAX_CURSOR_CHARACTERS, description="The `next` of the previous page."
    )


class MergeRequest(RequestBody):
    """The schema to merge into."""

    into: SchemaName
    limit: Annotated[int, Field(ge=1, le=200)] = 200
    before: str | None = Field(
        None, min_length=1, max_length=MAX_CURSOR_CHARACTERS, description="The `next` of the previous page."
    )


@router.post("/{schema_id}/merge")
async def merge_schema(schema_id: SchemaId, body: MergeRequest, scope: TheScope, runtime: TheRuntime) -> MergedSchema:
    """Merge a schema into another, and delete it: its extractions, stacks and prompts use the other one from then on.
    No value is removed, and nothing is read again; a field that the other one lacks is kept and listed as a problem.
    A member can merge their own schemas, an owner any. A key also needs extractions:write."""
    async with runtime.database.as_user(scope) as conn:
        into = await schemas.id_of(conn, scope.org_id, body.into)
    return await schema_changes.merge(runtime.database, scope, schema_id, into, limit=body.limit, before=body.before)


@router.post("/{schema_id}/changes")
async def plan_schema_changes(
    schema_id: SchemaId, body: ChangesRequest, scope: TheScope, runtime: TheRuntime
) -> SchemaChanges:
    """Preview a version of a schema, or a schema that is not stored yet: the top-level fields that change, the number
    of extractions, and the estimated cost of reading them again. Changes nothing."""
    return await schema_changes.preview(
        runtime.database, scope, schema_id, schema=body.json_schema, revid=body.schema_revid
    )


@router.post("/{schema_id}/apply")
async def apply_schema_changes(
    schema_id: SchemaId, body: ApplyRequest, scope: TheScope, runtime: TheRuntime
) -> AppliedVersion:
    """Bring extractions to a version of a schema. A background run reads the changed fields and can write no others. No
    value is removed, and values set by people stay. Extractions that already follow the version are skipped, so the
    request can be repeated. A key also needs runs:write."""
    options = RunOptions(approval=body.approval, model=body.model, background=True)

    async def start_reading(conn: Connection, row: ExtractionRow, fields: Sequence[str] | None) -> UUID:
        arguments = {"document_id": row.document_id, "extraction_id": row.id, "fields": fields}
        request = launch.parse_request("extract", arguments)
        return await launch.start_in_transaction(
            conn, scope, "extract", request, prices=runtime.prices, options=options
        )

    return await schema_changes.apply(
        runtime.database,
        scope,
        schema_id,
        start_reading,
        revid=body.schema_revid,
        extraction_ids=body.extraction_ids,
        limit=body.limit,
        before=body.before,
    )
