"""supabase/schemas say what stands now: a database made from them is the same as one that was migrated."""

from __future__ import annotations

import asyncio
import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from catalog import described

from fieldmark.db.embedded import Embedded
from fieldmark.db.migrate import migrate
from standing import Clone

_ROOT = Path(__file__).parents[2]


def schema_files() -> list[Path]:
    config = tomllib.loads((_ROOT / "supabase" / "config.toml").read_text("utf-8"))
    return [_ROOT / "supabase" / path for path in config["db"]["migrations"]["schema_paths"]]


@pytest.fixture
def from_schemas(postgres: Embedded, tmp_path: Path) -> Iterator[str]:
    """The owner's URL of a database that the files of the schema were applied to, one transaction each."""
    for number, file in enumerate(schema_files()):
        (tmp_path / f"{number:014}_{file.stem}.sql").write_text(file.read_text("utf-8"), "utf-8")
    name = f"schemas_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        url = urlsplit(postgres.owner_url)._replace(path=f"/{name}").geturl()
        asyncio.run(migrate(url, folder=tmp_path))
        yield url
        connection.execute(f"drop database {name} with (force)".encode())


def test_a_migrated_database_and_one_made_from_the_schemas_are_the_same(clone: Clone, from_schemas: str) -> None:
    asyncio.run(migrate(clone.owner_url))  # a copy has lost the database's own rights
    with psycopg.connect(clone.owner_url) as migrated, psycopg.connect(from_schemas) as made:
        stands, said = described(migrated), described(made)
    assert len(said) > 500
    difference = list(difflib.unified_diff(stands, said, "migrated", "supabase/schemas", lineterm="", n=0))
    assert not difference, "\n".join(difference)


def test_a_difference_is_seen(clone: Clone) -> None:
    """Whatever kind of thing it is: else the comparison above would show nothing."""
    changes = [
        "alter table runs alter column background set default true",
        "alter table runs add column more text",
        "alter table runs alter column answer set not null",
        "alter table runs drop constraint runs_max_turns_check",
        "drop index runs_held",
        "grant delete on runs to authenticated",
        "grant update (answer) on runs to anon",
        "revoke select on runs from authenticated",
        "alter table runs no force row level security",
        'drop policy "members read their runs" on runs',
        'alter policy "members read their runs" on runs using (true)',
        "drop trigger fill_run on runs",
        "alter table runs disable trigger fill_run",
        "alter function private.enter(uuid) set search_path = ''",
        "alter function private.enter(uuid) security invoker",
        "grant execute on function private.enqueue(text, text, jsonb, text) to authenticated",
        "comment on table runs is 'x'",
        "comment on column runs.id is 'x'",
        "alter publication supabase_realtime drop table runs",
        "alter view ocr_results set (security_invoker = false)",
        "grant create on schema private to authenticated",
        "create type private.more as enum ('a')",
    ]
    with psycopg.connect(clone.owner_url, autocommit=True) as connection:
        before = described(connection)
        for change in changes:
            with connection.transaction(force_rollback=True):
                connection.execute("set local search_path = public")
                connection.execute(change.encode())
                assert described(connection) != before, change
        assert described(connection) == before


def test_every_file_of_the_schema_is_listed_and_ends_its_last_statement() -> None:
    listed = schema_files()
    assert sorted(listed) == sorted((_ROOT / "supabase" / "schemas").glob("*.sql"))
    for file in listed:
        text = file.read_text("utf-8")
        assert text.startswith("-- ") and text.endswith(";\n")
