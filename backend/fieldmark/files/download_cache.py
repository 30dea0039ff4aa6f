"""Cache downloaded originals on disk: pages are drawn one by one, and an original never changes."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 512 * 1024 * 1024
KEEP_SECONDS: Final = 600


@dataclass(slots=True, eq=False)
class _Copy:
    file: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int | None = None  # None: not downloaded yet
    readers: int = 0
    used_at: float = 0


class DownloadCache:
    """Copies of files by key, in a temporary folder that is deleted with this object.

    Copies that are not being read are deleted `keep_seconds` after their last use. Above `max_bytes` in all, the least
    recently used copies are deleted first.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, keep_seconds: float = KEEP_SECONDS) -> None:
        self._max_bytes = max_bytes
        self._keep_seconds = keep_seconds
        self._copies = OrderedDict[str, _Copy]()

    @cached_property
    def _folder(self) -> Path:
        folder = tempfile.mkdtemp(prefix="fieldmark-originals-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    @asynccontextmanager
    async def open(self, key: str, download: Callable[[Path], Awaitable[None]]) -> AsyncGenerator[Path]:
        """Yield a copy to read within the context. `download` creates it at a new path; concurrent callers share it."""
        copy = self._copies.setdefault(key, _Copy(self._folder / secrets.token_hex(16)))
        copy.readers += 1
        try:
            async with copy.lock:
                if copy.size is None:
                    copy.file.unlink(missing_ok=True)  # left by a failed download
                    await download(copy.file)
                    copy.size = copy.file.stat().st_size
            yield copy.file
        finally:
            copy.readers -= 1
            copy.used_at = time.monotonic()
            if self._copies.get(key) is copy:
                self._copies.move_to_end(key)
            else:
                self._delete(copy)
            self._delete_old()
            asyncio.get_running_loop().call_later(self._keep_seconds, self._delete_old)

    def remove(self, key: str) -> None:
        """Delete a copy as soon as it is not being read."""
        if copy := self._copies.pop(key, None):
            self._delete(copy)

    def _delete_old(self) -> None:
        kept = sum(copy.size or 0 for copy in self._copies.values())
        expired = time.monotonic() - self._keep_seconds
        for key, copy in list(self._copies.items()):
            if not copy.readers and (kept > self._max_bytes or copy.used_at <= expired or copy.size is None):
                kept -= copy.size or 0
                self.remove(key)

    @staticmethod
    def _delete(copy: _Copy) -> None:
        if not copy.readers:
            copy.file.unlink(missing_ok=True)
