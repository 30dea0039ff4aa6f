"""A managed Postgres, where the owner may make roles and databases and is bound by row policies itself."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from doors import Doors, House, furnish
from editing import Editing
from matrix import ACTORS, CALLS, CASES, outcome

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate

# One worker, so one server.
pytestmark = pytest.mark.xdist_group("ordinary owner")


@pytest.fixture(scope="module")
def ordinary(postgres_major: int) -> Iterator[Doors]:
    """A server of its own, because the roles, too, must be made by the ordinary owner and by nobody else."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-owner-", dir=place) as home,
        embedded_postgres(Path(home), postgres_major) as server,
    ):
        with psycopg.connect(server.owner_url, autocommit=True) as superuser:
            superuser.execute("create role keeper login createrole createdb password 'keeper'")
        port = urlsplit(server.owner_url).port
        at = f"postgresql://keeper:keeper@127.0.0.1:{port}"
        with psycopg.connect(f"{at}/postgres", autocommit=True) as keeper:
            keeper.execute("create database kept")
        asyncio.run(migrate(f"{at}/kept", app_password=server.app_password, agents=agent_rows()))
        with (
            psycopg.connect(f"{at}/kept", autocommit=True) as owner,
            psycopg.connect(urlsplit(server.owner_url)._replace(path="/kept").geturl(), autocommit=True) as rest,
            psycopg.connect(urlsplit(server.app_url)._replace(path="/kept").geturl(), autocommit=True) as app,
        ):
            rest.execute("set session authorization authenticator")
            yield Doors(owner, rest, app)


@pytest.fixture(scope="module")
def kept(ordinary: Doors) -> House:
    return furnish(ordinary.owner)


def test_table_owner_is_bound_by_row_policies(ordinary: Doors) -> None:
    """Else the tests below would show nothing new."""
    roles = ordinary.owner.execute(
        "select rolname, rolsuper, rolbypassrls from pg_roles where rolname in (current_user, 'fieldmark_app', "
        "'authenticated', 'authenticator', 'anon') order by 1"
    ).fetchall()
    assert roles == [
        (name, False, False) for name in ("anon", "authenticated", "authenticator", "fieldmark_app", "keeper")
    ]
    owned = ordinary.owner.execute(
        "select count(*) > 8, bool_and(relforcerowsecurity), bool_and(pg_get_userbyid(relowner) = 'keeper') "
        "from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
    ).fetchone()
    assert owned == (True, True, True)


@pytest.mark.parametrize("actor", ACTORS)
def test_matrix_holds_for_an_owner_without_bypassrls(ordinary: Doors, kept: House, actor: str) -> None:
    cases = CASES + CALLS
    can = {str(case) for case in cases if outcome(ordinary, kept, actor, case)}
    assert can == {str(case) for case in cases if actor in case.can}


def test_owner_policy_applies_to_the_owner_only(ordinary: Doors) -> None:
    rows = ordinary.owner.execute(
        "select tablename, cmd, roles::text from pg_policies "
        "where schemaname = 'public' and roles <> '{authenticated}' order by 1"
    ).fetchall()
    tables = ordinary.owner.execute(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1"
    ).fetchall()
    assert rows == [(table, "ALL", "{keeper}") for (table,) in tables]


def test_triggers_run_as_the_owner(ordinary: Doors, kept: House) -> None:
    """The journal is written, and a run that waits for its document goes into the queue."""
    with ordinary.as_front_end(kept.member) as member:
        editing = Editing(member, kept, kept.extraction)
        editing.update("total", 99)
        assert editing.journal(2) == [(["total"], "k", 12, 99)] and editing.restore(1)["version"] == 3
    with ordinary.as_owner() as owner:
        owner.execute(
            "update documents set status = 'ready', media_type = 'a/b', page_count = 1 where id = %s", [kept.document]
        )
        waiting = "select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        assert owner.execute(waiting, [str(kept.run)]).fetchone() == (1,)
