"""Tools for tags. A tag goes by its name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from fieldmark.agents.document.tools.shared import (
    A_PAGE,
    Before,
    Context,
    Name,
    PartOfName,
    listed,
    of_tag,
    referred,
    tag_named,
)
from fieldmark.db.pool import Connection
from fieldmark.domain.changes import Change, Preview
from fieldmark.services import tags
from fieldmark.stores import tags as tag_rows
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


async def _get(conn: Connection, context: Context, args: GetTag) -> ToolResult:
    row = await tag_named(conn, context, args.tag)
    found = await tags.references(conn, row.id)
    return ToolResult("The tag.", "ok", {**of_tag(row), "documents": found.documents, "prompts": found.prompts})


async def _list(conn: Connection, context: Context, args: ListTags) -> ToolResult:
    page = await tags.list_page(conn, context.scope, name=args.name, limit=A_PAGE, before=args.before)
    return listed("tags", [of_tag(row) for row in page.items], page.next)


async def _create(conn: Connection, context: Context, args: CreateTag) -> ToolResult:
    row = await tags.create(conn, context.scope, args.name, args.colour or tags.GREY)
    return ToolResult("The tag is made.", "tag_created", of_tag(row))


async def _preview_new(conn: Connection, context: Context, args: CreateTag) -> Preview:
    await _refuse_taken(conn, context, args.name)
    changes = [Change("name", None, args.name, added=True)]
    changes += [] if args.colour is None else [Change("colour", None, args.colour.lower(), added=True)]
    return Preview(changes, {"name": args.name})


async def _refuse_taken(conn: Connection, context: Context, name: str, but: TagRow | None = None) -> None:
    taken = await tag_rows.by_name(conn, context.scope.org_id, name)
    if taken is not None and (but is None or taken.id != but.id):
        raise ModelRetry(f"There is a tag {name!r} already: use that one, or take another name.", "name_taken")


async def _update(conn: Connection, context: Context, args: UpdateTag) -> ToolResult:
    row = await tag_named(conn, context, args.tag)
    changed = await tags.update(conn, row.id, name=args.name, colour=args.colour)
    return ToolResult("The tag is changed.", "tag_updated", of_tag(changed))


async def _preview_change(conn: Connection, context: Context, args: UpdateTag) -> Preview:
    row = await tag_named(conn, context, args.tag)
    changes: list[Change] = []
    if args.name is not None and args.name != row.name:
        await _refuse_taken(conn, context, args.name, but=row)
        changes.append(Change("name", row.name, args.name))
    if args.colour is not None and args.colour.lower() != row.colour:
        changes.append(Change("colour", row.colour, args.colour.lower()))
    return Preview(changes, _target(row))


def _target(row: TagRow) -> JsonValue:
    return {"tag": str(row.id), "name": row.name, "colour": row.colour}


async def _delete(conn: Connection, context: Context, args: DeleteTag) -> ToolResult:
    row = await tag_named(conn, context, args.tag)
    found = await tags.remove(conn, row.id)
    data: dict[str, JsonValue] = {**of_tag(row), "documents": found.documents, "prompts": found.prompts}
    return ToolResult("The tag is deleted.", "tag_deleted", data)


async def _preview_deletion(conn: Connection, context: Context, args: DeleteTag) -> Preview:
    row = await tag_named(conn, context, args.tag)
    found = await tags.references(conn, row.id)
    changes = [Change("name", row.name, None, removed=True)]
    if on := [*referred(found.documents, "document"), *referred(found.prompts, "prompt")]:
        changes.append(Change("on", " and ".join(on), None, removed=True))
    return Preview(changes, _target(row))


CREATE_TAG = Tool(
    "create_tag",
    CreateTag,
    _create,
    summary=lambda args: f"Making the tag {args.name!r}",
    effect=ToolEffect.WRITE,
    preview=_preview_new,
)
GET_TAG = Tool("get_tag", GetTag, _get, summary=lambda args: f"Looking at the tag {args.tag!r}")
LIST_TAGS = Tool("list_tags", ListTags, _list, summary=lambda args: "Looking through the tags")
UPDATE_TAG = Tool(
    "update_tag",
    UpdateTag,
    _update,
    summary=lambda args: f"Changing the tag {args.tag!r}",
    effect=ToolEffect.WRITE,
    preview=_preview_change,
)
DELETE_TAG = Tool(
    "delete_tag",
    DeleteTag,
    _delete,
    summary=lambda args: f"Deleting the tag {args.tag!r}",
    effect=ToolEffect.WRITE,
    preview=_preview_deletion,
)
