"""/api/schemas, /api/prompts, /api/tags: named items and their versions."""

# No `from __future__ import annotations`: some annotations use the arguments of the enclosing function.

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.named_items import BY_PROMPT, BY_SCHEMA, PromptId, SchemaFilter, SchemaId, SchemaName
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import (
    STORABLE,
    Before,
    BeforeVersion,
    IfMatchRevid,
    Limit,
    Name,
    NameContains,
    NameEquals,
    RequestBody,
    parse_if_match_revid,
)
from fieldmark.domain.retry import retry_while_stale
from fieldmark.services import schema_changes
from fieldmark.services.schema_changes import SchemaPrompt
from fieldmark.services.schema_templates import SchemaTemplate, schema_templates
from fieldmark.services.schemas import check
from fieldmark.stores.library import GREY, NamedItems, PromptText, VersionedItems, prompts, schemas, tags
from fieldmark.stores.paging import ListPage, NumberedListPage
from fieldmark.stores.rows import Prompt, Schema, SchemaVersion, Tag

router = Routes(prefix="/api")

JsonSchema = Annotated[
    dict[str, Any],
    Field(description="A JSON Schema (Draft 2020-12) of an object, at most 256 kB. Only local references."),
]
Content = Annotated[
    str, Field(min_length=1, max_length=20_000, pattern=STORABLE, description="Instructions for the agent.")
]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)]
PinnedVersion = Annotated[
    int,
    Field(
        ge=1, le=2**31 - 1, description="The number of the schema's version to use. null: each use takes the latest."
    ),
]
TagIds = Annotated[list[UUID], Field(max_length=50, description="The prompt is for documents with one of these tags.")]
Color = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$", examples=["#1e90ff"])]


class NewSchema(RequestBody):
    """A schema to create."""

    name: Name
    json_schema: JsonSchema = Field(alias="schema")


class SchemaChange(RequestBody):
    """Changes of a schema. Fields that are left out stay unchanged."""

    name: Name | None = None
    json_schema: JsonSchema | None = Field(None, alias="schema")


class NewPrompt(RequestBody):
    """A prompt to create."""

    name: Name
    content: Content
    schema_id: SchemaName | None = None
    schema_version: PinnedVersion | None = None
    model: Model | None = Field(None, description="The model to use. Default: the service's.")
    tag_ids: TagIds = Field([])


class PromptChange(RequestBody):
    """Changes of a prompt. Fields that are left out stay unchanged."""

    name: Name | None = None
    content: Content | None = None
    schema_id: SchemaName | None = Field(None, description="null: no schema. Another schema is not pinned.")
    schema_version: PinnedVersion | None = None
    model: Model | None = Field(None, description="null: the service's model.")
    tag_ids: TagIds | None = Field(None, description="Replaces all tags.")


class NewTag(RequestBody):
    """A tag to create."""

    name: Name
    color: Color = GREY


class TagChange(RequestBody):
    """Changes of a tag. Fields that are left out stay unchanged."""

    name: Name | None = None
    color: Color | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSchema(Schema):
    """A changed schema, and the prompts that use it."""

    prompts: Annotated[
        Sequence[SchemaPrompt],
        Field(
            description="The prompts that use the schema, newest first: 50. Those without a pin follow the new version."
        ),
    ]


def _add_item_routes(kind: str, items: NamedItems[Any, Any], model: type[Any], item: Any) -> None:
    async def get(item_id: Annotated[UUID, item], conn: Conn) -> Any:
        return await items.get(conn, item_id)

    async def delete(item_id: Annotated[UUID, item], conn: Conn) -> dict[str, int]:
        return await items.remove(conn, item_id)

    path = f"/{kind}s/{{{kind}_id}}"
    router.add_api_route(
        path,
        get,
        name=f"get_{kind}",
        response_model=model,
        tags=[f"{kind}s"],
        description=f"Return a {kind} in its latest version, also a deleted one.",
    )
    router.add_api_route(
        path,
        delete,
        methods=["DELETE"],
        name=f"delete_{kind}",
        tags=[f"{kind}s"],
        description=f"Delete a {kind}. It is hidden from lists and from new use, but rows that refer to it keep it; "
        f"the "
        "response counts them by kind. A member can delete their own, an owner any.",
    )


def _add_list_route(kind: str, items: NamedItems[Any, Any], list_model: type[Any]) -> None:
    async def list_items(
        scope: TheScope,
        conn: Conn,
        name: NameEquals = None,
        name_contains: NameContains = None,
        limit: Limit = 50,
        before: Before = None,
    ) -> Any:
        return await items.list_page(conn, scope, name=name, name_contains=name_contains, limit=limit, before=before)

    router.add_api_route(
        f"/{kind}s",
        list_items,
        name=f"list_{kind}s",
        response_model=ListPage[list_model],
        tags=[f"{kind}s"],
        description=f"List the organisation's {kind}s, newest first.",
    )


def _add_version_routes(
    kind: str, items: VersionedItems[Any, Any], list_model: type[Any], model: type[Any], item: Any
) -> None:
    async def get_version(revid: Annotated[UUID, Path(alias=f"{kind}_revid")], conn: Conn) -> Any:
        return await items.get_version(conn, revid)

    async def list_versions(
        item_id: Annotated[UUID, item], conn: Conn, limit: Limit = 50, before: BeforeVersion = None
    ) -> Any:
        rows = await items.versions(conn, item_id, limit=limit + 1, before=before)
        following = rows[limit - 1].number if len(rows) > limit else None
        return NumberedListPage(rows[:limit], following)

    router.add_api_route(
        f"/{kind}_versions/{{{kind}_revid}}",
        get_version,
        name=f"get_{kind}_version",
        response_model=model,
        tags=[f"{kind}s"],
        description=f"Return a version of a {kind}, the latest or an older one, also of a deleted one.",
    )
    router.add_api_route(
        f"/{kind}s/{{{kind}_id}}/versions",
        list_versions,
        name=f"list_{kind}_versions",
        response_model=NumberedListPage[list_model],
        tags=[f"{kind}s"],
        description=f"List the versions of a {kind}, newest first.",
    )


class Templates(BaseModel):
    """The templates, by name."""

    items: list[SchemaTemplate]


@router.get("/schema_templates", tags=["schemas"])
async def list_schema_templates(_: TheScope) -> Templates:
    """List schemas for usual documents, with rules and a sample each. Store one with `POST /api/schemas`."""
    return Templates(items=list(schema_templates()))


@router.post("/schemas", status_code=201, tags=["schemas"])
async def create_schema(body: NewSchema, scope: TheScope, runtime: TheRuntime) -> Schema:
    """Create a schema. 422 `invalid_schema` with the path of each error if it cannot be used."""
    await check(body.json_schema)
    async with runtime.database.as_user(scope) as conn:
        return await schemas.create(conn, scope.org_id, body.name, body.json_schema)


@router.patch("/schemas/{schema_id}", tags=["schemas"])
async def update_schema(
    schema_id: SchemaId, body: SchemaChange, scope: TheScope, runtime: TheRuntime, if_match: IfMatchRevid = None
) -> ChangedSchema:
    """Change a schema's name or text. A change creates a new version; extractions keep the version that they follow."""
    seen = parse_if_match_revid(if_match)
    if body.json_schema is not None:
        await check(body.json_schema)
    async with runtime.database.as_user(scope) as conn:
        row = await schemas.update(conn, schema_id, name=body.name, schema=body.json_schema, revid=seen)
        used_by = await schema_changes.list_prompts(conn, scope, schema_id)
    return ChangedSchema(**asdict(row), prompts=used_by)


@router.get("/prompts", tags=["prompts"])
async def list_prompts(
    scope: TheScope,
    conn: Conn,
    name: NameEquals = None,
    name_contains: NameContains = None,
    schema_id: SchemaFilter = None,
    tag_id: Annotated[UUID | None, Query(description="Only prompts with this tag.")] = None,
    document_id: Annotated[UUID | None, Query(description="Only prompts that share a tag with this document.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[Prompt]:
    """List the organisation's prompts, newest first."""
    filters = {
        "name": name,
        "name_contains": name_contains,
        "schema_id": schema_id,
        "tag_id": tag_id,
        "document_id": document_id,
    }
    return await prompts.list_page(conn, scope, limit=limit, before=before, **filters)


@router.post("/prompts", status_code=201, tags=["prompts"])
async def create_prompt(body: NewPrompt, scope: TheScope, conn: Conn) -> Prompt:
    """Create a prompt."""
    schema_id = None if body.schema_id is None else await schemas.id_of(conn, scope.org_id, body.schema_id)
    text = PromptText(body.name, body.content, schema_id, body.model, body.tag_ids, body.schema_version)
    return await prompts.create(conn, scope.org_id, text)


@router.patch("/prompts/{prompt_id}", tags=["prompts"])
async def update_prompt(
    prompt_id: PromptId, body: PromptChange, scope: TheScope, runtime: TheRuntime, if_match: IfMatchRevid = None
) -> Prompt:
    """Change a prompt. A change creates a new version; extractions keep the version that they were made with."""
    seen, given = parse_if_match_revid(if_match), body.model_fields_set

    async def attempt() -> Prompt:
        async with runtime.database.as_user(scope) as conn:
            row = await prompts.get(conn, prompt_id)
            schema_id = row.schema_id if "schema_id" not in given else None
            if body.schema_id is not None:
                schema_id = await schemas.id_of(conn, scope.org_id, body.schema_id)
            text = PromptText(
                name=row.name if body.name is None else body.name,
                content=row.content if body.content is None else body.content,
                schema_id=schema_id,
                model=body.model if "model" in given else row.model,
                tag_ids=row.tag_ids if body.tag_ids is None else body.tag_ids,
                schema_version=body.schema_version if given & {"schema_version", "schema_id"} else row.schema_version,
            )
            return await prompts.update(conn, prompt_id, text, revid=seen or row.prompt_revid)

    return await retry_while_stale(attempt)


@router.post("/tags", status_code=201, tags=["tags"])
async def create_tag(body: NewTag, scope: TheScope, conn: Conn) -> Tag:
    """Create a tag."""
    return await tags.create(conn, scope.org_id, body.name, body.color)


@router.patch("/tags/{tag_id}", tags=["tags"])
async def update_tag(tag_id: UUID, body: TagChange, conn: Conn) -> Tag:
    """Change a tag's name or color, on all documents and prompts that have it."""
    return await tags.update(conn, tag_id, name=body.name, color=body.color)


_add_list_route("schema", schemas, SchemaVersion)
_add_list_route("tag", tags, Tag)
_add_item_routes("schema", schemas, Schema, BY_SCHEMA)
_add_item_routes("prompt", prompts, Prompt, BY_PROMPT)
_add_item_routes("tag", tags, Tag, Path(alias="tag_id"))
_add_version_routes("schema", schemas, SchemaVersion, Schema, BY_SCHEMA)
_add_version_routes("prompt", prompts, Prompt, Prompt, BY_PROMPT)
