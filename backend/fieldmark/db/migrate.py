"""Brings a database up to date: what Supabase would have, then the plain-SQL migrations, then the job queue."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from procrastinate.schema import SchemaManager
from psycopg import AsyncConnection, sql
from psycopg.pq import TransactionStatus

from fieldmark.db.pool import CONNECTING, plain_url
from fieldmark.errors import Misconfigured, Unavailable

_Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]

_HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"(?P<version>\d{14})_(?P<name>\w+)\.sql")
_SHIM_MARK: Final = "Made by Fieldmark in place of Supabase's, shim "
_QUEUE_MARK: Final = "procrastinate "
_CONCURRENTLY: Final = "-- fieldmark: concurrently\n"
_WAIT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Migration:
    file: str
    version: str
    name: str
    text: str

    @property
    def is_concurrent(self) -> bool:
        return self.text.startswith(_CONCURRENTLY)


class MostWaiting(NamedTuple):
    """How many runs and documents of each organisation may wait, where `queue_limits` says nothing of it."""

    runs: int
    documents: int


async def migrate(
    owner_url: str,
    *,
    app_password: str | None = None,
    most_waiting: MostWaiting | None = None,
    folder: Path | None = None,
) -> list[str]:
    """Apply what is missing and return the names of the migration files that were.

    One starter at a time, others wait; one transaction a file, so that a failing one leaves nothing of itself. A file
    that begins with `-- fieldmark: concurrently` builds or drops indexes outside of any: what a start that died has
    left of one is taken away, and built again. With `app_password`, the role `fieldmark_app` gets that password; with
    `most_waiting`, the database those limits. `folder` holds the files, ours by default.

    Raises Misconfigured (naming file and line) where a file fails, was changed after it was applied, or is misnamed;
    Unavailable where the database does not answer.
    """
    migrations = _read(folder or _our_folder())
    url, pooled = plain_url(owner_url)
    if pooled:
        raise Misconfigured(
            "Migrations cannot go through a transaction pooler. Set DATABASE_OWNER_URL to the owner's login at the "
            "database itself (port 5432)."
        )
    try:
        async with (
            await AsyncConnection.connect(url, autocommit=True, prepare_threshold=None, **CONNECTING) as connection,
            _alone(url, connection),
        ):
            await _shim(connection)
            done = await _done(connection)
            _refuse_changed(migrations, done)
            missing = [migration for migration in migrations if migration.version not in done]
            for migration in missing:
                await (_build if migration.is_concurrent else _apply)(connection, migration)
            await _make_queue(connection)
            await _make_vectors(connection)
            await _grant(connection)
            if app_password is not None:
                await _set_app_password(connection, app_password)
            if most_waiting is not None:
                await connection.execute(
                    "update private.most_waiting set (runs, documents) = row(%s, %s)", most_waiting
                )
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database cannot be migrated: {str(error).strip()}") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"DATABASE_OWNER_URL logs in as a role that may not migrate: {error.diag.message_primary}. It needs to own "
            "the database and to have CREATEROLE."
        ) from error
    return [migration.file for migration in missing]


async def pending(url: str, folder: Path | None = None) -> list[str]:
    """The migration files that the database lacks, and "queue" if the job queue is not set up. Any login may ask."""
    migrations = _read(folder or _our_folder())
    try:
        async with await AsyncConnection.connect(
            plain_url(url)[0], autocommit=True, prepare_threshold=None, **CONNECTING
        ) as connection:
            done = await _done(connection)
            has_queue = await _value(connection, "select to_regclass('queue.procrastinate_jobs') is not null")
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database does not answer: {str(error).strip()}") from error
    except psycopg.errors.InsufficientPrivilege:  # pushed with the Supabase CLI, so that our own part is missing
        return ["queue"]
    missing = [migration.file for migration in migrations if migration.version not in done]
    return missing if has_queue else [*missing, "queue"]


# --- the files


def _our_folder() -> Path:
    packaged = _HERE.parent / "migrations"  # in a wheel; in a checkout they lie at its root
    return packaged if packaged.is_dir() else _HERE.parents[2] / "migrations"


def _read(folder: Path) -> list[_Migration]:
    migrations: dict[str, _Migration] = {}
    for file in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(file.name)
        if match is None:
            raise Misconfigured(f"The migration {file.name} must be named like 20261120090000_what_it_does.sql.")
        version = match["version"]
        if version in migrations:
            raise Misconfigured(f"The migrations {migrations[version].file} and {file.name} have the same version.")
        migrations[version] = _Migration(file.name, version, match["name"], file.read_text("utf-8"))
    if not migrations:
        raise Misconfigured(f"There are no migrations in {folder}. Install Fieldmark again.")
    return list(migrations.values())


# Postgres nests comments; three deep are told here.
_COMMENT: Final = r"/\* (?: (?!/\*|\*/) . )* \*/"
_COMMENTS: Final = rf"/\* (?: (?!/\*|\*/) . | /\* (?: (?!/\*|\*/) . | {_COMMENT} )* \*/ )* \*/"

# Our own and no library: sqlparse (0.6) splits our files alike, but takes more than ten times as long, at every start.
# It takes `begin` and `declare` for the opening of a block where they name a column or an argument, and joins what
# follows. And it says neither where a statement begins nor what of it is a comment.
_TOKEN: Final = re.compile(
    rf"""
      (?P<comment> --[^\n]* | {_COMMENTS} )
    | (?P<quoted> \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? \$(?P=tag)\$
                | [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" )
    | (?P<atomic> \b(?i:begin\s+atomic)\b )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<end> ; )
    | (?P<space> \s+ )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def statements(text: str) -> Generator[tuple[int, int, str]]:
    """The statements of an SQL file without their semicolons: offset, offset of the first word past comments, text."""
    start, first, depth = 0, -1, 0
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup, token[0].lower()
        if kind == "tag":  # a group within `quoted`
            kind = "quoted"
        if kind == "end" and depth == 0:
            if first >= 0:
                yield start, first, text[start : token.start()]
            start, first = token.end(), -1
            continue
        if kind not in ("comment", "space") and first < 0:
            first = token.start()
        # The body of an SQL-standard function has semicolons of its own.
        if kind == "atomic" or (depth and kind == "word" and word == "case"):
            depth += 1
        elif depth and kind == "word" and word == "end":
            depth -= 1
    if first >= 0:
        yield start, first, text[start:]


def _essence(text: str) -> str:
    """What a file says, without comments, spaces and the semicolons that splitting takes away."""
    kept = (token[0] for token in _TOKEN.finditer(text) if token.lastgroup not in ("comment", "space", "end"))
    return re.sub(r"[\s;]+", "", "".join(kept))


# --- the ledger, the same as the Supabase CLI's


async def _make_ledger(connection: _Connection) -> None:
    if await _value(connection, "select to_regclass('supabase_migrations.schema_migrations') is not null"):
        return
    # (Another start may be faster.)
    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateSchema):
        async with connection.transaction():
            await connection.execute("create schema if not exists supabase_migrations")
            await connection.execute(
                "create table supabase_migrations.schema_migrations "
                "(version text not null primary key, statements text[], name text)"
            )


async def _done(connection: _Connection) -> dict[str, list[str] | None]:
    if not await _value(connection, "select to_regclass('supabase_migrations.schema_migrations') is not null"):
        return {}
    cursor = await connection.execute("select version, statements from supabase_migrations.schema_migrations")
    return dict(await cursor.fetchall())


def _refuse_changed(migrations: list[_Migration], done: dict[str, list[str] | None]) -> None:
    for migration in migrations:
        applied = done.get(migration.version)
        if applied and _essence(";".join(applied)) != _essence(migration.text):
            raise Misconfigured(
                f"The migration {migration.file} was changed after it was applied to this database. Put it back as it "
                "was, and make the change in a new file."
            )


async def _apply(connection: _Connection, migration: _Migration) -> None:
    async with connection.transaction():
        applied = await _run(connection, migration.file, migration.text)
        await connection.execute(
            "insert into supabase_migrations.schema_migrations (version, statements, name) values (%s, %s, %s)",
            [migration.version, applied, migration.name],
        )


_INDEX: Final = re.compile(
    r"""(?P<verb> create \s+ (?:unique \s+)? | drop \s+) index \s+ concurrently \s+ (?:if \s+ (?:not \s+)? exists \s+)?
        (?P<name> [a-z_][\w$]* (?:\.[a-z_][\w$]*)?) \s*
        (?: (?<=\s) on \s+ (?:only \s+)? (?:(?P<schema> [a-z_][\w$]*)\.)? [a-z_][\w$]* \b .* )?""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


async def _build(connection: _Connection, migration: _Migration) -> None:
    """Build or drop indexes while their tables are in use. Any of it may have been done by a start that died."""
    applied: list[str] = []
    for start, first, statement in statements(migration.text):
        bare = migration.text[first : start + len(statement)]
        found = _INDEX.fullmatch(bare.strip())
        if found is None:
            raise Misconfigured(
                f"{migration.file}:{_line(migration.text, first)}: such a migration only has statements like `create "
                "index concurrently its_name on public.its_table (…)` and `drop index concurrently public.its_name`."
            )
        creates = found["verb"].lower().startswith("create")
        schema = found["schema"] if creates else None
        name = f"{schema}.{found['name']}" if schema else found["name"]
        cursor = await connection.execute(
            "select indisvalid from pg_index where indexrelid = to_regclass(%s)::oid", [name]
        )
        row = await cursor.fetchone()
        if row is not None and creates and not row[0]:
            await _outside(connection, migration, first, f"drop index concurrently {name}")
            row = None
        if (row is None) == creates:
            await _outside(connection, migration, first, bare)
        applied.append(statement.strip())
    await connection.execute(
        "insert into supabase_migrations.schema_migrations (version, statements, name) values (%s, %s, %s)",
        [migration.version, applied, migration.name],
    )


async def _outside(connection: _Connection, migration: _Migration, first: int, statement: str) -> None:
    try:
        await connection.execute(statement.encode())
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise Misconfigured(f"{migration.file}:{_line(migration.text, first)}: {_said(error)}") from error


@asynccontextmanager
async def _alone(url: str, connection: _Connection) -> AsyncGenerator[None]:
    """While this context lasts nobody else migrates the database. It is a lock on the ledger of migrations, held by a
    connection of its own: nobody but the owner can take it, as any member could an advisory lock. Asked for again and
    again, since an index that is built concurrently waits for every statement that goes on."""
    await _make_ledger(connection)
    async with await AsyncConnection.connect(url, autocommit=True, prepare_threshold=None, **CONNECTING) as holder:
        await holder.execute("set idle_in_transaction_session_timeout = 0")
        while not await _has_locked(holder):  # noqa: ASYNC110  another process
            await asyncio.sleep(_WAIT_SECONDS)
        yield


async def _has_locked(holder: _Connection) -> bool:
    await holder.execute("begin")
    try:
        await holder.execute("lock table supabase_migrations.schema_migrations in share update exclusive mode nowait")
    except psycopg.errors.LockNotAvailable:
        await holder.execute("rollback")
        return False
    return True


async def _run(connection: _Connection, file: str, text: str) -> list[str]:
    """Run a file's statements one by one, so that a failing one can be named by its line."""
    applied: list[str] = []
    for start, first, statement in statements(text):
        try:
            await connection.execute(statement.encode())
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            position = error.diag.statement_position
            at = start + int(position) - 1 if position else first
            raise Misconfigured(f"{file}:{_line(text, at)}: {_said(error)}") from error
        if connection.info.transaction_status != TransactionStatus.INTRANS:
            raise Misconfigured(f"{file}:{_line(text, first)}: a migration is one transaction and may not end it.")
        applied.append(statement.strip())
    return applied


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _said(error: psycopg.Error) -> str:
    diag = error.diag
    where = diag.context.splitlines()[0] if diag.context else None
    return " ".join(part for part in (diag.message_primary, diag.message_detail, diag.message_hint, where) if part)


# --- what lies around the migrations


async def _shim(connection: _Connection) -> None:
    """Give a plain Postgres what Supabase has. Supabase: there are users, and the schema around them is not ours."""
    text = (_HERE / "shim.sql").read_text("utf-8")
    mark = _SHIM_MARK + hashlib.sha256(text.encode()).hexdigest()[:12]
    cursor = await connection.execute(
        "select to_regclass('auth.users') is not null, obj_description(to_regnamespace('auth'), 'pg_namespace')"
    )
    has_users, comment = await cursor.fetchone() or (False, None)
    ours = (comment or "").startswith(_SHIM_MARK)
    if comment == mark or (has_users and not ours):
        return
    async with connection.transaction():
        await _run(connection, "shim.sql", text)
        await connection.execute(sql.SQL("comment on schema auth is {}").format(mark))


async def _make_queue(connection: _Connection) -> None:
    """Procrastinate's own tables and functions, in the schema `queue`, as the installed version brings them."""
    installed = _QUEUE_MARK + importlib.metadata.version("procrastinate")
    cursor = await connection.execute(
        "select to_regclass('queue.procrastinate_jobs') is not null, "
        "obj_description(to_regnamespace('queue'), 'pg_namespace')"
    )
    exists, mark = await cursor.fetchone() or (False, None)
    if not exists:
        async with connection.transaction():
            await connection.execute("create schema if not exists queue")
            await connection.execute("set local search_path = queue")
            await connection.execute(SchemaManager.get_schema().encode())
            await connection.execute(sql.SQL("comment on schema queue is {}").format(installed))
    elif mark != installed:
        raise Misconfigured(
            f"The schema 'queue' was made for {mark or 'an unknown procrastinate'}, but {installed} is installed. "
            "Apply the SQL migrations of procrastinate between the two with search_path=queue, then run "
            f"comment on schema queue is '{installed}'."
        )
    async with connection.transaction():
        for statement in _QUEUE_OF_OURS:
            await connection.execute(statement.encode())


# What private.enqueue and private.claim_job look through. (Rows come and go here: they are cleared away before a fifth
# of the table is dead.)
_QUEUE_OF_OURS: Final = (
    "create index if not exists fieldmark_next on queue.procrastinate_jobs (queue_name, (-priority), id) "
    "where status = 'todo'",
    "create index if not exists fieldmark_of_organisation on queue.procrastinate_jobs "
    "(queue_name, left(lock, 36), (0 - priority)) where status = 'todo'",
    "create index if not exists fieldmark_at_work on queue.procrastinate_jobs (queue_name, (-priority)) "
    "where status = 'doing'",
    "create index if not exists fieldmark_of_lock on queue.procrastinate_jobs (lock, (-priority), id) "
    "where status = 'todo'",
    # What the worker's maintenance looks through, past all jobs that wait.
    "create index if not exists fieldmark_ended on queue.procrastinate_jobs (id) "
    "where status in ('succeeded', 'failed', 'cancelled', 'aborted')",
    "alter table queue.procrastinate_jobs set (autovacuum_vacuum_scale_factor = 0.02)",
    "alter table queue.procrastinate_events set (autovacuum_vacuum_scale_factor = 0.02)",
)


async def _make_vectors(connection: _Connection) -> None:
    """The extension that compares vectors, where the server has it and the owner may make it: search does without."""
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile)
    with suppress(*refused):
        async with connection.transaction():
            if await _value(
                connection,
                "select to_regnamespace('extensions') is not null "
                "and exists (select from pg_available_extensions where name = 'vector')",
            ):
                await connection.execute("create extension if not exists vector schema extensions")


async def _grant(connection: _Connection) -> None:
    """What the service's role needs besides what the migrations grant: the queue, and to see what is applied. And what
    nobody is to have: temporary tables, since the right to them is the database's own, and no copy of it keeps that."""
    async with connection.transaction():
        database = await _value(connection, "select current_database()")
        await connection.execute(
            sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(database))
        )
        for grant in (
            "grant usage on schema queue, supabase_migrations to fieldmark_app",
            "grant select, insert, update, delete on all tables in schema queue to fieldmark_app",
            "grant usage, select on all sequences in schema queue to fieldmark_app",
            "grant execute on all functions in schema queue to fieldmark_app",
            "alter default privileges in schema queue grant select, insert, update, delete on tables to fieldmark_app",
            "alter default privileges in schema queue grant usage, select on sequences to fieldmark_app",
            "alter default privileges in schema queue grant execute on functions to fieldmark_app",
            "grant select on supabase_migrations.schema_migrations to fieldmark_app",
        ):
            await connection.execute(grant.encode())


async def _set_app_password(connection: _Connection, password: str) -> None:
    # Sent as its SCRAM verifier: statements may be logged.
    verifier = connection.pgconn.encrypt_password(password.encode(), b"fieldmark_app", b"scram-sha-256")
    await connection.execute(sql.SQL("alter role fieldmark_app password {}").format(verifier.decode()))


async def _value(connection: _Connection, query: str) -> Any:
    row = await (await connection.execute(query.encode())).fetchone()
    return row[0] if row else None
