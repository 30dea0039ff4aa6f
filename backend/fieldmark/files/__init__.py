"""Where uploaded originals lie: a local folder or Supabase Storage."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from fieldmark.files.local import LocalFiles
from fieldmark.files.stored_path import StoredPath, parse_stored_path, safe_name, stored_path
from fieldmark.files.supabase import SupabaseFiles
from fieldmark.settings import Settings

__all__ = [
    "Files",
    "LocalFiles",
    "StoredPath",
    "SupabaseFiles",
    "files_for",
    "parse_stored_path",
    "safe_name",
    "stored_path",
]


class Files(Protocol):
    """Originals by their stored path, `<org_id>/<document_id>/<name>`; any other path raises `Invalid`.

    `Unavailable` when the place does not answer.
    """

    async def put(self, path: str, source: Path) -> None:
        """Store the local file `source`, whose size has been checked. `Conflict` when something lies there already."""
        ...

    def local(self, path: str) -> AbstractAsyncContextManager[Path]:
        """A local file with the original's bytes, to be read within the context. `NotFound`, `TooLarge`."""
        ...

    async def size(self, path: str) -> int | None:
        """Bytes of the original, or None when there is none."""
        ...

    async def remove(self, path: str) -> None:
        """Remove the original. Nothing there is no error."""
        ...


def files_for(settings: Settings) -> Files:
    """Supabase Storage when its URL and secret key are set, else the folder `files` of Fieldmark's home."""
    if settings.supabase_url and settings.supabase_secret_key:
        key = settings.supabase_secret_key.get_secret_value()
        return SupabaseFiles(settings.supabase_url, key, max_bytes=settings.max_file_mb * 1024 * 1024)
    return LocalFiles(settings.home / "files")
