"""Migrates a database: creates what it needs of Supabase's schema, applies our migrations, and installs the job
queue."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg
import structlog
from psycopg import AsyncConnection, sql
from psycopg.pq import TransactionStatus

from fieldmark import __version__
from fieldmark.db.pool import CONNECTION_OPTIONS, check_encoding, libpq_url
from fieldmark.errors import Misconfigured, Unavailable

_Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]

_HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"(?P<version>\d{14})_(?P<name>\w+)\.sql")
_RELEASE: Final = re.compile(r"fieldmark_(?P<release>\d+_\d+_\d+)_(?:needs_(?P<needs>\d+_\d+_\d+)_)?")
SHIM_COMMENT: Final = "Made by Fieldmark in place of Supabase's, shim "
_QUEUE_COMMENT: Final = "procrastinate "
_LEDGER: Final = "supabase_migrations.schema_migrations"
_NOTICE_SECONDS: Final = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Migration:
    file: str
    version: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class AgentTaskRow:
    """A row of private.agent_tasks."""

    task: str
    needs: Sequence[str]
    input_needs: Sequence[str]
    input_may_have: Sequence[str]
    is_message: bool
    approval: str | None
    when_read: bool


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A row of private.agents, with its tasks."""

    name: str
    approval: str
    tasks: Sequence[AgentTaskRow]


async def migrate(
    owner_url: str,
    *,
    app_password: str | None = None,
    folder: Path | None = None,
    agents: Sequence[AgentRow] = (),
    allow_anonymous: bool | None = None,
    lock_seconds: int = 60,
) -> list[str]:
    """Apply the missing migrations of `folder` (default: Fieldmark's own) and return their file names.

    One process migrates at a time; others wait for `lock_seconds`. Each file is one transaction. `app_password` becomes
    the password of the role `fieldmark_app`. `agents` are stored in private.agents. `allow_anonymous`: whether
    anonymous sign-ins may act through PostgREST (None: no change).

    Raise Misconfigured (with file and line) if a file fails, is misnamed, or was changed after it was applied;
    Unavailable if the database does not respond.
    """
    migrations = _read_migrations(folder or _migrations_folder())
    url, pooled = libpq_url(owner_url)
    if pooled:
        raise Misconfigured(
            "Migrations cannot go through a transaction pooler. Set DATABASE_OWNER_URL to the owner's login at the "
            "database itself (port 5432)."
        )
    try:
        async with await _connect(url) as connection, _migration_lock(url, connection, lock_seconds):
            check_encoding(connection, "The database")
            await connection.execute(f"set lock_timeout = '{lock_seconds}s'".encode())
            await _install_shim(connection)
            done = await _applied_migrations(connection)
            _check_unchanged(migrations, done)
            if await _check_newer(connection):
                return []
            missing = [migration for migration in migrations if migration.version not in done]
            for migration in missing:
                await _apply_migration(connection, migration)
            await _install_queue(connection)
            await _install_vector_extension(connection)
            await _grant(connection)
            await _write_agents(connection, agents)
            if allow_anonymous is not None:
                await _set_allow_anonymous(connection, allow_anonymous)
            if app_password is not None:
                await _set_app_password(connection, app_password)
    except psycopg.errors.LockNotAvailable as error:
        raise Unavailable(
            f"The database cannot be migrated: another session has locked its tables for {lock_seconds} seconds. "
            "Wait until it ends, or end it (its pid is in pg_locks), then try again."
        ) from error
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database cannot be migrated: {str(error).strip()}") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"DATABASE_OWNER_URL logs in as a role that may not migrate: {error.diag.message_primary}. It needs to own "
            "the database and to have CREATEROLE."
        ) from error
    return [migration.file for migration in missing]


async def pending_migrations(url: str, folder: Path | None = None) -> list[str]:
    """Return the migration files that the database lacks, and "queue" if its job queue is missing or outdated. Any
    login may call it. Raise Misconfigured if a newer version has migrated it so that this one cannot use it."""
    migrations = _read_migrations(folder or _migrations_folder())
    try:
        async with await _connect(libpq_url(url)[0]) as connection:
            done = await _applied_migrations(connection)
            await _check_newer(connection)
            mark = await _fetch_value(connection, "select obj_description(to_regnamespace('queue'), 'pg_namespace')")
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database does not answer: {str(error).strip()}") from error
    except psycopg.errors.InsufficientPrivilege:  # pushed with the Supabase CLI, so that our own part is missing
        return ["queue"]
    missing = [migration.file for migration in migrations if migration.version not in done]
    is_current = _version_numbers(str(mark)) >= _version_numbers(importlib.metadata.version("procrastinate"))
    return missing if is_current else [*missing, "queue"]


async def _connect(url: str) -> _Connection:
    return await AsyncConnection.connect(url, autocommit=True, prepare_threshold=None, **CONNECTION_OPTIONS)


# --- the files


def _migrations_folder() -> Path:
    packaged = _HERE.parent / "migrations"  # in a wheel; in a checkout they lie at its root
    return packaged if packaged.is_dir() else _HERE.parents[2] / "migrations"


def _read_migrations(folder: Path) -> list[_Migration]:
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


def _normalise(text: str) -> str:
    """Remove comments, whitespace and semicolons, because the Supabase CLI stores statements without them."""
    return re.sub(r"--[^\n]*|/\*.*?(?:\*/|\Z)|[\s;]+", "", text, flags=re.DOTALL)


# --- the ledger, the same as the Supabase CLI's


@asynccontextmanager
async def _migration_lock(url: str, connection: _Connection, lock_seconds: int) -> AsyncGenerator[None]:
    """Hold the migration lock. A second connection locks the ledger table: only the owner can take that lock, while any
    member could take an advisory lock."""
    if not await _fetch_value(connection, f"select to_regclass('{_LEDGER}') is not null"):
        # (Another process may create it first.)
        with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateSchema):
            await connection.execute(
                f"create schema if not exists supabase_migrations; "
                f"create table {_LEDGER} (version text not null primary key, statements text[], name text)".encode()
            )
    async with await _connect(url) as holder, holder.transaction():
        await holder.execute("set local idle_in_transaction_session_timeout = 0")
        await _lock_ledger(holder, lock_seconds)
        yield


async def _lock_ledger(connection: _Connection, lock_seconds: int) -> None:
    """Lock the ledger in the current transaction. Raise Unavailable if another process keeps the lock."""
    if await _locks_ledger_within(connection, min(_NOTICE_SECONDS, lock_seconds)):
        return
    holder = await (await connection.execute(_LOCK_HOLDER)).fetchone()
    _log.warning("waiting for another migration", pid=holder and holder[0], since=holder and holder[1])
    if await _locks_ledger_within(connection, lock_seconds):
        return
    where = "" if holder is None else f" (pid {holder[0]}, {holder[2] or 'unnamed'}, since {holder[1]})"
    raise Unavailable(
        f"The database cannot be migrated: another process{where} is migrating it, or was stopped while it did. Wait "
        "until it ends, or end it with pg_terminate_backend, then try again."
    )


async def _locks_ledger_within(connection: _Connection, seconds: int) -> bool:
    try:
        async with connection.transaction():
            await connection.execute(
                f"set local lock_timeout = '{seconds}s'; lock table {_LEDGER} in share update exclusive mode".encode()
            )
    except psycopg.errors.LockNotAvailable:
        return False
    return True


_LOCK_HOLDER: Final = f"""
select activity.pid, date_trunc('second', activity.xact_start)::text, activity.application_name
from pg_locks join pg_stat_activity activity using (pid)
where relation = '{_LEDGER}'::regclass and mode = 'ShareUpdateExclusiveLock' and granted
""".encode()


async def _applied_migrations(connection: _Connection) -> dict[str, list[str] | None]:
    if not await _fetch_value(connection, f"select to_regclass('{_LEDGER}') is not null"):
        return {}
    cursor = await connection.execute(f"select version, statements from {_LEDGER}".encode())
    return dict(await cursor.fetchall())


def _check_unchanged(migrations: list[_Migration], done: dict[str, list[str] | None]) -> None:
    for migration in migrations:
        applied = done.get(migration.version)
        # (Normalising takes 50 ms.)
        if applied and applied != [migration.text] and _normalise("\n".join(applied)) != _normalise(migration.text):
            raise Misconfigured(
                f"The migration {migration.file} was changed after it was applied to this database. Put it back as it "
                "was, and make the change in a new file."
            )


async def _check_newer(connection: _Connection) -> bool:
    """Return whether a newer version of Fieldmark has migrated the database. Raise Misconfigured if this one cannot use
    it.

    The names of the migrations of a release say which it is, and the earliest version that works with them:
    20270101000000_fieldmark_1_4_0_adds_a_table.sql, 20270201000000_fieldmark_1_5_0_needs_1_4_0_drops_a_column.sql.
    """
    if not await _fetch_value(connection, f"select to_regclass('{_LEDGER}') is not null"):
        return False
    cursor = await connection.execute(f"select name from {_LEDGER} where name like 'fieldmark_%'".encode())
    own = _version_numbers(__version__)
    is_newer = False
    for (name,) in await cursor.fetchall():
        match = _RELEASE.match(name)
        is_newer = is_newer or (match is not None and _version_numbers(match["release"]) > own)
        if match and match["needs"] and _version_numbers(match["needs"]) > own:
            needed = match["needs"].replace("_", ".")
            raise Misconfigured(
                f"A newer Fieldmark has migrated the database, which now needs {needed}. This is {__version__}. "
                "Install that or a later version, or restore the backup made before the upgrade."
            )
    if is_newer:
        _log.warning("the database was migrated by a newer version of Fieldmark", version=__version__)
    return is_newer


async def _apply_migration(connection: _Connection, migration: _Migration) -> None:
    async with connection.transaction():
        await _run_file(connection, migration.file, migration.text)
        await connection.execute(
            f"insert into {_LEDGER} (version, statements, name) values (%s, %s, %s)".encode(),
            [migration.version, [migration.text], migration.name],
        )


async def _run_file(connection: _Connection, file: str, text: str) -> None:
    """Run a whole file. Raise Misconfigured with the file, the line if Postgres reports it, and the reason."""
    try:
        await connection.execute(text.encode())
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        diag = error.diag
        line = "" if diag.statement_position is None else f":{text.count(chr(10), 0, int(diag.statement_position)) + 1}"
        where = diag.context.splitlines()[0] if diag.context else None
        said = " ".join(part for part in (diag.message_primary, diag.message_detail, diag.message_hint, where) if part)
        raise Misconfigured(f"{file}{line}: {said}") from error
    if connection.info.transaction_status != TransactionStatus.INTRANS:
        raise Misconfigured(f"{file}: a migration is one transaction and may not end it.")


# --- what lies around the migrations


async def _install_shim(connection: _Connection) -> None:
    """Create in a plain Postgres what our schema needs from Supabase. Do nothing on Supabase itself."""
    text = (_HERE / "shim.sql").read_text("utf-8")
    mark = SHIM_COMMENT + hashlib.sha256(text.encode()).hexdigest()[:12]
    cursor = await connection.execute(
        "select to_regclass('auth.users') is not null, obj_description(to_regnamespace('auth'), 'pg_namespace')"
    )
    has_users, comment = await cursor.fetchone() or (False, None)
    ours = (comment or "").startswith(SHIM_COMMENT)
    if comment == mark or (has_users and not ours):
        return
    async with connection.transaction():
        await _run_file(connection, "shim.sql", text)
        await connection.execute(sql.SQL("comment on schema auth is {}").format(mark))


async def _install_queue(connection: _Connection) -> None:
    """Create or upgrade procrastinate's schema `queue`. Raise Misconfigured if a newer version created it."""
    installed = importlib.metadata.version("procrastinate")
    cursor = await connection.execute(
        "select to_regclass('queue.procrastinate_jobs') is not null, "
        "obj_description(to_regnamespace('queue'), 'pg_namespace')"
    )
    exists, mark = await cursor.fetchone() or (False, None)
    made_by = (mark or "").removeprefix(_QUEUE_COMMENT) if exists else None
    if made_by != installed:
        async with connection.transaction():
            await connection.execute("create schema if not exists queue")
            await connection.execute("set local search_path = queue")
            for name, text in _queue_files(made_by, installed):
                await _run_file(connection, f"procrastinate's {name}", text)
            await connection.execute(sql.SQL("comment on schema queue is {}").format(_QUEUE_COMMENT + installed))
    await connection.execute(_QUEUE_SETTINGS)


def _queue_files(made_by: str | None, installed: str) -> list[tuple[str, str]]:
    """Return (name, SQL) of the files that create procrastinate's schema, or upgrade it from version `made_by`."""
    # Imported here: it takes long, and a database that is up to date does not need it.
    from procrastinate.schema import SchemaManager

    if made_by is None:
        return [("schema.sql", SchemaManager.get_schema())]
    if not _version_numbers(made_by) or _version_numbers(made_by) > _version_numbers(installed):
        raise Misconfigured(
            f"The schema 'queue' was made by procrastinate {made_by or '(unknown)'}, and {installed} is installed. "
            "Install the version of Fieldmark that made it, or a newer one."
        )
    files = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    missing = [file for file in files if _version_numbers(file.name.split("_")[0]) > _version_numbers(made_by)]
    return [(file.name, file.read_text("utf-8")) for file in missing]


def _version_numbers(version: str) -> list[int]:
    """Return the numbers of a version: [3, 4, 0] for both 3.4.0 and 03.04.00."""
    return [int(number) for number in re.findall(r"\d+", version)]


# Indexes for private.enqueue, private.claim_job and the worker's maintenance. Rows come and go here, so vacuum starts
# before a fifth of the table is dead. Procrastinate's functions find their tables whatever the caller's search path is.
_QUEUE_SETTINGS: Final = b"""
create index if not exists fieldmark_next on queue.procrastinate_jobs (queue_name, (-priority), id)
  where status = 'todo';
create index if not exists fieldmark_of_organisation on queue.procrastinate_jobs
  (queue_name, left(lock, 36), (0 - priority)) where status = 'todo';
create index if not exists fieldmark_at_work on queue.procrastinate_jobs (queue_name, (-priority))
  where status = 'doing';
create index if not exists fieldmark_of_lock on queue.procrastinate_jobs (lock, (-priority), id)
  where status = 'todo';
create index if not exists fieldmark_ended on queue.procrastinate_jobs (id)
  where status in ('succeeded', 'failed', 'cancelled', 'aborted');
alter table queue.procrastinate_jobs set (autovacuum_vacuum_scale_factor = 0.02);
alter table queue.procrastinate_events set (autovacuum_vacuum_scale_factor = 0.02);
do $$
declare
  v_function regprocedure;
begin
  for v_function in select oid from pg_proc where pronamespace = 'queue'::regnamespace and proconfig is null loop
    execute format('alter function %s set search_path = queue, pg_catalog, pg_temp', v_function);
  end loop;
end $$;
"""


async def _install_vector_extension(connection: _Connection) -> None:
    """Create the extension pgvector if the server has it and the owner may. Search works without it."""
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile)
    with suppress(*refused):
        async with connection.transaction():
            if await _fetch_value(
                connection,
                "select to_regnamespace('extensions') is not null "
                "and exists (select from pg_available_extensions where name = 'vector')",
            ):
                await connection.execute("create extension if not exists vector schema extensions")


async def _grant(connection: _Connection) -> None:
    """Grant the service's role the queue and read access to the ledger. Revoke temporary tables on every run: a copy of
    a database does not keep that setting."""
    await connection.execute(
        sql.SQL("revoke temporary on database {} from public; ").format(sql.Identifier(connection.info.dbname))
        + sql.SQL(_GRANTS)
    )


_GRANTS: Final = f"""
grant usage on schema queue, supabase_migrations to fieldmark_app;
grant select, insert, update, delete on all tables in schema queue to fieldmark_app;
grant usage, select on all sequences in schema queue to fieldmark_app;
grant execute on all functions in schema queue to fieldmark_app;
alter default privileges in schema queue grant select, insert, update, delete on tables to fieldmark_app;
alter default privileges in schema queue grant usage, select on sequences to fieldmark_app;
alter default privileges in schema queue grant execute on functions to fieldmark_app;
grant select on {_LEDGER} to fieldmark_app;
"""


async def _write_agents(connection: _Connection, agents: Sequence[AgentRow]) -> None:
    """Store the agents declared in code. Agents missing from the code are kept, because their runs refer to them."""
    async with connection.transaction():
        for agent in agents:
            await connection.execute(
                "insert into private.agents (name, approval) values (%s, %s) "
                "on conflict (name) do update set approval = excluded.approval",
                (agent.name, agent.approval),
            )
            for task in agent.tasks:
                await connection.execute(
                    """insert into private.agent_tasks (
                         agent, task, needs, input_needs, input_may_have, is_message, approval, when_read)
                       values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict (agent, task) do update set
                         needs = excluded.needs, input_needs = excluded.input_needs,
                         input_may_have = excluded.input_may_have, is_message = excluded.is_message,
                         approval = excluded.approval, when_read = excluded.when_read""",
                    (
                        agent.name,
                        task.task,
                        list(task.needs),
                        list(task.input_needs),
                        list(task.input_may_have),
                        task.is_message,
                        task.approval,
                        task.when_read,
                    ),
                )


async def _set_allow_anonymous(connection: _Connection, allowed: bool) -> None:
    if await _fetch_value(connection, "select private.allows_anonymous()") != allowed:
        await connection.execute(
            sql.SQL(
                "create or replace function private.allows_anonymous() returns boolean language sql stable "
                "set search_path = pg_catalog, pg_temp as $$ select {} $$"
            ).format(allowed)
        )


async def _set_app_password(connection: _Connection, password: str) -> None:
    # Sent as its SCRAM verifier: statements may be logged.
    verifier = connection.pgconn.encrypt_password(password.encode(), b"fieldmark_app", b"scram-sha-256")
    await connection.execute(sql.SQL("alter role fieldmark_app password {}").format(verifier.decode()))


async def _fetch_value(connection: _Connection, query: str) -> Any:
    row = await (await connection.execute(query.encode())).fetchone()
    return row[0] if row else None
