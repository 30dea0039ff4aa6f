"""Managed Postgres: the owner may create roles and databases, but is bound by row policies."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from edited_extraction import EditedExtraction
from matrix import ACTORS, CALLS, CASES, outcome
from role_connections import Roles, Sample, insert_sample_rows

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate


@pytest.fixture(scope="module")
def managed(postgres_major: int) -> Iterator[Roles]:
    """Start a server of its own, since an ordinary owner must create the roles, too."""
    memory = Path("/dev/shm")
    directory = memory if memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-owner-", dir=directory) as home,
        embedded_postgres(Path(home), postgres_major) as server,
    ):
        with psycopg.connect(server.owner_url, autocommit=True) as superuser:
            superuser.execute("create role keeper login createrole createdb password 'keeper'")
        port = urlsplit(server.owner_url).port
        database_url = f"postgresql://keeper:keeper@127.0.0.1:{port}"
        with psycopg.connect(f"{database_url}/postgres", autocommit=True) as cleanup:
            cleanup.execute("create database kept")
        asyncio.run(migrate(f"{database_url}/kept", app_password=server.app_password, agents=agent_rows()))
        with (
            psycopg.connect(f"{database_url}/kept", autocommit=True) as owner,
            psycopg.connect(urlsplit(server.owner_url)._replace(path="/kept").geturl(), autocommit=True) as rest,
            psycopg.connect(urlsplit(server.app_url)._replace(path="/kept").geturl(), autocommit=True) as app,
        ):
            rest.execute("set session authorization authenticator")
            yield Roles(owner, rest, app)


@pytest.fixture(scope="module")
def managed_sample(managed: Roles) -> Sample:
    return insert_sample_rows(managed.owner)


def test_table_owner_is_bound_by_row_policies(managed: Roles) -> None:
    role_attributes = managed.owner.execute(
        "select rolname, rolsuper, rolbypassrls from pg_roles where rolname in (current_user, 'fieldmark_app', "
        "'authenticated', 'authenticator', 'anon') order by 1"
    ).fetchall()
    assert role_attributes == [
        (name, False, False) for name in ("anon", "authenticated", "authenticator", "fieldmark_app", "keeper")
    ]
    owned = managed.owner.execute(
        "select count(*) > 8, bool_and(relforcerowsecurity), bool_and(pg_get_userbyid(relowner) = 'keeper') "
        "from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
    ).fetchone()
    assert owned == (True, True, True)


@pytest.mark.parametrize("actor", ACTORS)
def test_matrix_holds_for_an_owner_without_bypassrls(managed: Roles, managed_sample: Sample, actor: str) -> None:
    cases = CASES + CALLS
    can = {str(case) for case in cases if outcome(managed, managed_sample, actor, case)}
    assert can == {str(case) for case in cases if actor in case.can}


def test_owner_policy_applies_to_the_owner_only(managed: Roles) -> None:
    rows = managed.owner.execute(
        "select tablename, cmd, roles::text from pg_policies "
        "where schemaname = 'public' and roles <> '{authenticated}' order by 1"
    ).fetchall()
    tables = managed.owner.execute(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1"
    ).fetchall()
    assert rows == [(table, "ALL", "{keeper}") for (table,) in tables]


def test_triggers_run_as_the_owner(managed: Roles, managed_sample: Sample) -> None:
    with managed.as_front_end(managed_sample.member) as member:
        edited = EditedExtraction(member, managed_sample, managed_sample.extraction)
        edited.update("total", 99)
        assert edited.journal(2) == [(["total"], "k", 12, 99)] and edited.restore(1)["version"] == 3
    with managed.as_owner() as owner:
        owner.execute(
            "update documents set status = 'ready', media_type = 'a/b', page_count = 1 where id = %s",
            [managed_sample.document],
        )
        waiting_run = "select count(*) from queue.procrastinate_jobs where args ->> 'run_id' = %s"
        assert owner.execute(waiting_run, [str(managed_sample.run)]).fetchone() == (1,)
