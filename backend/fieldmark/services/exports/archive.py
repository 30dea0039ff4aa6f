"""A ZIP file of all rows and originals of an organisation, or of all rows that name a person, made while it is sent."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import IO, Final
from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.errors import NotFound
from fieldmark.files import Files
from fieldmark.identity.scope import Scope
from fieldmark.stores import exported_rows

_CHUNK_BYTES: Final = 1 << 18
_DOCUMENTS_AT_ONCE: Final = 200


class _Sent(io.RawIOBase):
    """What ZipFile has written and the client has not got yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: object, /) -> int:
        self._parts.append(bytes(part))  # pyright: ignore[reportArgumentType]
        return len(self._parts[-1])

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


async def organisation_archive(database: Database, files: Files, scope: Scope) -> AsyncIterator[bytes]:
    """Yield the ZIP file of an organisation: `rows/<table>.jsonl` with what the caller may read, and
    `originals/<document>/<name>`."""
    sent = _Sent()
    with zipfile.ZipFile(sent, "w") as archive:
        async for part in _add_rows(database, scope, archive, sent, "rows", ()):
            yield part
        after = UUID(int=0)
        while True:
            async with database.as_user(scope) as conn:
                found = await exported_rows.stored_paths(conn, after, scope.org_id, _DOCUMENTS_AT_ONCE)
            for after, paths in found:  # noqa: B007
                for path in paths:
                    with suppress(NotFound):  # deleted meanwhile
                        async with files.local(path) as local:
                            with local.open("rb") as opened:
                                name = f"originals/{path.partition('/')[2]}"
                                async for part in _add(archive, sent, name, opened):
                                    yield part
            if len(found) < _DOCUMENTS_AT_ONCE:
                break
    yield sent.take()


async def person_archive(database: Database, scopes: Sequence[Scope]) -> AsyncIterator[bytes]:
    """Yield the ZIP file of a person: `<organisation>/<table>.jsonl` with the rows that name them or their keys."""
    sent = _Sent()
    with zipfile.ZipFile(sent, "w") as archive:
        for scope in scopes:
            async with database.as_user(scope) as conn:
                people = await exported_rows.own_ids(conn, scope.user_id)
            async for part in _add_rows(database, scope, archive, sent, str(scope.org_id), people):
                yield part
    yield sent.take()


async def _add_rows(
    database: Database, scope: Scope, archive: zipfile.ZipFile, sent: _Sent, folder: str, people: Sequence[UUID]
) -> AsyncIterator[bytes]:
    async with database.as_user(scope) as conn:
        tables = await exported_rows.readable_tables(conn)
    for table in tables:
        # In a file first: no connection is held while a client reads.
        with tempfile.TemporaryFile() as file:
            async with database.as_user(scope) as conn:
                async for row in exported_rows.json_rows(conn, table, scope.org_id, people):
                    file.write(f"{row}\n".encode())
            file.seek(0)
            async for part in _add(archive, sent, f"{folder}/{table.name}.jsonl", file, zipfile.ZIP_DEFLATED):
                yield part


async def _add(
    archive: zipfile.ZipFile, sent: _Sent, name: str, source: IO[bytes], method: int = zipfile.ZIP_STORED
) -> AsyncIterator[bytes]:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = method
    with archive.open(entry, "w", force_zip64=True) as target:
        while chunk := await asyncio.to_thread(source.read, _CHUNK_BYTES):
            await asyncio.to_thread(target.write, chunk)
            yield sent.take()
    yield sent.take()
