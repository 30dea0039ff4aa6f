"""/api/schemas, /api/prompts, /api/tags: what an organisation keeps by name, with its versions."""

# (Annotations are evaluated, since some name what a function around them is given.)

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query
from pydantic import Field

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import (
    STORABLE,
    Before,
    BeforeVersion,
    Body,
    IfMatchRevid,
    Limit,
    ListPage,
    Name,
    NameContains,
    NameEquals,
    NumberedListPage,
    Shown,
    revid_in,
)
from fieldmark.domain.retry import retry_while_stale
from fieldmark.services.schemas import check
from fieldmark.stores.library import GREY, NamedItems, PromptText, VersionedItems, prompts, schemas, tags

router = Routes(prefix="/api")

JsonSchema = Annotated[
    dict[str, Any],
    Field(description="A JSON Schema (Draft 2020-12) of an object, at most 256 kB. References lead inside it."),
]
Content = Annotated[
    str, Field(min_length=1, max_length=20_000, pattern=STORABLE, description="What to look for, in words.")
]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE, description="The model that is asked.")]
TagIds = Annotated[list[UUID], Field(max_length=50, description="The tags of the documents that it is meant for.")]
Color = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$", examples=["#1e90ff"])]


class NewSchema(Body):
    """A schema to create."""

    name: Name
    json_schema: JsonSchema = Field(alias="schema")


class SchemaChange(Body):
    """Another name, another schema, or both. What is left out stays."""

    name: Name | None = None
    json_schema: JsonSchema | None = Field(None, alias="schema")


class NewPrompt(Body):
    """A prompt to create."""

    name: Name
    content: Content
    schema_id: UUID | None = Field(None, description="The schema that it follows: its latest version when it is used.")
    model: Model | None = Field(None, description="The model that is asked; the service's if left out.")
    tag_ids: TagIds = Field([])


class PromptChange(Body):
    """What changes of a prompt. What is left out stays."""

    name: Name | None = None
    content: Content | None = None
    schema_id: UUID | None = Field(None, description="null: it follows none.")
    model: Model | None = Field(None, description="null: the service's.")
    tag_ids: TagIds | None = Field(None, description="These and no others.")


class NewTag(Body):
    """A tag to create."""

    name: Name
    color: Color = GREY


class TagChange(Body):
    """Another name, another color, or both. What is left out stays."""

    name: Name | None = None
    color: Color | None = None


class Tag(Shown):
    """A tag of the organisation."""

    id: UUID
    name: str
    color: str = Field(examples=["#1e90ff"])
    deleted: bool = Field(description="In no list and for no new use.", validation_alias="is_deleted")
    proposed: bool = Field(
        description="An agent created it, and nobody has accepted it yet.", validation_alias="is_proposed"
    )
    created_by: UUID | None = Field(description="Who created it; null if they are gone.")
    created_at: datetime


class _Version(Shown):
    id: UUID = Field(description="The same for all its versions.")
    number: int = Field(description="The number of the version, from 1.")
    name: str
    latest: bool = Field(description="Whether it has no newer version.", validation_alias="is_latest")
    deleted: bool = Field(description="In no list and for no new use.", validation_alias="is_deleted")
    proposed: bool = Field(
        description="An agent created it, and nobody has accepted it yet.", validation_alias="is_proposed"
    )
    created_by: UUID | None = Field(description="Who created the first version; null if they are gone.")
    created_at: datetime = Field(description="When the first version was created.")
    changed_by: UUID | None = Field(description="Who created this version; null if they are gone.")
    changed_at: datetime = Field(description="When this version was created.")


class SchemaVersion(_Version):
    """A version of a schema, without its text."""

    schema_revid: UUID = Field(description="This version, which never changes.")


class KeptSchema(SchemaVersion):
    """A version of a schema."""

    json_schema: dict[str, Any] = Field(
        description="The JSON Schema.", serialization_alias="schema", validation_alias="schema"
    )


class KeptPrompt(_Version):
    """A version of a prompt."""

    prompt_revid: UUID = Field(description="This version, which never changes.")
    content: str = Field(description="What to look for, in words.")
    schema_id: UUID | None = Field(description="The schema that it follows: its latest version when it is used.")
    model: str | None = Field(description="null: the service's.")
    tag_ids: list[UUID] = Field(description="The tags of the documents that it is meant for.")


def _add_item_routes(kind: str, items: NamedItems[Any], shape: type[Shown]) -> None:
    async def get(item_id: Annotated[UUID, Path(alias=f"{kind}_id")], conn: Conn) -> Shown:
        return shape.of(await items.get(conn, item_id))

    async def delete(item_id: Annotated[UUID, Path(alias=f"{kind}_id")], conn: Conn) -> dict[str, int]:
        return await items.remove(conn, item_id)

    of_item = f"/{kind}s/{{{kind}_id}}"
    router.add_api_route(
        of_item,
        get,
        name=f"get_{kind}",
        response_model=shape,
        tags=[f"{kind}s"],
        description=f"Return a {kind} in its latest version, also a deleted one.",
    )
    router.add_api_route(
        of_item,
        delete,
        methods=["DELETE"],
        name=f"delete_{kind}",
        tags=[f"{kind}s"],
        description=f"Delete a {kind}: it is in no list and for no new use. What refers to it keeps it; the response "
        "counts that by kind. A member may delete their own, an owner any.",
    )


def _add_list_route(kind: str, items: NamedItems[Any], listed: type[Shown]) -> None:
    async def list_items(
        scope: TheScope,
        conn: Conn,
        name: NameEquals = None,
        name_contains: NameContains = None,
        limit: Limit = 50,
        before: Before = None,
    ) -> Shown:
        page = await items.list_page(conn, scope, name=name, name_contains=name_contains, limit=limit, before=before)
        return ListPage[listed].of(page)

    router.add_api_route(
        f"/{kind}s",
        list_items,
        name=f"list_{kind}s",
        response_model=ListPage[listed],
        tags=[f"{kind}s"],
        description=f"List the organisation's {kind}s, those created last first.",
    )


def _add_version_routes(kind: str, items: VersionedItems[Any], listed: type[Shown], shape: type[Shown]) -> None:
    async def get_version(revid: Annotated[UUID, Path(alias=f"{kind}_revid")], conn: Conn) -> Shown:
        return shape.of(await items.get_version(conn, revid))

    async def list_versions(
        item_id: Annotated[UUID, Path(alias=f"{kind}_id")], conn: Conn, limit: Limit = 50, before: BeforeVersion = None
    ) -> Shown:
        rows = await items.versions(conn, item_id, limit=limit + 1, before=before)
        following = rows[limit - 1].number if len(rows) > limit else None
        return NumberedListPage[listed](items=[listed.of(row) for row in rows[:limit]], next=following)

    router.add_api_route(
        f"/{kind}_versions/{{{kind}_revid}}",
        get_version,
        name=f"get_{kind}_version",
        response_model=shape,
        tags=[f"{kind}s"],
        description=f"Return a version of a {kind}, the latest or an older one, also of a deleted one.",
    )
    router.add_api_route(
        f"/{kind}s/{{{kind}_id}}/versions",
        list_versions,
        name=f"list_{kind}_versions",
        response_model=NumberedListPage[listed],
        tags=[f"{kind}s"],
        description=f"List the versions of a {kind}, newest first.",
    )


@router.post("/schemas", status_code=201, tags=["schemas"])
async def create_schema(body: NewSchema, scope: TheScope, runtime: TheRuntime) -> KeptSchema:
    """Create a schema. One that cannot be used is refused, with where."""
    await check(body.json_schema)
    async with runtime.database.as_user(scope) as conn:
        return KeptSchema.of(await schemas.create(conn, scope.org_id, body.name, body.json_schema))


@router.patch("/schemas/{schema_id}", tags=["schemas"])
async def update_schema(
    schema_id: UUID, body: SchemaChange, scope: TheScope, runtime: TheRuntime, if_match: IfMatchRevid = None
) -> KeptSchema:
    """Give a schema another name, another text, or both: that is a new version. What was made with an older one keeps
    that. Without a difference there is no new version."""
    seen = revid_in(if_match)
    if body.json_schema is not None:
        await check(body.json_schema)
    async with runtime.database.as_user(scope) as conn:
        row = await schemas.update(conn, schema_id, name=body.name, schema=body.json_schema, revid=seen)
    return KeptSchema.of(row)


@router.get("/prompts", tags=["prompts"])
async def list_prompts(
    scope: TheScope,
    conn: Conn,
    name: NameEquals = None,
    name_contains: NameContains = None,
    schema_id: Annotated[UUID | None, Query(description="Only those that follow this schema.")] = None,
    tag_id: Annotated[UUID | None, Query(description="Only those with this tag.")] = None,
    document_id: Annotated[UUID | None, Query(description="Only those that share a tag with this document.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[KeptPrompt]:
    """List the organisation's prompts, those created last first."""
    filters = {
        "name": name,
        "name_contains": name_contains,
        "schema_id": schema_id,
        "tag_id": tag_id,
        "document_id": document_id,
    }
    return ListPage[KeptPrompt].of(await prompts.list_page(conn, scope, limit=limit, before=before, **filters))


@router.post("/prompts", status_code=201, tags=["prompts"])
async def create_prompt(body: NewPrompt, scope: TheScope, conn: Conn) -> KeptPrompt:
    """Create a prompt."""
    text = PromptText(body.name, body.content, body.schema_id, body.model, body.tag_ids)
    return KeptPrompt.of(await prompts.create(conn, scope.org_id, text))


@router.patch("/prompts/{prompt_id}", tags=["prompts"])
async def update_prompt(
    prompt_id: UUID, body: PromptChange, scope: TheScope, runtime: TheRuntime, if_match: IfMatchRevid = None
) -> KeptPrompt:
    """Change a prompt: that is a new version. What was made with an older one keeps that. Without a difference there is
    no new version."""
    seen, given = revid_in(if_match), body.model_fields_set

    async def attempt() -> KeptPrompt:
        async with runtime.database.as_user(scope) as conn:
            row = await prompts.get(conn, prompt_id)
            text = PromptText(
                name=row.name if body.name is None else body.name,
                content=row.content if body.content is None else body.content,
                schema_id=body.schema_id if "schema_id" in given else row.schema_id,
                model=body.model if "model" in given else row.model,
                tag_ids=row.tag_ids if body.tag_ids is None else body.tag_ids,
            )
            return KeptPrompt.of(await prompts.update(conn, prompt_id, text, revid=seen or row.prompt_revid))

    return await retry_while_stale(attempt)


@router.post("/tags", status_code=201, tags=["tags"])
async def create_tag(body: NewTag, scope: TheScope, conn: Conn) -> Tag:
    """Create a tag."""
    return Tag.of(await tags.create(conn, scope.org_id, body.name, body.color))


@router.patch("/tags/{tag_id}", tags=["tags"])
async def update_tag(tag_id: UUID, body: TagChange, conn: Conn) -> Tag:
    """Give a tag another name, another color, or both, wherever it is."""
    return Tag.of(await tags.update(conn, tag_id, name=body.name, color=body.color))


_add_list_route("schema", schemas, SchemaVersion)
_add_list_route("tag", tags, Tag)
_add_item_routes("schema", schemas, KeptSchema)
_add_item_routes("prompt", prompts, KeptPrompt)
_add_item_routes("tag", tags, Tag)
_add_version_routes("schema", schemas, SchemaVersion, KeptSchema)
_add_version_routes("prompt", prompts, KeptPrompt, KeptPrompt)
