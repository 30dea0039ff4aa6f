"""Tools for tags. A tag goes by its name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.tools.shared import (
    A_PAGE,
    Before,
    Name,
    PartOfName,
    listed,
    of_tag,
    referred,
    tag_named,
)
from fieldmark.db.pool import Connection
from fieldmark.domain.changes import Change, Preview
from fieldmark.stores.library import GREY, tags
from fieldmark.stores.rows import TagRow
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.toolset import Tool, ToolEffect, ToolInput, ToolResult

Colour = Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$", description="As #1e90ff.")]


class CreateTag(ToolInput):
    """Make a tag, by which documents and prompts are sorted. update_document puts it on the document."""

    name: Name
    colour: Colour | None = None


class GetTag(ToolInput):
    """Look at a tag: its colour, and where it is."""

    tag: Name


class ListTags(ToolInput):
    """List the organisation's tags, the newest first."""

    name: PartOfName | None = None
    before: Before | None = None


class UpdateTag(ToolInput):
    """Change a tag's name or its colour, wherever it is."""

    tag: Name
    name: Name | None = None
    colour: Colour | None = None


class DeleteTag(ToolInput):
    """Delete a tag: it is on no document any more."""

    tag: Name


class TagTools:
    """What the tools of one run do to tags."""

    def __init__(self, about: Conversation) -> None:
        self.about = about
        self.context = about.context

    async def get(self, conn: Connection, args: GetTag) -> ToolResult:
        row = await tag_named(conn, self.context.scope, args.tag)
        return ToolResult("The tag.", "ok", {**of_tag(row), **await tags.references(conn, row.id)})

    async def list_page(self, conn: Connection, args: ListTags) -> ToolResult:
        page = await tags.list_page(conn, self.context.scope, name=args.name, limit=A_PAGE, before=args.before)
        return listed("tags", [of_tag(row) for row in page.items], page.next)

    async def create(self, conn: Connection, args: CreateTag) -> ToolResult:
        row = await tags.create(conn, self.context.scope.org_id, args.name, args.colour or GREY)
        return ToolResult("The tag is made.", "tag_created", of_tag(row))

    async def preview_new(self, conn: Connection, args: CreateTag) -> Preview:
        await self._refuse_taken(conn, args.name)
        changes = [Change("name", None, args.name, added=True)]
        changes += [] if args.colour is None else [Change("colour", None, args.colour.lower(), added=True)]
        return Preview(changes, {"name": args.name})

    async def _refuse_taken(self, conn: Connection, name: str, but: TagRow | None = None) -> None:
        taken = await tags.by_name(conn, self.context.scope.org_id, name)
        if taken is not None and (but is None or taken.id != but.id):
            raise ModelRetry(f"There is a tag {name!r} already: use that one, or take another name.", "name_taken")

    async def update(self, conn: Connection, args: UpdateTag) -> ToolResult:
        row = await tag_named(conn, self.context.scope, args.tag)
        changed = await tags.update(conn, row.id, name=args.name, colour=args.colour)
        return ToolResult("The tag is changed.", "tag_updated", of_tag(changed))

    async def preview_change(self, conn: Connection, args: UpdateTag) -> Preview:
        row = await tag_named(conn, self.context.scope, args.tag)
        changes: list[Change] = []
        if args.name is not None and args.name != row.name:
            await self._refuse_taken(conn, args.name, but=row)
            changes.append(Change("name", row.name, args.name))
        if args.colour is not None and args.colour.lower() != row.colour:
            changes.append(Change("colour", row.colour, args.colour.lower()))
        return Preview(changes, _target(row))

    async def delete(self, conn: Connection, args: DeleteTag) -> ToolResult:
        row = await tag_named(conn, self.context.scope, args.tag)
        found = await tags.remove(conn, row.id)
        data: dict[str, JsonValue] = {**of_tag(row), **found}
        return ToolResult("The tag is deleted.", "tag_deleted", data)

    async def preview_deletion(self, conn: Connection, args: DeleteTag) -> Preview:
        row = await tag_named(conn, self.context.scope, args.tag)
        found = await tags.references(conn, row.id)
        changes = [Change("name", row.name, None, removed=True)]
        if on := [*referred(found["documents"], "document"), *referred(found["prompts"], "prompt")]:
            changes.append(Change("on", " and ".join(on), None, removed=True))
        return Preview(changes, _target(row))


def _target(row: TagRow) -> JsonValue:
    return {"tag": str(row.id), "name": row.name, "colour": row.colour}


CREATE_TAG = Tool(
    "create_tag",
    CreateTag,
    summary=lambda args: f"Making the tag {args.name!r}",
    effect=ToolEffect.WRITE,
)
GET_TAG = Tool("get_tag", GetTag, summary=lambda args: f"Looking at the tag {args.tag!r}")
LIST_TAGS = Tool("list_tags", ListTags, summary=lambda args: "Looking through the tags")
UPDATE_TAG = Tool(
    "update_tag",
    UpdateTag,
    summary=lambda args: f"Changing the tag {args.tag!r}",
    effect=ToolEffect.WRITE,
)
DELETE_TAG = Tool(
    "delete_tag",
    DeleteTag,
    summary=lambda args: f"Deleting the tag {args.tag!r}",
    effect=ToolEffect.WRITE,
)
