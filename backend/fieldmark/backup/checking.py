"""Read a backup to its end, without a database, and compare everything with its sums."""

from __future__ import annotations

import hashlib
import io
import tempfile
from pathlib import Path
from typing import IO, Final

from fieldmark.backup.archive import End, Header, Reader, reading
from fieldmark.db import dump
from fieldmark.errors import Misconfigured

_READ_BYTES: Final = 1 << 20


def check_backup(source: io.BufferedReader, identity: Path | None) -> tuple[Header, End]:
    """Return what a backup says of itself. Raise Misconfigured if it is damaged or not complete."""
    with reading(source, identity) as reader, tempfile.TemporaryFile("w+", encoding="utf-8") as found:
        dump.check_dump(reader.database())
        for _ in reader.signing_keys():
            pass
        for path, content in reader.originals():
            found.write(f"{_sha256(content)} {path}\n")
        end = finish(reader, found)
        return reader.header, end


def finish(reader: Reader, found: IO[str]) -> End:
    """Compare the originals, listed as "SHA-256 path", with the sums of the backup, and return its end."""
    found.seek(0)
    for sha256, path in reader.sums():
        if found.readline() != f"{sha256} {path}\n":
            raise Misconfigured(f"The backup is damaged or incomplete: the original {path} does not match its SHA-256.")
    end = reader.end()
    if found.readline():
        raise Misconfigured("The backup is damaged or incomplete: it has originals without a SHA-256.")
    return end


def _sha256(content: IO[bytes]) -> str:
    sha256 = hashlib.sha256()
    while part := content.read(_READ_BYTES):
        sha256.update(part)
    return sha256.hexdigest()
