"""Store originals in a local folder. Links are not followed, files never replaced, and writes atomic."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from fieldmark.errors import Conflict, NotFound, Unavailable
from fieldmark.files.stored_path import StoredPath, parse_stored_path

# A folder next to those of the organisations, whose names are UUIDs. A file is written here and then linked.
_INCOMING = ".incoming"
_ABANDONED_AFTER_S = 24 * 3600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MISSING_ORIGINAL: Final = (
    "The original of this document is not on the machine that reads it. To run Fieldmark on several machines, use "
    "a bucket (FIELDMARK_FILES_URL), Supabase Storage (SUPABASE_SECRET_KEY), or a shared disk for FIELDMARK_HOME/files."
)


class LocalFiles:
    """Originals below `root`. Only the owner can read its folders (0700) and files (0600).

    Every folder is opened relative to its parent without following links, so a link planted below `root` has no effect.
    Raises `Unavailable` if the disk is full or the folder cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        """The folder of all originals."""
        return self._root

    async def put(self, path: str, source: Path) -> None:
        """Copy `source` to `path` atomically. Raise `Conflict` if the path exists."""
        await asyncio.to_thread(self._put, parse_stored_path(path), source)

    @asynccontextmanager
    async def local(self, path: str) -> AsyncGenerator[Path]:
        """Yield the path of the original, not a copy: do not change it. Raise `NotFound` if it does not exist, also if
        it is removed within the context."""
        where = parse_stored_path(path)
        if await asyncio.to_thread(self._size, where) is None:
            raise NotFound(_MISSING_ORIGINAL)
        try:
            yield self._root / str(where)
        except FileNotFoundError:
            if await asyncio.to_thread(self._size, where) is None:
                raise NotFound(_MISSING_ORIGINAL) from None
            raise

    async def size(self, path: str) -> int | None:
        """Return the original's size in bytes, or None if there is no original."""
        return await asyncio.to_thread(self._size, parse_stored_path(path))

    async def remove(self, path: str) -> None:
        """Remove the original if it exists, and its folder if that is empty then."""
        await asyncio.to_thread(self._remove, parse_stored_path(path))

    async def signed_url(self, path: str, clock_lag: timedelta = timedelta()) -> None:
        """Return None: a folder has no addresses."""

    def _put(self, where: StoredPath, source: Path) -> None:
        with _raising_unavailable(), self._folders(where, create=True) as (_, folder), self._incoming() as incoming:
            arriving = secrets.token_hex(16)
            try:
                written = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=incoming)
                with os.fdopen(written, "wb") as target, source.open("rb") as original:
                    shutil.copyfileobj(original, target, 1 << 20)
                    target.flush()
                    os.fsync(written)
                # A link, unlike a rename, fails if the target exists.
                os.link(arriving, where.name, src_dir_fd=incoming, dst_dir_fd=folder, follow_symlinks=False)
                os.fsync(folder)
            except FileExistsError:
                raise Conflict("An original already exists at this path. Originals are never replaced.") from None
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(arriving, dir_fd=incoming)

    def _size(self, where: StoredPath) -> int | None:
        with _raising_unavailable(), _suppress_file_not_found(), self._folders(where) as (_, folder):
            found = os.stat(where.name, dir_fd=folder, follow_symlinks=False)
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        return None

    def _remove(self, where: StoredPath) -> None:
        with _raising_unavailable(), _suppress_file_not_found(), self._folders(where) as (organisation, folder):
            # Also after an interrupted removal, which leaves the empty folder.
            with suppress(FileNotFoundError):
                os.unlink(where.name, dir_fd=folder)
            try:
                os.rmdir(str(where.document_id), dir_fd=organisation)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    @contextmanager
    def _folders(self, where: StoredPath, *, create: bool = False) -> Generator[tuple[int, int]]:
        """Yield descriptors of the organisation's and the document's folder."""
        if create:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as open_folders:
            root = _open_folder(open_folders, self._root)
            organisation = _open_folder(open_folders, str(where.org_id), within=root, create=create)
            yield organisation, _open_folder(open_folders, str(where.document_id), within=organisation, create=create)

    @contextmanager
    def _incoming(self) -> Generator[int]:
        with ExitStack() as open_folders:
            root = _open_folder(open_folders, self._root)
            incoming = _open_folder(open_folders, _INCOMING, within=root, create=True)
            # Delete files of processes that died while writing.
            for name in os.listdir(incoming):  # noqa: PTH208 - a descriptor has no Path
                with suppress(FileNotFoundError):
                    written = os.stat(name, dir_fd=incoming, follow_symlinks=False).st_mtime
                    if written < time.time() - _ABANDONED_AFTER_S:
                        os.unlink(name, dir_fd=incoming)
            yield incoming


@contextmanager
def _raising_unavailable() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"The folder for originals cannot be used: {error.strerror}.") from error


@contextmanager
def _suppress_file_not_found() -> Generator[None]:
    try:
        yield
    except OSError as error:
        # A link instead of a folder counts as missing: with O_NOFOLLOW it raises ENOTDIR or ELOOP.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise


def _open_folder(open_folders: ExitStack, name: str | Path, *, within: int | None = None, create: bool = False) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=within)
            if within is not None:
                os.fsync(within)
    # `root` itself may be a link that the operator made.
    folder = os.open(name, _FOLDER if within is None else _FOLDER | os.O_NOFOLLOW, dir_fd=within)
    open_folders.callback(os.close, folder)
    return folder
