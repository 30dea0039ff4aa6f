"""Tools for an organisation's named items: schemas and prompts, which have versions, and tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic
from uuid import UUID

from pydantic import Field, JsonValue

from fieldmark.agents.document.conversation import Conversation
from fieldmark.agents.document.tools.shared import (
    MAX_JSON_BYTES,
    PAGE_SIZE,
    Before,
    Name,
    PartOfName,
    count_in_words,
    find_tag,
    find_tag_ids,
    item_for_people,
    json_size_bytes,
    list_result,
    prompt_json,
    schema_json,
    tag_json,
)
from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.changes import Change, Preview, differences
from fieldmark.domain.json_values import JsonObject, as_object
from fieldmark.errors import InvalidSchema
from fieldmark.services.extractions import MAX_PREVIEWED_CHANGES
from fieldmark.services.schema_changes import SchemaPrompt, list_prompts
from fieldmark.services.schemas import check, validate
from fieldmark.stores.library import (
    GREY,
    NamedItems,
    PromptText,
    Row,
    Versioned,
    VersionedItems,
    prompts,
    schemas,
    tags,
)
from fieldmark.stores.rows import Prompt, Schema, Tag
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.fields import cut
from fieldmark.tools.toolset import Action, Tool, ToolEffect, ToolInput, ToolResult, tool

_BRIEFS = Path(__file__).parents[1] / "briefs"
_MOST_VIOLATIONS = 50
_NAMES_CHARACTERS = 1000

Content = Annotated[
    str,
    Field(
        min_length=1,
        max_length=20_000,
        description="Instructions for the extraction. help_prompts explains how to write them.",
    ),
]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]*$")]
SchemaVersion = Annotated[
    int, Field(ge=1, le=2**31 - 1, description="Pin this version of the schema. Omitted: each use takes the latest.")
]
Tags = Annotated[list[Name], Field(max_length=50, description="Names of existing tags.")]
Color = Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$", description="As #1e90ff.")]


class ListItems(ToolInput):
    """A page of a list."""

    name_search: PartOfName | None = None
    before: Before | None = None


class CreateSchema(ToolInput):
    """Create a named schema: a JSON Schema (Draft 2020-12) for an object. Read help_schemas first. An unusable schema
    is refused, with the location of each error. The conversation then uses the new schema."""

    name: Name
    json_schema: dict[str, JsonValue] = Field(alias="schema")


class GetSchema(ToolInput):
    """Read a version of a schema. Default: the conversation's."""

    schema_revid: UUID | None = None


class ListSchemas(ListItems):
    """List the organisation's schemas, newest first, each in its latest version."""


class UpdateSchema(ToolInput):
    """Change a schema's name, its JSON Schema, or both. This creates a new version. `schema` is the whole new schema;
    get_schema returns the current one. `schema_revid` is the latest version, which you have read. Default: the
    conversation's."""

    schema_revid: UUID | None = None
    name: Name | None = None
    json_schema: dict[str, JsonValue] | None = Field(None, alias="schema")


class DeleteSchema(ToolInput):
    """Delete a schema. Existing extractions still refer to it."""

    schema_id: UUID


class ValidateSchema(ToolInput):
    """Check whether a schema can be used, without storing it."""

    json_schema: dict[str, JsonValue] = Field(alias="schema")


class ValidateAgainstSchema(ToolInput):
    """Check whether fields follow a version of a schema and its rules. Default: the conversation's schema."""

    data: dict[str, JsonValue]
    schema_revid: UUID | None = None


class HelpSchemas(ToolInput):
    """Read how to write a schema: its keywords, its rules, an example."""


class HelpPrompts(ToolInput):
    """Read how to write a prompt, and how it is used."""


class CreatePrompt(ToolInput):
    """Create a prompt: instructions for extracting documents, and the schema of the fields. Default for `schema_revid`:
    the conversation's schema; null: no schema. Each extraction uses the schema's latest version, or always the version
    with the number `schema_version`. The conversation then uses the new prompt."""

    name: Name
    content: Content
    schema_revid: UUID | None = None
    schema_version: SchemaVersion | None = None
    model: Model | None = None
    tags: Tags | None = None


class GetPrompt(ToolInput):
    """Read a version of a prompt. Default: the conversation's."""

    prompt_revid: UUID | None = None


class ListPrompts(ListItems):
    """List the organisation's prompts, newest first, each in its latest version, optionally only those with a tag, or
    those that share a tag with a document."""

    tag: Name | None = None
    document_id: UUID | None = None


class UpdatePrompt(ToolInput):
    """Change a prompt. This creates a new version. Omitted values stay as they are; null removes `schema_revid` or
    `model`, and `schema_version` null follows the latest version; `tags` replaces all tags. `prompt_revid` is the
    latest version, which you have read. Default: the conversation's."""

    prompt_revid: UUID | None = None
    name: Name | None = None
    content: Content | None = None
    schema_revid: UUID | None = None
    schema_version: SchemaVersion | None = None
    model: Model | None = None
    tags: Tags | None = None


class DeletePrompt(ToolInput):
    """Delete a prompt. Existing extractions still refer to it."""

    prompt_id: UUID


class CreateTag(ToolInput):
    """Create a tag for documents and prompts. update_document adds it to a document."""

    name: Name
    color: Color | None = None


class GetTag(ToolInput):
    """Read a tag: its color, and how many documents and prompts have it."""

    tag: Name


class ListTags(ListItems):
    """List the organisation's tags, newest first."""


class UpdateTag(ToolInput):
    """Change a tag's name or color, on all documents and prompts."""

    tag: Name
    name: Name | None = None
    color: Color | None = None


class DeleteTag(ToolInput):
    """Delete a tag. No document has it afterwards."""

    tag: Name


@cache
def _read_brief(name: str) -> str:
    return (_BRIEFS / f"{name}.md").read_text(encoding="utf-8").strip()


def _declare(
    kind: str,
    create: type[ToolInput],
    get: type[ToolInput],
    listing: type[ListItems],
    update: type[ToolInput],
    delete: type[ToolInput],
) -> tuple[Tool[Any], ...]:
    """Return the five tools of a kind of item, whose methods are those of `_ItemTools`."""

    def describe_item(args: Any) -> str:
        name = getattr(args, "tag", None) or getattr(args, "name", None)
        return f"the {kind}" if name is None else f"the {kind} {name!r}"

    def act_create(tools: Any) -> Action:
        return Action(tools.create, check=tools.check, preview=tools.preview_new)

    def act_update(tools: Any) -> Action:
        return Action(tools.update, check=tools.check, preview=tools.preview_change)

    def act_delete(tools: Any) -> Action:
        return Action(tools.delete, preview=tools.preview_deletion)

    write = ToolEffect.WRITE
    return (
        Tool(f"create_{kind}", create, lambda args: f"Making {describe_item(args)}", act_create, write),
        Tool(f"get_{kind}", get, lambda args: f"Reading {describe_item(args)}", lambda tools: Action(tools.get)),
        Tool(f"list_{kind}s", listing, lambda _: f"Looking through the {kind}s", lambda tools: Action(tools.list_page)),
        Tool(f"update_{kind}", update, lambda args: f"Changing {describe_item(args)}", act_update, write),
        Tool(f"delete_{kind}", delete, lambda args: f"Deleting {describe_item(args)}", act_delete, write),
    )


class _ItemTools(Generic[Row]):
    """The tools of one run for one kind of item."""

    kind: ClassVar[str]
    item_tools: ClassVar[tuple[Tool[Any], ...]]
    deleted: ClassVar[str]

    def __init__(
        self, about: Conversation, items: NamedItems[Row, Any], describe: Callable[[Any], dict[str, JsonValue]]
    ) -> None:
        self.about = about
        self.context = about.context
        self.items = items
        self.describe = describe

    async def check(self, args: Any) -> None:
        """Raise ModelRetry for arguments that are invalid on their own, before a person is asked."""

    async def find(self, conn: Connection, args: Any) -> Row:
        raise NotImplementedError

    def target(self, row: Row) -> JsonValue:
        """Return the part of an item that must not change between the preview of a change and its approval."""
        raise NotImplementedError

    def reference(self, what: str, count: int) -> Change:
        return Change(f"used_by_{what}", None, count, added=True)

    async def forget(self, conn: Connection, row: Row) -> None:
        """Clear a deleted item from the conversation's working state."""

    async def filters(self, conn: Connection, args: Any) -> dict[str, UUID | None]:
        """Return the filters of a list, besides the name."""
        return {}

    async def list_page(self, conn: Connection, args: ListItems) -> ToolResult:
        wanted = {"name_contains": args.name_search, **await self.filters(conn, args)}
        page = await self.items.list_page(conn, self.context.scope, limit=PAGE_SIZE, before=args.before, **wanted)
        return list_result(f"{self.kind}s", [self.describe(row) for row in page.items], page.next)

    async def refuse_taken(self, conn: Connection, name: str, but: UUID | None = None) -> None:
        taken = await self.items.by_name(conn, self.context.scope.org_id, name)
        if taken is not None and taken.id != but:
            raise ModelRetry(
                f"There is a {self.kind} {name!r} already: use that one, or take another name.", "name_taken"
            )

    async def delete(self, conn: Connection, args: Any) -> ToolResult:
        row = await self.find(conn, args)
        kept = await self.items.remove(conn, row.id)
        await self.forget(conn, row)
        data: dict[str, JsonValue] = {**self.describe(row), **kept}
        shown = item_for_people("Deleted", self.kind, data)
        return ToolResult(self.deleted, f"{self.kind}_deleted", data, shown=shown)

    async def preview_deletion(self, conn: Connection, args: Any) -> Preview:
        row = await self.find(conn, args)
        if row.is_deleted:
            raise ModelRetry(f"The {self.kind} is deleted already.", "deleted")
        latest = await self.items.get(conn, row.id)
        changes = [Change("name", latest.name, None, removed=True)]
        found = await self.items.references(conn, row.id)
        changes += [self.reference(what, count) for what, count in found.items() if count]
        return Preview(changes, self.target(latest))


class _VersionedTools(_ItemTools[Versioned]):
    """The tools of one run for one kind of item that has versions."""

    def __init__(
        self,
        about: Conversation,
        items: VersionedItems[Versioned, Any],
        describe: Callable[[Any], dict[str, JsonValue]],
    ) -> None:
        super().__init__(about, items, describe)
        self.all_versions = items

    def target(self, row: Versioned) -> JsonValue:
        return {f"{self.kind}_revid": str(row.revid)}

    async def find(self, conn: Connection, args: Any) -> Versioned:
        if (item_id := getattr(args, f"{self.kind}_id", None)) is not None:
            return await self.items.get(conn, item_id)
        return await self.get_version(conn, getattr(args, f"{self.kind}_revid"))

    async def get_version(self, conn: Connection, revid: UUID | None) -> Versioned:
        """Return the given version, the latest version of a given item, or else the conversation's version. Raise
        ModelRetry if there is none."""
        revid = revid or getattr(await self.about.recall(conn), f"{self.kind}_revid")
        if revid is None:
            raise ModelRetry(
                f"This conversation has no {self.kind} yet: name one of list_{self.kind}s, or make one.",
                f"no_{self.kind}",
            )
        return await self.all_versions.get_any(conn, revid)

    async def latest(self, conn: Connection, args: Any) -> Versioned:
        """Return the version to change. Raise ModelRetry if there is a newer version than the model has read."""
        row = await self.find(conn, args)
        if row.is_deleted:
            raise ModelRetry(f"The {self.kind} is deleted.", "deleted")
        if not row.is_latest:
            raise ModelRetry(
                f"The {self.kind} has a newer version: read that with get_{self.kind}, and change it.",
                "version_changed",
                self.target(await self.items.get(conn, row.id)),
            )
        return row

    def change_result(self, before: Versioned, after: Versioned) -> ToolResult:
        data = self.describe(after)
        if after.revid == before.revid:
            shown = item_for_people("Left unchanged", self.kind, data)
            return ToolResult("Nothing changes: it has these values already.", "unchanged", data, shown=shown)
        text = f"The {self.kind} is changed: this is version {after.number}."
        return ToolResult(text, f"{self.kind}_updated", data, shown=item_for_people("Changed", self.kind, data))

    async def forget(self, conn: Connection, row: Versioned) -> None:
        name = f"{self.kind}_revid"
        revid = getattr(await self.about.recall(conn), name)
        current = None if revid is None else await self.all_versions.find_version(conn, revid)
        if current is not None and current.id == row.id:
            await self.about.remember(conn, **{name: None})


class SchemaTools(_VersionedTools[Schema]):
    """The schema tools. A schema is checked before a person is asked, and before it is created or changed."""

    kind = "schema"
    item_tools = _declare(kind, CreateSchema, GetSchema, ListSchemas, UpdateSchema, DeleteSchema)
    deleted = "The schema is deleted. Existing extractions still refer to it."

    def __init__(self, about: Conversation) -> None:
        super().__init__(about, schemas, schema_json)

    async def get(self, conn: Connection, args: GetSchema) -> ToolResult:
        row = await self.find(conn, args)
        version = schema_json(row)
        names = list(as_object(as_object(row.schema).get("properties")))
        count = "1 property" if len(names) == 1 else f"{len(names)} properties"
        shown = item_for_people("Read", "schema", version, f"{count}: {', '.join(names)}" if names else f"{count}.")
        if json_size_bytes(row.schema) > MAX_JSON_BYTES:
            data: dict[str, JsonValue] = {**version, "properties": cut([*names], MAX_JSON_BYTES - 2000)}
            text = "The schema is too long to show at once. These are its properties."
            return ToolResult(text, "too_long", data, shown=shown)
        return ToolResult(f"Version {row.number} of the schema.", "ok", {**version, "schema": row.schema}, shown=shown)

    async def validation_result(self, args: ValidateSchema) -> ToolResult:
        try:
            await _check(args.json_schema)
        except ModelRetry as fault:
            return ToolResult(fault.text, fault.code, fault.data)
        return ToolResult("The schema can be used.", "valid")

    @tool(ValidateSchema, lambda args: "Checking a schema", prepare=validation_result)
    async def validate_schema(self, conn: Connection, validated: ToolResult) -> ToolResult:
        return validated

    async def judge(self, args: ValidateAgainstSchema) -> ToolResult:
        async with self.context.database.as_user(self.context.scope) as conn:
            row = await self.get_version(conn, args.schema_revid)
        found = await validate(self.context.scope.org_id, row.schema, args.data)
        data = schema_json(row)
        if not found:
            return ToolResult(
                "The fields follow the schema.", "valid", data, shown=item_for_people("Checked against", "schema", data)
            )
        faults: list[JsonValue] = [
            {"path": paths.name(one.path), "code": one.code, "message": one.message} for one in found[:_MOST_VIOLATIONS]
        ]
        text = "The fields do not follow the schema:\n" + "\n".join(f"- {one.message}" for one in found[:20])
        shown = item_for_people("Checked against", "schema", data)
        data["violations"] = cut(faults, MAX_JSON_BYTES // 2)
        return ToolResult(text[: MAX_JSON_BYTES // 4], "schema_violation", data, shown=shown)

    @tool(ValidateAgainstSchema, lambda args: "Checking fields against the schema", prepare=judge)
    async def validate_against_schema(self, conn: Connection, validated: ToolResult) -> ToolResult:
        return validated

    @tool(HelpSchemas, lambda args: "Reading how schemas are written")
    async def help_schemas(self, conn: Connection, args: HelpSchemas) -> ToolResult:
        return ToolResult(_read_brief("help_schemas"))

    async def check(self, args: CreateSchema | UpdateSchema) -> None:
        if args.json_schema is not None:
            await _check(args.json_schema)

    async def create(self, conn: Connection, args: CreateSchema) -> ToolResult:
        row = await schemas.create(conn, self.context.scope.org_id, args.name, args.json_schema)
        # A prompt of another schema does not apply to this one.
        await self.about.remember(conn, schema_revid=row.schema_revid, prompt_revid=None)
        return ToolResult("The schema is created, version 1.", "schema_created", schema_json(row))

    async def preview_new(self, conn: Connection, args: CreateSchema) -> Preview:
        await self.refuse_taken(conn, args.name)
        before: JsonObject = {"properties": {}} if isinstance(args.json_schema.get("properties"), dict) else {}
        changes = [Change("name", None, args.name, added=True), *differences(before, args.json_schema, ("schema",))]
        return Preview(changes[:MAX_PREVIEWED_CHANGES], {"name": args.name})

    async def update(self, conn: Connection, args: UpdateSchema) -> ToolResult:
        row = await self.latest(conn, args)
        changed = await schemas.update(conn, row.id, name=args.name, schema=args.json_schema, revid=row.schema_revid)
        await self.about.remember(
            conn, schema_revid=changed.schema_revid, **await self._clear_other_prompt(conn, row.id)
        )
        result = self.change_result(row, changed)
        if changed.revid == row.revid:
            return result
        return _with_prompts(result, await list_prompts(conn, self.context.scope, row.id))

    async def _clear_other_prompt(self, conn: Connection, schema_id: UUID) -> dict[str, UUID | None]:
        """Return the change of the working state that clears the conversation's prompt, unless the prompt uses this
        schema."""
        revid = (await self.about.recall(conn)).prompt_revid
        prompt = None if revid is None else await prompts.find_version(conn, revid)
        return {} if prompt is not None and prompt.schema_id == schema_id else {"prompt_revid": None}

    async def preview_change(self, conn: Connection, args: UpdateSchema) -> Preview:
        row = await self.latest(conn, args)
        changes: list[Change] = []
        if args.name is not None and args.name != row.name:
            await self.refuse_taken(conn, args.name, but=row.id)
            changes.append(Change("name", row.name, args.name))
        if args.json_schema is not None:
            changes += differences(row.schema, args.json_schema, ("schema",))
        return Preview(changes[:MAX_PREVIEWED_CHANGES], self.target(row))


def _with_prompts(result: ToolResult, used_by: Sequence[SchemaPrompt]) -> ToolResult:
    """Return the result of a new version of a schema, with the prompts that follow it and those that are pinned."""
    uses = {
        "Prompts that follow it": [one.name for one in used_by if one.schema_version is None],
        "Prompts that are pinned": [
            f"{one.name} (to version {one.schema_version})" for one in used_by if one.schema_version
        ],
    }
    lines = [f"{label}: {', '.join(names)[:_NAMES_CHARACTERS]}." for label, names in uses.items() if names]
    if not lines or result.shown is None:
        return result
    listed = cut([one.model_dump(mode="json") for one in used_by], MAX_JSON_BYTES // 2)
    return replace(
        result,
        text="\n".join([result.text, *lines]),
        data={**as_object(result.data), "prompts": listed},
        shown=replace(result.shown, output="\n".join(lines)),
    )


async def _check(schema: JsonObject) -> None:
    """Raise ModelRetry for a schema that cannot be used."""
    try:
        await check(schema)
    except InvalidSchema as error:
        data: JsonObject = dict(error.details)
        fits = json_size_bytes(data) <= MAX_JSON_BYTES
        raise ModelRetry(str(error), error.code, data if data and fits else None) from None


class PromptTools(_VersionedTools[Prompt]):
    """The prompt tools."""

    kind = "prompt"
    item_tools = _declare(kind, CreatePrompt, GetPrompt, ListPrompts, UpdatePrompt, DeletePrompt)
    deleted = "The prompt is deleted. Existing extractions still refer to it."

    def __init__(self, about: Conversation) -> None:
        super().__init__(about, prompts, prompt_json)

    @tool(HelpPrompts, lambda args: "Reading how prompts are written")
    async def help_prompts(self, conn: Connection, args: HelpPrompts) -> ToolResult:
        return ToolResult(_read_brief("help_prompts"))

    async def filters(self, conn: Connection, args: ListPrompts) -> dict[str, UUID | None]:
        tag = None if args.tag is None else await find_tag(conn, self.context.scope, args.tag)
        return {"tag_id": None if tag is None else tag.id, "document_id": args.document_id}

    async def get(self, conn: Connection, args: GetPrompt) -> ToolResult:
        row = await self.find(conn, args)
        data: dict[str, JsonValue] = {**prompt_json(row), "tags": [*await _tag_names(conn, row.tag_ids)]}
        content = row.content
        room = MAX_JSON_BYTES - json_size_bytes(data)
        if is_long := json_size_bytes(content) > room:
            content = content.encode()[: room // 2].decode(errors="ignore")
        text = f"Version {row.number} of the prompt."
        text += " Its text is too long and is shown in part." if is_long else ""
        shown = item_for_people("Read", "prompt", data, row.content)
        return ToolResult(text, "too_long" if is_long else "ok", {**data, "content": content}, shown=shown)

    async def _text_of_new(self, conn: Connection, args: CreatePrompt) -> PromptText:
        revid = args.schema_revid
        if "schema_revid" not in args.model_fields_set:
            revid = (await self.about.recall(conn)).schema_revid
        schema_id = await _find_schema_id(conn, revid)
        tag_ids = await find_tag_ids(conn, self.context.scope, args.tags or [])
        return PromptText(args.name, args.content, schema_id, args.model, tag_ids, args.schema_version)

    async def create(self, conn: Connection, args: CreatePrompt) -> ToolResult:
        text = await self._text_of_new(conn, args)
        row = await prompts.create(conn, self.context.scope.org_id, text)
        await self._work_with(conn, row)
        return ToolResult("The prompt is created, version 1.", "prompt_created", prompt_json(row))

    async def _work_with(self, conn: Connection, row: Prompt) -> None:
        schema = {} if row.schema_revid is None else {"schema_revid": row.schema_revid}
        await self.about.remember(conn, prompt_revid=row.prompt_revid, **schema)

    async def preview_new(self, conn: Connection, args: CreatePrompt) -> Preview:
        await self.refuse_taken(conn, args.name)
        text = await self._text_of_new(conn, args)
        changes = [
            Change(name, None, new, added=True) for name, new in (await _prompt_for_people(conn, text)).items() if new
        ]
        return Preview(changes, {"name": args.name, **_references(text)})

    async def _text_after(self, conn: Connection, row: Prompt, args: UpdatePrompt) -> PromptText:
        given = args.model_fields_set
        return PromptText(
            args.name or row.name,
            args.content or row.content,
            await _find_schema_id(conn, args.schema_revid) if "schema_revid" in given else row.schema_id,
            args.model if "model" in given else row.model,
            row.tag_ids if args.tags is None else await find_tag_ids(conn, self.context.scope, args.tags),
            # A pin is of one schema: another schema is followed, unless a version is given.
            args.schema_version if given & {"schema_version", "schema_revid"} else row.schema_version,
        )

    async def update(self, conn: Connection, args: UpdatePrompt) -> ToolResult:
        row = await self.latest(conn, args)
        text = await self._text_after(conn, row, args)
        changed = await prompts.update(conn, row.id, text, revid=row.prompt_revid)
        await self._work_with(conn, changed)
        return self.change_result(row, changed)

    async def preview_change(self, conn: Connection, args: UpdatePrompt) -> Preview:
        row = await self.latest(conn, args)
        text = await self._text_after(conn, row, args)
        if text.name != row.name:
            await self.refuse_taken(conn, text.name, but=row.id)
        before, after = await _prompt_for_people(conn, row), await _prompt_for_people(conn, text)
        changes = [
            Change(name, old, after[name], added=not old, removed=not after[name])
            for name, old in before.items()
            if old != after[name]
        ]
        return Preview(changes, {"prompt_revid": str(row.prompt_revid), **_references(text)})


async def _prompt_for_people(conn: Connection, text: Prompt | PromptText) -> JsonObject:
    """Return the parts of a prompt that a person sees, with the names of its schema and tags."""
    return {
        "name": text.name,
        "content": text.content,
        "schema": None if text.schema_id is None else (await schemas.get(conn, text.schema_id)).name,
        "schema_version": text.schema_version,
        "model": text.model,
        "tags": [*await _tag_names(conn, text.tag_ids)],
    }


def _references(text: PromptText) -> JsonObject:
    schema_id = None if text.schema_id is None else str(text.schema_id)
    return {
        "schema_id": schema_id,
        "schema_version": text.schema_version,
        "tags": [str(one) for one in text.tag_ids],
    }


async def _tag_names(conn: Connection, tag_ids: Sequence[UUID]) -> list[str]:
    rows = [await tags.find(conn, one) for one in tag_ids]
    return [row.name for row in rows if row is not None and not row.is_deleted]


async def _find_schema_id(conn: Connection, revid: UUID | None) -> UUID | None:
    """Return the schema of a version. Raise ToolFailed if it does not exist, ModelRetry if it is deleted."""
    if revid is None:
        return None
    row = await schemas.get_version(conn, revid)
    if row.is_deleted:
        raise ModelRetry("The schema is deleted.", "deleted")
    return row.id


class TagTools(_ItemTools[Tag]):
    """The tag tools. A tag is identified by its name."""

    kind = "tag"
    item_tools = _declare(kind, CreateTag, GetTag, ListTags, UpdateTag, DeleteTag)
    deleted = "The tag is deleted."

    def __init__(self, about: Conversation) -> None:
        super().__init__(about, tags, tag_json)

    def target(self, row: Tag) -> JsonValue:
        return {"tag": str(row.id), "name": row.name, "color": row.color}

    def reference(self, what: str, count: int) -> Change:
        return Change(f"removed_from_{what}", count, None, removed=True)

    async def find(self, conn: Connection, args: GetTag | UpdateTag | DeleteTag) -> Tag:
        return await find_tag(conn, self.context.scope, args.tag)

    async def get(self, conn: Connection, args: GetTag) -> ToolResult:
        row = await self.find(conn, args)
        found = await tags.references(conn, row.id)
        data: dict[str, JsonValue] = {**tag_json(row), **found}
        on = [one for what, count in found.items() for one in count_in_words(count, what.removesuffix("s"))]
        shown = item_for_people("Read", "tag", data, f"On {' and '.join(on)}." if on else "On nothing.")
        return ToolResult("The tag.", "ok", data, shown=shown)

    async def create(self, conn: Connection, args: CreateTag) -> ToolResult:
        row = await tags.create(conn, self.context.scope.org_id, args.name, args.color or GREY)
        return ToolResult("The tag is created.", "tag_created", tag_json(row))

    async def preview_new(self, conn: Connection, args: CreateTag) -> Preview:
        await self.refuse_taken(conn, args.name)
        changes = [Change("name", None, args.name, added=True)]
        changes += [] if args.color is None else [Change("color", None, args.color.lower(), added=True)]
        return Preview(changes, {"name": args.name})

    async def update(self, conn: Connection, args: UpdateTag) -> ToolResult:
        row = await self.find(conn, args)
        changed = await tags.update(conn, row.id, name=args.name, color=args.color)
        return ToolResult("The tag is changed.", "tag_updated", tag_json(changed))

    async def preview_change(self, conn: Connection, args: UpdateTag) -> Preview:
        row = await self.find(conn, args)
        changes: list[Change] = []
        if args.name is not None and args.name != row.name:
            await self.refuse_taken(conn, args.name, but=row.id)
            changes.append(Change("name", row.name, args.name))
        if args.color is not None and args.color.lower() != row.color:
            changes.append(Change("color", row.color, args.color.lower()))
        return Preview(changes, self.target(row))
