"""/api/schemas and /api/schema_versions: JSON Schemas by name, with every version that they have had."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.problems import responses
from fieldmark.api.shapes import (
    Before,
    BeforeVersion,
    IfMatchRevid,
    Limit,
    Name,
    Named,
    PartOfName,
    revid_in,
)
from fieldmark.services import schemas

router = APIRouter(prefix="/api", tags=["schemas"])

JsonSchema = Annotated[
    dict[str, Any],
    Field(description="A JSON Schema (Draft 2020-12) of an object, at most 256 kB. References lead inside it."),
]


class NewSchema(BaseModel):
    """A schema to keep."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    json_schema: JsonSchema = Field(alias="schema")


class SchemaChange(BaseModel):
    """Another name, another schema, or both. What is left out stays."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    json_schema: JsonSchema | None = Field(None, alias="schema")


class SchemaVersion(BaseModel):
    """A version of a schema, without its text."""

    id: UUID = Field(description="The schema, through all its versions.")
    schema_revid: UUID = Field(description="This version, which never changes.")
    number: int = Field(description="Which of its versions, from 1.")
    name: str
    latest: bool = Field(description="Whether it has no newer version.", validation_alias="is_latest")
    deleted: bool = Field(description="In no list and for no new use.", validation_alias="is_deleted")
    proposed: bool = Field(
        description="An agent made it by itself, and nobody has accepted it yet.", validation_alias="is_proposed"
    )
    created_by: UUID | None = Field(description="Who made the schema; null if they are gone.")
    created_at: datetime = Field(description="When the schema was made.")
    changed_by: UUID | None = Field(description="Who made this version; null if they are gone.")
    changed_at: datetime = Field(description="When this version was made.")


class KeptSchema(SchemaVersion):
    """A version of a schema."""

    json_schema: dict[str, Any] = Field(
        description="The JSON Schema.", serialization_alias="schema", validation_alias="schema"
    )


class SchemaList(BaseModel):
    """Schemas in their latest versions, those that were made last first."""

    items: list[SchemaVersion]
    next: str | None = Field(description="Give it as `before` to get those that follow. null at the end.")


class SchemaVersionList(BaseModel):
    """Versions of a schema, the newest first."""

    items: list[SchemaVersion]
    next: int | None = Field(description="Give it as `before` to get those that came before. null at the end.")


class SchemaReferences(BaseModel):
    """What still refers to the deleted schema, and keeps it."""

    prompts: int
    extractions: int


@router.get("/schemas", responses=responses(401, 404, 422))
async def list_schemas(
    scope: TheScope,
    runtime: TheRuntime,
    name: PartOfName = None,
    named: Named = None,
    limit: Limit = 50,
    before: Before = None,
) -> SchemaList:
    """The organisation's schemas without their texts, those that were made last first."""
    async with runtime.database.as_user(scope) as conn:
        if named is not None:
            page = await schemas.named(conn, scope, named)
        else:
            page = await schemas.list_page(conn, scope, name=name, limit=limit, before=before)
    return SchemaList(items=[_version(row) for row in page.items], next=page.next)


@router.post("/schemas", status_code=201, responses=responses(401, 404, 409, 413, 422))
async def create_schema(body: NewSchema, scope: TheScope, runtime: TheRuntime) -> KeptSchema:
    """Keep a schema under a name. One that cannot be used is refused, with where."""
    await schemas.check(body.json_schema)
    async with runtime.database.as_user(scope) as conn:
        return _whole(await schemas.create(conn, scope, body.name, body.json_schema))


@router.get("/schema_versions/{schema_revid}", responses=responses(401, 404, 422))
async def get_schema_version(schema_revid: UUID, scope: TheScope, runtime: TheRuntime) -> KeptSchema:
    """One version of a schema, the latest or an older one, also of one that is deleted."""
    async with runtime.database.as_user(scope) as conn:
        return _whole(await schemas.get_version(conn, schema_revid))


@router.get("/schemas/{schema_id}", responses=responses(401, 404, 422))
async def get_schema(schema_id: UUID, scope: TheScope, runtime: TheRuntime) -> KeptSchema:
    """A schema in its latest version, also one that is deleted."""
    async with runtime.database.as_user(scope) as conn:
        return _whole(await schemas.get(conn, schema_id))


@router.get("/schemas/{schema_id}/versions", responses=responses(401, 404, 422))
async def list_schema_versions(
    schema_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    limit: Limit = 50,
    before: BeforeVersion = None,
) -> SchemaVersionList:
    """The versions of a schema without their texts, the newest first."""
    async with runtime.database.as_user(scope) as conn:
        rows = await schemas.versions(conn, schema_id, limit=limit + 1, before=before)
    following = rows[limit - 1].number if len(rows) > limit else None
    return SchemaVersionList(items=[_version(row) for row in rows[:limit]], next=following)


@router.patch("/schemas/{schema_id}", responses=responses(401, 404, 409, 413, 422))
async def update_schema(
    schema_id: UUID, body: SchemaChange, scope: TheScope, runtime: TheRuntime, if_match: IfMatchRevid = None
) -> KeptSchema:
    """Give a schema another name, another text, or both: that is a new version. What was made with an older one keeps
    that. Without a difference there is no new version."""
    seen = revid_in(if_match)
    if body.json_schema is not None:
        await schemas.check(body.json_schema)
    async with runtime.database.as_user(scope) as conn:
        row = await schemas.update(conn, schema_id, name=body.name, schema=body.json_schema, revid=seen)
    return _whole(row)


@router.delete("/schemas/{schema_id}", responses=responses(401, 404, 422))
async def delete_schema(schema_id: UUID, scope: TheScope, runtime: TheRuntime) -> SchemaReferences:
    """Hide a schema: it is in no list and for no new use. What was made with it keeps it. A member may delete their
    own, an owner any."""
    async with runtime.database.as_user(scope) as conn:
        told = await schemas.remove(conn, schema_id)
    return SchemaReferences.model_validate(told, from_attributes=True)


def _version(row: object) -> SchemaVersion:
    return SchemaVersion.model_validate(row, from_attributes=True)


def _whole(row: object) -> KeptSchema:
    return KeptSchema.model_validate(row, from_attributes=True)
