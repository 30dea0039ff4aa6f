"""Schemas, prompts and tags in Postgres. Schemas and prompts have versions.

`remove` hides an item, and rows that refer to it keep working. Only rejecting an agent's proposal deletes rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, LiteralString, TypeVar
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.ids import as_uuid
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import (
    Prompt,
    Schema,
    SchemaVersion,
    Tag,
    active_conditions,
    large_rows,
    ordered_json,
    value_of,
)

GREY: Final = "#808080"

Row = TypeVar("Row", Schema, Prompt, Tag)
Versioned = TypeVar("Versioned", Schema, Prompt)
Listed = TypeVar("Listed", SchemaVersion, Prompt, Tag)
"""A row of a list. A schema's text may be long, so lists leave it out."""

_ITEM: Final[LiteralString] = """i.id, i.created_by, i.created_at, i.deleted_at is not null as is_deleted,
    private.is_proposed(i.run_id) as is_proposed"""


class NamedItems(Generic[Row, Listed]):
    """The schemas, prompts or tags of an organisation. `columns` are SQL columns of `i`, the item, and `v`, its
    version. `filters` are the conditions of `list_page` by parameter name."""

    def __init__(
        self,
        kind: LiteralString,
        row_class: type[Row],
        list_class: type[Listed],
        columns: LiteralString,
        latest: LiteralString,
        filters: dict[str, LiteralString] | None = None,
    ) -> None:
        self.kind: LiteralString = kind
        self._row_class = row_class
        self._list_class = list_class
        self._columns: LiteralString = f"{_ITEM}, {columns}"
        self._list_columns: LiteralString = self._columns.replace("v.schema,", "")
        self._latest: LiteralString = latest
        self._filters: dict[str, LiteralString] = {
            "name_contains": "position(lower(%(name_contains)s) in lower(i.name)) > 0",
            "name": "lower(i.name) = lower(%(name)s)",
            **(filters or {}),
        }

    async def get(self, conn: Connection, item_id: UUID) -> Row:
        """Return an item in its latest version, also a hidden one. Raise NotFound."""
        if (row := await self.find(conn, item_id)) is None:
            raise NotFound(f"The {self.kind} does not exist.")
        return row

    async def find(self, conn: Connection, item_id: UUID) -> Row | None:
        """Return an item like `get`, or None if it does not exist. A rejected proposal deletes its items."""
        rows = await self.find_many(conn, [item_id])
        return rows[0] if rows else None

    async def find_many(self, conn: Connection, item_ids: Sequence[UUID]) -> list[Row]:
        """Return these items like `get`, in any order. Items that do not exist are left out."""
        query: LiteralString = f"select {self._columns} from {self._latest} where i.id = any (%s)"
        return await self._rows(conn, query, (list(item_ids),))

    async def by_name(self, conn: Connection, org_id: UUID, name: str) -> Row | None:
        """Return the item of a name in its latest version. Case does not matter."""
        where: LiteralString = "i.org_id = %s and lower(i.name) = lower(%s) and i.deleted_at is null"
        rows = await self._rows(conn, f"select {self._columns} from {self._latest} where {where}", (org_id, name))
        return rows[0] if rows else None

    async def list_page(
        self, conn: Connection, scope: Scope, *, limit: int, before: str | None = None, **filters: str | UUID | None
    ) -> ListPage[Listed]:
        """Return a page of the organisation's items in their latest versions, newest first. `name` is the full name,
        `name_contains` a part of it. Raise Invalid for an invalid cursor."""
        request = PageRequest(f"{self.kind}s", limit, before)
        where: list[LiteralString] = ["i.org_id = %(org)s", "i.deleted_at is null"]
        where += active_conditions({self._filters[name]: value for name, value in filters.items()})
        where += request.conditions("i.created_at, i.id")
        query: LiteralString = f"""select {self._list_columns} from {self._latest} where {" and ".join(where)}
            order by i.created_at desc, i.id desc limit %(limit)s"""
        parameters = {**filters, "org": scope.org_id, **request.parameters()}
        return request.page(await large_rows(conn, self._list_class, query, parameters))

    async def remove(self, conn: Connection, item_id: UUID) -> dict[str, int]:
        """Hide an item. Return how many rows refer to it, by kind. Raise NotFound."""
        return await self._fetch_row(conn, f"select * from public.delete_{self.kind}(%s)", (item_id,))

    async def references(self, conn: Connection, item_id: UUID) -> dict[str, int]:
        return await self._fetch_row(conn, f"select * from private.count_references_to_{self.kind}(%s)", (item_id,))

    async def _call(self, conn: Connection, verb: LiteralString, values: Sequence[object]) -> UUID:
        """Call the SQL function that creates or updates an item. Return the id of its new version, or of the tag."""
        marks: LiteralString = ", ".join("%s" for _ in values)
        row = await self._fetch_row(conn, f"select public.{verb}_{self.kind}({marks}) as id", values)
        return row["id"]

    async def _rows(
        self, conn: Connection, query: LiteralString, parameters: Sequence[object] | dict[str, Any]
    ) -> list[Row]:
        return await large_rows(conn, self._row_class, query, parameters)

    async def _fetch_row(self, conn: Connection, query: LiteralString, parameters: Sequence[object]) -> dict[str, Any]:
        row = await (await conn.execute(query, parameters)).fetchone()
        assert row is not None
        return row


class VersionedItems(NamedItems[Versioned, Listed]):
    """Items with a version history: schemas or prompts."""

    def __init__(
        self,
        kind: LiteralString,
        row_class: type[Versioned],
        list_class: type[Listed],
        columns: LiteralString,
        filters: dict[str, LiteralString] | None = None,
    ) -> None:
        versions: LiteralString = f"public.{kind}_versions"
        columns = f"""{columns}, v.id as {kind}_revid, v.number, v.name, v.created_by as changed_by,
            v.created_at as changed_at,
            v.number = (select max(number) from {versions} where {kind}_id = i.id) as is_latest"""
        latest: LiteralString = f"""public.{kind}s as i cross join lateral (
            select * from {versions} where {kind}_id = i.id order by number desc limit 1) as v"""
        super().__init__(kind, row_class, list_class, columns, latest, filters)
        self._all: LiteralString = f"public.{kind}s as i join {versions} as v on v.{kind}_id = i.id"

    async def get_version(self, conn: Connection, revid: UUID) -> Versioned:
        """Return one version. Raise NotFound."""
        row = await self.find_version(conn, revid)
        if row is None:
            raise NotFound(f"The {self.kind} does not exist.")
        return row

    async def find_version(self, conn: Connection, revid: UUID) -> Versioned | None:
        """Return a version, or None if it does not exist. A rejected proposal deletes its items."""
        rows = await self._rows(conn, f"select {self._columns} from {self._all} where v.id = %s", (revid,))
        return rows[0] if rows else None

    async def id_of(self, conn: Connection, org_id: UUID, name: str) -> UUID:
        """Return the id of the item with this name, or else of the item or version with this id. An unknown id is
        returned as it is. Raise NotFound for an unknown name."""
        some_id = as_uuid(name)
        query: LiteralString = f"""select coalesce(
            (select id from public.{self.kind}s
             where org_id = %(org)s and lower(name) = lower(%(name)s) and deleted_at is null),
            (select {self.kind}_id from public.{self.kind}_versions where id = %(id)s), %(id)s)"""
        found = await value_of(conn, query, {"org": org_id, "name": name, "id": some_id})
        if found is None:
            raise NotFound(f"There is no {self.kind} with the name {name!r}.")
        return found

    async def get_any(self, conn: Connection, some_id: UUID) -> Versioned:
        """Return the version with this id, or the latest version of the item with this id. Raise NotFound."""
        return await self.find(conn, some_id) or await self.get_version(conn, some_id)

    async def versions(
        self, conn: Connection, item_id: UUID, *, limit: int = 1000, before: int | None = None
    ) -> list[Listed]:
        """Return the newest `limit` versions of an item, or those before a number. Raise NotFound."""
        query: LiteralString = f"""select {self._list_columns} from {self._all} where i.id = %s and v.number < %s
            order by v.number desc limit %s"""
        rows = await large_rows(
            conn, self._list_class, query, (item_id, 2**31 - 1 if before is None else before, limit)
        )
        if not rows:
            await self.get(conn, item_id)
        return rows

    async def creating_run(self, conn: Connection, revid: UUID) -> UUID | None:
        """Return the run that created the item of a version. None if a user did, or if there is no such version."""
        query: LiteralString = f"select i.run_id from {self._all} where v.id = %s"
        return await value_of(conn, query, (revid,))


class _Schemas(VersionedItems[Schema, SchemaVersion]):
    async def create(self, conn: Connection, org_id: UUID, name: str, schema: JsonObject) -> Schema:
        """Create a schema from a validated JSON Schema. Raise NameTaken, Invalid."""
        return await self.get_version(conn, await self._call(conn, "create", (org_id, name, ordered_json(schema))))

    async def update(
        self,
        conn: Connection,
        schema_id: UUID,
        *,
        name: str | None = None,
        schema: JsonObject | None = None,
        revid: UUID | None = None,
    ) -> Schema:
        """Add a version and return it, or the latest if nothing changes. None keeps the name or the (checked) schema.
        `revid` is the version that the caller saw. Raise NotFound, NameTaken, VersionChanged, Invalid."""
        values = schema_id, name, None if schema is None else ordered_json(schema), revid
        return await self.get_version(conn, await self._call(conn, "update", values))


@dataclass(frozen=True, slots=True)
class PromptText:
    name: str
    content: str
    schema_id: UUID | None = None
    model: str | None = None
    tag_ids: Sequence[UUID] = ()
    schema_version: int | None = None

    def validated(self) -> tuple[object, ...]:
        """Return the values for the database. Raise Invalid for invisible characters or ones that cannot be stored."""
        if problem := value_problem(self.content):
            raise Invalid(f"The text of the prompt is invalid. {problem}")
        return self.name, self.content, self.schema_id, self.model, list(self.tag_ids)


class _Prompts(VersionedItems[Prompt, Prompt]):
    async def create(self, conn: Connection, org_id: UUID, text: PromptText) -> Prompt:
        """Create a prompt. Raise NotFound for its schema, its version or a tag, NameTaken, Invalid."""
        values = org_id, *text.validated(), text.schema_version
        return await self.get_version(conn, await self._call(conn, "create", values))

    async def update(self, conn: Connection, prompt_id: UUID, text: PromptText, *, revid: UUID | None = None) -> Prompt:
        """Add a version with this text and return it, or the latest if nothing changes. `revid` is the version that
        the caller saw. Raise NotFound, NameTaken, VersionChanged, Invalid."""
        values = prompt_id, *text.validated(), revid, text.schema_version
        return await self.get_version(conn, await self._call(conn, "update", values))


class _Tags(NamedItems[Tag, Tag]):
    async def create(self, conn: Connection, org_id: UUID, name: str, color: str = GREY) -> Tag:
        """Create a tag. Raise NameTaken, Invalid."""
        return await self.get(conn, await self._call(conn, "create", (org_id, name, color)))

    async def update(self, conn: Connection, tag_id: UUID, *, name: str | None = None, color: str | None = None) -> Tag:
        """Change a tag's name or color. Raise NotFound, NameTaken, Invalid."""
        await self._call(conn, "update", (tag_id, name, color))
        return await self.get(conn, tag_id)

    async def by_document(self, conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, list[Tag]]:
        """Return the tags of each document, sorted by name. Documents without tags are left out."""
        cursor = await conn.execute(
            f"""select d.document_id, {self._columns} from public.document_tags as d join {self._latest}
                on i.id = d.tag_id
                where d.document_id = any(%s) and i.deleted_at is null order by lower(i.name), i.id""",
            (list(document_ids),),
        )
        found: dict[UUID, list[Tag]] = {}
        for row in await cursor.fetchall():
            found.setdefault(row.pop("document_id"), []).append(Tag(**row))
        return found

    async def change_document_tags(
        self, conn: Connection, document_id: UUID, *, add: Sequence[UUID] = (), remove: Sequence[UUID] = ()
    ) -> None:
        """Add and remove tags of a document. Raise NotFound for the document or a tag, Invalid for too many. Locks the
        document until the transaction ends."""
        await conn.execute("select public.tag_document(%s, %s, %s)", (document_id, list(add), list(remove)))

    async def set_document_tags(self, conn: Connection, document_id: UUID, tag_ids: Sequence[UUID]) -> None:
        await self.change_document_tags(conn, document_id)  # locks the document until this transaction ends
        current = {tag.id for tag in (await self.by_document(conn, [document_id])).get(document_id, [])}
        added = [one for one in tag_ids if one not in current]
        await self.change_document_tags(conn, document_id, add=added, remove=list(current - set(tag_ids)))


schemas: Final = _Schemas("schema", Schema, SchemaVersion, "v.schema")
prompts: Final = _Prompts(
    "prompt",
    Prompt,
    Prompt,
    "v.content, v.schema_id, v.schema_version, v.model, v.tag_ids,"
    " private.schema_revid_of(v.schema_id, v.schema_version) as schema_revid",
    {
        "schema_id": "v.schema_id = %(schema_id)s",
        "tag_id": "%(tag_id)s = any (v.tag_ids)",
        "document_id": "v.tag_ids && array(select t.tag_id from public.document_tags as t"
        " where t.document_id = %(document_id)s)",
    },
)
tags: Final = _Tags("tag", Tag, Tag, "i.name, i.color", "public.tags as i")
