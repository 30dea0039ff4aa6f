"""Backup and restore: every row and every byte, into any kind of Postgres, from a service that runs."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pyrage
import pytest
from pydantic import SecretStr

from fieldmark.agents.registry import agent_rows
from fieldmark.backup import back_up, check_backup, go_back, restore, upgrade_postgres
from fieldmark.db.embedded import EmbeddedServer, data_version, embedded_postgres, finish_upgrade
from fieldmark.db.migrate import migrate
from fieldmark.errors import Misconfigured
from fieldmark.settings import Settings
from running_server import PATIENCE, Clone

pytestmark = pytest.mark.anyio

TEXTS = {f"{name}.txt": f"Invoice {name}\nTotal: 10.00 EUR\n".encode() for name in ("a", "b", "c")}
_TABLES = """
select format('%I.%I', nspname, relname) from pg_class join pg_namespace n on n.oid = relnamespace
where relkind = 'r' and nspname !~ '^pg_' and nspname <> 'information_schema' order by 1
"""


@dataclass(frozen=True)
class Service:
    """A stopped service with documents: its settings, and the stored files."""

    settings: Settings
    files: dict[str, bytes]

    @property
    def owner_url(self) -> str:
        assert self.settings.database_owner_url is not None
        return self.settings.database_owner_url.get_secret_value()


def settings_for(home: Path, **urls: str) -> Settings:
    return Settings(
        _env_file=None, home=home, log_level="error", **{name: SecretStr(url) for name, url in urls.items()}
    )


@pytest.fixture
def stopped_service(serve: Callable[..., Any], clone: Clone, memory_path: Path) -> Callable[..., Any]:
    """Upload documents to a service and stop it: `await stopped_service(extract=True)`."""

    async def start(*, extract: bool = False) -> Service:
        home = memory_path / "home"
        home.mkdir()
        async with serve(home=home, with_worker=extract) as server:
            for name, content in TEXTS.items():
                path = "/api/documents?extract=" if extract else "/api/documents"
                (await server.http.post(path, files={"file": (name, content)})).raise_for_status()
            async with asyncio.timeout(PATIENCE):
                while extract and len((await server.http.get("/api/runs?status=completed")).json()["items"]) < len(
                    TEXTS
                ):
                    await asyncio.sleep(0.2)
        urls = {"database_url": clone.app_url, "database_owner_url": clone.owner_url}
        return Service(settings_for(home, **urls), stored_files(home))

    return start


@pytest.fixture
async def service(stopped_service: Callable[..., Any]) -> Service:
    """Return a stopped service with documents."""
    return await stopped_service()


@pytest.fixture
def empty(postgres: EmbeddedServer, memory_path: Path) -> Iterator[Settings]:
    """Return the settings of a service with an empty database, and an empty home."""
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres.owner_url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        urls = {
            "database_url": urlsplit(postgres.app_url)._replace(path=f"/{name}").geturl(),
            "database_owner_url": urlsplit(postgres.owner_url)._replace(path=f"/{name}").geturl(),
        }
        yield settings_for(memory_path / "restored", **urls)
        connection.execute(f"drop database {name} with (force)".encode())


def stored_files(home: Path) -> dict[str, bytes]:
    files = home / "files"
    return {str(file.relative_to(files)): file.read_bytes() for file in files.rglob("*") if file.is_file()}


def rows(url: str) -> dict[str, tuple[int, str]]:
    """Return the number of rows of each table and a digest of their content."""
    with psycopg.connect(url) as connection:
        connection.execute("set row_security = on")
        found = {}
        for (table,) in connection.execute(_TABLES).fetchall():
            query = (
                "select count(*), md5(coalesce(string_agg(row, '' order by row), '')) "
                f"from (select md5(t::text) as row from {table} as t) as rows"
            )
            found[table] = connection.execute(query.encode()).fetchone()
        return found


async def backup_of(settings: Settings, recipients: tuple[str, ...] = ()) -> bytes:
    target = io.BytesIO()
    with tempfile.TemporaryFile() as file:
        summary = await back_up(settings, file, recipients, lambda count: None)
        assert not summary.lost_originals
        file.seek(0)
        target.write(file.read())
    return target.getvalue()


async def restored(settings: Settings, content: bytes, identity: Path | None = None) -> Any:
    with io.BufferedReader(io.BytesIO(content)) as source:
        return await restore(settings, source, identity, lambda count: None)


def checked(content: bytes, identity: Path | None = None) -> Any:
    with io.BufferedReader(io.BytesIO(content)) as source:
        return check_backup(source, identity)


@pytest.mark.story
async def test_every_row_and_byte_survives_a_move_to_a_bound_owner_and_to_an_embedded_database(
    stopped_service: Callable[..., Any], postgres_major: int, memory_path: Path
) -> None:
    service = await stopped_service(extract=True)
    before = rows(service.owner_url)
    assert before["public.documents"][0] == len(TEXTS) and before["public.fields"][0] > 0
    (service.settings.home / "keys" / ".tokens.unfinished").write_bytes(b"of an interrupted restore")
    with embedded_postgres(memory_path / "other", postgres_major) as server:
        with psycopg.connect(server.owner_url, autocommit=True) as superuser:
            superuser.execute("create role keeper login createrole createdb password 'keeper'")
            superuser.execute("create role reader login password 'reader' in role pg_read_all_data")
        kept = f"postgresql://keeper:keeper@127.0.0.1:{urlsplit(server.owner_url).port}/kept"
        with psycopg.connect(kept.replace("/kept", "/postgres"), autocommit=True) as connection:
            connection.execute("create database kept")
        managed = settings_for(memory_path / "managed", database_url=kept, database_owner_url=kept)
        await restored(managed, await backup_of(service.settings))
        assert rows(kept) == before and stored_files(managed.home) == service.files
        second = await backup_of(managed)
        # It could read every table, but row policies would hide the rows.
        reader = kept.replace("keeper:keeper", "reader:reader")
        with pytest.raises(Misconfigured, match="cannot read all rows"):
            await backup_of(settings_for(managed.home, database_url=reader, database_owner_url=reader))
    local = Settings(_env_file=None, home=memory_path / "local", postgres_major=postgres_major, log_level="error")
    await restored(local, second)
    assert stored_files(local.home) == service.files
    assert (local.home / "keys" / "tokens").read_bytes() == (service.settings.home / "keys" / "tokens").read_bytes()
    with embedded_postgres(local.home, postgres_major) as server:
        assert rows(server.owner_url) == before
        assert await migrate(server.owner_url) == []


async def test_row_level_security_holds_after_a_restore(service: Service, empty: Settings) -> None:
    await restored(empty, await backup_of(service.settings))
    assert empty.database_url is not None
    with psycopg.connect(empty.database_url.get_secret_value()) as connection:
        connection.execute("set role authenticated")
        assert connection.execute("select count(*) from public.documents").fetchone() == (0,)


async def test_internal_column_options_of_another_minor_version_are_not_restored(
    service: Service, empty: Settings
) -> None:
    before = rows(service.owner_url)
    with psycopg.connect(service.owner_url, autocommit=True) as connection:
        connection.execute("set allow_system_table_mods = on")
        connection.execute(  # as PostgreSQL 17.12 does
            "update pg_attribute set attoptions = '{pg_attver=51520920}' where attnum > 0 and attrelid in "
            "(select oid from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace)"
        )
    await restored(empty, await backup_of(service.settings))
    assert empty.database_owner_url is not None
    assert rows(empty.database_owner_url.get_secret_value()) == before


async def test_database_without_tables_is_not_backed_up(empty: Settings) -> None:
    with pytest.raises(Misconfigured, match="no tables"):
        await backup_of(empty)


async def test_interrupted_restore_can_be_run_again(service: Service, empty: Settings) -> None:
    content = await backup_of(service.settings)
    with pytest.raises(Misconfigured):  # it ends within the originals
        await restored(empty, content[: content.rindex(b"Total: 10.00 EUR")])
    assert stored_files(empty.home) != service.files
    assert empty.database_owner_url is not None
    with psycopg.connect(empty.database_owner_url.get_secret_value(), autocommit=True) as connection:
        connection.execute("update public.documents set filename = 'loaded'")
        await restored(empty, content)
        names = connection.execute("select distinct filename from public.documents").fetchall()
    assert stored_files(empty.home) == service.files
    assert names == [("loaded",)], "what was loaded was loaded again"


async def test_restore_replaces_no_original_and_no_database(service: Service, empty: Settings) -> None:
    content = await backup_of(service.settings)
    with pytest.raises(Misconfigured, match="empty database"):
        await restored(service.settings, content)
    with psycopg.connect(service.owner_url, autocommit=True) as connection:
        connection.execute("delete from public.documents where filename = 'a.txt'")
    with pytest.raises(Misconfigured, match="empty database"):
        await restored(service.settings, content)
    other = empty.home / "files" / sorted(service.files)[0]
    other.parent.mkdir(parents=True)
    other.write_bytes(b"another")
    with pytest.raises(Misconfigured, match="another file"):
        await restored(empty, content)


async def test_document_deleted_while_the_backup_runs_is_not_restored(service: Service, empty: Settings) -> None:
    gone, lost = sorted(service.files)[:2]
    for path in (gone, lost):
        (service.settings.home / "files" / path).unlink()
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as target:
        received = asyncio.create_task(asyncio.to_thread(source.read))

        async def backed_up() -> Any:
            # Deleted after the snapshot: the listing of the originals is what the backup is made from.
            summary = await back_up(service.settings, target, (), lambda count: None)
            target.close()
            return summary

        with psycopg.connect(service.owner_url) as other:
            other.execute("delete from public.documents where storage_path = %s", (gone,))
            # (The backup's first statement reads what is committed, so this commits once it has started.)
            task = asyncio.create_task(backed_up())
            await _until_backup_reads(service.owner_url)
            other.commit()
        summary = await task
        content = await received
    assert summary.lost_originals == [lost]
    _, end = await restored(empty, content)
    assert end.lost_originals == [lost] and end.originals == len(TEXTS) - 2
    assert empty.database_owner_url is not None
    with psycopg.connect(empty.database_owner_url.get_secret_value()) as connection:
        paths = connection.execute("select storage_path from public.documents").fetchall()
    assert {path for (path,) in paths} == set(service.files) - {gone}


async def _until_backup_reads(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        async with asyncio.timeout(PATIENCE):
            while not connection.execute(
                "select count(*) from pg_stat_activity "
                "where datname = current_database() and application_name = 'pg_dump'"
            ).fetchone()[0]:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
async def test_cut_backup_is_refused_and_loads_nothing(service: Service, empty: Settings, share: float) -> None:
    content = await backup_of(service.settings)
    cut = content[: int(len(content.rstrip(b"\0")) * share)]
    with pytest.raises(Misconfigured):
        checked(cut)
    with pytest.raises(Misconfigured):
        await restored(empty, cut)


@pytest.mark.parametrize("where", ["database", "original"])
async def test_changed_byte_is_found(service: Service, empty: Settings, where: str) -> None:
    content = bytearray(await backup_of(service.settings))
    at = len(content) // 3 if where == "database" else bytes(content).rindex(b"Total: 10.00 EUR")
    content[at] ^= 1
    with pytest.raises(Misconfigured):
        checked(bytes(content))
    if where == "database":
        with pytest.raises(Misconfigured):
            await restored(empty, bytes(content))
        content[at] ^= 1
        await restored(empty, bytes(content))
        assert stored_files(empty.home) == service.files


async def test_encrypted_backup_opens_with_its_key_alone(service: Service, empty: Settings, memory_path: Path) -> None:
    key, other = memory_path / "key", memory_path / "other"
    mine = pyrage.x25519.Identity.generate()
    key.write_text(f"# mine\n{mine}\n")
    other.write_text(str(pyrage.x25519.Identity.generate()))
    content = await backup_of(service.settings, (str(mine.to_public()),))
    assert b"Total" not in content and b"backup.json" not in content
    for identity in (other, None):
        with pytest.raises(Misconfigured):
            checked(content, identity)
    with pytest.raises(Misconfigured):
        checked(content[:-100], key)
    assert checked(content, key)[0].documents == len(TEXTS)
    await restored(empty, content, key)
    assert stored_files(empty.home) == service.files


@pytest.mark.skipif("config.getoption('--postgres-major') != 18")
async def test_embedded_database_moves_to_the_next_version_and_back(memory_path: Path) -> None:
    old = Settings(_env_file=None, home=memory_path / "local", postgres_major=16, log_level="error")
    new = old.model_copy(update={"postgres_major": 18})
    with embedded_postgres(old.home, 16) as server:
        await migrate(server.owner_url, app_password=server.app_password, agents=agent_rows())
        with psycopg.connect(server.owner_url, autocommit=True) as connection:
            connection.execute(
                "insert into public.organisations (name) select 'Organisation ' || n from generate_series(1, 50) as n"
            )
        before = rows(server.owner_url)
        with pytest.raises(Misconfigured, match="in use"):
            await upgrade_postgres(new)
    assert await upgrade_postgres(new) == old.home / "postgres-16"
    assert await upgrade_postgres(new) is None
    with embedded_postgres(old.home, 18) as server:
        assert rows(server.owner_url) == before
    go_back(new)
    with embedded_postgres(old.home, 16) as server:
        assert rows(server.owner_url) == before


def test_process_killed_while_it_goes_back_can_be_run_again(memory_path: Path) -> None:
    settings = Settings(_env_file=None, home=memory_path, postgres_major=18, log_level="error")
    for folder, version in (("postgres", "18"), ("postgres.back/postgres", "16")):
        (memory_path / folder / "data").mkdir(parents=True)
        (memory_path / folder / "data" / "PG_VERSION").write_text(version)
    assert go_back(settings) == memory_path / "postgres-18"
    assert data_version(memory_path) == 16 and not (memory_path / "postgres.back").exists()


def test_process_killed_while_it_replaces_the_database_leaves_the_new_one(memory_path: Path) -> None:
    for step in range(3):
        home = memory_path / str(step)
        (home / "postgres.upgraded" / "postgres" / "data").mkdir(parents=True)
        (home / "postgres.upgraded" / "postgres" / "data" / "PG_VERSION").write_text("18")
        old = home / ("postgres" if step == 0 else "postgres-16")
        (old / "data").mkdir(parents=True)
        (old / "data" / "PG_VERSION").write_text("16")
        if step == 2:
            (home / "postgres.upgraded" / "postgres").rename(home / "postgres")
        finish_upgrade(home)
        assert data_version(home) == 18 and (home / "postgres-16" / "data" / "PG_VERSION").read_text() == "16"
        assert not (home / "postgres.upgraded").exists()
