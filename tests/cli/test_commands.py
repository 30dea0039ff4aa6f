"""`fieldmark migrate`, `token`, and what every command says of settings that cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit
from uuid import uuid4

import jwt
import psycopg
import pytest
from command import Home, said_at_once
from psycopg import sql

pytestmark = pytest.mark.xdist_group("cli-commands")


@pytest.fixture
def empty(postgres, clone) -> Iterator[dict[str, str]]:
    """An empty database of another server, as settings name it: the owner's URL, and the service's own. (The clone
    beside it sees to it that the server knows the service's role already, with its password.)"""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        yield {
            setting: urlsplit(url)._replace(path=f"/{name}").geturl()
            for setting, url in (("DATABASE_OWNER_URL", postgres.owner_url), ("DATABASE_URL", postgres.app_url))
        }
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_another_postgres_is_migrated_by_its_owner_and_served_by_nobody_stronger(home: Home, empty):
    early = home.run("extract", home.file("a.txt", "Total: 10.00 EUR"), DATABASE_URL=empty["DATABASE_URL"])
    assert early.code == 3 and "migrate" in early.err and "Traceback" not in early.err

    first = home.run("migrate", **empty)
    assert first.code == 0, first.err
    applied = first.out.splitlines()
    assert applied and all(name.endswith(".sql") for name in applied)
    again = home.run("migrate", **empty)
    assert (again.code, again.out) == (0, "") and "up to date" in again.err

    done = home.run("extract", home.file("a.txt", "Invoice number: 5\nTotal: 10.00 EUR"), "--json", **empty)
    assert done.code == 0 and '"invoice_number": "5"' in done.out
    with psycopg.connect(empty["DATABASE_OWNER_URL"]) as conn:
        assert conn.execute("select count(*) from public.extractions").fetchone() == (1,)
    assert not (home.path / "postgres").exists()  # no database of our own was started for it

    for command in (["serve", "--port", "0"], ["worker"], ["extract", "a.txt"]):
        refused = home.run(*command, DATABASE_URL=empty["DATABASE_OWNER_URL"])
        assert refused.code == 3 and "superuser" in refused.err and "fieldmark_app" in refused.err
        assert "Traceback" not in refused.err and urlsplit(empty["DATABASE_OWNER_URL"]).password not in refused.err


def test_a_database_that_is_not_there(home: Home):
    away = "postgresql://fieldmark_app:secret-word@127.0.0.1:1/postgres"
    for command in (["serve", "--port", "0"], ["worker"], ["migrate"], ["extract", home.file("a.txt", "Total: 1")]):
        refused = home.run(*command, DATABASE_URL=away)
        assert refused.code == 3 and refused.err
        assert "Traceback" not in refused.err and "secret-word" not in refused.err


def test_settings_come_from_the_environment_and_from_a_file(home: Home):
    dotenv = home.file(".env", "FIELDMARK_PORT=x\nFIELDMARK_UNKNOWN=1\nOTHER=2\n")
    try:
        # A name that no setting has is refused wherever it stands.
        refused = home.run("token", FIELDMARK_POOL_SIZE="1")
        assert (refused.code, refused.out) == (3, "")
        names = [line.split(":")[0] for line in refused.err.splitlines()[1:]]
        assert names == ["FIELDMARK_UNKNOWN", "FIELDMARK_POOL_SIZE", "FIELDMARK_PORT"]
        # The environment goes before the file; other names are nobody's business.
        dotenv.write_text("FIELDMARK_PORT=x\nFIELDMARK_MODEL=\nOTHER=2\n")
        assert home.run("token", FIELDMARK_PORT="1", FIELDMARKS="2").code == 0
        dotenv.write_bytes(b"FIELDMARK_PORT=\xff\xfe\n")
        refused = home.run("token")
        assert refused.code == 3 and "Traceback" not in refused.err
    finally:
        dotenv.unlink()


def test_a_home_that_cannot_be_one(home: Home):
    file = home.file("a file", "")
    for command in (["serve", "--port", "0"], ["extract", home.file("a.txt", "Total: 1")], ["migrate"], ["token"]):
        refused = home.run(*command, FIELDMARK_HOME=str(file / "home"))
        assert refused.code == 3 and "Traceback" not in refused.err and refused.err.rstrip().endswith("."), refused.err


def test_a_token_alone(home: Home):
    user = str(uuid4())
    told = home.run("token", "--user", user, "--hours", "1")
    assert told.code == 0 and told.err == ""
    claims = jwt.decode(told.out.strip(), options={"verify_signature": False})
    assert (claims["sub"], claims["exp"] - claims["iat"]) == (user, 3600)
    for arguments in (["--user", "me"], ["--hours", "0"], ["--hours", "nan"], ["--hours", "1e9"]):
        refused = said_at_once("token", *arguments)
        assert (refused.code, refused.out) == (2, ""), arguments
    full = home.run("token", redirected=">/dev/full")
    assert full.code == 1 and "No space left on device" in full.err
    refused = home.run("token", SUPABASE_URL="https://example.com")
    assert (refused.code, refused.out) == (3, "") and "Supabase" in refused.err


def test_help_is_help(home: Home):
    told = home.run("--help", is_fresh=True)
    assert told.code == 0
    for command in ("extract", "serve", "worker", "migrate", "token"):
        assert command in told.out
        assert said_at_once(command, "--help").code == 0
    assert said_at_once("nothing").code == 2
