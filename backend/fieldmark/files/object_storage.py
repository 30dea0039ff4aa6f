"""Store originals in a bucket of S3-compatible storage, Google Cloud Storage or Azure, with the package `obstore`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from fieldmark.errors import Conflict, Misconfigured, NotFound, TooLarge, Unavailable
from fieldmark.files.download_cache import DownloadCache
from fieldmark.files.stored_path import StoredPath, parse_stored_path

if TYPE_CHECKING:
    from obstore import SignCapableStore
    from obstore.store import ClientConfig, RetryConfig

_SIGNED_FOR: Final = timedelta(seconds=60)
_MAX_LAG: Final = timedelta(minutes=15)  # with more, storage refuses every request
# (Plain HTTP only if the operator's endpoint is http://…, such as one beside the service.)
_CLIENT: Final[ClientConfig] = {
    "connect_timeout": timedelta(seconds=5),
    "timeout": timedelta(seconds=60),
    "allow_http": True,
}
_RETRIES: Final[RetryConfig] = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_CHUNK_BYTES: Final = 1 << 20
# Also for signed addresses: a browser saves the file and never shows it.
_ATTRIBUTES: Final = {"Content-Type": "application/octet-stream", "Content-Disposition": "attachment"}
_MISSING: Final = "The original of this document no longer exists."


class ObjectStorageFiles:
    """Originals in the bucket of `url`, such as `s3://bucket/folder`. Credentials, region and endpoint are read from
    the environment by the provider's own names.

    `max_bytes` limits a download. Raises `Unavailable` if the storage does not answer, refuses the credentials or has
    no such bucket.
    """

    def __init__(self, url: str, *, max_bytes: int) -> None:
        try:
            self._store = cast("SignCapableStore", from_url(url, client_options=_CLIENT, retry_config=_RETRIES))
        except (BaseError, ValueError) as error:
            raise Misconfigured(f"FIELDMARK_FILES_URL cannot be used: {_first_line(error)}") from None
        self._max_bytes = max_bytes
        self._downloads = DownloadCache()

    async def put(self, path: str, source: Path) -> None:
        """Upload `source` to `path`. Raise `Conflict` if the path exists."""
        where = str(parse_stored_path(path))
        with _raising_unavailable():
            try:
                await obstore.put_async(
                    self._store, where, source, mode="create", use_multipart=False, attributes=_ATTRIBUTES
                )
            except AlreadyExistsError:
                raise Conflict("An original already exists at this path. Originals are never replaced.") from None
            except FileNotFoundError:
                raise Unavailable("There is no such bucket. Check FIELDMARK_FILES_URL.") from None

    @asynccontextmanager
    async def local(self, path: str) -> AsyncGenerator[Path]:
        """Yield a downloaded copy of the original, to read within the context. Raise `NotFound`, or `TooLarge` if it is
        larger than `max_bytes`."""
        where = parse_stored_path(path)
        async with self._downloads.open(str(where), lambda target: self._download(where, target)) as file:
            yield file

    async def size(self, path: str) -> int | None:
        """Return the original's size in bytes, or None if there is no original."""
        where = str(parse_stored_path(path))
        with _raising_unavailable(), suppress(FileNotFoundError):
            return (await obstore.head_async(self._store, where))["size"]
        return None

    async def remove(self, path: str) -> None:
        """Remove the original if it exists."""
        where = str(parse_stored_path(path))
        self._downloads.remove(where)
        with _raising_unavailable(), suppress(FileNotFoundError):
            await obstore.delete_async(self._store, where)

    async def signed_url(self, path: str, clock_lag: timedelta = timedelta()) -> str | None:
        """Return an address from which anyone can download the original for a minute. Raise `NotFound`."""
        if await self.size(path) is None:
            raise NotFound(_MISSING)
        valid_for = _SIGNED_FOR + min(clock_lag, _MAX_LAG)  # from this machine's time on
        with _raising_unavailable():
            return await obstore.sign_async(self._store, "GET", str(parse_stored_path(path)), valid_for)

    async def _download(self, where: StoredPath, target: Path) -> None:
        with _raising_unavailable():
            try:
                original = await obstore.get_async(self._store, str(where))
            except FileNotFoundError:
                raise NotFound(_MISSING) from None
            if original.meta["size"] > self._max_bytes:
                raise TooLarge(f"The original is larger than {self._max_bytes:,} bytes.")
            with await asyncio.to_thread(target.open, "xb") as file:
                async for chunk in original.stream(min_chunk_size=_CHUNK_BYTES):
                    await asyncio.to_thread(file.write, chunk)


@contextmanager
def _raising_unavailable() -> Generator[None]:
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise Unavailable(
            "The object storage refused the credentials. Check the key and its rights in the bucket."
        ) from error
    except BaseError as error:
        raise Unavailable(f"The object storage failed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return what an error says, without its debug output and without an address, which may have a signature."""
    return str(error).partition("\n")[0].partition("?")[0][:200]
