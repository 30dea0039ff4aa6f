"""Restore a backup into an empty service."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from fieldmark.backup.archive import End, Header, Reader, reading
from fieldmark.backup.checking import finish
from fieldmark.db import dump
from fieldmark.errors import Conflict, Misconfigured
from fieldmark.files import Files, files_for
from fieldmark.runtime import OwnerDatabase, owner_database
from fieldmark.settings import Settings

_COPY_BYTES: Final = 1 << 20
_SHOW_EVERY: Final = 100


async def restore(
    settings: Settings, source: io.BufferedReader, identity: Path | None, on_progress: Callable[[int], None]
) -> tuple[Header, End]:
    """Restore a backup into the configured service, which must be empty and stopped, and migrate it to this version.

    If it was interrupted, it can be run again: the database is kept if it was loaded, and only missing originals are
    added. Raise Misconfigured or Unavailable.
    """
    with owner_database(settings) as owner, reading(source, identity) as reader:
        await _restore_database(owner, reader)
        _restore_keys(settings.home / "keys", reader)
        files = files_for(settings)
        with tempfile.TemporaryFile("w+", encoding="utf-8") as found:
            for number, (path, content) in enumerate(reader.originals(), 1):
                found.write(f"{await _restore_original(files, path, content)} {path}\n")
                if number % _SHOW_EVERY == 0:
                    on_progress(number)
            end = finish(reader, found)
        if end.deleted_documents:
            dump.delete_documents(owner.owner_url, end.deleted_documents)
        dump.end_load(owner.owner_url)
        return reader.header, end


async def _restore_database(owner: OwnerDatabase, reader: Reader) -> None:
    backup = f"{reader.header.created_at} {reader.header.documents_sha256}"
    if dump.is_loaded(owner.owner_url, backup):
        for _ in reader.database():
            pass
    else:
        dump.prepare_load(owner.owner_url, is_embedded=owner.is_embedded, dumped_by=reader.header.postgres_major)
        await owner.migrate()
        await asyncio.to_thread(dump.load, owner.owner_url, reader.database(), backup)
    await owner.migrate()


def _restore_keys(folder: Path, reader: Reader) -> None:
    for name, content in reader.signing_keys():
        if "/" in name or name.startswith("."):
            raise Misconfigured(f"The backup is damaged or incomplete: {name!r} is no name of a key.")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = folder / f".{name}.unfinished"
        unfinished.unlink(missing_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / name)


async def _restore_original(files: Files, path: str, content: IO[bytes]) -> str:
    """Store an original unless it is there already, and return its SHA-256. Raise Misconfigured if another is there."""
    with tempfile.NamedTemporaryFile(prefix="fieldmark-restore-") as copy:
        sha256 = await asyncio.to_thread(_copy, content, copy)
        try:
            await files.put(path, Path(copy.name))
        except Conflict:
            async with files.local(path) as present:
                with present.open("rb") as file:
                    if await asyncio.to_thread(lambda: hashlib.file_digest(file, "sha256").hexdigest()) != sha256:
                        raise Misconfigured(f"The storage has another file at {path}. Nothing is replaced.") from None
    return sha256


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    sha256 = hashlib.sha256()
    while part := source.read(_COPY_BYTES):
        sha256.update(part)
        target.write(part)
    target.flush()
    return sha256.hexdigest()
