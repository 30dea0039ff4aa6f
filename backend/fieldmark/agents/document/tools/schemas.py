"""Tools for schemas. None is made or changed, and no person is asked, before it is known that it can be used."""

from __future__ import annotations

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
    of_schema,
    referred,
    size,
)
from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.changes import Change, Preview, differences
from fieldmark.domain.json_values import JsonObject
from fieldmark.errors import InvalidSchema
from fieldmark.services.extractions import MOST_CHANGES_SHOWN
from fieldmark.services.schemas import check, judge
from fieldmark.stores.library import prompts, schemas
from fieldmark.stores.rows import SchemaRow
from fieldmark.tools.errors import ModelRetry
from fieldmark.tools.fields import cut
from fieldmark.tools.toolset import Tool, ToolEffect, ToolInput, ToolResult

_MOST_TOLD = 50


class CreateSchema(ToolInput):
    """Make a schema: a JSON Schema (Draft 2020-12) for an object, kept under a name. Read help_schemas first. It is
    refused, with the place and where possible a suggestion, if it cannot be used. From then on the conversation works
    with it."""

    name: Name
    json_schema: dict[str, JsonValue] = Field(alias="schema")


class GetSchema(ToolInput):
    """Read a version of a schema. Left out: the conversation's."""

    schema_revid: UUID | None = None


class ListSchemas(ToolInput):
    """List the organisation's schemas, the newest first, each with its latest version."""

    name: PartOfName | None = None
    before: Before | None = None


class UpdateSchema(ToolInput):
    """Change a schema's name, or the schema, or both: that makes a new version. `schema` is the whole new schema, not a
    part of it: get_schema shows what stands. `schema_revid` is the version that you have read, the latest. Left out:
    the conversation's."""

    schema_revid: UUID | None = None
    name: Name | None = None
    json_schema: dict[str, JsonValue] | None = Field(None, alias="schema")


class DeleteSchema(ToolInput):
    """Delete a schema. What was made with it keeps it."""

    schema_revid: UUID


class ValidateSchema(ToolInput):
    """Check whether a schema can be used, without keeping it."""

    json_schema: dict[str, JsonValue] = Field(alias="schema")


class ValidateAgainstSchema(ToolInput):
    """Check whether fields follow a version of a schema and its rules. Left out: the conversation's."""

    fields: dict[str, JsonValue]
    schema_revid: UUID | None = None


# Reading --------------------------------------------------------------------------------------------------------------


class SchemaTools:
    """What the tools of one run do to schemas."""

    def __init__(self, about: Conversation) -> None:
        self.about = about
        self.context = about.context

    async def version_of(self, conn: Connection, revid: UUID | None) -> SchemaRow:
        """Return the version that is named, or the conversation's. Raises ModelRetry if there is neither."""
        revid = revid or (await self.about.recall(conn)).schema_revid
        if revid is None:
            raise ModelRetry("This conversation has no schema yet: name one of list_schemas, or make one.", "no_schema")
        return await schemas.get_version(conn, revid)

    async def get(self, conn: Connection, args: GetSchema) -> ToolResult:
        row = await self.version_of(conn, args.schema_revid)
        told = of_schema(row)
        if row.schema is not None and size(row.schema) > ROOM:
            properties = row.schema.get("properties")
            names = list(properties) if isinstance(properties, dict) else []
            data: dict[str, JsonValue] = {**told, "properties": cut([*names], ROOM - 2000)}
            return ToolResult("The schema is too long to show at once. These are its properties.", "too_long", data)
        return ToolResult(f"Version {row.number} of the schema.", "ok", {**told, "schema": row.schema})

    async def list_page(self, conn: Connection, args: ListSchemas) -> ToolResult:
        page = await schemas.list_page(conn, self.context.scope, name=args.name, limit=A_PAGE, before=args.before)
        return listed("schemas", [of_schema(row) for row in page.items], page.next)

    async def validated(self, args: ValidateSchema) -> ToolResult:
        try:
            await _check(args.json_schema)
        except ModelRetry as fault:
            return ToolResult(fault.text, fault.code, fault.data)
        return ToolResult("The schema can be used.", "valid")

    async def validate(self, conn: Connection, validated: ToolResult) -> ToolResult:
        return validated

    async def judge(self, args: ValidateAgainstSchema) -> ToolResult:
        async with self.context.database.as_user(self.context.scope) as conn:
            row = await self.version_of(conn, args.schema_revid)
        assert row.schema is not None  # a version has one
        found = await judge(self.context.scope.org_id, row.schema, args.fields)
        data = of_schema(row)
        if not found:
            return ToolResult("The fields follow the schema.", "valid", data)
        faults: list[JsonValue] = [
            {"path": paths.name(one.path), "code": one.code, "message": one.message} for one in found[:_MOST_TOLD]
        ]
        text = "The fields do not follow the schema:\n" + "\n".join(f"- {one.message}" for one in found[:20])
        return ToolResult(text[: ROOM // 4], "schema_violation", {**data, "violations": cut(faults, ROOM // 2)})

    async def check_new(self, args: CreateSchema) -> None:
        await _check(args.json_schema)

    async def create(self, conn: Connection, args: CreateSchema) -> ToolResult:
        row = await schemas.create(conn, self.context.scope.org_id, args.name, args.json_schema)
        # A prompt of another schema is none for this one.
        await self.about.remember(conn, schema_revid=row.schema_revid, prompt_revid=None)
        return ToolResult("The schema is made, version 1.", "schema_created", of_schema(row))

    async def preview_new(self, conn: Connection, args: CreateSchema) -> Preview:
        await self._refuse_taken(conn, args.name)
        before: JsonObject = {"properties": {}} if isinstance(args.json_schema.get("properties"), dict) else {}
        changes = [Change("name", None, args.name, added=True), *differences(before, args.json_schema, ("schema",))]
        return Preview(changes[:MOST_CHANGES_SHOWN], {"name": args.name})

    async def _refuse_taken(self, conn: Connection, name: str, but: UUID | None = None) -> None:
        taken = await schemas.by_name(conn, self.context.scope.org_id, name)
        if taken is not None and taken.id != but:
            raise ModelRetry(
                f"There is a schema {name!r} already: change that one, or take another name.", "name_taken"
            )

    async def check_change(self, args: UpdateSchema) -> None:
        if args.json_schema is not None:
            await _check(args.json_schema)

    async def update(self, conn: Connection, args: UpdateSchema) -> ToolResult:
        row = await self._latest(conn, args.schema_revid)
        changed = await schemas.update(conn, row.id, name=args.name, schema=args.json_schema, revid=row.schema_revid)
        await self.about.remember(
            conn, schema_revid=changed.schema_revid, **await self._prompt_that_stays(conn, row.id)
        )
        if changed.schema_revid == row.schema_revid:
            return ToolResult("Nothing changes: it stands so already.", "unchanged", of_schema(changed))
        return ToolResult(
            f"The schema is changed: this is version {changed.number}.", "schema_updated", of_schema(changed)
        )

    async def _prompt_that_stays(self, conn: Connection, schema_id: UUID) -> dict[str, UUID | None]:
        """The conversation goes on with its prompt only if that follows the schema."""
        revid = (await self.about.recall(conn)).prompt_revid
        prompt = None if revid is None else await prompts.get_version(conn, revid)
        return {} if prompt is not None and prompt.schema_id == schema_id else {"prompt_revid": None}

    async def preview_change(self, conn: Connection, args: UpdateSchema) -> Preview:
        row = await self._latest(conn, args.schema_revid)
        changes: list[Change] = []
        if args.name is not None and args.name != row.name:
            await self._refuse_taken(conn, args.name, but=row.id)
            changes.append(Change("name", row.name, args.name))
        if args.json_schema is not None:
            changes += differences(row.schema, args.json_schema, ("schema",))
        return Preview(changes[:MOST_CHANGES_SHOWN], {"schema_revid": str(row.schema_revid)})

    async def _latest(self, conn: Connection, revid: UUID | None) -> SchemaRow:
        """The version to be changed: nobody has changed it since the model has read it. Raises ModelRetry."""
        row = await self.version_of(conn, revid)
        if row.is_deleted:
            raise ModelRetry("The schema is deleted.", "deleted")
        if not row.is_latest:
            raise ModelRetry(
                "The schema has a newer version: read that with get_schema, and change it.",
                "version_changed",
                {"schema_revid": str((await schemas.get(conn, row.id)).schema_revid)},
            )
        return row

    async def delete(self, conn: Connection, args: DeleteSchema) -> ToolResult:
        row = await self.version_of(conn, args.schema_revid)
        kept = await schemas.remove(conn, row.id)
        state = await self.about.recall(conn)
        if state.schema_revid is not None and (await schemas.get_version(conn, state.schema_revid)).id == row.id:
            await self.about.remember(conn, schema_revid=None)
        data: dict[str, JsonValue] = {**of_schema(row), **kept}
        return ToolResult("The schema is deleted. What was made with it keeps it.", "schema_deleted", data)

    async def preview_deletion(self, conn: Connection, args: DeleteSchema) -> Preview:
        row = await self.version_of(conn, args.schema_revid)
        if row.is_deleted:
            raise ModelRetry("The schema is deleted already.", "deleted")
        latest = await schemas.get(conn, row.id)
        kept = await schemas.references(conn, row.id)
        changes = [Change("name", latest.name, None, removed=True)]
        if found := [*referred(kept["prompts"], "prompt"), *referred(kept["extractions"], "extraction")]:
            changes.append(Change("kept by", None, " and ".join(found), added=True))
        return Preview(changes, {"schema_revid": str(latest.schema_revid)})


async def _check(schema: JsonObject) -> None:
    """Raise ModelRetry for a schema that cannot be used."""
    try:
        await check(schema)
    except InvalidSchema as error:
        raise ModelRetry(str(error), error.code, _told_of(error)) from None


def _told_of(error: InvalidSchema) -> JsonValue:
    data: dict[str, JsonValue] = {}
    for name in ("errors", "suggestion"):
        if name in error.details:
            data[name] = error.details[name]
    return data if data and size(data) <= ROOM else None


CREATE_SCHEMA = Tool(
    "create_schema",
    CreateSchema,
    summary=lambda args: f"Making the schema {args.name!r}",
    effect=ToolEffect.WRITE,
)
GET_SCHEMA = Tool("get_schema", GetSchema, summary=lambda args: "Reading a schema")
LIST_SCHEMAS = Tool("list_schemas", ListSchemas, summary=lambda args: "Looking through the schemas")
UPDATE_SCHEMA = Tool(
    "update_schema",
    UpdateSchema,
    summary=lambda args: "Changing the schema" if args.name is None else f"Changing the schema {args.name!r}",
    effect=ToolEffect.WRITE,
)
DELETE_SCHEMA = Tool(
    "delete_schema",
    DeleteSchema,
    summary=lambda args: "Deleting a schema",
    effect=ToolEffect.WRITE,
)
VALIDATE_SCHEMA = Tool("validate_schema", ValidateSchema, summary=lambda args: "Checking a schema")
VALIDATE_AGAINST_SCHEMA = Tool(
    "validate_against_schema", ValidateAgainstSchema, summary=lambda args: "Checking fields against the schema"
)
