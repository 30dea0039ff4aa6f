"""Tools for prompts."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.tools.shared import (
    A_PAGE,
    ROOM,
    Before,
    Name,
    PartOfName,
    listed,
    of_prompt,
    referred,
    size,
    tags_named,
)
from fieldmark.db.pool import Connection
from fieldmark.domain.changes import Change, Preview
from fieldmark.stores.library import PromptText, prompts, schemas, tags
from fieldmark.stores.rows import PromptRow
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import Tool, ToolEffect, ToolInput, ToolResult

Content = Annotated[
    str,
    Field(min_length=1, max_length=20_000, description="What to extract and how, in words. help_prompts says more."),
]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]*$")]
Tags = Annotated[list[Name], Field(max_length=50, description="Names of tags that there are.")]


class CreatePrompt(ToolInput):
    """Make a prompt: words by which documents are extracted, and the schema that the fields shall follow. Without
    `schema_revid` that is the conversation's; null: none. The latest version of the schema is used each time. From then
    on the conversation works with the prompt."""

    name: Name
    content: Content
    schema_revid: UUID | None = None
    model: Model | None = None
    tags: Tags | None = None


class GetPrompt(ToolInput):
    """Read a version of a prompt. Left out: the conversation's."""

    prompt_revid: UUID | None = None


class ListPrompts(ToolInput):
    """List the organisation's prompts, the newest first, each with its latest version."""

    name: PartOfName | None = None
    before: Before | None = None


class UpdatePrompt(ToolInput):
    """Change a prompt: that makes a new version. What is left out stays. null for `schema_revid` or `model`: none any
    more. `tags` are all that it has then. `prompt_revid` is the version that you have read, the latest; left out: the
    conversation's."""

    prompt_revid: UUID | None = None
    name: Name | None = None
    content: Content | None = None
    schema_revid: UUID | None = None
    model: Model | None = None
    tags: Tags | None = None


class DeletePrompt(ToolInput):
    """Delete a prompt. The extractions that were made with it keep it."""

    prompt_revid: UUID


# Reading --------------------------------------------------------------------------------------------------------------


class PromptTools:
    """What the tools of one run do to prompts."""

    def __init__(self, about: Conversation) -> None:
        self.about = about
        self.context = about.context

    async def version_of(self, conn: Connection, revid: UUID | None) -> PromptRow:
        """Return the version that is named, or the conversation's. Raises ModelRetry if there is neither."""
        revid = revid or (await self.about.recall(conn)).prompt_revid
        if revid is None:
            raise ModelRetry("This conversation has no prompt yet: name one of list_prompts, or make one.", "no_prompt")
        return await prompts.get_version(conn, revid)

    async def get(self, conn: Connection, args: GetPrompt) -> ToolResult:
        row = await self.version_of(conn, args.prompt_revid)
        data: dict[str, JsonValue] = {**of_prompt(row), "tags": [*await _names_of(conn, row.tag_ids)]}
        content = row.content
        room = ROOM - size(data)
        if is_long := size(content) > room:
            content = content.encode()[: room // 2].decode(errors="ignore")
        text = f"Version {row.number} of the prompt."
        text += " Its words are shown in part: they are too long." if is_long else ""
        return ToolResult(text, "too_long" if is_long else "ok", {**data, "content": content})

    async def list_page(self, conn: Connection, args: ListPrompts) -> ToolResult:
        page = await prompts.list_page(conn, self.context.scope, name=args.name, limit=A_PAGE, before=args.before)
        return listed("prompts", [of_prompt(row) for row in page.items], page.next)

    async def _text_of_new(self, conn: Connection, args: CreatePrompt) -> PromptText:
        revid = args.schema_revid
        if "schema_revid" not in args.model_fields_set:
            revid = (await self.about.recall(conn)).schema_revid
            if revid is not None and (await schemas.get_version(conn, revid)).is_deleted:
                revid = None
        schema_id = await _schema_of(conn, revid)
        tag_ids = await tags_named(conn, self.context.scope, args.tags or [])
        return PromptText(args.name, args.content, schema_id, args.model, tag_ids)

    async def create(self, conn: Connection, args: CreatePrompt) -> ToolResult:
        text = await self._text_of_new(conn, args)
        row = await prompts.create(conn, self.context.scope.org_id, text)
        await self._work_with(conn, row)
        return ToolResult("The prompt is made, version 1.", "prompt_created", of_prompt(row))

    async def _work_with(self, conn: Connection, row: PromptRow) -> None:
        await self.about.remember(conn, prompt_revid=row.prompt_revid)
        if row.schema_id is not None:
            await self.about.remember(conn, schema_revid=(await schemas.get(conn, row.schema_id)).schema_revid)

    async def preview_new(self, conn: Connection, args: CreatePrompt) -> Preview:
        await self._refuse_taken(conn, args.name)
        text = await self._text_of_new(conn, args)
        schema = None if text.schema_id is None else (await schemas.get(conn, text.schema_id)).name
        shown = {"name": text.name, "content": text.content, "schema": schema, "model": text.model, "tags": args.tags}
        target: dict[str, JsonValue] = {
            "name": args.name,
            "schema_id": None if text.schema_id is None else str(text.schema_id),
            "tags": [str(one) for one in text.tag_ids],
        }
        return Preview([Change(name, None, new, added=True) for name, new in _as_json(shown) if new], target)

    async def _refuse_taken(self, conn: Connection, name: str, but: UUID | None = None) -> None:
        taken = await prompts.by_name(conn, self.context.scope.org_id, name)
        if taken is not None and taken.id != but:
            raise ModelRetry(
                f"There is a prompt {name!r} already: change that one, or take another name.", "name_taken"
            )

    async def _latest(self, conn: Connection, revid: UUID | None) -> PromptRow:
        """The version to be changed: nobody has changed it since the model has read it. Raises ModelRetry."""
        row = await self.version_of(conn, revid)
        if row.is_deleted:
            raise ModelRetry("The prompt is deleted.", "deleted")
        if not row.is_latest:
            raise ModelRetry(
                "The prompt has a newer version: read that with get_prompt, and change it.",
                "version_changed",
                {"prompt_revid": str((await prompts.get(conn, row.id)).prompt_revid)},
            )
        return row

    async def _text_after(self, conn: Connection, row: PromptRow, args: UpdatePrompt) -> PromptText:
        given = args.model_fields_set
        return PromptText(
            args.name or row.name,
            args.content or row.content,
            await _schema_of(conn, args.schema_revid) if "schema_revid" in given else row.schema_id,
            args.model if "model" in given else row.model,
            row.tag_ids if args.tags is None else await tags_named(conn, self.context.scope, args.tags),
        )

    async def update(self, conn: Connection, args: UpdatePrompt) -> ToolResult:
        row = await self._latest(conn, args.prompt_revid)
        text = await self._text_after(conn, row, args)
        changed = await prompts.update(conn, row.id, text, revid=row.prompt_revid)
        await self._work_with(conn, changed)
        if changed.prompt_revid == row.prompt_revid:
            return ToolResult("Nothing changes: it stands so already.", "unchanged", of_prompt(changed))
        return ToolResult(
            f"The prompt is changed: this is version {changed.number}.", "prompt_updated", of_prompt(changed)
        )

    async def preview_change(self, conn: Connection, args: UpdatePrompt) -> Preview:
        row = await self._latest(conn, args.prompt_revid)
        text = await self._text_after(conn, row, args)
        if text.name != row.name:
            await self._refuse_taken(conn, text.name, but=row.id)
        before, after = [
            _as_json(
                {
                    "name": one.name,
                    "content": one.content,
                    "schema": None if one.schema_id is None else (await schemas.get(conn, one.schema_id)).name,
                    "model": one.model,
                    "tags": await _names_of(conn, [*one.tag_ids]),
                }
            )
            for one in (row, text)
        ]
        changes = [
            Change(name, old, new, added=not old, removed=not new)
            for (name, old), (_, new) in zip(before, after, strict=True)
            if old != new
        ]
        target: dict[str, JsonValue] = {
            "prompt_revid": str(row.prompt_revid),
            "schema_id": None if text.schema_id is None else str(text.schema_id),
            "tags": [str(one) for one in text.tag_ids],
        }
        return Preview(changes, target)

    async def delete(self, conn: Connection, args: DeletePrompt) -> ToolResult:
        row = await self.version_of(conn, args.prompt_revid)
        kept = await prompts.remove(conn, row.id)
        revid = (await self.about.recall(conn)).prompt_revid
        if revid is not None and (await prompts.get_version(conn, revid)).id == row.id:
            await self.about.remember(conn, prompt_revid=None)
        data: dict[str, JsonValue] = {**of_prompt(row), **kept}
        return ToolResult("The prompt is deleted. What was made with it keeps it.", "prompt_deleted", data)

    async def preview_deletion(self, conn: Connection, args: DeletePrompt) -> Preview:
        row = await self.version_of(conn, args.prompt_revid)
        if row.is_deleted:
            raise ModelRetry("The prompt is deleted already.", "deleted")
        latest = await prompts.get(conn, row.id)
        changes = [Change("name", latest.name, None, removed=True)]
        if found := referred((await prompts.references(conn, row.id))["extractions"], "extraction"):
            changes.append(Change("kept by", None, found[0], added=True))
        return Preview(changes, {"prompt_revid": str(latest.prompt_revid)})


async def _names_of(conn: Connection, tag_ids: list[UUID]) -> list[str]:
    rows = [await tags.get(conn, one) for one in tag_ids]
    return [row.name for row in rows if not row.is_deleted]


# Writing --------------------------------------------------------------------------------------------------------------


async def _schema_of(conn: Connection, revid: UUID | None) -> UUID | None:
    """The schema of a version. Raises ToolFailed for none, ModelRetry for one that is deleted."""
    if revid is None:
        return None
    row = await schemas.get_version(conn, revid)
    if row.is_deleted:
        raise ModelRetry("The schema is deleted.", "deleted")
    return row.id


def _as_json(shown: dict[str, str | list[str] | None]) -> list[tuple[str, JsonValue]]:
    return [(name, [*value] if isinstance(value, list) else value) for name, value in shown.items()]


CREATE_PROMPT = Tool(
    "create_prompt",
    CreatePrompt,
    summary=lambda args: f"Making the prompt {args.name!r}",
    effect=ToolEffect.WRITE,
)
GET_PROMPT = Tool("get_prompt", GetPrompt, summary=lambda args: "Reading a prompt")
LIST_PROMPTS = Tool("list_prompts", ListPrompts, summary=lambda args: "Looking through the prompts")
UPDATE_PROMPT = Tool(
    "update_prompt",
    UpdatePrompt,
    summary=lambda args: "Changing the prompt" if args.name is None else f"Changing the prompt {args.name!r}",
    effect=ToolEffect.WRITE,
)
DELETE_PROMPT = Tool(
    "delete_prompt",
    DeletePrompt,
    summary=lambda args: "Deleting a prompt",
    effect=ToolEffect.WRITE,
)
