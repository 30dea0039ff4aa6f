"""/api/tags: words by which an organisation sorts its documents and prompts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.problems import responses
from fieldmark.api.shapes import Before, Limit, Name, Named, PartOfName
from fieldmark.services import tags
from fieldmark.stores.rows import TagRow

router = APIRouter(prefix="/api/tags", tags=["tags"])

Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$", examples=["#1e90ff"])]


class NewTag(BaseModel):
    """A tag to make."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    colour: Colour = tags.GREY


class TagChange(BaseModel):
    """Another name, another colour, or both. What is left out stays."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    colour: Colour | None = None


class Tag(BaseModel):
    """A tag of the organisation."""

    id: UUID
    name: str
    colour: str = Field(examples=["#1e90ff"])
    deleted: bool = Field(description="In no list and on no document.", validation_alias="is_deleted")
    proposed: bool = Field(
        description="An agent made it by itself, and nobody has accepted it yet.", validation_alias="is_proposed"
    )
    created_by: UUID | None = Field(description="Who made it; null if they are gone.")
    created_at: datetime


class TagList(BaseModel):
    """Tags, newest first."""

    items: list[Tag]
    next: str | None = Field(description="Give it as `before` to get those that follow. null at the end.")


class TagReferences(BaseModel):
    """Where the deleted tag was."""

    documents: int
    prompts: int


@router.get("", responses=responses(401, 404, 422))
async def list_tags(
    scope: TheScope,
    runtime: TheRuntime,
    name: PartOfName = None,
    named: Named = None,
    limit: Limit = 50,
    before: Before = None,
) -> TagList:
    """The organisation's tags, newest first."""
    async with runtime.database.as_user(scope) as conn:
        if named is not None:
            page = await tags.named(conn, scope, named)
        else:
            page = await tags.list_page(conn, scope, name=name, limit=limit, before=before)
    return TagList(items=[_tag(row) for row in page.items], next=page.next)


@router.post("", status_code=201, responses=responses(401, 404, 409, 413, 422))
async def create_tag(body: NewTag, scope: TheScope, runtime: TheRuntime) -> Tag:
    """Make a tag."""
    async with runtime.database.as_user(scope) as conn:
        return _tag(await tags.create(conn, scope, body.name, body.colour))


@router.get("/{tag_id}", responses=responses(401, 404, 422))
async def get_tag(tag_id: UUID, scope: TheScope, runtime: TheRuntime) -> Tag:
    """One tag, also one that is deleted."""
    async with runtime.database.as_user(scope) as conn:
        return _tag(await tags.get(conn, tag_id))


@router.patch("/{tag_id}", responses=responses(401, 404, 409, 413, 422))
async def update_tag(tag_id: UUID, body: TagChange, scope: TheScope, runtime: TheRuntime) -> Tag:
    """Give a tag another name, another colour, or both, wherever it is."""
    async with runtime.database.as_user(scope) as conn:
        return _tag(await tags.update(conn, tag_id, name=body.name, colour=body.colour))


@router.delete("/{tag_id}", responses=responses(401, 404, 422))
async def delete_tag(tag_id: UUID, scope: TheScope, runtime: TheRuntime) -> TagReferences:
    """Hide a tag: it is in no list and on no document. A member may delete their own, an owner any."""
    async with runtime.database.as_user(scope) as conn:
        told = await tags.remove(conn, tag_id)
    return TagReferences.model_validate(told, from_attributes=True)


def _tag(row: TagRow) -> Tag:
    return Tag.model_validate(row, from_attributes=True)
