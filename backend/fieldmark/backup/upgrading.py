"""Move the embedded database to another major version of Postgres, and back."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

from fieldmark.db import dump
from fieldmark.db.embedded import data_version, embedded_postgres, finish_upgrade, is_running, replace_database
from fieldmark.errors import Misconfigured
from fieldmark.runtime import owner_database
from fieldmark.settings import Settings

_UNFINISHED: Final = "postgres.upgrading"
_BACK: Final = "postgres.back"


async def upgrade_postgres(settings: Settings) -> Path | None:
    """Copy the embedded database into one of the version FIELDMARK_POSTGRES_MAJOR, which takes its place. Return where
    the old one is kept, or None if it has that version.

    A process that is killed meanwhile leaves either the old database in place or the whole new one. Raise Misconfigured
    if Fieldmark is running or there is no embedded database.
    """
    home = settings.home
    finish_upgrade(home)
    version = data_version(home)
    if not settings.embedded_database or version is None:
        raise Misconfigured(
            "There is no embedded database here. Upgrade the Postgres of DATABASE_URL by its own means."
        )
    if version == settings.postgres_major:
        return None
    _check_stopped(home)
    unfinished = home / _UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    with (
        embedded_postgres(home, version) as old,
        owner_database(settings.model_copy(update={"home": unfinished})) as new,
        dump.snapshot(old.owner_url) as snapshot,
    ):
        dump.prepare_load(new.owner_url, is_embedded=True, dumped_by=version)
        await new.migrate()
        await asyncio.to_thread(dump.load, new.owner_url, snapshot.parts())
        await new.migrate()
        if dump.documents_of(new.owner_url) != snapshot.documents:
            raise Misconfigured("The new database does not have the same documents. The old one stays in place.")
        dump.end_load(new.owner_url)
    _check_stopped(home)
    return replace_database(home, unfinished)


def go_back(settings: Settings) -> Path:
    """Put the database back that `upgrade_postgres` replaced. Return where the newer one is kept. What was written to
    it is not in the older one."""
    home = settings.home
    finish_upgrade(home)
    version = data_version(home)
    back = home / _BACK
    if not (back / "postgres").exists():  # or a process that was killed has moved it there
        kept = [folder for folder in sorted(home.glob("postgres-[0-9]*")) if folder.name != f"postgres-{version}"]
        if version is None or len(kept) != 1:
            raise Misconfigured(f"There is no single earlier database in {home}, but {len(kept)}.")
        _check_stopped(home)
        back.mkdir(mode=0o700, exist_ok=True)
        kept[0].rename(back / "postgres")
    _check_stopped(home)
    return replace_database(home, back)


def _check_stopped(home: Path) -> None:
    if is_running(home):
        raise Misconfigured("The embedded database is in use. Stop all Fieldmark processes, then try again.")
