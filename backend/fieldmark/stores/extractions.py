"""Extractions in Postgres. Each change is one SQL function, which the journal records and PostgREST offers too."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.domain import paths
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.errors import Invalid, NotFound
from fieldmark.stores.paging import Page, PageRequest
from fieldmark.stores.rows import (
    CURRENT_EXTRACTION,
    Change,
    Conditions,
    CorrectedRow,
    ExtractionRow,
    ExtractionSummaryRow,
    Fields,
    LockedRow,
    PastExtractionRow,
    asked,
    fetch_all,
    large_json,
    large_rows,
    value_of,
)

_COLUMNS = """
    id, document_id, document_type, status, reviewed_by, schema, schema_revid, prompt_revid,
    private.is_proposed(run_id) as proposed,
    extracted_fields, confidence_scores, evidence, locks, (
        select coalesce(jsonb_agg(jsonb_build_object(
            'id', p.id, 'path', p.name, 'old', p.old, 'new', p.new, 'removed', p.new is null,
            'confidence_scores', p.confidence_scores, 'evidence', p.evidence,
            'run_id', p.run_id, 'created_at', p.created_at) order by p.created_at, p.name), '[]')
        from public.extraction_proposals as p where p.extraction_id = e.id and p.status = 'pending'
    ) as proposals, version, created_at, updated_at
"""


_NO_SUCH: Final = "There is no such extraction."


@dataclass(frozen=True, slots=True)
class Stored:
    """What a write has stored, read back. `value` is what stands now: all fields where several were saved, null where
    one was removed; `changed` is a leaf each: {path, value, confidence, evidence, removed?}; `proposed` names what
    stays as it is because a person set it."""

    version: int
    value: JsonValue = None
    path: str | None = None
    changed: list[Fields] = field(default_factory=list[Fields])
    proposed: list[str] = field(default_factory=list[str])
    removed: JsonValue = None


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """What stands in a document: its current extraction."""

    id: UUID
    document_type: str | None
    extracted_fields: Fields


async def current_of(conn: Connection, document_id: UUID) -> CurrentRow | None:
    """The current extraction of a document; None where there is none."""
    rows = await large_rows(
        conn,
        CurrentRow,
        "select id, document_type, extracted_fields from public.current_extractions where document_id = %s",
        (document_id,),
    )
    return rows[0] if rows else None


async def types_of(conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The types of documents by id, as their current extractions say; those without one are left out."""
    query = """select document_id, document_type from public.current_extractions
               where document_id = any (%s) and document_type is not null"""
    cursor = await conn.execute(query, (list(document_ids),))
    return {row["document_id"]: row["document_type"] async for row in cursor}


async def add(
    conn: Connection,
    *,
    org_id: UUID,
    document_id: UUID,
    schema: Mapping[str, Any] | None = None,
    schema_revid: UUID | None = None,
    prompt_revid: UUID | None = None,
) -> UUID:
    """The id of a new, empty extraction of a document. With a version of a schema it has that one's text; with a
    version of a prompt and no schema the latest version of the prompt's. Raises NotFound for a version that is none."""
    return await value_of(
        conn,
        """insert into public.extractions (org_id, document_id, schema, schema_revid, prompt_revid)
           values (%s, %s, %s, %s, %s) returning id""",
        (org_id, document_id, None if schema is None else Jsonb(schema), schema_revid, prompt_revid),
    )


async def get(conn: Connection, extraction_id: UUID, *, lock: bool = False) -> ExtractionRow | None:
    """One extraction as it stands. With `lock` nobody else changes it until this transaction ends."""
    query: LiteralString = f"select {_COLUMNS} from public.extractions as e where id = %s"
    rows = await large_rows(conn, ExtractionRow, f"{query} for no key update of e" if lock else query, (extraction_id,))
    return rows[0] if rows else None


async def several(conn: Connection, extraction_ids: Sequence[UUID]) -> list[ExtractionRow]:
    """Those of these extractions that exist, in any order. Each may be megabytes: ask for a few at a time."""
    query = f"select {_COLUMNS} from public.extractions as e where id = any (%s)"
    return await large_rows(conn, ExtractionRow, query, (list(extraction_ids),))


@dataclass(frozen=True, slots=True)
class OpenPlacesRow:
    """Where an extraction has an unsure value or a proposal, by path name."""

    id: UUID
    version: int
    updated_at: datetime
    has_schema: bool
    names: list[str]


async def open_places(conn: Connection, extraction_ids: Sequence[UUID]) -> list[OpenPlacesRow]:
    """Return the places of these extractions that wait for a person whatever their schema says, in any order."""
    return await fetch_all(
        conn,
        OpenPlacesRow,
        """select id, version, updated_at, schema is not null as has_schema, array(
                select score.key from jsonb_each(e.confidence_scores) as score
                where e.is_unsure and jsonb_typeof(score.value) = 'number' and score.value < '0.5'
                  and not e.locks ? score.key
                union
                select p.name from public.extraction_proposals as p
                where p.extraction_id = e.id and p.status = 'pending') as names
            from public.extractions as e where id = any (%s)""",
        (list(extraction_ids),),
    )


async def find(conn: Connection, extraction_id: UUID, *, lock: bool = False) -> ExtractionRow:
    """Return one extraction as `get` does. Raise NotFound."""
    row = await get(conn, extraction_id, lock=lock)
    if row is None:
        raise NotFound(_NO_SUCH)
    return row


async def current(conn: Connection, document_id: UUID, prompt_revid: UUID | None = None) -> UUID | None:
    """Return the current extraction of a document, or of those that were made with a version of a prompt: the newest
    completed one, else the newest that is in progress. None if there is neither."""
    conditions: Conditions = {"e.prompt_revid = %(prompt_revid)s": prompt_revid}
    which: LiteralString = " and ".join(["e.document_id = %(document_id)s", *asked(conditions)])
    return await value_of(
        conn,
        f"select e.id {CURRENT_EXTRACTION.format(which=which)}",
        {"document_id": document_id, "prompt_revid": prompt_revid},
    )


async def preferred(conn: Connection, extraction_ids: Sequence[UUID]) -> UUID | None:
    """Return the newest completed one of these extractions, else the newest. None if none exists."""
    return await value_of(
        conn,
        """select id from public.extractions where id = any (%s)
           order by status = 'completed' desc, created_at desc, id desc limit 1""",
        (list(extraction_ids),),
    )


async def lock(conn: Connection, extraction_id: UUID) -> LockedRow:
    """What tells whether an extraction is as it was. Nobody else changes it until this transaction ends. Raise
    NotFound."""
    rows = await large_rows(
        conn,
        LockedRow,
        "select version, status, locks from public.extractions where id = %s for no key update",
        (extraction_id,),
    )
    if not rows:
        raise NotFound(_NO_SUCH)
    return rows[0]


@dataclass(frozen=True, slots=True)
class ExtractionFilter:
    """Which extractions a list has; None is no condition. `to_check`: whether a person should look at it, since a
    proposal waits or a value is unsure (its score is below a half). `name` is a part of the file's name, in capitals or
    not; `since` is the first moment at which they began, `until` the first that is too late."""

    document_id: UUID | None = None
    status: ExtractionStatus | None = None
    document_type: str | None = None
    to_check: bool | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    schema_id: UUID | None = None
    prompt_id: UUID | None = None


# All names are looked through once, whatever the planner thinks of how many fit.
_NAMED: LiteralString = """with named as materialized (
    select id from public.documents where org_id = %(org)s and position(lower(%(name)s) in lower(filename)) > 0)"""
_HAS_PROPOSALS: LiteralString = """exists (
    select from public.extraction_proposals as p where p.extraction_id = e.id and p.status = 'pending')"""


def _to_check(others: LiteralString) -> LiteralString:
    """The condition for what a person should look at, where the others hold: the newest of either kind, each by an
    index of its own. With `or` between them every row of the organisation would be looked at."""
    newest: LiteralString = "order by created_at desc, id desc limit %(limit)s"
    return f"""id in (
        (select id from public.extractions as e where {others} and is_unsure {newest})
        union all
        (select id from public.extractions as e
        where {others} and id in (
            select p.extraction_id from public.extraction_proposals as p
            where p.org_id = %(org)s and p.status = 'pending')
        {newest}))"""


async def list_extractions(
    conn: Connection,
    org_id: UUID,
    *,
    limit: int,
    before: str | None = None,
    wanted: ExtractionFilter | None = None,
) -> Page[ExtractionSummaryRow]:
    """Return a page of an organisation's extractions, newest first. Raise Invalid for an invalid cursor."""
    wanted = wanted or ExtractionFilter()
    request = PageRequest("extractions", limit, before)
    conditions: Conditions = {
        "document_id = %(document_id)s": wanted.document_id,
        "status = %(status)s": wanted.status,
        "document_type = %(document_type)s": wanted.document_type,
        "document_id in (select id from named)": wanted.name,
        "created_at >= %(since)s": wanted.since,
        "created_at < %(until)s": wanted.until,
        "schema_revid in (select id from public.schema_versions where schema_id = %(schema_id)s)": wanted.schema_id,
        "prompt_revid in (select id from public.prompt_versions where prompt_id = %(prompt_id)s)": wanted.prompt_id,
    }
    where: list[LiteralString] = ["org_id = %(org)s", *asked(conditions), *request.conditions()]
    if wanted.to_check is not None:
        where.append(_to_check(" and ".join(where)) if wanted.to_check else f"not (is_unsure or {_HAS_PROPOSALS})")
    rows = await fetch_all(
        conn,
        ExtractionSummaryRow,
        f"""{_NAMED if wanted.name is not None else ""}
            select id, document_id, document_type, status, schema_revid, prompt_revid, version, created_at, updated_at,
                schema is not null as has_schema, private.is_proposed(run_id) as proposed, (
                select count(*) from public.extraction_proposals as p
                where p.extraction_id = e.id and p.status = 'pending') as proposals
            from public.extractions as e
            where {" and ".join(where)} order by created_at desc, id desc limit %(limit)s""",
        {"org": org_id, **asdict(wanted), **request.parameters()},
    )
    return request.page(rows)


async def find_version(conn: Connection, extraction_id: UUID, version: int) -> PastExtractionRow:
    """Return the fields as they stood at a version. Raise NotFound if there is no such extraction or version."""
    rows = await large_rows(
        conn,
        PastExtractionRow,
        """select id, document_id, %(version)s::integer as version, version as latest_version,
                case when %(version)s between 0 and version then private.fields_at(id, %(version)s) end
                    as extracted_fields,
                coalesce((
                    select max(created_at) from public.extraction_journal
                    where extraction_id = e.id and version = %(version)s), created_at) as changed_at
            from public.extractions as e where id = %(id)s""",
        {"id": extraction_id, "version": version},
    )
    if not rows:
        raise NotFound(_NO_SUCH)
    if rows[0].extracted_fields is None:
        raise NotFound(f"There is no version {version}: this extraction has versions 0 to {rows[0].latest_version}.")
    return rows[0]


_MOST_STORED: Final = 1024 * 1024
"""Of a page of the journal, as Postgres keeps it: a text of megabytes may be kept in a hundredth of them."""


async def history(
    conn: Connection, extraction_id: UUID, *, path: paths.Path | None, limit: int, before: int | None
) -> tuple[list[Change], int | None]:
    """The journal's newest `limit` entries, or those before the entry `before`; of what stood at a path or below it, if
    one is given. Fewer where they are large, but one at least. And before which entry the next ones are, None if there
    are none. Raise NotFound."""
    where: list[LiteralString] = ["extraction_id = %(id)s"]
    parameters: dict[str, Any] = {"id": extraction_id, "limit": limit, "most": _MOST_STORED}
    if before is not None:
        where.append("id < %(before)s")
        parameters |= {"before": before}
    if path is not None:
        where.append("path[:%(depth)s] = %(path)s::text[] and left(steps, %(depth)s) = %(steps)s")
        parameters |= {"path": paths.to_sql(path), "steps": paths.step_letters(path), "depth": len(path)}
    cursor = await conn.execute(
        f"""select id, version, path, steps, old, new, old is null as added, new is null as removed, actor,
                created_by as user_id, run_id, call_id, created_at, is_last, (
                  select model from public.usage as u
                  where actor = 'agent' and u.run_id = entry.run_id and u.created_at <= entry.created_at
                  order by u.created_at desc limit 1) as model
            from (
              select *, row_number() over newest = count(*) over () as is_last, row_number() over newest as place,
                sum(coalesce(pg_column_size(old), 0) + coalesce(pg_column_size(new), 0)) over newest as stored
              from (
                select * from public.extraction_journal
                where {" and ".join(where)} order by version desc, id desc limit %(limit)s + 1) as entry
              window newest as (order by version desc, id desc)) as entry
            where place <= %(limit)s and (stored <= %(most)s or place = 1)
            order by version desc, id desc""",
        parameters,
    )
    rows = await cursor.fetchall()
    if not rows:
        await find(conn, extraction_id)
    is_last = [row.pop("is_last") for row in rows]
    entries = [Change.of(row, paths.name(paths.from_sql(row.pop("path"), row.pop("steps")))) for row in rows]
    return entries, None if all(is_last[-1:]) else entries[-1].id


async def schema_of(conn: Connection, extraction_id: UUID) -> Fields | None:
    """The JSON Schema that the extraction was begun with."""
    return await value_of(conn, "select schema from public.extractions where id = %s", (extraction_id,))


async def corrected(conn: Connection, org_id: UUID, limit: int) -> list[CorrectedRow]:
    """The completed extractions in which a person has set a value, newest first, with their documents' names."""
    return await fetch_all(
        conn,
        CorrectedRow,
        """select e.id, e.document_id, d.filename, e.schema, e.extracted_fields, e.evidence
           from (
             select * from public.extractions
             where org_id = %s and status = 'completed' and locks <> '{}' order by created_at desc limit %s
           ) as e
           join public.documents as d on d.id = e.document_id order by e.created_at desc""",
        (org_id, limit),
    )


async def remove(conn: Connection, extraction_id: UUID) -> None:
    """Delete an extraction with its runs. Raises NotFound."""
    await conn.execute("select public.delete_extraction(%s)", (extraction_id,))


async def speak_for(conn: Connection, names: Collection[str]) -> None:
    """Say for which leaves an agent has the word of the person whose correction it makes, by path name; until this
    transaction ends, or the next call of this. (`private.paths_allowed_by_message` asks.)"""
    await conn.execute("select set_config('fieldmark.spoken', %s, true)", (json.dumps(sorted(names)),))


async def save_fields(
    conn: Connection,
    extraction_id: UUID,
    fields: Fields,
    confidences: dict[str, float],
    evidence: Fields,
) -> Stored:
    """Merge fields into the extraction; the value read back is all its fields."""
    query = "select public.save_extraction_fields(%s, %s, %s, %s) as answer"
    return await _write(conn, query, (extraction_id,), fields, confidences, evidence)


async def update_field(
    conn: Connection,
    extraction_id: UUID,
    path: paths.Path,
    value: JsonValue,
    confidences: dict[str, float],
    evidence: Fields,
) -> Stored:
    """Write one value at a path, with confidences and evidence by path name."""
    query = "select public.update_extraction_field(%s, %s::text[], %s, null, %s, %s) as answer"
    return await _write(conn, query, (extraction_id, paths.to_sql(path)), value, confidences, evidence)


async def update_fields(
    conn: Connection,
    extraction_id: UUID,
    values: Sequence[tuple[paths.Path, JsonValue]],
    confidences: dict[str, float],
    evidence: Fields,
) -> Stored:
    """Write values at paths, as one change; the value read back is all fields."""
    changes = [{"path": paths.to_sql(path), "value": value} for path, value in values]
    query = "select public.update_extraction_fields(%s, %s, %s, %s) as answer"
    return await _write(conn, query, (extraction_id,), changes, confidences, evidence)


async def remove_field(conn: Connection, extraction_id: UUID, path: paths.Path) -> Stored:
    """Remove what stands at a path. It stays, and is proposed for removal, where a person's lock keeps it."""
    query = "select public.remove_extraction_field(%s, %s::text[]) as answer"
    return await _write(conn, query, (extraction_id, paths.to_sql(path)))


async def restore(
    conn: Connection, extraction_id: UUID, version: int, confidences: dict[str, float], evidence: Fields
) -> Stored:
    """Write the fields as they stood at a version, with confidences and evidence by path name of what that brings
    back; the value read back is all fields."""
    query = "select public.restore_extraction(%s, %s, %s, %s) as answer"
    return await _write(conn, query, (extraction_id, version), confidences, evidence)


async def confirm(conn: Connection, extraction_id: UUID, path: paths.Path) -> None:
    """Set a value to itself, which locks it; it does not leave the database, so no digit of it is lost. Raise Invalid
    where nothing stands at the path."""
    cursor = await conn.execute(
        """select public.update_extraction_field(e.id, %(path)s::text[], e.extracted_fields #> %(path)s::text[])
           from public.extractions as e
           where e.id = %(id)s and e.extracted_fields #> %(path)s::text[] is not null""",
        {"id": extraction_id, "path": paths.to_sql(path)},
    )
    if not cursor.rowcount:
        raise Invalid("Nothing stands there that could be confirmed: set a value.")


async def unlock(conn: Connection, extraction_id: UUID, path: paths.Path) -> None:
    """Let agents change again what a person set at a path or below it. Raise NotFound, Invalid."""
    await conn.execute("select public.unlock_extraction_field(%s, %s::text[])", (extraction_id, paths.to_sql(path)))


async def decide(conn: Connection, extraction_id: UUID, decisions: Sequence[tuple[UUID, bool]]) -> None:
    """Accept proposals, which writes them as the caller's own in one version, or reject them. Raise NotFound, and
    Conflict for a proposal that was decided before or whose value has changed."""
    lists = [[proposal_id for proposal_id, accepted in decisions if accepted is choice] for choice in (True, False)]
    await conn.execute("select public.decide_extraction_proposals(%s, %s, %s)", (extraction_id, *lists))


async def identify(conn: Connection, extraction_id: UUID, document_type: str) -> Stored:
    """Say what kind of document it is; the value read back is the type that stands."""
    return await _write(conn, "select public.identify_document(%s, %s) as answer", (extraction_id, document_type))


async def complete(conn: Connection, extraction_id: UUID) -> Stored:
    """Mark the extraction as completed; the value read back is its status."""
    return await _write(conn, "select public.complete_extraction(%s) as answer", (extraction_id,))


async def reopen(conn: Connection, extraction_id: UUID, version: int) -> None:
    """Mark a completed extraction as in progress, unless its fields changed since a version."""
    await conn.execute(
        """update public.extractions set status = 'in_progress'
           where id = %s and version = %s and status = 'completed'""",
        (extraction_id, version),
    )


async def _write(conn: Connection, query: LiteralString, plain: tuple[object, ...], *values: object) -> Stored:
    """Call an SQL function that changes an extraction. `values` are its parameters of JSON, after the plain ones."""
    parameters = (*plain, *[await large_json(value) for value in values])
    (stored,) = await large_rows(conn, _stored, query, parameters)
    return stored


def _stored(answer: dict[str, Any]) -> Stored:
    return Stored(**answer)
