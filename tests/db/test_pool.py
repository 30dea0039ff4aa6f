"""Transactions act as a user or the service, leave nothing behind, and report an unavailable database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from extraction_case import sql as rows
from extraction_case import until
from fieldmark.db.pool import Connection, Database, libpq_url
from fieldmark.errors import Invalid, Misconfigured, TooManyAtOnce, Unavailable
from fieldmark.identity.scope import Scope
from running_server import Clone

pytestmark = pytest.mark.anyio
MakeUser = Callable[[], Awaitable[Scope]]


async def _fetch_row(connection: Connection, query: str) -> dict[str, object]:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return row


async def test_user_transaction_has_the_role_and_claims_of_its_scope(database: Database) -> None:
    scope = Scope(uuid4(), uuid4())
    async with database.as_user(scope) as connection:
        row = await _fetch_row(
            connection,
            "select current_user::text as role, session_user::text as login, auth.uid() as uid, auth.jwt() as jwt",
        )
    assert row == {
        "role": "authenticated",
        "login": "fieldmark_app",
        "uid": scope.user_id,
        "jwt": {"sub": str(scope.user_id), "role": "authenticated", "org_id": str(scope.org_id)},
    }


async def test_next_transaction_has_nothing_of_the_previous_user(clone: Clone) -> None:
    async with Database(clone.app_url, size=1) as database:  # one connection: the next borrower gets the same
        async with database.as_user(Scope(uuid4(), uuid4())) as connection:
            first = await _fetch_row(connection, "select pg_backend_pid() as pid")
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with database.as_user(Scope(uuid4(), uuid4())) as connection:
                await connection.execute("select 1 / 0")
        async with database.as_service() as connection:
            row = await _fetch_row(
                connection,
                "select pg_backend_pid() as pid, current_user::text as role,"
                " nullif(current_setting('request.jwt.claims', true), '') as claims",
            )
    assert row == {**first, "role": "fieldmark_app", "claims": None}


async def test_block_commits_unless_it_raises(clone: Clone, database: Database, make_user: MakeUser) -> None:
    scope = await make_user()
    async with database.as_user(scope) as connection:
        await connection.execute("update public.organisations set name = 'kept'")
    with pytest.raises(ZeroDivisionError):
        async with database.as_user(scope) as connection:
            await connection.execute("update public.organisations set name = 'lost'")
            raise ZeroDivisionError
    task = asyncio.create_task(_rename_and_wait(database, scope))
    sleeping = "select 1 from pg_stat_activity where datname = current_database() and query = 'select pg_sleep(600)'"
    await until(lambda: rows(clone.owner_url, sleeping))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.as_user(scope) as connection:
        assert await _fetch_row(connection, "select name from public.organisations") == {"name": "kept"}


async def _rename_and_wait(database: Database, scope: Scope) -> None:
    async with database.as_user(scope) as connection:
        await connection.execute("update public.organisations set name = 'cancelled'")
        await connection.execute("select pg_sleep(600)")


async def test_user_id_cannot_inject_sql_or_claims(database: Database) -> None:
    hostile = '\'; reset role; select \'","role":"service_role'
    async with database.as_user(Scope(hostile, uuid4())) as connection:  # pyright: ignore[reportArgumentType]
        row = await _fetch_row(
            connection, "select current_user::text as role, current_setting('request.jwt.claims') as claims"
        )
    assert row["role"] == "authenticated"
    claims = json.loads(str(row["claims"]))
    assert (claims["sub"], claims["role"]) == (hostile, "authenticated")


@pytest.mark.parametrize("is_single", [False, True])
async def test_connections_lost_while_idle_are_replaced(clone: Clone, is_single: bool) -> None:
    query = "select pg_backend_pid() as pid"
    async with Database(clone.app_url, size=3) as database:
        async with database.as_service() as a, database.as_service() as b, database.as_service() as c:
            pids = [(await _fetch_row(each, query))["pid"] for each in (a, b, c)]
        async with await psycopg.AsyncConnection.connect(clone.owner_url, autocommit=True) as owner:
            await owner.execute("select pg_terminate_backend(pid, 5000) from unnest(%s::int[]) as pid", [pids])
        if is_single:
            row = await database.once(lambda connection: _fetch_row(connection, query))
        else:
            async with database.as_service() as connection:
                row = await _fetch_row(connection, query)
        assert row["pid"] not in pids


async def test_single_statement_is_a_transaction_of_the_service(clone: Clone) -> None:
    async with Database(clone.app_url, size=1) as database:
        async with database.as_user(Scope(uuid4(), uuid4())):
            pass
        query = "select current_user::text as role, set_config('lock_timeout', '7s', true) as setting"
        assert await database.once(lambda conn: _fetch_row(conn, query)) == {"role": "fieldmark_app", "setting": "7s"}
        query = "select current_setting('lock_timeout') as setting"
        assert await database.once(lambda conn: _fetch_row(conn, query)) == {"setting": "0"}
        with pytest.raises(Invalid):
            await database.once(lambda conn: conn.execute("select %s", ("\0",)))


async def test_connection_lost_in_a_transaction_raises_unavailable(clone: Clone, database: Database) -> None:
    with pytest.raises(Unavailable):
        async with database.as_service() as connection:
            row = await _fetch_row(connection, "select pg_backend_pid() as pid")
            async with await psycopg.AsyncConnection.connect(clone.owner_url, autocommit=True) as owner:
                await owner.execute("select pg_terminate_backend(%s, 5000)", [row["pid"]])
            await connection.execute("select 1")


async def test_write_to_a_read_only_database_raises_unavailable(
    clone: Clone, database: Database, make_user: MakeUser
) -> None:
    scope, name = await make_user(), sql.Identifier(libpq_url(clone.owner_url)[0].partition("?")[0].rsplit("/", 1)[1])
    with psycopg.connect(clone.owner_url, autocommit=True) as owner:
        owner.execute(sql.SQL("alter database {} set default_transaction_read_only = on").format(name))
    async with Database(clone.app_url) as read_only:  # a setting of the database holds for new sessions
        async with read_only.as_user(scope) as connection:
            assert await _fetch_row(connection, "select count(*) as n from public.organisations") == {"n": 1}
        with pytest.raises(Unavailable, match="read-only"):
            async with read_only.as_user(scope) as connection:
                await connection.execute("update public.organisations set name = 'other'")
    async with database.as_user(scope) as connection:
        await connection.execute("update public.organisations set name = 'other'")


async def test_failing_statement_is_not_unavailable(database: Database) -> None:
    with pytest.raises(psycopg.errors.TooManyColumns):  # an OperationalError, as a lost connection is
        async with database.as_service() as connection:
            await connection.execute(b"select " + b", ".join([b"1"] * 1_665))


async def test_connection_error_does_not_contain_the_password(clone: Clone) -> None:
    for url, reason in (
        ("postgresql://someone:s3cret@127.0.0.1:1/none", "cannot be reached"),
        (clone.app_url.replace("fieldmark_app:", "fieldmark_app:s3cret"), "password authentication failed"),
    ):
        with pytest.raises(Unavailable, match=reason) as caught:
            async with Database(url):
                pass
        assert "s3cret" not in str(caught.value)
    with pytest.raises(Misconfigured) as refused:
        Database("postgresql://u:s3cret@h:port/d?no_such_thing=1")
    assert "s3cret" not in str(refused.value)


# --- who may log in


async def test_owner_login_is_rejected(clone: Clone) -> None:
    async with Database(clone.owner_url) as database:
        with pytest.raises(Misconfigured, match="'postgres', which is a superuser"):
            await database.check_role()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("alter role {} bypassrls", "has BYPASSRLS"),
        ("alter role {} createrole", "has CREATEROLE"),
        ("grant service_role to {}", "member of 'service_role'"),
        ("grant authenticator to {}", "member of 'service_role'"),  # through another role
        ("grant pg_write_server_files to {}", "member of 'pg_write_server_files'"),
        ("alter table public.documents owner to {}", "owns 'public.documents'"),
        ("alter schema private owner to {}", "owns 'schema private'"),
        ("revoke authenticated from {}", "may not act as 'authenticated'"),
    ],
)
async def test_login_that_bypasses_policies_is_rejected(clone: Clone, made: str, said: str) -> None:
    role = f"probe_{uuid4().hex}"
    name = sql.Identifier(role)
    with psycopg.connect(clone.owner_url, autocommit=True) as owner:
        owner.execute(
            sql.SQL("create role {} login noinherit password 'probe'; grant authenticated to {}").format(name, name)
        )
        url = clone.app_url.replace("fieldmark_app:", f"{role}:").replace(_password(clone.app_url), "probe")
        try:
            async with Database(url) as database:
                await database.check_role()  # the control: before it is made strong, it is accepted
                owner.execute(sql.SQL(made).format(name))  # pyright: ignore[reportArgumentType]
                with pytest.raises(Misconfigured, match=said):
                    await database.check_role()
        finally:
            owner.execute(
                sql.SQL("reassign owned by {} to postgres; drop owned by {}; drop role {}").format(name, name, name)
            )


def _password(url: str) -> str:
    return url.split("://", 1)[1].split("@", 1)[0].split(":", 1)[1]


# --- poolers


@pytest.mark.parametrize(
    ("url", "plain", "pooled"),
    [
        ("postgresql://u:p@h:5432/d", "postgresql://u:p@h:5432/d", False),
        ("postgresql://u:p@h:6543/d", "postgresql://u:p@h:6543/d", True),
        ("postgres://u:p@h/d?pgbouncer=true&sslmode=require", "postgres://u:p@h/d?sslmode=require", True),
        ("postgresql://u:p@h/d?pgbouncer=false", "postgresql://u:p@h/d", False),
        ("host=h port=6543", "host=h port=6543", True),
    ],
)
async def test_transaction_pooler_is_recognised_by_its_url(url: str, plain: str, pooled: bool) -> None:
    assert libpq_url(url) == (plain, pooled)


async def test_statements_are_not_prepared_with_a_pooler(clone: Clone) -> None:
    async with Database(f"{clone.app_url}&pgbouncer=true", clone.app_url) as database:
        for _ in range(8):  # past psycopg's threshold for preparing a statement
            async with database.as_service() as connection:
                row = await _fetch_row(connection, "select count(*) as prepared from pg_prepared_statements")
        assert row == {"prepared": 0}


@pytest.mark.parametrize("whose", ["user", "service"])
async def test_locks_of_a_lost_client_are_released(clone: Clone, database: Database, whose: str) -> None:
    door = database.as_user(Scope(uuid4(), uuid4())) if whose == "user" else database.as_service()
    with pytest.raises(Unavailable, match="abandoned"):
        async with door as connection:
            row = await _fetch_row(
                connection,
                "select pg_backend_pid() as pid, current_setting('idle_in_transaction_session_timeout') as longest",
            )
            assert row["longest"] == "15s"
            await connection.execute("set local idle_in_transaction_session_timeout = '100ms'")
            # Not a word, as from a machine without power.
            await until(lambda: not rows(clone.owner_url, "select 1 from pg_stat_activity where pid = %s", row["pid"]))
            await connection.execute("select 1")


async def test_one_organisation_cannot_use_all_connections(clone: Clone) -> None:
    loud, quiet = Scope(uuid4(), uuid4()), Scope(uuid4(), uuid4())
    async with Database(clone.app_url, size=4, wait_seconds=0.2) as database:
        go, held = asyncio.Event(), 0

        async def hold() -> None:
            nonlocal held
            async with database.as_user(loud) as connection:
                await connection.execute("select 1")
                held += 1
                await go.wait()

        holding = [asyncio.create_task(hold()) for _ in range(10)]
        done, _ = await asyncio.wait(holding, timeout=1)
        assert held == 2 and len(done) == 8
        assert {type(one.exception()) for one in done} == {TooManyAtOnce}
        async with database.as_user(quiet) as one, database.as_user(Scope(quiet.user_id, uuid4())) as other:
            assert (await _fetch_row(one, "select 1 as n"), await _fetch_row(other, "select 2 as n")) == (
                {"n": 1},
                {"n": 2},
            )
        go.set()
        await asyncio.wait(holding)
        async with database.as_user(loud), database.as_user(loud):
            pass


async def test_lock_wait_has_a_time_limit(clone: Clone, database: Database) -> None:
    settings = (
        "select current_setting('lock_timeout') as lock, current_setting(%s) as idle, "
        "current_setting('statement_timeout') as statement"
    )
    name = "idle_in_transaction_session_timeout"
    async with database.as_user(Scope(uuid4(), uuid4())) as connection:
        row = await (await connection.execute(settings, [name])).fetchone()
    assert row == {"lock": "20s", "idle": "15s", "statement": "1min"}
    # PostgREST sets for a transaction what is set for the role that it becomes.
    roles = rows(clone.owner_url, "select rolname, rolconfig from pg_roles where rolname in ('anon', 'authenticated')")
    assert len(roles) == 2
    limits = {"lock_timeout=5s", f"{name}=15s", "statement_timeout=8s"}
    assert all(limits <= set(role["rolconfig"]) for role in roles)


async def test_held_lock_raises_unavailable(clone: Clone, database: Database, make_user: MakeUser) -> None:
    scope = await make_user()
    async with await psycopg.AsyncConnection.connect(clone.owner_url) as owner:
        await owner.execute("select from organisations for update")
        with pytest.raises(Unavailable):
            async with database.as_user(scope) as connection:
                await connection.execute("set local lock_timeout = '50ms'")
                await connection.execute("update organisations set name = 'x'")
    # So is an answer that takes too long.
    with pytest.raises(Unavailable):
        async with database.as_user(scope) as connection:
            await connection.execute("set local statement_timeout = '50ms'")
            await connection.execute("select pg_sleep(60)")
