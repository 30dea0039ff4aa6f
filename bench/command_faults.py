"""Injects faults into migrations and backups, and checks that no row changed, and that the next attempt succeeds.

    pip install '.[bench]' && python bench/command_faults.py --times 20 [--fault disk_full_migrating …]

Needs root on Linux, for small file systems in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import typer

from backup import write_originals
from fieldmark.agents.registry import agent_rows
from fieldmark.backup import back_up, check_backup
from fieldmark.cli.backup import backup as backup_command
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Database
from fieldmark.errors import FieldmarkError, Misconfigured, Unavailable
from fieldmark.settings import Settings
from growth_rows import load
from processes import restore_signals

ROWS = 1000
FIRST = f"""
do $$ begin create role fieldmark_app login; exception when duplicate_object then null; end $$;
create table public.kept as select n from generate_series(1, {ROWS}) as n;
"""
WAIT = "select pg_advisory_xact_lock(7);"
PROGRAM = """
import asyncio, sys
from pathlib import Path
from fieldmark.db.migrate import migrate
print(asyncio.run(migrate(sys.argv[1], folder=Path(sys.argv[2]))))
"""
MIGRATE = (sys.executable, "-c", PROGRAM)


class Case:
    """A database with rows, and the folder with its migrations. `owner_url` is of the server."""

    def __init__(self, owner_url: str, folder: Path, options: str = "") -> None:
        self.owner_url, self.name, self.folder = owner_url, f"case_{uuid4().hex}", folder / uuid4().hex
        self.url = owner_url.replace("/postgres?", f"/{self.name}?")
        self.folder.mkdir()
        self.server(f"create database {self.name} {options}")

    def server(self, statement: str) -> None:
        with psycopg.connect(self.owner_url, autocommit=True) as owner:
            owner.execute(statement.encode())

    def write(self, number: int, text: str) -> None:
        (self.folder / f"2026010{number}000000_m.sql").write_text(text)

    def migrate(self, lock_seconds: int = 60) -> list[str]:
        return asyncio.run(migrate(self.url, folder=self.folder, lock_seconds=lock_seconds))

    def prepare(self) -> None:
        self.write(1, FIRST)
        self.migrate()

    def value(self, query: str) -> int:
        with psycopg.connect(self.url, autocommit=True) as owner:
            row = owner.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    @contextmanager
    def gate(self) -> Iterator[None]:
        """Keep a migration that has WAIT from continuing."""
        with psycopg.connect(self.url, autocommit=True) as owner:
            owner.execute("select pg_advisory_lock(7)")
            yield

    def until_waiting(self) -> None:
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted and database ="
        while not self.value(f"{waiting} (select oid from pg_database where datname = current_database())"):
            time.sleep(0.02)

    def check_kept(self) -> None:
        assert self.value("select sum(n) from public.kept") == ROWS * (ROWS + 1) // 2

    def drop(self) -> None:
        self.server(f"drop database {self.name} with (force)")


@contextmanager
def case(owner_url: str, folder: Path, options: str = "") -> Iterator[Case]:
    made = Case(owner_url, folder, options)
    try:
        yield made
    finally:
        made.drop()


@contextmanager
def refused(kind: type[FieldmarkError]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"not refused with {kind.__name__}")


# --- the faults: each returns the seconds that the attempt after the fault took


def failing_migration(url: str, folder: Path) -> float:
    with case(url, folder) as made:
        made.prepare()
        made.write(2, "update public.kept set n = 0; create table public.new (); select 1 / 0;")
        with refused(Misconfigured):
            made.migrate()
        made.check_kept()
        made.write(2, "create table public.new ();")
        with timed() as seconds:
            assert made.migrate() == ["20260102000000_m.sql"]
        made.check_kept()
        return seconds()


def killed_migration(url: str, folder: Path) -> float:
    with case(url, folder) as made:
        made.prepare()
        made.write(2, f"update public.kept set n = 0; {WAIT}")
        with made.gate(), subprocess.Popen([*MIGRATE, made.url, made.folder], stdout=subprocess.DEVNULL) as process:
            made.until_waiting()
            process.kill()
        made.check_kept()
        made.write(2, "alter table public.kept add column other int;")
        with timed() as seconds:
            assert made.migrate() == ["20260102000000_m.sql"]
        made.check_kept()
        return seconds()


def two_migrations(url: str, folder: Path) -> float:
    """Start two processes at once: one migrates, the other waits. A third one that may not wait gives up."""
    with case(url, folder) as made:
        made.prepare()
        made.write(2, f"{WAIT} create table public.new ();")
        command = [*MIGRATE, made.url, made.folder]
        with made.gate():
            processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            made.until_waiting()
            with refused(Unavailable):
                made.migrate(lock_seconds=1)
            waits = "select count(*) from pg_locks where relation = 'supabase_migrations.schema_migrations'::regclass"
            while not made.value(f"{waits} and not granted"):
                time.sleep(0.02)
            time.sleep(4)  # it says so after three seconds
        with timed() as seconds:
            outputs = [process.communicate(timeout=120)[0] for process in processes]
        assert sum("20260102000000_m.sql" in output for output in outputs) == 1, outputs
        assert sum("waiting for another migration" in output for output in outputs) == 1, outputs
        assert [process.returncode for process in processes] == [0, 0]
        made.check_kept()
        return seconds()


def no_utf8(url: str, folder: Path) -> float:
    with case(url, folder, "encoding 'SQL_ASCII' locale 'C' template template0") as made, timed() as seconds:
        made.write(1, FIRST)
        with refused(Misconfigured):
            made.migrate()
        with refused(Misconfigured):
            asyncio.run(Database(made.url).__aenter__())
        return seconds()


def disk_full_migrating(url: str, folder: Path) -> float:
    """The disk of Postgres has room for a third of what a migration writes."""
    with case(url, folder) as made:
        made.prepare()
        made.write(2, "create table public.large as select repeat(md5(n::text), 60) from generate_series(1, 4e5) as n;")
        with refused(Unavailable):
            made.migrate()
        with timed() as seconds:
            while True:  # Postgres may restart, if it had no room for its log
                with contextlib.suppress(psycopg.OperationalError, Unavailable):
                    made.check_kept()
                    made.write(2, "create table public.new ();")
                    assert made.migrate() == ["20260102000000_m.sql"]
                    break
                time.sleep(0.2)
        made.check_kept()
        return seconds()


def disk_full_backing_up(url: str, folder: Path) -> float:
    """The disk of the backup is full after 2 MB. An earlier backup there is kept."""
    settings = Settings(_env_file=None, home=folder.parent / "home")  # pyright: ignore[reportCallIssue]
    with small_disk(folder / "small", "2M") as disk:
        file = disk / "a.backup"
        file.write_bytes(b"an earlier one")
        try:
            backup_command(file)
        except typer.Exit as end:
            assert end.exit_code, "not refused"
        assert [(one.name, one.read_bytes()) for one in disk.iterdir()] == [("a.backup", b"an earlier one")]
    with timed() as seconds, tempfile.TemporaryFile(dir=folder) as target:
        made = asyncio.run(back_up(settings, target, (), lambda count: None))
        target.seek(0)
        check_backup(target, None)
    assert not made.lost_originals
    return seconds()


FAULTS: dict[str, Callable[[str, Path], float]] = {
    fault.__name__: fault
    for fault in (
        failing_migration,
        killed_migration,
        two_migrations,
        no_utf8,
        disk_full_migrating,
        disk_full_backing_up,
    )
}


@contextmanager
def timed() -> Iterator[Callable[[], float]]:
    start = time.monotonic()
    yield lambda: time.monotonic() - start


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
        path.rmdir()


def measure(name: str, times: int, url: str, folder: Path) -> bool:
    seconds, failures = list[float](), list[str]()
    for _ in range(times):
        try:
            seconds.append(FAULTS[name](url, folder))
        except (AssertionError, FieldmarkError, psycopg.Error, OSError) as error:
            failures.append(f"{type(error).__name__}: {error}"[:500])
    for failure in failures[:5]:
        print(f"    {failure}")
    figures = f"{statistics.median(seconds):.2f}/{max(seconds):.2f}" if seconds else "-"
    print(f"{name:22} {times} times: {len(failures)} failed; seconds of the next attempt {figures}", flush=True)
    return not failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--fault", action="append", choices=FAULTS, help="may be repeated; default: all")
    options = parser.parse_args()
    is_clean = True
    for name in options.fault or FAULTS:
        with contextlib.ExitStack() as stack:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldmark-commands-")))
            (folder := root / "work").mkdir()
            home = root / "home"
            if name == "disk_full_migrating":
                stack.enter_context(small_disk(home, "400M"))
            server = stack.enter_context(embedded_postgres(home, 18))
            if name == "disk_full_backing_up":
                os.environ["FIELDMARK_HOME"] = str(home)
                asyncio.run(migrate(server.owner_url, app_password=server.app_password, agents=agent_rows()))
                load(server.owner_url, 100, 2)
                write_originals(server.owner_url, home / "files", 100)
            is_clean &= measure(name, options.times, server.owner_url, folder)
    return 0 if is_clean else 1


if __name__ == "__main__":
    restore_signals()
    sys.exit(main())
