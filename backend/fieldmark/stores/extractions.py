"""Extractions in Postgres. Each change is one SQL function that also writes the journal. PostgREST exposes these
functions, too. `find` returns None and `get` raises NotFound for an extraction that the caller cannot see."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import JsonValue

from fieldmark.db.pool import Connection, savepoint
from fieldmark.domain import paths
from fieldmark.domain.field_order import FieldOrder
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.errors import Invalid, NotFound
from fieldmark.stores.library import prompts
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import (
    SHOWN_EXTRACTION,
    Conditions,
    CorrectedExtractionRow,
    ExtractionRow,
    ExtractionSummaryRow,
    FieldChange,
    Fields,
    LockedRow,
    PastExtraction,
    Prompt,
    active_conditions,
    fetch_all,
    fetch_one,
    large_json,
    large_rows,
    ordered_json,
    value_of,
)

T = TypeVar("T")

_COLUMNS = """
    id, document_id, document_type, status, reviewed_by, schema, schema_revid, prompt_revid,
    is_suggestion as proposed,
    extracted_fields, confidences as confidence_scores, evidence, locks, (
        select coalesce(jsonb_agg(jsonb_build_object(
            'id', p.id, 'path', p.name, 'old', p.old, 'new', p.new, 'removed', p.new is null,
            'confidence_scores', p.confidence_scores, 'evidence', p.evidence,
            'run_id', p.run_id, 'created_at', p.created_at) order by p.created_at, p.name), '[]')
        from public.extraction_proposals as p where p.extraction_id = e.id and p.status = 'pending'
    ) as proposals, version, created_at, updated_at, is_valid as valid, review_count
"""


_NOT_FOUND: Final = "The extraction does not exist."


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write, read back from the database.

    `value` is the stored value: all fields if several were saved, null if one was removed. `changed` has an object per
    changed leaf: {path, value, confidence, evidence, removed?}. `proposed` has the names of locked paths, whose values
    were kept and for which a proposal was stored instead.
    """

    version: int
    value: JsonValue = None
    path: str | None = None
    changed: list[Fields] = field(default_factory=list[Fields])
    proposed: list[str] = field(default_factory=list[str])
    removed: JsonValue = None


@dataclass(frozen=True, slots=True)
class CurrentRow:
    id: UUID
    document_type: str | None
    extracted_fields: Fields


def _in_order(row_class: Callable[..., T]) -> Callable[..., T]:
    """Return a function that makes a row of its columns, the schema and the evidence. It puts the fields in order."""

    def make(extracted_fields: Fields | None, schema: Fields | None, evidence: Fields, **columns: Any) -> T:
        order = FieldOrder(schema, evidence)
        return row_class(extracted_fields=extracted_fields and order.arrange(extracted_fields), **columns)

    return make


_CURRENT: Final = _in_order(CurrentRow)
_PAST: Final = _in_order(PastExtraction)


async def current_of(conn: Connection, document_id: UUID) -> CurrentRow | None:
    rows = await large_rows(
        conn,
        _CURRENT,
        """select id, document_type, extracted_fields, evidence, (
                select schema from public.extractions where id = e.id) as schema
            from public.current_extractions as e where document_id = %s""",
        (document_id,),
    )
    return rows[0] if rows else None


async def document_types(conn: Connection, document_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the document type in each document's current extraction. Documents without a type are left out."""
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
    is_trial: bool = False,
) -> UUID:
    """Insert an empty extraction of a document and return its id. Its schema is the given one, else that of the prompt.
    Raise NotFound for an unknown version, Deleted for one of a deleted item."""
    return await value_of(
        conn,
        """insert into public.extractions (org_id, document_id, schema, schema_revid, prompt_revid, is_trial)
           values (%s, %s, %s, %s, %s, %s) returning id""",
        (org_id, document_id, None if schema is None else ordered_json(schema), schema_revid, prompt_revid, is_trial),
    )


async def schema_to_extract(
    conn: Connection, org_id: UUID, prompt_revid: UUID | None, schema_revid: UUID | None
) -> UUID | None:
    """Return the version of a schema that a new extraction with these versions would follow. Raise like `add`."""
    query = "select private.schema_to_extract(%s, %s, %s) as revid"
    async with savepoint(conn):
        return await value_of(conn, query, (org_id, prompt_revid, schema_revid))


async def find_prompt(conn: Connection, extraction_id: UUID) -> Prompt | None:
    """Return the version of the prompt that an extraction was made with, or None."""
    revid = await value_of(conn, "select prompt_revid from public.extractions where id = %s", (extraction_id,))
    return None if revid is None else await prompts.get_version(conn, revid)


async def find_schema_and_prompt(conn: Connection, extraction_id: UUID) -> tuple[Fields | None, Prompt | None]:
    """Return the schema and the version of the prompt that an extraction was made with, or None for each."""
    cursor = await conn.execute("select schema, prompt_revid from public.extractions where id = %s", (extraction_id,))
    row = await cursor.fetchone()
    if row is None:
        return None, None
    revid = row["prompt_revid"]
    return row["schema"], None if revid is None else await prompts.get_version(conn, revid)


async def find(conn: Connection, extraction_id: UUID, *, lock: bool = False) -> ExtractionRow | None:
    """Return an extraction, or None. `lock` prevents changes by other transactions until this one ends."""
    query: LiteralString = f"select {_COLUMNS} from public.extractions as e where id = %s"
    rows = await large_rows(conn, ExtractionRow, f"{query} for no key update of e" if lock else query, (extraction_id,))
    return rows[0] if rows else None


async def get_many(conn: Connection, extraction_ids: Sequence[UUID]) -> list[ExtractionRow]:
    """Return these extractions in any order, without missing ones. Each may have megabytes: pass a few ids at a
    time."""
    query = f"select {_COLUMNS} from public.extractions as e where id = any (%s)"
    return await large_rows(conn, ExtractionRow, query, (list(extraction_ids),))


@dataclass(frozen=True, slots=True)
class UncheckedRow:
    """What the check of an extraction needs."""

    id: UUID
    org_id: UUID
    version: int
    schema: Fields
    extracted_fields: Fields
    evidence: Fields
    locks: Fields


async def to_check(conn: Connection, limit: int) -> list[UncheckedRow]:
    """Return extractions of all tenants that were not checked since they changed. Needs a connection as the service."""
    return await large_rows(conn, UncheckedRow, "select * from private.extractions_to_check(%s)", (limit,))


async def schemas_to_count(conn: Connection) -> list[UUID]:
    """Return the schemas of all tenants with extractions that were checked since the last call. Needs a connection as
    the service."""
    cursor = await conn.execute("select private.schemas_to_count() as id")
    return [row["id"] for row in await cursor.fetchall()]


async def update_required_fields(conn: Connection, schema_id: UUID) -> None:
    """Count again which fields of a schema should have a value. Needs a connection as the service."""
    await conn.execute("select private.update_required_fields(%s)", (schema_id,))


async def record_problems(
    conn: Connection, extraction_id: UUID, version: int, problems: Mapping[str, str], *, is_valid: bool
) -> None:
    """Store what is wrong with the fields of a version, unless they have changed since."""
    query = "select private.record_problems(%s, %s, %s, %s)"
    await conn.execute(query, (extraction_id, version, Jsonb(dict(problems)), is_valid))


async def record_second_reading(conn: Connection, extraction_id: UUID, others: Mapping[str, JsonValue]) -> None:
    """Store what only a second reading has, by path name: values of fields without one, and other rows of lists. It
    replaces that of an earlier one."""
    await conn.execute("select private.record_second_reading(%s, %s)", (extraction_id, Jsonb(dict(others))))


async def second_reading(conn: Connection, extraction_id: UUID) -> dict[str, JsonValue]:
    """Return what `record_second_reading` stored; nothing if the caller cannot see the extraction."""
    query = "select second_reading from public.extractions where id = %s"
    return await value_of(conn, query, (extraction_id,)) or {}


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """What a check has found."""

    valid: bool | None
    review_count: int


async def find_checked(conn: Connection, extraction_id: UUID, version: int) -> CheckedRow | None:
    """Return what the check of a version found, or None if that is not the current version."""
    query = "select is_valid as valid, review_count from public.extractions where id = %s and version = %s"
    return await fetch_one(conn, CheckedRow, query, (extraction_id, version))


async def field_statuses(conn: Connection, extraction_id: UUID) -> dict[str, dict[str, str | None]]:
    """Return the {status, reason} of each single field by path, also of missing ones, and of objects and lists that
    need review themselves."""
    cursor = await conn.execute(
        """select path, status, reason from public.fields
           where extraction_id = %s and (kind <> 'container' or reason is not null) order by id""",
        (extraction_id,),
    )
    return {row["path"]: {"status": row["status"], "reason": row["reason"]} for row in await cursor.fetchall()}


async def fields_to_review(conn: Connection, extraction_ids: Sequence[UUID]) -> dict[UUID, dict[str, str]]:
    """Return the fields of each extraction that a person has to look at, by path, with the reason."""
    cursor = await conn.execute(
        """select extraction_id, jsonb_object_agg(path, reason) as reasons from public.fields
           where extraction_id = any (%s) and status in ('needs_review', 'unclear') group by extraction_id""",
        (list(extraction_ids),),
    )
    return {row["extraction_id"]: row["reasons"] for row in await cursor.fetchall()}


async def get(conn: Connection, extraction_id: UUID, *, lock: bool = False) -> ExtractionRow:
    """Return an extraction. Raise NotFound. `lock` is that of `find`."""
    row = await find(conn, extraction_id, lock=lock)
    if row is None:
        raise NotFound(_NOT_FOUND)
    return row


async def find_shown(conn: Connection, document_id: UUID, prompt_revid: UUID | None = None) -> UUID | None:
    """Return the id of a document's shown extraction, or None. `prompt_revid` limits the choice to extractions with
    that version of a prompt."""
    conditions: Conditions = {"e.prompt_revid = %(prompt_revid)s": prompt_revid}
    which: LiteralString = " and ".join(["e.document_id = %(document_id)s", *active_conditions(conditions)])
    return await value_of(
        conn,
        f"select e.id {SHOWN_EXTRACTION.format(which=which)}",
        {"document_id": document_id, "prompt_revid": prompt_revid},
    )


async def preferred_id(conn: Connection, extraction_ids: Sequence[UUID]) -> UUID | None:
    """Return the one of these extractions that is shown. None if none exists."""
    return await value_of(
        conn,
        """select id from public.extractions where id = any (%s)
           order by precedence, created_at desc, id desc limit 1""",
        (list(extraction_ids),),
    )


async def lock(conn: Connection, extraction_id: UUID) -> LockedRow:
    """Lock an extraction until this transaction ends, and return what shows whether it changed. Raise NotFound."""
    rows = await large_rows(
        conn,
        LockedRow,
        "select version, status, locks from public.extractions where id = %s for no key update",
        (extraction_id,),
    )
    if not rows:
        raise NotFound(_NOT_FOUND)
    return rows[0]


@dataclass(frozen=True, slots=True)
class ExtractionFilter:
    """Filters of a list of extractions; None matches all. `to_check`: a field of the extraction needs review or is
    unclear, and the extraction counts for its document. `name` is part of the filename, ignoring case. Extractions were
    created from `since` (inclusive) to `until` (exclusive), and last changed at `changed_since` or later."""

    document_id: UUID | None = None
    status: ExtractionStatus | None = None
    document_type: str | None = None
    to_check: bool | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    schema_id: UUID | None = None
    prompt_id: UUID | None = None
    changed_since: datetime | None = None


# Materialized, so that filenames are searched once even if the planner misjudges the number of matches.
_MATCHING_DOCUMENTS: LiteralString = """with matching_documents as materialized (
    select id from public.documents where org_id = %(org)s and position(lower(%(name)s) in lower(filename)) > 0)"""
_TO_CHECK: LiteralString = "review_count > 0 and id in (select id from private.current_by_schema where id = e.id)"


async def list_extractions(
    conn: Connection,
    org_id: UUID,
    *,
    limit: int,
    before: str | None = None,
    filters: ExtractionFilter | None = None,
) -> ListPage[ExtractionSummaryRow]:
    filters = filters or ExtractionFilter()
    request = PageRequest("extractions", limit, before)
    conditions: Conditions = {
        "document_id = %(document_id)s": filters.document_id,
        "status = %(status)s": filters.status,
        "document_type = %(document_type)s": filters.document_type,
        "document_id in (select id from matching_documents)": filters.name,
        "created_at >= %(since)s": filters.since,
        "created_at < %(until)s": filters.until,
        "schema_revid in (select id from public.schema_versions where schema_id = %(schema_id)s)": filters.schema_id,
        "prompt_revid in (select id from public.prompt_versions where prompt_id = %(prompt_id)s)": filters.prompt_id,
        "updated_at >= %(changed_since)s": filters.changed_since,
    }
    where: list[LiteralString] = ["org_id = %(org)s", *active_conditions(conditions), *request.conditions()]
    if filters.to_check is not None:
        where.append(_TO_CHECK if filters.to_check else f"not ({_TO_CHECK})")
    rows = await fetch_all(
        conn,
        ExtractionSummaryRow,
        f"""{_MATCHING_DOCUMENTS if filters.name is not None else ""}
            select id, document_id, document_type, status, schema_revid, prompt_revid, version, created_at, updated_at,
                is_valid as valid, review_count, is_suggestion as proposed, (
                select count(*) from public.extraction_proposals as p
                where p.extraction_id = e.id and p.status = 'pending') as proposals
            from public.extractions as e
            where {" and ".join(where)} order by created_at desc, id desc limit %(limit)s""",
        {"org": org_id, **asdict(filters), **request.parameters()},
    )
    return request.page(rows)


async def get_version(conn: Connection, extraction_id: UUID, version: int) -> PastExtraction:
    """Return the fields of a version. Raise NotFound if the extraction or the version does not exist."""
    rows = await large_rows(
        conn,
        _PAST,
        """select id, document_id, schema, evidence, %(version)s::integer as version, version as latest_version,
                case when %(version)s between 0 and version then private.fields_at(id, %(version)s) end
                    as extracted_fields,
                coalesce((
                    select max(created_at) from public.extraction_journal
                    where extraction_id = e.id and version = %(version)s), created_at) as changed_at
            from public.extractions as e where id = %(id)s""",
        {"id": extraction_id, "version": version},
    )
    if not rows:
        raise NotFound(_NOT_FOUND)
    if not 0 <= version <= rows[0].latest_version:
        raise NotFound(f"Version {version} does not exist. This extraction has versions 0 to {rows[0].latest_version}.")
    return rows[0]


_MAX_STORED_BYTES: Final = 1024 * 1024
"""Size limit of a page of the journal, as stored. Postgres compresses: texts may be a hundred times as large."""


async def history(
    conn: Connection, extraction_id: UUID, *, path: paths.Path | None, limit: int, before: int | None
) -> tuple[list[FieldChange], int | None]:
    """Return the newest `limit` changes before the entry `before`, and the `before` of the next page (None at the end).

    With `path`, only changes at that path or below it. A page of large values has fewer entries, but at least one.
    Raise NotFound.
    """
    where: list[LiteralString] = ["extraction_id = %(id)s"]
    parameters: dict[str, Any] = {"id": extraction_id, "limit": limit, "most": _MAX_STORED_BYTES}
    if before is not None:
        where.append("id < %(before)s")
        parameters |= {"before": before}
    if path is not None:
        where.append("path[:%(depth)s] = %(path)s::text[] and left(steps, %(depth)s) = %(steps)s")
        parameters |= {"path": paths.to_sql(path), "steps": paths.step_letters(path), "depth": len(path)}
    cursor = await conn.execute(
        f"""select id, version, path, steps, old, new, old is null as added, new is null as removed, actor,
                created_by as user_id, dictated_by, run_id, call_id, created_at, is_last, (
                  select model from public.usage as u
                  where actor = 'agent' and u.run_id = entry.run_id and u.created_at <= entry.created_at
                  order by u.created_at desc limit 1) as model
            from (
              select *, row_number() over newest = count(*) over () as is_last, row_number() over newest as position,
                sum(coalesce(pg_column_size(old), 0) + coalesce(pg_column_size(new), 0)) over newest as stored
              from (
                select * from public.extraction_journal
                where {" and ".join(where)} order by version desc, id desc limit %(limit)s + 1) as entry
              window newest as (order by version desc, id desc)) as entry
            where position <= %(limit)s and (stored <= %(most)s or position = 1)
            order by version desc, id desc""",
        parameters,
    )
    rows = await cursor.fetchall()
    if not rows:
        await get(conn, extraction_id)
    is_last = [row.pop("is_last") for row in rows]
    entries = [FieldChange.of(row, paths.name(paths.from_sql(row.pop("path"), row.pop("steps")))) for row in rows]
    return entries, None if all(is_last[-1:]) else entries[-1].id


async def list_corrected(conn: Connection, org_id: UUID, limit: int) -> list[CorrectedExtractionRow]:
    """Return the newest completed extractions with a value that a user set."""
    return await fetch_all(
        conn,
        CorrectedExtractionRow,
        """select e.id, e.document_id, d.filename, e.schema, e.extracted_fields, e.evidence
           from (
             select * from public.extractions
             where org_id = %s and status = 'completed' and locks <> '{}' order by created_at desc limit %s
           ) as e
           join public.documents as d on d.id = e.document_id order by e.created_at desc""",
        (org_id, limit),
    )


async def remove(conn: Connection, extraction_id: UUID) -> None:
    """Delete an extraction with its runs. Raise NotFound."""
    await conn.execute("select public.delete_extraction(%s)", (extraction_id,))


async def allow_locked_paths(conn: Connection, names: Collection[str]) -> None:
    """Let an agent change these locked paths of the user, because the user's message contains the new values. Applies
    until this function is called again or the transaction ends (`private.paths_allowed_by_message`)."""
    await conn.execute("select set_config('fieldmark.paths_in_message', %s, true)", (json.dumps(sorted(names)),))


async def save_fields(
    conn: Connection,
    extraction_id: UUID,
    fields: Fields,
    confidences: dict[str, float],
    evidence: Fields,
) -> WriteResult:
    """Merge fields into the extraction. The result's `value` is all fields."""
    query = "select public.save_extraction_fields(%s, %s, %s, %s) as result"
    return await _write(conn, query, (extraction_id,), fields, confidences, evidence)


async def update_field(
    conn: Connection,
    extraction_id: UUID,
    path: paths.Path,
    value: JsonValue,
    confidences: dict[str, float],
    evidence: Fields,
) -> WriteResult:
    """Write a value at a path, with confidence scores and evidence by path name."""
    query = "select public.update_extraction_field(%s, %s::text[], %s, null, %s, %s) as result"
    return await _write(conn, query, (extraction_id, paths.to_sql(path)), value, confidences, evidence)


async def update_fields(
    conn: Connection,
    extraction_id: UUID,
    values: Sequence[tuple[paths.Path, JsonValue]],
    confidences: dict[str, float],
    evidence: Fields,
) -> WriteResult:
    """Write values at paths as one version. The result's `value` is all fields."""
    changes = [{"path": paths.to_sql(path), "value": value} for path, value in values]
    query = "select public.update_extraction_fields(%s, %s, %s, %s) as result"
    return await _write(conn, query, (extraction_id,), changes, confidences, evidence)


async def remove_field(conn: Connection, extraction_id: UUID, path: paths.Path) -> WriteResult:
    """Remove the value at a path. If the user's lock prevents that, store a proposal to remove it."""
    query = "select public.remove_extraction_field(%s, %s::text[]) as result"
    return await _write(conn, query, (extraction_id, paths.to_sql(path)))


async def restore(
    conn: Connection, extraction_id: UUID, version: int, confidences: dict[str, float], evidence: Fields
) -> WriteResult:
    """Restore the fields of a version, with confidence scores and evidence of the restored values by path name. The
    result's `value` is all fields."""
    query = "select public.restore_extraction(%s, %s, %s, %s) as result"
    return await _write(conn, query, (extraction_id, version), confidences, evidence)


async def confirm(conn: Connection, extraction_id: UUID, path: paths.Path) -> None:
    """Lock a value by setting it to itself, in the database so that numbers keep every digit. Raise Invalid if the path
    has no value."""
    cursor = await conn.execute(
        """select public.update_extraction_field(e.id, %(path)s::text[], e.extracted_fields #> %(path)s::text[])
           from public.extractions as e
           where e.id = %(id)s and e.extracted_fields #> %(path)s::text[] is not null""",
        {"id": extraction_id, "path": paths.to_sql(path)},
    )
    if not cursor.rowcount:
        raise Invalid("The path has no value to confirm. Set a value instead.")


async def unlock(conn: Connection, extraction_id: UUID, path: paths.Path) -> None:
    """Remove the locks at a path and below it, so that agents may change the values. Raise NotFound, Invalid."""
    await conn.execute("select public.unlock_extraction_field(%s, %s::text[])", (extraction_id, paths.to_sql(path)))


async def decide(conn: Connection, extraction_id: UUID, decisions: Sequence[tuple[UUID, bool]]) -> None:
    """Accept or reject proposals. Accepted ones are written as the caller's change, in one version. Raise NotFound,
    Conflict if a proposal was decided already or its value has changed."""
    lists = [[proposal_id for proposal_id, accepted in decisions if accepted is choice] for choice in (True, False)]
    await conn.execute("select public.decide_extraction_proposals(%s, %s, %s)", (extraction_id, *lists))


async def set_document_type(conn: Connection, extraction_id: UUID, document_type: str) -> WriteResult:
    """Set the type. The result's `value` is the stored type."""
    return await _write(conn, "select public.identify_document(%s, %s) as result", (extraction_id, document_type))


async def complete(conn: Connection, extraction_id: UUID) -> WriteResult:
    """Set the extraction to completed. The result's `value` is its status."""
    return await _write(conn, "select public.complete_extraction(%s) as result", (extraction_id,))


async def withdraw_review(conn: Connection, extraction_id: UUID, status: ExtractionStatus) -> WriteResult:
    """Withdraw the review of an extraction, and set the status that it had before."""
    return await _write(conn, "select public.complete_extraction(%s, %s) as result", (extraction_id, status.value))


async def _write(conn: Connection, query: LiteralString, plain: tuple[object, ...], *values: object) -> WriteResult:
    """Call an SQL function that changes an extraction. `values` are its JSON parameters, which follow the others."""
    parameters = (*plain, *[await large_json(value) for value in values])
    (stored,) = await large_rows(conn, _write_result, query, parameters)
    return stored


def _write_result(result: dict[str, Any]) -> WriteResult:
    return WriteResult(**result)
