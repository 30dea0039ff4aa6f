"""Stacks in Postgres: named sets of documents, and their rows. `get` raises NotFound and `find` returns None for a
stack that the caller cannot see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, LiteralString
from uuid import UUID

from psycopg import errors
from pydantic import Field, JsonValue

from fieldmark.db.pool import Connection, savepoint
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain import paths
from fieldmark.domain.column_definitions import ColumnDefinition, definitions_of
from fieldmark.domain.columns import list_names
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.statuses import RowStatus, RunStatus
from fieldmark.errors import Invalid, NameTaken, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.stores.library import schemas
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.query_timeout import MAX_SECONDS, query_timeout
from fieldmark.stores.rows import Fields, Schema, fetch_all, large_rows, value_of


@dataclass(frozen=True, slots=True)
class StackRow:
    """A stack. `schema`: the latest version of its schema; None until its columns are defined, and after the schema was
    deleted. `columns`: those that the schema describes. `row_path`: the list whose items are the rows, if the schema
    has it."""

    id: UUID
    name: str
    created_by: UUID
    created_at: datetime
    schema: Schema | None
    is_schema_deleted: bool
    columns: list[ColumnDefinition]
    row_path: str | None


@dataclass(frozen=True, slots=True)
class NewestRun:
    """The newest run of the agent on a stack."""

    run_id: UUID
    task: str
    status: RunStatus


@dataclass(frozen=True, slots=True)
class StackProgress:
    """How many rows of a stack are in each state, what its runs cost (None: not known), and its newest run.
    `unreadable`: failed rows whose file could not be read."""

    counts: Mapping[RowStatus, int]
    unreadable: int
    cost_usd: Decimal | None
    run: NewestRun | None


@dataclass(frozen=True, slots=True)
class StackTableRow:
    """A document of a stack, with the values of its row. `extraction_id`: None without a row, also if the extraction
    failed before it had one."""

    document_id: UUID
    filename: str
    page_count: int | None
    state: RowStatus
    error: str | None
    error_code: str | None
    duplicate_of: UUID | None
    extraction_id: UUID | None
    version: int | None
    extracted_fields: Fields | None


@dataclass(frozen=True, slots=True)
class RowToRead:
    """A row that a run may read. `extraction_id`: the extraction to continue; None: a new one."""

    document_id: UUID
    extraction_id: UUID | None
    state: RowStatus


_NAME_TAKEN: Final = "A stack with this name already exists. Choose another name."
_INVALID_NAME: Final = "The name is invalid. Use one line of 1 to 200 visible characters, without spaces around it."
_COLUMNS: Final[LiteralString] = "s.id, s.name, s.created_by, s.created_at, t.schema_id, t.row_path"
_FROM: Final[LiteralString] = "public.stacks as s left join public.stack_tables as t on t.stack_id = s.id"


async def add(conn: Connection, scope: Scope, name: str) -> UUID:
    """Insert an empty stack and return its id. Raise NameTaken, Invalid."""
    stack_id = await _write(
        conn, "insert into public.stacks (org_id, name) values (%s, %s) returning id", (scope.org_id, name)
    )
    assert stack_id is not None
    return stack_id


async def rename(conn: Connection, stack_id: UUID, name: str) -> None:
    """Raise NotFound, NameTaken, Invalid."""
    if await _write(conn, "update public.stacks set name = %s where id = %s returning id", (name, stack_id)) is None:
        raise NotFound("The stack does not exist.")


async def _write(conn: Connection, statement: LiteralString, parameters: Sequence[object]) -> UUID | None:
    try:
        async with savepoint(conn):
            return await value_of(conn, statement, parameters)
    except errors.UniqueViolation:
        raise NameTaken(_NAME_TAKEN) from None
    except errors.CheckViolation:
        raise Invalid(_INVALID_NAME) from None


async def remove(conn: Connection, stack_id: UUID) -> None:
    """Delete a stack. Its documents, its schema and their extractions stay. Raise NotFound."""
    await conn.execute("select public.delete_stack(%s)", (stack_id,))


async def find(conn: Connection, stack_id: UUID) -> StackRow | None:
    rows = await _select(conn, f"select {_COLUMNS} from {_FROM} where s.id = %s", (stack_id,))
    return rows[0] if rows else None


async def _select(
    conn: Connection, query: LiteralString, parameters: Sequence[object] | dict[str, Any]
) -> list[StackRow]:
    """Return the stacks that a query selects, each with its schema."""
    rows = await (await conn.execute(query, parameters)).fetchall()
    ids = [row["schema_id"] for row in rows if row["schema_id"] is not None]
    existing = {one.id: one for one in (await schemas.find_many(conn, ids) if ids else ()) if not one.is_deleted}
    found: list[StackRow] = []
    for row in rows:
        schema_id, row_path = row.pop("schema_id"), row.pop("row_path")
        schema = existing.get(schema_id)
        described = {} if schema is None else schema.schema or {}
        columns, lists = await run_in_thread(_describe, described)  # one by one: others use the thread as well
        found.append(
            StackRow(
                **row,
                schema=schema,
                is_schema_deleted=schema_id is not None and schema is None,
                columns=columns,
                row_path=row_path if row_path in lists else None,
            )
        )
    return found


def _describe(schema: JsonObject) -> tuple[list[ColumnDefinition], list[str]]:
    return definitions_of(schema), list_names(schema)


async def get(conn: Connection, stack_id: UUID) -> StackRow:
    if (row := await find(conn, stack_id)) is None:
        raise NotFound("The stack does not exist.")
    return row


async def get_to_change(conn: Connection, stack_id: UUID) -> StackRow:
    """Return a stack, and lock it until the transaction ends. Raise NotFound."""
    await conn.execute("select from public.stacks where id = %s for no key update", (stack_id,))
    return await get(conn, stack_id)


async def list_page(
    conn: Connection, scope: Scope, *, limit: int, before: str | None = None, name: str | None = None
) -> ListPage[StackRow]:
    """Return a page of the organisation's stacks, newest first. `name`: only the stack of this name. Raise Invalid for
    an invalid cursor."""
    request = PageRequest("stacks", limit, before)
    where: list[LiteralString] = ["s.org_id = %(org)s", *request.conditions("s.created_at, s.id")]
    if name is not None:
        where.append("lower(s.name) = lower(%(name)s)")
    query: LiteralString = f"""select {_COLUMNS} from {_FROM} where {" and ".join(where)}
        order by s.created_at desc, s.id desc limit %(limit)s"""
    return request.page(await _select(conn, query, {"org": scope.org_id, "name": name, **request.parameters()}))


async def add_documents(conn: Connection, scope: Scope, stack_id: UUID, document_ids: Sequence[UUID]) -> int:
    """Add documents to a stack, with the files inside those that are new in it. Return how many were new. Raise
    NotFound for a document that the caller cannot see."""
    wanted = list(dict.fromkeys(document_ids))
    found = await value_of(
        conn,
        "select count(*) from public.documents where id = any (%s) and org_id = %s",
        (wanted, scope.org_id),
    )
    if found != len(wanted):
        raise NotFound("One of the documents does not exist.")
    added = 0
    # One level of enclosed files after the other. Each insert waits for a reading that is about to add files.
    while wanted:
        cursor = await conn.execute(
            """insert into public.stack_documents (org_id, stack_id, document_id)
               select %s, %s, unnest(%s::uuid[]) on conflict (stack_id, document_id) do nothing
               returning document_id""",
            (scope.org_id, stack_id, wanted),
        )
        new = [row["document_id"] for row in await cursor.fetchall()]
        added += len(new)
        query = "select id from public.documents where parent_document_id = any (%s) order by number_in_parent"
        wanted = [row["id"] for row in await (await conn.execute(query, (new,))).fetchall()] if new else []
    return added


async def remove_document(conn: Connection, stack_id: UUID, document_id: UUID) -> None:
    """Take a document out of a stack. Its extraction stays. Raise NotFound."""
    await conn.execute("select public.remove_stack_document(%s, %s)", (stack_id, document_id))


async def has_document(conn: Connection, stack_id: UUID, document_id: UUID) -> bool:
    query = "select from public.stack_documents where stack_id = %s and document_id = %s"
    return (await conn.execute(query, (stack_id, document_id))).rowcount > 0


async def set_table(conn: Connection, scope: Scope, stack_id: UUID, schema_id: UUID, row_path: str | None) -> None:
    """Set the schema of a stack's table, and the list whose items are its rows."""
    await conn.execute(
        """insert into public.stack_tables (org_id, stack_id, schema_id, row_path) values (%s, %s, %s, %s)
           on conflict (stack_id) do update set schema_id = excluded.schema_id, row_path = excluded.row_path""",
        (scope.org_id, stack_id, schema_id, row_path),
    )


async def use_schema(conn: Connection, scope: Scope, schema_id: UUID, other_id: UUID, lists: Sequence[str]) -> None:
    """Let the stack with a schema use another one, which has these lists. If the other one has a stack, the documents
    move into it. Raise NotFound if the caller may not delete the stack then."""
    query = "select stack_id from public.stack_tables where schema_id = %s"
    stack_id, into = [await value_of(conn, query, (one,)) for one in (schema_id, other_id)]
    if stack_id is not None and into is not None:
        rows = "select document_id from public.stack_documents where stack_id = %s order by created_at, document_id"
        cursor = await conn.execute(rows, (stack_id,))
        await add_documents(conn, scope, into, [row["document_id"] for row in await cursor.fetchall()])
        await remove(conn, stack_id)
    elif stack_id is not None:
        await conn.execute(
            """update public.stack_tables set schema_id = %s, row_path = case when row_path = any (%s) then row_path end
               where stack_id = %s""",
            (other_id, list(lists), stack_id),
        )


async def progress(conn: Connection, stack_ids: Sequence[UUID]) -> dict[UUID, StackProgress]:
    """Return the progress of each of these stacks. Raise TooLongToAnswer."""
    async with query_timeout(conn, MAX_SECONDS, few_rows=True):
        counted = await _count_states(conn, stack_ids)
    found: dict[UUID, StackProgress] = {}
    for row in counted:
        run = None if row["run_id"] is None else NewestRun(row["run_id"], row["task"], RunStatus(row["status"]))
        counts = {RowStatus(state): rows for state, rows in row["counts"].items()}
        found[row["id"]] = StackProgress(counts, row["unreadable"], row["cost_usd"], run)
    return found


async def _count_states(conn: Connection, stack_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    cursor = await conn.execute(
        """select s.id, r.counts, coalesce(r.unreadable, 0) as unreadable, used.cost_usd, run.id as run_id,
             run.task, run.status
           from unnest(%s::uuid[]) as s (id)
           cross join lateral (
             select coalesce(jsonb_object_agg(state, rows), '{}') as counts, sum(unreadable)::integer as unreadable
             from (
               select state, count(*) as rows,
                 count(*) filter (where state = 'failed' and extraction_id is null) as unreadable
               from public.stack_table_rows where stack_id = s.id group by state) as c
           ) as r
           cross join lateral (
             select case when count(*) = count(cost) then coalesce(sum(cost), 0) end as cost_usd
             from (select private.cost_of_run(id) as cost from public.runs
               where stack_id = s.id and parent_run_id is null) as c
           ) as used
           left join lateral (
             select id, task, status from public.runs where stack_id = s.id order by created_at desc, id desc limit 1
           ) as run on true""",
        (list(stack_ids),),
    )
    return await cursor.fetchall()


async def rows(
    conn: Connection,
    stack_id: UUID,
    *,
    limit: int,
    offset: int = 0,
    states: Sequence[RowStatus] | None = None,
    document_id: UUID | None = None,
    name_search: str | None = None,
    with_values: bool = False,
) -> list[StackTableRow]:
    """Return documents of a stack with their rows, in the order in which they were added. `states`: only rows in these
    states. `name_search`: only documents whose filename contains this, in upper or lower case."""
    return await large_rows(
        conn,
        _stack_table_row,
        """select r.document_id, d.filename, d.page_count, r.state, r.error, r.error_code, r.duplicate_of,
             e.id as extraction_id, e.version, case when %(values)s then e.extracted_fields end as extracted_fields
           from public.stack_documents as s
           join public.stack_table_rows as r on r.stack_id = s.stack_id and r.document_id = s.document_id
           join public.documents as d on d.id = s.document_id
           left join public.extractions as e on e.id = r.extraction_id and e.status <> 'failed'
           where s.stack_id = %(stack)s and (%(states)s::text[] is null or r.state = any (%(states)s))
             and (%(document)s::uuid is null or s.document_id = %(document)s)
             and (%(name)s::text is null or position(lower(%(name)s) in lower(d.filename)) > 0)
           order by s.created_at, d.created_at, s.document_id limit %(limit)s offset %(offset)s""",
        {
            "stack": stack_id,
            "states": None if states is None else [str(one) for one in states],
            "document": document_id,
            "name": name_search,
            "values": with_values,
            "limit": limit,
            "offset": offset,
        },
    )


def _stack_table_row(state: str, **columns: Any) -> StackTableRow:
    return StackTableRow(state=RowStatus(state), **columns)


async def rows_to_read(conn: Connection, stack_id: UUID, run_id: UUID, limit: int) -> list[RowToRead]:
    """Return the rows that are not read yet: waiting, stale, failed and incomplete ones. Left out: documents that could
    not be read, rows on which a run is at work, and those that failed or stayed incomplete in the run `run_id`."""
    return await fetch_all(
        conn,
        RowToRead,
        """select r.document_id, r.state,
             case when e.status <> 'failed' then r.extraction_id end as extraction_id
           from public.stack_documents as s
           join public.stack_table_rows as r on r.stack_id = s.stack_id and r.document_id = s.document_id
           join public.documents as d on d.id = s.document_id
             and d.status <> 'failed' and d.media_type is distinct from 'application/zip'
           left join public.extractions as e on e.id = r.extraction_id
           where s.stack_id = %(stack)s and r.state in ('waiting', 'stale', 'failed', 'incomplete')
             and not exists (
               select from public.runs where extraction_id = r.extraction_id
                 and (status not in ('completed', 'failed', 'cancelled')
                   or parent_run_id = %(run)s and (r.state = 'incomplete' or status in ('failed', 'cancelled'))))
           order by s.created_at, d.created_at, s.document_id limit %(limit)s""",
        {"stack": stack_id, "run": run_id, "limit": limit},
    )


@dataclass(frozen=True, slots=True)
class ReplacedValue:
    """A value of a row that the agent replaced, with the old and the new value. To restore the old one, set it with
    `PATCH /api/extractions/{id}/fields`."""

    id: Annotated[int, Field(exclude=True)]
    """The id of the change."""
    document_id: UUID
    filename: str
    extraction_id: UUID
    version: Annotated[int, Field(description="The extraction's version now. Send it as If-Match.")]
    path: str
    old: JsonValue
    new: Annotated[JsonValue, Field(description="null: it was removed.")]
    now: Annotated[JsonValue, Field(description="The value of the row now. null: none.")]
    is_current: Annotated[bool, Field(description="Whether the new value is still the value of the row.")]
    is_restored: Annotated[bool, Field(description="Whether the old value is the value of the row again.")]
    is_locked: Annotated[bool, Field(description="Whether a person set or confirmed the value of the row.")]


# The changes of a stack's rows, each with the run of the stack that made it, itself or by a child run.
_REPLACED: Final[LiteralString] = """from public.stack_documents as s
           join public.documents as d on d.id = s.document_id
           join public.stack_tables as t on t.stack_id = s.stack_id
           cross join lateral (
             select * from private.schema_extractions
             where schema_id = t.schema_id and document_id = s.document_id offset 0) as e
           join public.extraction_journal as j on j.extraction_id = e.id
           join public.runs as r on r.id = j.run_id
           join public.runs as root on root.id = r.root_run_id and root.stack_id = s.stack_id
           where s.stack_id = %(stack)s and j.old is not null and j.old is distinct from j.new"""


async def newest_run_with_changes(conn: Connection, stack_id: UUID) -> UUID | None:
    """Return the newest run on a stack that replaced or removed a value of its rows."""
    # offset 0: otherwise the planner may search the whole journal, from its end.
    query: LiteralString = f"""select run_id from (select root.id as run_id, j.id {_REPLACED} offset 0) as c
        order by c.id desc limit 1"""
    return await value_of(conn, query, {"stack": stack_id})


async def replaced_values(
    conn: Connection, stack_id: UUID, run_id: UUID, *, limit: int, after: int = 0
) -> list[ReplacedValue]:
    """Return the values that a run and its child runs replaced in a stack's rows, in the order of the changes, after
    the change `after`."""
    return await large_rows(
        conn,
        _replaced_value,
        f"""select j.id, s.document_id, d.filename, e.id as extraction_id, e.version, j.path, j.steps, j.old, j.new,
             e.extracted_fields #> j.path as now, e.extracted_fields #> j.path is not distinct from j.new as is_current,
             e.extracted_fields #> j.path is not distinct from j.old as is_restored,
             coalesce(e.locks ? private.path_name(e.extracted_fields, j.path), false) as is_locked
           {_REPLACED} and root.id = %(run)s and j.id > %(after)s order by j.id limit %(limit)s""",
        {"stack": stack_id, "run": run_id, "limit": limit, "after": after},
    )


def _replaced_value(path: list[str], steps: str, **columns: Any) -> ReplacedValue:
    return ReplacedValue(path=paths.name(paths.from_sql(path, steps)), **columns)
