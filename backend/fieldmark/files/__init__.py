"""The store of uploaded originals: a local folder, Supabase Storage, or a bucket of object storage."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from fieldmark.files.local import LocalFiles
from fieldmark.files.stored_path import StoredPath, parse_stored_path, safe_name, stored_path
from fieldmark.settings import Settings

__all__ = [
    "Files",
    "LocalFiles",
    "StoredPath",
    "files_for",
    "parse_stored_path",
    "safe_name",
    "stored_path",
]


class Files(Protocol):
    """Stores originals under `<org_id>/<document_id>/<name>`.

    Raises `Invalid` for any other path, and `Unavailable` if the store cannot be reached.
    """

    async def put(self, path: str, source: Path) -> None:
        """Store the local file `source`. The caller has checked its size. Raise `Conflict` if the path exists."""
        ...

    def local(self, path: str) -> AbstractAsyncContextManager[Path]:
        """Yield a local file with the original, to read within the context. Raise `NotFound` or `TooLarge`."""
        ...

    async def size(self, path: str) -> int | None:
        """Return the original's size in bytes, or None if there is no original."""
        ...

    async def remove(self, path: str) -> None:
        """Remove the original if it exists."""
        ...

    async def signed_url(self, path: str, clock_lag: timedelta = timedelta()) -> str | None:
        """Return an address from which anyone can download the original for a minute, or None if this store has none.
        `clock_lag`: by how much this machine's clock is behind. Raise `NotFound`."""
        ...


def files_for(settings: Settings) -> Files:
    """Return the bucket of FIELDMARK_FILES_URL; if it is not set, Supabase Storage if its URL and secret key are set,
    otherwise the folder `files` of Fieldmark's home. Raise Misconfigured."""
    max_bytes = settings.max_file_mb * 1024 * 1024
    if settings.files_url:
        from fieldmark.files.object_storage import ObjectStorageFiles  # imported here: most services have no bucket

        return ObjectStorageFiles(settings.files_url, max_bytes=max_bytes)
    if settings.supabase_url and settings.supabase_secret_key:
        from fieldmark.files.supabase import SupabaseFiles  # imported here: it takes half a second

        key = settings.supabase_secret_key.get_secret_value()
        return SupabaseFiles(settings.supabase_url, key, max_bytes=max_bytes)
    return LocalFiles(settings.home / "files")
