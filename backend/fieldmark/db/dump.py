"""Dump a whole database and load it into an empty one, with the programs of Postgres.

A dump is independent of the names of roles: the login that loads it owns everything. So the policies that let an owner
without BYPASSRLS act (`private.protect_table`), default privileges and extensions are not loaded, but made again.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fieldmark.db.embedded import postgres_programs
from fieldmark.db.migrate import SHIM_COMMENT
from fieldmark.db.pool import CONNECTION_OPTIONS, libpq_url
from fieldmark.errors import Misconfigured, Unavailable

_Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_CHUNK_BYTES: Final = 8 << 20
_OWNER_POLICY: Final = "definer functions act as the owner"
_DOCUMENTS: Final = """
select count(*), coalesce(encode(sha256(convert_to(string_agg(id::text, '' order by id), 'UTF8')), 'hex'), '')
from public.documents
"""
# Those of extensions, too: to load a dump drops the schema public.
_HAS_TABLES: Final = "select to_regclass('public.documents') is not null"
_RELATIONS: Final = """
select count(*) from pg_class where relnamespace not in (
  select oid from pg_namespace where nspname ~ '^pg_' or nspname = 'information_schema')
"""
_SCHEMAS: Final = "select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'"
_UNREADABLE: Final = """
select c.oid::regclass::text from pg_class c
where c.relrowsecurity and (c.relforcerowsecurity or not pg_has_role(c.relowner, 'usage'))
  and not (select rolsuper or rolbypassrls from pg_roles where rolname = current_user)
  and not exists (
    select from pg_policy cross join unnest(polroles) as role
    where polrelid = c.oid and polname = %s and pg_has_role(role, 'usage'))
limit 1
"""
_USERS: Final = """
select count(*) from pg_stat_activity where datname = current_database() and usename = 'fieldmark_app'
"""
# PostgreSQL 17.12 gives each column this internal option. Its own pg_dump leaves it out; an older one writes a
# statement that other servers refuse. No row can look like it: a dump writes line breaks of values as backslash and n.
_INTERNAL_OPTION: Final = re.compile(rb"(?<=\n)AL(?=TER TABLE ONLY [^;\n]+ SET \(pg_attver=\d+\);\n)")
# A comment on the database, which outlives its schemas: the backup's name follows once the dump is loaded.
_RESTORING: Final = "A backup is being restored into this database: "
_COMMENT: Final = """
select shobj_description(oid, 'pg_database') from pg_database where datname = current_database()
"""
_MAKE_OWNER_POLICIES: Final = f"""
do $$
declare
  v_table regclass;
begin
  if (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
    return;
  end if;
  for v_table in select oid from pg_class where relforcerowsecurity and pg_has_role(relowner, 'usage') loop
    execute format('create policy "{_OWNER_POLICY}" on %s to %I using (true) with check (true)',
      v_table, current_user);
  end loop;
end $$;
"""


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """How many documents a database has, and a SHA-256 of their ids."""

    count: int
    digest: str


class Snapshot:
    """One moment of a database, which `parts` dumps and whose originals `originals` lists."""

    def __init__(self, connection: _Connection, url: str) -> None:
        self._connection = connection
        self._url = url
        self.postgres_major = connection.info.server_version // 10_000
        if not _value(connection, _HAS_TABLES):
            raise Misconfigured(
                "This database has no tables of Fieldmark. Set DATABASE_OWNER_URL to the database of the service."
            )
        self.documents = _documents(connection)
        unreadable = connection.execute(_UNREADABLE, (_OWNER_POLICY,)).fetchone()
        if unreadable is not None:
            raise Misconfigured(
                f"This login cannot read all rows of {unreadable[0]}, so a backup would be incomplete. Set "
                "DATABASE_OWNER_URL to the login that migrated this database, or to one with BYPASSRLS."
            )
        is_ours = _value(connection, "select obj_description(to_regnamespace('auth'), 'pg_namespace')")
        if not str(is_ours).startswith(SHIM_COMMENT):
            raise Misconfigured(
                "This is a database of Supabase, whose own schemas belong to Supabase. Back it up there (Database, "
                "Backups), and its Storage with the Supabase CLI."
            )

    def originals(self) -> Iterator[str]:
        """Yield the stored paths of all files of documents."""
        with self._connection.cursor("originals") as cursor:
            cursor.itersize = 5_000
            cursor.execute(
                "select path from public.documents cross join lateral (values (storage_path), (unlocked_path)) "
                "as files (path) where path is not null order by path"
            )
            for (path,) in cursor:
                yield path

    def parts(self) -> Iterator[bytes]:
        """Yield the dump (pg_dump's custom format) in parts of at most 8 MB. Raise Unavailable if it fails."""
        snapshot = _value(self._connection, "select pg_export_snapshot()")
        command = ["pg_dump", "--format=custom", f"--snapshot={snapshot}", "--enable-row-security"]
        with _program(command, self.postgres_major, self._url, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while chunk := process.stdout.read(_CHUNK_BYTES):
                yield chunk


@contextmanager
def snapshot(owner_url: str) -> Generator[Snapshot]:
    """Open a snapshot of the database that `owner_url` leads to. It holds back vacuum while it is open.

    Raise Misconfigured if the login cannot read everything or the database is Supabase's, Unavailable if it does not
    answer.
    """
    with _connecting(owner_url) as connection:
        connection.execute("set idle_in_transaction_session_timeout = 0")
        connection.execute("set statement_timeout = 0")
        connection.execute("begin isolation level repeatable read, read only")
        yield Snapshot(connection, owner_url)


def missing_documents(owner_url: str, ids: list[str]) -> set[str]:
    """Return those of `ids` that are no documents (any more)."""
    with _connecting(owner_url) as connection:
        kept = connection.execute("select id::text from public.documents where id = any (%s::uuid[])", (ids,))
        return set(ids) - {row[0] for row in kept}


def documents_of(owner_url: str) -> DocumentSet:
    """Return the documents of a database."""
    with _connecting(owner_url) as connection:
        return _documents(connection)


def prepare_load(owner_url: str, *, is_embedded: bool, dumped_by: int) -> None:
    """Mark the database as one to load a dump into: one that is empty, that was marked before, or the embedded one
    without any organisation. `end_load` removes the mark.

    Raise Misconfigured if it is another, in use, or older than version `dumped_by`.
    """
    with _connecting(owner_url) as connection:
        major = connection.info.server_version // 10_000
        if _tools(dumped_by) > _tools(major):
            raise Misconfigured(
                f"The dump is of PostgreSQL {dumped_by}, and this is {major}. Restore it into {dumped_by} or later."
            )
        if not str(_value(connection, _COMMENT)).startswith(_RESTORING):
            if is_embedded:
                used = _value(connection, "select to_regclass('public.organisations') is not null") and _value(
                    connection, "select exists (select from public.organisations)"
                )
            else:
                used = _value(connection, _RELATIONS)
            if used:
                raise Misconfigured(
                    "A backup can only be restored into an empty database, and this one has data. "
                    + (
                        "Set FIELDMARK_HOME to a new folder."
                        if is_embedded
                        else "Create an empty one and set DATABASE_URL and DATABASE_OWNER_URL to it."
                    )
                )
        if _value(connection, _USERS):
            raise Misconfigured("A Fieldmark process uses this database. Stop it, then restore.")
        _set_comment(connection, _RESTORING)


def is_loaded(owner_url: str, backup: str) -> bool:
    """Return whether the database of this backup is loaded, and `end_load` was not called yet."""
    with _connecting(owner_url) as connection:
        return _value(connection, _COMMENT) == _RESTORING + backup


def end_load(owner_url: str) -> None:
    """Remove the mark: from now on the database is one in use."""
    with _connecting(owner_url) as connection:
        _set_comment(connection, None)


def load(owner_url: str, chunks: Iterator[bytes], backup: str = "") -> None:
    """Load a dump in one transaction, in place of the schemas that `migrate` has just made (which also made the roles).

    `migrate` must follow. Raise Misconfigured if Postgres refuses the dump; then nothing was loaded.
    """
    first = _INTERNAL_OPTION.sub(b"--", next(chunks, b""))  # a comment of the same length: the file has offsets
    with _connecting(owner_url) as connection:
        major = connection.info.server_version // 10_000
        for (publication,) in connection.execute("select pubname from pg_publication").fetchall():
            connection.execute(sql.SQL("drop publication {}").format(sql.Identifier(publication)))
        for (schema,) in connection.execute(_SCHEMAS).fetchall():
            connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))
        connection.execute("create schema public; grant usage on schema public to public")
    with tempfile.TemporaryDirectory(prefix="fieldmark-restore-") as folder:
        entries = Path(folder) / "entries"
        entries.write_bytes(_entries(first, major))
        command = ["pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", f"--use-list={entries}"]
        with _program(command, major, owner_url, stdin=subprocess.PIPE) as process:
            _feed(process, first, chunks)
    with _connecting(owner_url) as connection:
        connection.execute(_MAKE_OWNER_POLICIES)
        # So that the next migration makes again what belongs to the owner's role, such as default privileges.
        connection.execute(sql.SQL("comment on schema auth is {}").format(f"{SHIM_COMMENT}restored"))
        _set_comment(connection, _RESTORING + backup)


def check_dump(chunks: Iterator[bytes]) -> None:
    """Read a dump to its end without a database. Raise Misconfigured if it is damaged."""
    with _program(["pg_restore", f"--file={os.devnull}"], 18, None, stdin=subprocess.PIPE) as process:
        _feed(process, b"", chunks)


def delete_documents(owner_url: str, ids: list[str]) -> None:
    """Delete documents with all that belongs to them."""
    with _connecting(owner_url) as connection:
        connection.execute("delete from public.documents where id = any (%s::uuid[])", (ids,))


def _entries(first: bytes, major: int) -> bytes:
    """Return what to load of a dump, as pg_restore lists it: its head has the table of contents."""
    listed = subprocess.run(
        [postgres_programs(_tools(major)) / "pg_restore", "--list"], input=first, capture_output=True, check=False
    )
    if listed.returncode:
        raise Misconfigured(f"The dump cannot be read: {_last_line(listed.stderr)}")
    skipped = (b" DEFAULT ACL ", b" EXTENSION ", _OWNER_POLICY.encode())
    return b"".join(
        line for line in listed.stdout.splitlines(keepends=True) if not any(text in line for text in skipped)
    )


def _feed(process: subprocess.Popen[bytes], first: bytes, chunks: Iterator[bytes]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(first)
        for chunk in chunks:
            process.stdin.write(chunk)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it says why when it ends
    except BaseException:
        process.kill()  # before its input ends, which would commit
        raise


@contextmanager
def _program(command: list[str], major: int, url: str | None, **streams: int) -> Generator[subprocess.Popen[bytes]]:
    """Run a program of Postgres, logged in with `url`. Raise Misconfigured with its last line if it fails."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # not the caller's: PGOPTIONS and others name another server
    if url is not None:
        login = conninfo_to_dict(libpq_url(url)[0])
        password = login.pop("password", None)
        if password is not None:
            environment["PGPASSWORD"] = str(password)  # arguments can be seen by other users
        command = [*command, f"--dbname={make_conninfo('', **login)}"]
    program, *arguments = command
    path = postgres_programs(_tools(major)) / program
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen[bytes]([path, *arguments], env=environment, stderr=errors, **_streams(streams))
        try:
            yield process
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        if process.wait():
            errors.seek(0)
            raise Misconfigured(f"{program} failed: {_last_line(errors.read())}")


def _streams(streams: dict[str, int]) -> dict[str, Any]:
    return {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **streams}


def _tools(major: int) -> int:
    """Return the version of the programs for a server: the oldest that may dump it, so that the same may load it."""
    if major > 18:
        raise Misconfigured(f"The programs of PostgreSQL 18 cannot dump a server of version {major}. Use its pg_dump.")
    return 16 if major <= 16 else 18


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if "error:" in line]
    return (errors or lines or ["it did not say why"])[-1][:500]


@contextmanager
def _connecting(url: str) -> Generator[_Connection]:
    try:
        with psycopg.connect(libpq_url(url)[0], autocommit=True, prepare_threshold=None, **CONNECTION_OPTIONS) as conn:
            yield conn
    except psycopg.OperationalError as error:
        raise Unavailable(f"The database does not answer: {str(error).strip()}") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"DATABASE_OWNER_URL logs in as a role without the rights: {error.diag.message_primary}"
        ) from error


def _documents(connection: _Connection) -> DocumentSet:
    row = connection.execute(_DOCUMENTS).fetchone()
    assert row is not None
    return DocumentSet(*row)


def _set_comment(connection: _Connection, text: str | None) -> None:
    name = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("comment on database {} is {}").format(name, text))


def _value(connection: _Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None
