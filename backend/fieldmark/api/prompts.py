"""/api/prompts and /api/prompt_versions: what extractions are asked for, by name, with every version."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.problems import responses
from fieldmark.api.shapes import (
    STORABLE,
    Before,
    BeforeVersion,
    IfMatchRevid,
    Limit,
    Name,
    Named,
    PartOfName,
    revid_in,
)
from fieldmark.services import prompts
from fieldmark.stores.prompts import PromptText
from fieldmark.stores.rows import PromptRow

router = APIRouter(prefix="/api", tags=["prompts"])

Content = Annotated[
    str, Field(min_length=1, max_length=20_000, pattern=STORABLE, description="What to look for, in words.")
]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE, description="The model that is asked.")]
TagIds = Annotated[list[UUID], Field(max_length=50, description="The tags of the documents that it is meant for.")]


class NewPrompt(BaseModel):
    """A prompt to keep."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    content: Content
    schema_id: UUID | None = Field(None, description="The schema that it follows: its latest version when it is used.")
    model: Model | None = Field(None, description="The model that is asked; the service's if left out.")
    tag_ids: TagIds = []


class PromptChange(BaseModel):
    """What changes of a prompt. What is left out stays."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    content: Content | None = None
    schema_id: UUID | None = Field(None, description="null: it follows none.")
    model: Model | None = Field(None, description="null: the service's.")
    tag_ids: TagIds | None = Field(None, description="These and no others.")


class KeptPrompt(BaseModel):
    """A version of a prompt."""

    id: UUID = Field(description="The prompt, through all its versions.")
    prompt_revid: UUID = Field(description="This version, which never changes.")
    number: int = Field(description="Which of its versions, from 1.")
    name: str
    content: str = Field(description="What to look for, in words.")
    schema_id: UUID | None = Field(description="The schema that it follows: its latest version when it is used.")
    model: str | None = Field(description="null: the service's.")
    tag_ids: list[UUID] = Field(description="The tags of the documents that it is meant for.")
    latest: bool = Field(description="Whether it has no newer version.", validation_alias="is_latest")
    deleted: bool = Field(description="In no list and for no new use.", validation_alias="is_deleted")
    proposed: bool = Field(
        description="An agent made it by itself, and nobody has accepted it yet.", validation_alias="is_proposed"
    )
    created_by: UUID | None = Field(description="Who made the prompt; null if they are gone.")
    created_at: datetime = Field(description="When the prompt was made.")
    changed_by: UUID | None = Field(description="Who made this version; null if they are gone.")
    changed_at: datetime = Field(description="When this version was made.")


class PromptList(BaseModel):
    """Prompts in their latest versions, those that were made last first."""

    items: list[KeptPrompt]
    next: str | None = Field(description="Give it as `before` to get those that follow. null at the end.")


class PromptVersionList(BaseModel):
    """Versions of a prompt, the newest first."""

    items: list[KeptPrompt]
    next: int | None = Field(description="Give it as `before` to get those that came before. null at the end.")


class PromptReferences(BaseModel):
    """What still refers to the deleted prompt, and keeps it."""

    extractions: int


@router.get("/prompts", responses=responses(401, 404, 422))
async def list_prompts(
    scope: TheScope,
    runtime: TheRuntime,
    name: PartOfName = None,
    named: Named = None,
    schema_id: Annotated[UUID | None, Query(description="Only those that follow this schema.")] = None,
    tag_id: Annotated[UUID | None, Query(description="Only those with this tag.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> PromptList:
    """The organisation's prompts, those that were made last first."""
    async with runtime.database.as_user(scope) as conn:
        if named is not None:
            page = await prompts.named(conn, scope, named)
        else:
            page = await prompts.list_page(
                conn, scope, name=name, schema_id=schema_id, tag_id=tag_id, limit=limit, before=before
            )
    return PromptList(items=[_prompt(row) for row in page.items], next=page.next)


@router.post("/prompts", status_code=201, responses=responses(401, 404, 409, 413, 422))
async def create_prompt(body: NewPrompt, scope: TheScope, runtime: TheRuntime) -> KeptPrompt:
    """Keep a prompt under a name."""
    text = PromptText(body.name, body.content, body.schema_id, body.model, body.tag_ids)
    async with runtime.database.as_user(scope) as conn:
        return _prompt(await prompts.create(conn, scope, text))


@router.get("/prompt_versions/{prompt_revid}", responses=responses(401, 404, 422))
async def get_prompt_version(prompt_revid: UUID, scope: TheScope, runtime: TheRuntime) -> KeptPrompt:
    """One version of a prompt, the latest or an older one, also of one that is deleted."""
    async with runtime.database.as_user(scope) as conn:
        return _prompt(await prompts.get_version(conn, prompt_revid))


@router.get("/prompts/{prompt_id}", responses=responses(401, 404, 422))
async def get_prompt(prompt_id: UUID, scope: TheScope, runtime: TheRuntime) -> KeptPrompt:
    """A prompt in its latest version, also one that is deleted."""
    async with runtime.database.as_user(scope) as conn:
        return _prompt(await prompts.get(conn, prompt_id))


@router.get("/prompts/{prompt_id}/versions", responses=responses(401, 404, 422))
async def list_prompt_versions(
    prompt_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    limit: Limit = 50,
    before: BeforeVersion = None,
) -> PromptVersionList:
    """The versions of a prompt, the newest first."""
    async with runtime.database.as_user(scope) as conn:
        rows = await prompts.versions(conn, prompt_id, limit=limit + 1, before=before)
    following = rows[limit - 1].number if len(rows) > limit else None
    return PromptVersionList(items=[_prompt(row) for row in rows[:limit]], next=following)


@router.patch("/prompts/{prompt_id}", responses=responses(401, 404, 409, 413, 422))
async def update_prompt(
    prompt_id: UUID, body: PromptChange, scope: TheScope, runtime: TheRuntime, if_match: IfMatchRevid = None
) -> KeptPrompt:
    """Change a prompt: that is a new version. What was made with an older one keeps that. Without a difference there is
    no new version."""
    seen = revid_in(if_match)

    def changed(row: PromptRow) -> PromptText:
        given = body.model_fields_set
        return PromptText(
            name=row.name if body.name is None else body.name,
            content=row.content if body.content is None else body.content,
            schema_id=body.schema_id if "schema_id" in given else row.schema_id,
            model=body.model if "model" in given else row.model,
            tag_ids=row.tag_ids if body.tag_ids is None else body.tag_ids,
        )

    return _prompt(await prompts.change(runtime.database, scope, prompt_id, changed, revid=seen))


@router.delete("/prompts/{prompt_id}", responses=responses(401, 404, 422))
async def delete_prompt(prompt_id: UUID, scope: TheScope, runtime: TheRuntime) -> PromptReferences:
    """Hide a prompt: it is in no list and for no new use. What was made with it keeps it. A member may delete their
    own, an owner any."""
    async with runtime.database.as_user(scope) as conn:
        return PromptReferences(extractions=await prompts.remove(conn, prompt_id))


def _prompt(row: PromptRow) -> KeptPrompt:
    return KeptPrompt.model_validate(row, from_attributes=True)
