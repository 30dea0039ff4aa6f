"""`fieldmark migrate`, `token` and `--help`, and how every command reports invalid settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from urllib.parse import urlsplit
from uuid import uuid4

import jwt
import psycopg
import pytest
from commands import Commands, run_here, wait_ended
from psycopg import sql

pytestmark = pytest.mark.anyio

UNREACHABLE = "postgresql://fieldmark_app:secret-word@127.0.0.1:1/postgres"


@pytest.fixture
def empty_database(postgres, clone) -> Iterator[dict[str, str]]:
    """Return settings with the owner's and the service's URL of an empty database. The clone next to it makes sure that
    the service's role exists with its password."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        yield {
            setting: urlsplit(url)._replace(path=f"/{name}").geturl()
            for setting, url in (("DATABASE_OWNER_URL", postgres.owner_url), ("DATABASE_URL", postgres.app_url))
        }
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


async def test_external_postgres_is_migrated_by_its_owner_and_served_with_the_app_login(empty_database, memory_path):
    fieldmark = Commands(memory_path, empty_database, empty_database["DATABASE_OWNER_URL"])
    early = await fieldmark.run("documents")
    assert early.code == 3 and "migrate" in early.err and "Traceback" not in early.err

    first = await fieldmark.run("migrate")
    assert first.code == 0, first.err
    applied = first.out.splitlines()
    assert applied and all(name.endswith(".sql") for name in applied)
    again = await fieldmark.run("migrate")
    assert (again.code, again.out) == (0, "") and "up to date" in again.err

    listed = await fieldmark.run("documents")
    assert listed.code == 0 and fieldmark.sql("select count(*) from public.memberships") == [{"count": 1}]
    shown = await fieldmark.run("admin", "--json")
    assert shown.code == 0 and [one["members"] for one in json.loads(shown.out)["organisations"]] == [1]
    assert not (fieldmark.home / "postgres").exists()  # no embedded Postgres was started

    owner = fieldmark.with_settings(DATABASE_URL=empty_database["DATABASE_OWNER_URL"], DATABASE_OWNER_URL="")
    refused = await owner.run("serve", "--port", "0")
    # The service's login does not administer.
    as_service = await fieldmark.with_settings(DATABASE_OWNER_URL="").run("admin")
    assert as_service.code == 3 and "fieldmark_admin" in as_service.err and "Traceback" not in as_service.err
    assert refused.code == 3 and "superuser" in refused.err and "fieldmark_app" in refused.err
    assert "Traceback" not in refused.err and urlsplit(empty_database["DATABASE_OWNER_URL"]).password not in refused.err


@pytest.mark.parametrize(
    "settings",
    [{"DATABASE_URL": UNREACHABLE}, {"FIELDMARK_HOME": "a file/home"}, {"FIELDMARK_PORT": "secret-word"}, {}],
)
def test_invalid_settings_exit_3(monkeypatch, tmp_path, settings):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_HOME", str(tmp_path / "home"))
    (tmp_path / "a file").touch()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    if not settings:
        (tmp_path / ".env").write_bytes(b"FIELDMARK_PORT=\xff\xfe\n")
    for command in (["serve", "--port", "0"], ["worker"], ["migrate"], ["documents"]):
        refused = run_here(*command)
        assert (refused.code, refused.out) == (3, "") and refused.err
        assert "Traceback" not in refused.err and "secret-word" not in refused.err


async def test_token_command_prints_only_the_token(monkeypatch, tmp_path):
    monkeypatch.setenv("FIELDMARK_HOME", str(tmp_path))
    user = str(uuid4())
    result = run_here("token", "--user", user, "--hours", "1")
    assert result.code == 0 and result.err == ""
    claims = jwt.decode(result.out.strip(), options={"verify_signature": False})
    assert (claims["sub"], claims["exp"] - claims["iat"]) == (user, 3600)
    for arguments in (["--user", "me"], ["--hours", "0"], ["--hours", "nan"]):
        refused = run_here("token", *arguments)
        assert (refused.code, refused.out) == (2, ""), arguments
    monkeypatch.setenv("SUPABASE_URL", "https://example.com")
    refused = run_here("token")
    assert (refused.code, refused.out) == (3, "") and "Supabase" in refused.err
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = await wait_ended(await Commands(tmp_path).start("token", stdout=full))
    finally:
        os.close(full)
    assert done.code == 1 and "No space left on device" in done.err


async def test_help_works_in_an_ascii_terminal(tmp_path):
    result = await Commands(tmp_path, {"PYTHONIOENCODING": "ascii"}).run("--help", is_fresh=True)
    assert result.code == 0
    for command in ("extract", "serve", "worker", "migrate", "token"):
        assert command in result.out


async def test_bench_reports_throughput_and_its_limit_and_touches_no_home(tmp_path):
    fieldmark = Commands(tmp_path)
    done = await fieldmark.run("bench", "--documents", "5", "--answer-seconds", "600", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["documents"] == 5 and found["per_hour"] > 0 and found["limit"] in ("cpu", "runs_at_once", "database")
    # A model that takes ten minutes is the limit on any machine.
    assert found["expected_limit"] == "runs_at_once"
    assert found["runs_at_once"] * 5 < found["expected_per_hour"] <= found["runs_at_once"] * 6
    assert not fieldmark.home.exists()
