"""Migrations: applied once and whole, named by file and line when they fail, in step with the Supabase CLI's ledger."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from fieldmark.db.embedded import EmbeddedServer
from fieldmark.db.migrate import migrate, pending_migrations
from fieldmark.db.pool import Database
from fieldmark.errors import Misconfigured, Unavailable
from running_server import Clone

pytestmark = pytest.mark.anyio

_ROLE = """
do $$ begin
  create role fieldmark_app login noinherit;
exception when duplicate_object or unique_violation then null;
end $$;
create schema queue;
"""
_FIRST, _SECOND = "20260101000000_roles.sql", "20260102000000_things.sql"


@pytest.fixture
def empty(postgres: EmbeddedServer) -> Iterator[str]:
    """Return the owner's URL of an empty database."""
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        yield urlsplit(postgres.owner_url)._replace(path=f"/{name}").geturl()
        connection.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / _FIRST).write_text(_ROLE)
    return tmp_path


def _ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


async def test_migrations_create_what_the_service_needs(clone: Clone) -> None:
    assert await migrate(clone.owner_url) == []  # the template has them all
    assert await pending_migrations(clone.app_url) == []
    async with Database(clone.app_url) as database:
        async with database.as_service() as connection:
            await connection.execute("set local search_path = queue")
            for query in (
                "select * from procrastinate_register_worker_v1()",
                "select procrastinate_prune_stalled_workers_v1(1)",
                "insert into procrastinate_jobs (queue_name, task_name) values ('q', 't')",
                "select * from procrastinate_fetch_job_v2(array['q'], 1)",
                "delete from procrastinate_jobs",
            ):
                await connection.execute(query.encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with database.as_service() as connection:
                await connection.execute("delete from supabase_migrations.schema_migrations")


async def test_only_the_owner_can_take_the_migration_lock(clone: Clone) -> None:
    ledger = "supabase_migrations.schema_migrations"
    with psycopg.connect(clone.app_url) as member:
        member.execute("select pg_advisory_lock(%s)", [0x6669656C64])  # any that could be guessed, or read in pg_locks
        member.execute(f"lock table {ledger} in access share mode".encode())  # it may read it
        await asyncio.wait_for(migrate(clone.owner_url), 60)
        for role in ("fieldmark_app", "authenticated"):
            member.rollback()
            member.execute(f"set role {role}".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                member.execute(f"lock table {ledger} in share update exclusive mode nowait".encode())
    with psycopg.connect(clone.owner_url) as owner:
        owner.execute(f"lock table {ledger} in share update exclusive mode".encode())
        waiting = asyncio.create_task(migrate(clone.owner_url))
        await asyncio.wait({waiting}, timeout=1)
        assert not waiting.done()
        owner.rollback()
        await waiting
        owner.execute(f"lock table {ledger} in share update exclusive mode".encode())
        with pytest.raises(Unavailable, match=f"pid {owner.info.backend_pid}"):
            await migrate(clone.owner_url, lock_seconds=1)


async def test_lock_on_a_changed_table_ends_the_migration(empty: str, folder: Path) -> None:
    (folder / _SECOND).write_text("create table public.a (id int);\n")
    await migrate(empty, folder=folder)
    (folder / "20260103000000_more.sql").write_text("alter table public.a add column b int;\n")
    with psycopg.connect(empty) as reader:
        reader.execute("select from public.a")
        with pytest.raises(Unavailable, match="locked its tables for 1 seconds"):
            await migrate(empty, folder=folder, lock_seconds=1)
    assert await migrate(empty, folder=folder, lock_seconds=1) == ["20260103000000_more.sql"]


async def test_database_that_is_not_utf8_is_refused(postgres: EmbeddedServer, clone: Clone, folder: Path) -> None:
    name = f"ascii_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        connection.execute(f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0".encode())
        try:
            for url in (postgres.owner_url, clone.app_url):
                other = urlsplit(url)._replace(path=f"/{name}").geturl()
                with pytest.raises(Misconfigured, match="SQL_ASCII"):
                    if url == clone.app_url:
                        async with Database(other):
                            pass
                    else:
                        await migrate(other, folder=folder)
        finally:
            connection.execute(f"drop database {name} with (force)".encode())


async def test_files_are_applied_in_order_and_once(empty: str, folder: Path) -> None:
    (folder / _SECOND).write_text("create table public.a (id int);\ninsert into public.a values (1); -- the end\n")
    assert await pending_migrations(empty, folder) == [_FIRST, _SECOND, "queue"]
    assert await migrate(empty, folder=folder) == [_FIRST, _SECOND]
    assert await migrate(empty, folder=folder) == []
    assert await pending_migrations(empty, folder) == []
    third = "20260103000000_more.sql"
    (folder / third).write_text("insert into public.a select id + 1 from public.a")
    assert await pending_migrations(empty, folder) == [third]
    assert await migrate(empty, folder=folder) == [third]
    assert _ask(empty, "select array_agg(id order by id) from public.a") == [1, 2]


@pytest.mark.parametrize(
    ("name", "works"),
    [
        ("fieldmark_99_1_0_adds_a_table", True),
        ("fieldmark_99_1_0_needs_0_1_0_drops_a_column", True),
        ("fieldmark_99_1_0_needs_99_0_0_drops_a_column", False),
        ("of_the_application_itself", True),
    ],
)
async def test_version_works_with_a_newer_database_unless_a_migration_needs_a_later_one(
    empty: str, folder: Path, name: str, works: bool
) -> None:
    newer = folder / f"20990101000000_{name}.sql"
    newer.write_text("create table public.newer (id int);\n")
    await migrate(empty, folder=folder)
    newer.unlink()
    if works:
        assert await migrate(empty, folder=folder) == await pending_migrations(empty, folder) == []
        return
    for work in (migrate(empty, folder=folder), pending_migrations(empty, folder)):
        with pytest.raises(Misconfigured, match=r"now needs 99\.0\.0"):
            await work


async def test_migration_of_the_application_does_not_keep_ours_from_being_applied(empty: str, folder: Path) -> None:
    other = folder / "20990101000000_of_the_application.sql"
    other.write_text("create table public.other (id int);\n")
    await migrate(empty, folder=folder)
    other.unlink()
    (folder / _SECOND).write_text("create table public.a (id int);\n")
    assert await migrate(empty, folder=folder) == [_SECOND]


def test_released_migrations_are_named_by_their_release() -> None:
    files = sorted(file.name for file in (Path(__file__).parents[2] / "migrations").glob("*.sql"))
    assert all(re.match(r"\d{14}_fieldmark_\d+_\d+_\d+_", name) for name in files[1:])


async def test_ledger_is_that_of_the_supabase_cli(empty: str, folder: Path) -> None:
    (folder / _SECOND).write_text("-- why\ncreate table public.a (id int);\n\ninsert into public.a values (1);\n")
    await migrate(empty, folder=folder)
    columns = _ask(
        empty,
        "select array_agg(column_name || ' ' || data_type || ' ' || is_nullable order by ordinal_position)"
        " from information_schema.columns where table_schema = 'supabase_migrations'",
    )
    assert columns == ["version text NO", "statements ARRAY YES", "name text YES"]
    row = "select to_jsonb(m) from supabase_migrations.schema_migrations m where version = '20260102000000'"
    assert _ask(empty, row) == {
        "version": "20260102000000",
        "name": "things",
        "statements": ["-- why\ncreate table public.a (id int);\n\ninsert into public.a values (1);\n"],
    }


async def test_migrations_applied_by_the_supabase_cli_are_not_repeated(empty: str, folder: Path) -> None:
    (folder / _SECOND).write_text("create table public.a (id int); -- one\ncreate table public.b (id int);\n")
    with psycopg.connect(empty) as cli:
        cli.execute(_ROLE.encode())
        cli.execute(
            """create table public.a (id int); create table public.b (id int); create schema supabase_migrations;
               create table supabase_migrations.schema_migrations
                 (version text not null primary key, statements text[], name text);
               insert into supabase_migrations.schema_migrations values ('20260101000000', null, 'roles'),
                 ('20260102000000',
                   array['create table public.a (id int)', E'-- one\\ncreate table public.b (id int)'], 'things')"""
        )
    assert await pending_migrations(empty, folder) == ["queue"]
    assert await migrate(empty, folder=folder) == []
    assert await pending_migrations(empty, folder) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("create table public.a (id int);\n\n\nselect nothing\n  from nowhere;\n", ":5"),
        ("create table public.a (id int);\nselect 1 / 0;", ""),  # Postgres names no line of what fails as it runs
        ("create table public.a (id int);\ncommit;\nselect 1;", ""),
    ],
)
async def test_failing_file_is_rolled_back_and_reported_with_its_line(
    empty: str, folder: Path, text: str, line: str
) -> None:
    bad = "20260103000000_bad.sql"
    (folder / _SECOND).write_text("create table public.good (id int);")
    (folder / bad).write_text(text)
    with pytest.raises(Misconfigured, match=rf"^{bad}{line}: "):
        await migrate(empty, folder=folder)
    assert await pending_migrations(empty, folder) == [bad, "queue"]  # what came before it stays
    assert _ask(empty, "select to_regclass('public.good')::text") == "good"
    if "commit" not in text:
        assert _ask(empty, "select to_regclass('public.a')") is None
    (folder / bad).write_text("create table if not exists public.a (id int);")
    assert await migrate(empty, folder=folder) == [bad]


async def test_file_changed_after_it_was_applied_is_reported(empty: str, folder: Path) -> None:
    file = folder / _SECOND
    file.write_text("create table public.a (id int); -- a table\nselect 'one';\n")
    await migrate(empty, folder=folder)
    file.write_text("/* said otherwise */ create table public.a\n  (id int);\nselect 'one'")
    assert await migrate(empty, folder=folder) == []
    file.write_text("create table public.a (id int);\nselect 'two';\n")
    with pytest.raises(Misconfigured, match=f"{_SECOND} was changed after it was applied"):
        await migrate(empty, folder=folder)


async def test_concurrent_migrations_wait_for_each_other(empty: str, folder: Path) -> None:
    (folder / _SECOND).write_text("select pg_sleep(0.2);\ncreate table public.a (id int);\n")
    results = await asyncio.gather(*(migrate(empty, folder=folder) for _ in range(4)))
    assert sorted(results) == [[], [], [], [_FIRST, _SECOND]]


@pytest.mark.parametrize("name", ["2026_short.sql", "20260102000000 things.sql", "20260101000000_twice.sql"])
async def test_misnamed_file_and_duplicate_version_are_rejected(empty: str, folder: Path, name: str) -> None:
    (folder / name).write_text("select 1")
    with pytest.raises(Misconfigured, match=name):
        await migrate(empty, folder=folder)


async def test_pooler_and_unreachable_server_are_reported_in_one_sentence(folder: Path) -> None:
    with pytest.raises(Misconfigured, match="transaction pooler"):
        await migrate("postgresql://owner@127.0.0.1:6543/d", folder=folder)
    with pytest.raises(Unavailable, match="cannot be migrated"):
        await migrate("postgresql://owner:s3cret@127.0.0.1:1/d", folder=folder)


# --- around the migrations


async def test_service_role_gets_its_password(postgres: EmbeddedServer, clone: Clone, empty: str, folder: Path) -> None:
    # The one that it has: the role is the whole server's, and other tests log in meanwhile. Its salt is another.
    query = "select rolpassword from pg_authid where rolname = 'fieldmark_app'"
    before = _ask(clone.owner_url, query)
    await migrate(empty, app_password=postgres.app_password, folder=folder)
    stored = str(_ask(empty, query))
    assert stored.startswith("SCRAM-SHA-256$") and stored != before
    assert _ask(clone.app_url, "select current_user::text") == "fieldmark_app"


async def test_temporary_objects_are_forbidden_also_in_a_copied_database(
    postgres: EmbeddedServer, empty: str, folder: Path
) -> None:
    """Privileges on a database are not copied with it, so each migration revokes them."""
    right = "select has_database_privilege('fieldmark_app', current_database(), 'temporary')"
    await migrate(empty)
    assert _ask(empty, right) is False
    copy = f"copy_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        connection.execute(f"create database {copy} template {urlsplit(empty).path[1:]}".encode())
        try:
            url = urlsplit(empty)._replace(path=f"/{copy}").geturl()
            assert _ask(url, right) is True
            assert await migrate(url) == []
            assert _ask(url, right) is False
        finally:
            connection.execute(f"drop database {copy} with (force)".encode())


async def test_older_queue_is_upgraded_and_newer_queue_is_rejected(empty: str, folder: Path) -> None:
    await migrate(empty, folder=folder)
    installed = f"procrastinate {importlib.metadata.version('procrastinate')}"
    mark = "select obj_description('queue'::regnamespace)"
    assert _ask(empty, mark) == installed
    functions = (
        "select array_agg(md5(prosrc) order by oid::regprocedure::text) from pg_proc where proname ~ 'retry_job'"
    )
    made = _ask(empty, functions)
    with psycopg.connect(empty) as owner:  # as 3.3.0 leaves it
        owner.execute(
            """drop function queue.procrastinate_retry_job_v2;
               alter type queue.procrastinate_job_event_type rename value 'retried' to 'unknown';
               comment on schema queue is 'procrastinate 3.3.0'"""
        )
    assert await pending_migrations(empty, folder) == ["queue"]
    await migrate(empty, folder=folder)
    assert (_ask(empty, functions), _ask(empty, mark)) == (made, installed)
    assert await pending_migrations(empty, folder) == []
    for other in ("procrastinate 99.1", "unknown"):
        with psycopg.connect(empty) as owner:
            owner.execute(f"comment on schema queue is '{other}'".encode())
        with pytest.raises(Misconfigured):
            await migrate(empty, folder=folder)
        assert _ask(empty, mark) == other


async def test_only_the_owner_adds_users_and_claims_are_read_as_on_supabase(clone: Clone, database: Database) -> None:
    user = uuid4()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with database.as_user_without_org(user) as connection:
            await connection.execute("select auth.know_user(%s)", [user])
    with psycopg.connect(clone.owner_url) as owner:
        for _ in range(2):
            owner.execute("select auth.know_user(%s)", [user])
        assert owner.execute("select count(*) from auth.users where id = %s", [user]).fetchone() == (1,)
        who = "select auth.uid(), auth.role(), auth.email(), auth.jwt() ->> 'sub'"
        assert owner.execute(who).fetchone() == (None, None, None, None)
        claims = f'{{"sub": "{user}", "role": "authenticated", "email": "a@example.org"}}'
        owner.execute("select set_config('request.jwt.claims', %s, true)", [claims])
        assert owner.execute(who).fetchone() == (user, "authenticated", "a@example.org", str(user))
        folders = owner.execute("select storage.foldername('a/b/c.pdf'), storage.foldername('c.pdf')").fetchone()
        assert folders == (["a", "b"], [])


async def test_shim_changes_nothing_on_supabase(empty: str, folder: Path) -> None:
    with psycopg.connect(empty) as supabase:
        supabase.execute("create schema auth; create table auth.users (id uuid primary key)")
    await migrate(empty, folder=folder)
    assert _ask(empty, "select to_regprocedure('auth.know_user(uuid)')") is None
    assert _ask(empty, "select to_regnamespace('storage')") is None
