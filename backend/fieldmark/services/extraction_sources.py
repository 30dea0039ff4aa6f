"""What a new extraction is made with: a prompt and a version of a schema, by version, id or name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.ids import as_uuid
from fieldmark.errors import NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores import extractions
from fieldmark.stores.library import Versioned, VersionedItems, prompts, schemas
from fieldmark.stores.rows import Prompt, Schema


@dataclass(frozen=True, slots=True)
class ExtractionSource:
    """The prompt and the version of a schema that an extraction is made with."""

    prompt: Prompt | None
    schema: Schema | None


async def find_source(
    conn: Connection, scope: Scope, prompt_revid: UUID | None, schema_revid: UUID | None = None
) -> ExtractionSource:
    """Return what a new extraction with these versions is made with: a prompt brings its schema, unless another one is
    given. Raise NotFound, or Deleted for a deleted prompt or schema."""
    followed = await extractions.schema_to_extract(conn, scope.org_id, prompt_revid, schema_revid)
    return ExtractionSource(
        None if prompt_revid is None else await prompts.get_version(conn, prompt_revid),
        None if followed is None else await schemas.get_version(conn, followed),
    )


async def find_revid(
    conn: Connection,
    scope: Scope,
    items: VersionedItems[Versioned, Any],
    *,
    name: str | None,
    item_id: UUID | None,
    revid: UUID | None,
) -> UUID | None:
    """Return the version of a schema or prompt: `revid`, the latest version of the item with this id, or what `name`
    stands for: a name, or else the id of an item or of a version. Raise NotFound."""
    if item_id is not None:
        return (await items.get(conn, item_id)).revid
    if name is None:
        return revid
    row = await items.by_name(conn, scope.org_id, name)
    if row is None and (some_id := as_uuid(name)) is not None:
        row = await items.get_any(conn, some_id)
    if row is None:
        raise NotFound(f"There is no {items.kind} with the name {name!r}.")
    return row.revid
