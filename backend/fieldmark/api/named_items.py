"""Parameters that name a schema, prompt or table: by its name, its id, or the id of a version."""

# No `from __future__ import annotations`: some annotations use the arguments of the enclosing function.

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import Field

from fieldmark.api.auth import TheRuntime, TheScope
from fieldmark.api.shared_types import STORABLE
from fieldmark.services.upload_targets import find_table_id
from fieldmark.stores.library import VersionedItems, prompts, schemas

_DESCRIPTION = "Its name, its id, or the id of a version."

SchemaName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=STORABLE,
        description="The schema: its name, its id, or the id of any version.",
        examples=["invoices"],
    ),
]
"""A schema in a body. `schemas.id_of` returns its id."""


def _named(kind: str, items: VersionedItems[Any, Any]) -> Any:
    async def find(
        name: Annotated[
            str, Path(alias=f"{kind}_id", min_length=1, max_length=200, pattern=STORABLE, description=_DESCRIPTION)
        ],
        scope: TheScope,
        runtime: TheRuntime,
    ) -> UUID:
        async with runtime.database.as_user(scope) as conn:
            return await items.id_of(conn, scope.org_id, name)

    return Depends(find)


BY_SCHEMA, BY_PROMPT = _named("schema", schemas), _named("prompt", prompts)
SchemaId = Annotated[UUID, BY_SCHEMA]
PromptId = Annotated[UUID, BY_PROMPT]


async def _find_table(
    table_id: Annotated[
        str,
        Path(
            min_length=1,
            max_length=200,
            pattern=STORABLE,
            description="The name or id of a stack or a schema, or the id of a schema's version.",
        ),
    ],
    scope: TheScope,
    runtime: TheRuntime,
) -> UUID:
    async with runtime.database.as_user(scope) as conn:
        return await find_table_id(conn, scope, table_id)


TableId = Annotated[UUID, Depends(_find_table)]


async def _find_filtered_schema(
    scope: TheScope,
    runtime: TheRuntime,
    schema_id: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            pattern=STORABLE,
            description=f"Only what follows this schema, in any version. {_DESCRIPTION}",
        ),
    ] = None,
) -> UUID | None:
    if schema_id is None:
        return None
    async with runtime.database.as_user(scope) as conn:
        return await schemas.id_of(conn, scope.org_id, schema_id)


SchemaFilter = Annotated[UUID | None, Depends(_find_filtered_schema)]
