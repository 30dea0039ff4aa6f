"""Prompts in Postgres, and their versions. Each change is one SQL function, which PostgREST offers too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.stores.rows import Conditions, Position, PromptRow, asked, cursor_of

_COLUMNS: Final[LiteralString] = """
    p.id, v.id as prompt_revid, v.number, v.name, v.content, v.schema_id, v.model, v.tag_ids, p.created_by,
    p.created_at, v.created_by as changed_by, v.created_at as changed_at,
    v.number = (select max(number) from public.prompt_versions where prompt_id = p.id) as is_latest,
    p.deleted_at is not null as is_deleted, private.is_proposed(p.run_id) as is_proposed"""
_VERSIONS: Final[LiteralString] = "public.prompts as p join public.prompt_versions as v on v.prompt_id = p.id"


@dataclass(frozen=True, slots=True)
class PromptText:
    """What a version of a prompt says."""

    name: str
    content: str
    schema_id: UUID | None = None
    model: str | None = None
    tag_ids: Sequence[UUID] = ()


async def add(conn: Connection, org_id: UUID, text: PromptText) -> UUID:
    """The `prompt_revid` of a new prompt's first version. Raises NotFound for a schema or a tag, NameTaken, Invalid."""
    cursor = await conn.execute(
        "select public.create_prompt(%s, %s, %s, %s, %s, %s) as revid",
        (org_id, text.name, text.content, text.schema_id, text.model, list(text.tag_ids)),
    )
    return await _revid(cursor)


async def update(conn: Connection, prompt_id: UUID, text: PromptText, *, revid: UUID | None) -> UUID:
    """The `prompt_revid` of the version that a prompt has now. Raises NotFound, NameTaken, VersionChanged, Invalid."""
    cursor = await conn.execute(
        "select public.update_prompt(%s, %s, %s, %s, %s, %s, %s) as revid",
        (prompt_id, text.name, text.content, text.schema_id, text.model, list(text.tag_ids), revid),
    )
    return await _revid(cursor)


async def remove(conn: Connection, prompt_id: UUID) -> int:
    """Hide a prompt. How many extractions refer to it. Raises NotFound."""
    cursor = await conn.execute("select extractions from public.delete_prompt(%s)", (prompt_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["extractions"]


async def references(conn: Connection, prompt_id: UUID) -> int:
    """How many extractions refer to a prompt."""
    cursor = await conn.execute("select extractions from private.references_to_prompt(%s)", (prompt_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["extractions"]


async def get(conn: Connection, prompt_id: UUID) -> PromptRow | None:
    """The latest version of a prompt, also of one that is deleted."""
    return await _one(
        conn, f"select {_COLUMNS} from {_VERSIONS} where p.id = %s order by v.number desc limit 1", (prompt_id,)
    )


async def get_version(conn: Connection, revid: UUID) -> PromptRow | None:
    """One version of a prompt."""
    return await _one(conn, f"select {_COLUMNS} from {_VERSIONS} where v.id = %s", (revid,))


async def by_name(conn: Connection, org_id: UUID, name: str) -> PromptRow | None:
    """The latest version of the prompt that has a name, in capitals or not."""
    return await _one(
        conn,
        f"""select {_COLUMNS} from {_VERSIONS}
            where p.org_id = %s and lower(p.name) = lower(%s) and p.deleted_at is null
            order by v.number desc limit 1""",
        (org_id, name),
    )


async def made_by(conn: Connection, revid: UUID) -> UUID | None:
    """The run that made a prompt, with its first version; None where a person did, or there is no such version."""
    cursor = await conn.execute(
        """select made.run_id from public.prompt_versions as v join public.prompts as made on made.id = v.prompt_id
           where v.id = %s""",
        (revid,),
    )
    row = await cursor.fetchone()
    return None if row is None else row["run_id"]


async def versions(
    conn: Connection, prompt_id: UUID, *, limit: int = 1000, before: int | None = None
) -> list[PromptRow]:
    """The newest `limit` versions of a prompt, or those before a number."""
    cursor = await cursor_of(
        conn,
        PromptRow,
        f"select {_COLUMNS} from {_VERSIONS} where p.id = %s and v.number < %s order by v.number desc limit %s",
        (prompt_id, 2**31 - 1 if before is None else before, limit),
    )
    return await cursor.fetchall()


async def list_prompts(
    conn: Connection,
    org_id: UUID,
    *,
    name: str | None,
    schema_id: UUID | None,
    tag_id: UUID | None,
    limit: int,
    behind: Position | None,
) -> list[PromptRow]:
    """The newest `limit` prompts of an organisation in their latest versions, or those that come behind a position in
    that order. `name` is a part of theirs. A prompt's place is that of its first version."""
    conditions: Conditions = {
        "position(lower(%(name)s) in lower(p.name)) > 0": name,
        "v.schema_id = %(schema_id)s": schema_id,
        "%(tag_id)s = any (v.tag_ids)": tag_id,
    }
    where: list[LiteralString] = ["p.org_id = %(org)s", "p.deleted_at is null", *asked(conditions)]
    parameters: dict[str, Any] = {"org": org_id, "name": name, "schema_id": schema_id, "tag_id": tag_id, "limit": limit}
    if behind is not None:
        where.append("(p.created_at, p.id) < (%(created_at)s, %(id)s)")
        parameters |= behind._asdict()
    cursor = await cursor_of(
        conn,
        PromptRow,
        f"""select {_COLUMNS}
            from public.prompts as p cross join lateral (
              select * from public.prompt_versions where prompt_id = p.id order by number desc limit 1) as v
            where {" and ".join(where)} order by p.created_at desc, p.id desc limit %(limit)s""",
        parameters,
    )
    return await cursor.fetchall()


async def _one(conn: Connection, query: LiteralString, parameters: tuple[object, ...]) -> PromptRow | None:
    return await (await cursor_of(conn, PromptRow, query, parameters)).fetchone()


async def _revid(cursor: Any) -> UUID:
    row = await cursor.fetchone()
    assert row is not None
    return row["revid"]
