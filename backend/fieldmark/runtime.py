"""The resources of a Fieldmark process: database, files, embedder and more."""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fieldmark.agents.registry import agent_rows
from fieldmark.db.administration import administration
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate, pending_migrations
from fieldmark.db.pool import Database
from fieldmark.embedding import Embedder, embedder_for
from fieldmark.errors import Misconfigured
from fieldmark.files import Files, LocalFiles, files_for
from fieldmark.isolation import set_user_range
from fieldmark.runs.billing.prices import Prices, parse_price
from fieldmark.services.documents import DocumentService
from fieldmark.services.page_images import PageImages
from fieldmark.settings import Settings
from fieldmark.stores import search_vectors
from fieldmark.telemetry.metrics import Metrics
from fieldmark.telemetry.traces import export_to
from pagewords.pages import Limits as ReadingLimits
from processisolation.lockdown import deny_memory_access


@dataclass(frozen=True, slots=True)
class Runtime:
    """Resources shared by routes, commands and workers. `direct_url` connects to the database without the pooler."""

    settings: Settings
    database: Database
    direct_url: str
    files: Files
    documents: DocumentService
    reading_limits: ReadingLimits
    metrics: Metrics
    prices: Prices
    embedder: Embedder | None = None
    page_images: PageImages = field(default_factory=PageImages)

    def full_disk(self) -> Path | None:
        """Return a folder whose disk has less than FIELDMARK_MIN_FREE_MB free, or None."""
        floor = self.settings.min_free_mb * 1024 * 1024
        return next((folder for folder in self.disks() if _free(folder) < floor), None)

    def disks(self) -> list[Path]:
        """Return the folders that this process or its embedded Postgres writes to."""
        folders = [Path(tempfile.gettempdir())]
        if self.settings.embedded_database:
            folders.append(self.settings.home / "postgres")
        if isinstance(self.files, LocalFiles):
            folders.append(self.files.root)
        return folders


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:  # nothing was put there yet
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _collect_garbage_seldom() -> None:
    """Run full garbage collections ten times less often and exclude all objects loaded so far.

    A full collection while thousands of values are written would block every thread for half a second.
    """
    gc.freeze()
    gc.set_threshold(5_000, 10, 100)


@asynccontextmanager
async def open_runtime(settings: Settings) -> AsyncGenerator[Runtime]:
    """Open all resources in order and close them in reverse. Starts and migrates the embedded database if no other is
    configured.

    Raise Misconfigured if a database login has too many rights or migrations are missing, Unavailable if the database
    does not respond.
    """
    deny_memory_access()
    set_user_range(settings.process_user_ids)
    # While threads compute, the event loop gets the interpreter back at each of its steps after so long: five times as
    # soon as Python has it.
    sys.setswitchinterval(0.001)
    _collect_garbage_seldom()
    if settings.otel_endpoint is not None:
        export_to(settings.otel_endpoint)
    async with AsyncExitStack() as stack:
        if settings.embedded_database:
            embedded = stack.enter_context(embedded_postgres(settings.home, settings.postgres_major))
            await _migrate(settings, embedded.owner_url, embedded.app_password)
            url = direct_url = embedded.app_url
            name = "The embedded database"
        else:
            assert settings.database_url is not None
            url = settings.database_url.get_secret_value()
            direct_url = settings.database_direct_url.get_secret_value() if settings.database_direct_url else url
            name = "The database of DATABASE_URL"
        database = await stack.enter_async_context(Database(url, direct_url, settings.pool_size, name=name))
        await database.check_role()
        if not settings.embedded_database and (missing := await pending_migrations(url)):
            raise Misconfigured(
                f"The database is not up to date, {len(missing)} migrations are missing: run `fieldmark migrate` with "
                "DATABASE_OWNER_URL set."
            )
        files = files_for(settings)
        limits = ReadingLimits(max_bytes=settings.max_file_mb * 1024 * 1024, max_pages=settings.max_pages)
        price, second_price = (
            None if text is None else parse_price(text) for text in (settings.model_price, settings.second_model_price)
        )
        prices = Prices(
            settings.model, price, settings.offline, settings.fallback_model, settings.second_model, second_price
        )
        documents = DocumentService(database, files, limits)
        embedder = await stack.enter_async_context(_embedder(settings, database))
        yield Runtime(settings, database, direct_url, files, documents, limits, Metrics(), prices, embedder)


@asynccontextmanager
async def _embedder(settings: Settings, database: Database) -> AsyncGenerator[Embedder | None]:
    embedder = embedder_for(settings)
    if embedder is None:
        yield None
        return
    try:
        async with database.as_service() as conn:
            if not await search_vectors.are_available(conn):
                raise Misconfigured(
                    "FIELDMARK_EMBEDDER needs a database with the extension vector (pgvector): have it installed there "
                    "and run `fieldmark migrate`, or leave the setting out."
                )
        yield embedder
    finally:
        await embedder.close()


async def migrate_as_owner(settings: Settings) -> list[str]:
    """Apply missing migrations to the configured database and return their names."""
    with owner_database(settings) as owner:
        return await owner.migrate()


@dataclass(frozen=True, slots=True)
class OwnerDatabase:
    """The configured database, with the login of its owner."""

    settings: Settings
    owner_url: str
    app_password: str | None
    is_embedded: bool

    async def migrate(self) -> list[str]:
        """Apply missing migrations and return their names."""
        return await _migrate(self.settings, self.owner_url, self.app_password)


@contextmanager
def owner_database(settings: Settings) -> Generator[OwnerDatabase]:
    """Log in with DATABASE_OWNER_URL, or with DATABASE_URL if it is not set; start the embedded database if there is
    neither. If DATABASE_URL logs in as fieldmark_app, a migration gives that role the password in it."""
    deny_memory_access()
    set_user_range(settings.process_user_ids)
    if settings.embedded_database and settings.database_owner_url is None:
        with embedded_postgres(settings.home, settings.postgres_major) as embedded:
            yield OwnerDatabase(settings, embedded.owner_url, embedded.app_password, is_embedded=True)
        return
    named = settings.database_owner_url or settings.database_url
    assert named is not None
    yield OwnerDatabase(settings, named.get_secret_value(), _app_password(settings), is_embedded=False)


async def administration_as_owner(settings: Settings, limit: int) -> dict[str, Any]:
    """Return organisations, limits, queue and spending. Raise Misconfigured, Unavailable."""
    with owner_database(settings) as owner:
        return await administration(owner.owner_url, limit)


async def _migrate(settings: Settings, owner_url: str, app_password: str | None) -> list[str]:
    return await migrate(
        owner_url, app_password=app_password, agents=agent_rows(), allow_anonymous=settings.allow_anonymous
    )


def _app_password(settings: Settings) -> str | None:
    if settings.database_url is None or settings.database_owner_url is None:
        return None
    parts = urlsplit(settings.database_url.get_secret_value())
    # Supabase's pooler wants the project behind the role's name: fieldmark_app.<project>.
    if parts.password and (parts.username or "").split(".")[0] == "fieldmark_app":
        return unquote(parts.password)
    return None
