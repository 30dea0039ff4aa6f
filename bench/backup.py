"""Backs up a service with many documents, checks the backup and restores it; compares rows and originals.

    pip install '.[bench]' && python bench/backup.py [--documents 100000] [--kilobytes 20] [--folder EMPTY_DIR]

The rows are those of bench/growth.py (20 fields a document, their history and runs), and each document has an original
of random bytes. Needs about five times the size of the originals on the disk of the folder.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1] / "backend"))

from fieldmark.agents.registry import agent_rows
from fieldmark.backup import back_up, check_backup, restore
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.settings import Settings
from growth_rows import load

TABLES = "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname in ('public', 'private')"


@contextmanager
def timed(what: str) -> Generator[None]:
    start, cpu = time.monotonic(), time.process_time()
    yield
    print(
        f"{what:10} {time.monotonic() - start:7.1f} s, {time.process_time() - cpu:6.1f} s of CPU in Python", flush=True
    )


def counts(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        tables = [name for (name,) in connection.execute(TABLES)]
        return {
            name: row[0]
            for name in tables
            if (row := connection.execute(f"select count(*) from {name}".encode()).fetchone())
        }


def write_originals(url: str, files: Path, kilobytes: int) -> int:
    with psycopg.connect(url) as connection:
        paths = [path for (path,) in connection.execute("select storage_path from public.documents")]
    for path in paths:
        file = files / path
        file.parent.mkdir(parents=True)
        file.write_bytes(os.urandom(kilobytes * 1000))
    return len(paths)


async def measure(folder: Path, documents: int, kilobytes: int) -> None:
    home, other, file = folder / "home", folder / "restored", folder / "a.backup"
    settings = Settings(_env_file=None, home=home, log_level="error")  # pyright: ignore[reportCallIssue]
    silent: Callable[[int], None] = lambda count: None  # noqa: E731
    with embedded_postgres(home, settings.postgres_major) as server:
        await migrate(server.owner_url, app_password=server.app_password, agents=agent_rows())
        with timed("fill"):
            load(server.owner_url, documents, 10)
            originals = write_originals(server.owner_url, home / "files", kilobytes)
        before = counts(server.owner_url)
        with timed("back up"), file.open("wb") as target:
            summary = await back_up(settings, target, (), silent)
        assert summary.originals == originals and not summary.lost_originals
    with timed("check"), file.open("rb") as source:
        check_backup(source, None)
    with timed("restore"), file.open("rb") as source:
        await restore(settings.model_copy(update={"home": other}), source, None, silent)
    with embedded_postgres(other, settings.postgres_major) as server:
        after = counts(server.owner_url)
    assert before == after, {
        name: (before[name], after.get(name)) for name in before if before[name] != after.get(name)
    }
    size = sum(file.stat().st_size for file in (home / "postgres").rglob("*") if file.is_file())
    print(
        f"{documents:,} documents, {sum(after.values()):,} rows: database {size / 1e6:,.0f} MB, "
        f"originals {summary.original_bytes / 1e6:,.0f} MB, backup {file.stat().st_size / 1e6:,.0f} MB. All restored."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--kilobytes", type=int, default=20, help="size of an original")
    parser.add_argument("--folder", type=Path, help="an empty folder; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fieldmark-backup-", dir=options.folder) as folder:
        asyncio.run(measure(Path(folder), options.documents, options.kilobytes))


if __name__ == "__main__":
    main()
