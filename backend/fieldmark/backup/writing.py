"""Write a backup: the database at one moment, then the keys, then the originals."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Final

from fieldmark import __version__
from fieldmark.backup import archive
from fieldmark.backup.archive import End, Header, Writer, writing
from fieldmark.db import dump
from fieldmark.errors import NotFound
from fieldmark.files import Files, files_for, parse_stored_path
from fieldmark.runtime import owner_database
from fieldmark.settings import Settings

_SHOW_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a backup contains: documents, originals, and originals that the storage should have and has not."""

    documents: int
    originals: int
    original_bytes: int
    lost_originals: Sequence[str]


async def back_up(
    settings: Settings, target: BinaryIO, recipients: Sequence[str], on_progress: Callable[[int], None]
) -> BackupSummary:
    """Write a backup of the configured service, which may be running, to `target`, encrypted for `recipients`.

    `on_progress` gets the number of originals that were written. Raise Misconfigured or Unavailable; then the backup is
    not complete.
    """
    with (
        owner_database(settings) as owner,
        tempfile.TemporaryFile("w+", encoding="utf-8") as listed,
        tempfile.TemporaryFile("w+b") as sums,
        writing(target, recipients) as writer,
    ):
        # The snapshot ends with the dump, since it holds back vacuum.
        with dump.snapshot(owner.owner_url) as snapshot:
            header = Header(
                archive.FORMAT,
                __version__,
                datetime.now(UTC).isoformat(timespec="seconds"),
                snapshot.postgres_major,
                snapshot.documents.count,
                snapshot.documents.digest,
            )
            writer.add_json(archive.HEADER, header)
            await asyncio.to_thread(_write_database, writer, snapshot)
            listed.writelines(f"{path}\n" for path in snapshot.originals())
        _write_keys(writer, settings)
        files = files_for(settings)
        count = size = 0
        missing: list[str] = []
        listed.seek(0)
        for line in listed:
            path = line.rstrip("\n")
            try:
                sha256, length = await _write_original(writer, files, path)
            except NotFound:
                missing.append(path)
                continue
            sums.write(f"{sha256}  {archive.ORIGINALS}{path}\n".encode())
            count, size = count + 1, size + length
            if count % _SHOW_EVERY == 0:
                on_progress(count)
        documents = {path: str(parse_stored_path(path).document_id) for path in missing}
        deleted = dump.missing_documents(owner.owner_url, sorted(set(documents.values())))
        lost = [path for path, document in documents.items() if document not in deleted]
        sums.seek(0)
        writer.add_file(archive.ORIGINAL_SUMS, sums)
        writer.add_json(archive.END, End(count, size, sorted(deleted), lost))
    return BackupSummary(header.documents, count, size, lost)


def _write_database(writer: Writer, snapshot: dump.Snapshot) -> None:
    sha256 = hashlib.sha256()
    for number, chunk in enumerate(snapshot.parts(), 1):
        sha256.update(chunk)
        writer.add_bytes(f"{archive.DATABASE}{number:06}", chunk)
    writer.add_bytes(archive.DATABASE_SUM, sha256.hexdigest().encode())


def _write_keys(writer: Writer, settings: Settings) -> None:
    folder = settings.home / "keys"
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        # One that begins with a dot is what an interrupted restore left.
        if file.is_file() and not file.is_symlink() and not file.name.startswith("."):
            writer.add_bytes(f"{archive.KEYS}{file.name}", file.read_bytes())


async def _write_original(writer: Writer, files: Files, path: str) -> tuple[str, int]:
    async with files.local(path) as original:

        def write() -> tuple[str, int]:
            with original.open("rb") as source:
                return writer.add_file(f"{archive.ORIGINALS}{path}", source)

        return await asyncio.to_thread(write)
