"""Store originals in Supabase Storage, through the package `supabase` with the project's secret key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote

import httpx
from supabase import ASupabaseStorageClient

from fieldmark.errors import Conflict, NotFound, TooLarge, Unavailable
from fieldmark.files.download_cache import DownloadCache
from fieldmark.files.stored_path import StoredPath, parse_stored_path
from fieldmark.http_client import ResponseTooLarge, http_client

if TYPE_CHECKING:
    from ssl import SSLContext

_TIMEOUT: Final = httpx.Timeout(30, connect=5)
_CHUNK_BYTES: Final = 1 << 20
_MAX_JSON_BYTES: Final = 1 << 16


class SupabaseFiles:
    """Originals in `bucket` of the project at `url`.

    The secret key bypasses all storage policies, so the caller must check access to a path. `max_bytes` limits a
    download. Raises `Unavailable` if Storage does not answer, refuses the key or has no such bucket.
    """

    def __init__(self, url: str, secret_key: str, bucket: str = "documents", *, max_bytes: int) -> None:
        self._url = f"{url.rstrip('/')}/storage/v1/"
        # Only the older keys are JWTs. Supabase exchanges a newer one (sb_secret_…) for a JWT itself, unless there is
        # another bearer token.
        is_jwt = secret_key.count(".") == 2
        self._headers = {"apikey": secret_key} | ({"Authorization": f"Bearer {secret_key}"} if is_jwt else {})
        self._bucket = bucket
        self._max_bytes = max_bytes
        self._downloads = DownloadCache()

    async def put(self, path: str, source: Path) -> None:
        """Upload `source` to `path`. Raise `Conflict` if the path exists, `TooLarge` if the bucket refuses its size."""
        where = parse_stored_path(path)
        with await asyncio.to_thread(source.open, "rb") as content:
            async with self._storage() as storage:
                await storage.from_(self._bucket).upload(
                    str(where), content, {"content-type": "application/octet-stream", "upsert": "false"}
                )

    @asynccontextmanager
    async def local(self, path: str) -> AsyncGenerator[Path]:
        """Yield a downloaded copy of the original, to read within the context. Raise `NotFound`, or `TooLarge` if it is
        larger than `max_bytes`."""
        where = parse_stored_path(path)
        async with self._downloads.open(str(where), lambda target: self._download(where, target)) as file:
            yield file

    async def size(self, path: str) -> int | None:
        """Return the original's size in bytes, or None if there is no original."""
        where = parse_stored_path(path)
        try:
            async with self._storage() as storage:
                size: object = (await storage.from_(self._bucket).info(str(where)))["size"]
                if size is not None and not isinstance(size, int):  # null during the upload
                    raise TypeError("the size is not a number")
                return size
        except NotFound:
            return None

    async def remove(self, path: str) -> None:
        """Remove the original if it exists."""
        where = parse_stored_path(path)
        self._downloads.remove(str(where))
        async with self._storage() as storage:
            await storage.from_(self._bucket).remove([str(where)])

    async def signed_url(self, path: str, clock_lag: timedelta = timedelta()) -> None:
        """Return None: people download through the service, which checks their rights at each request."""

    async def _download(self, where: StoredPath, target: Path) -> None:
        # By hand: the package holds a whole download in memory.
        url = f"{self._url}object/{quote(self._bucket, safe='')}/{quote(str(where))}"
        async with self._session(self._max_bytes) as session, session.stream("GET", url) as response:
            with await asyncio.to_thread(target.open, "xb") as file:
                async for chunk in response.aiter_raw(_CHUNK_BYTES):
                    await asyncio.to_thread(file.write, chunk)

    @asynccontextmanager
    async def _storage(self) -> AsyncGenerator[ASupabaseStorageClient]:
        async with self._session(_MAX_JSON_BYTES) as session:
            try:
                yield ASupabaseStorageClient(self._url, self._headers, http_client=session)
            except (ValueError, LookupError, TypeError, RecursionError, ResponseTooLarge) as error:
                raise Unavailable("The response is not from Supabase Storage. Check SUPABASE_URL.") from error

    @asynccontextmanager
    async def _session(self, max_bytes: int) -> AsyncGenerator[httpx.AsyncClient]:
        try:
            # A client for each call is not bound to an event loop and needs no closing.
            async with http_client(
                max_bytes=max_bytes,
                timeout=_TIMEOUT,
                headers=self._headers,
                verify=self._tls,
                on_response=_raise_for_status,
            ) as session:
                yield session
        except ResponseTooLarge as error:
            raise TooLarge(f"The original is larger than {max_bytes:,} bytes.") from error
        except httpx.HTTPError as error:
            raise Unavailable(f"Supabase Storage does not answer ({type(error).__name__}).") from error

    @cached_property
    def _tls(self) -> SSLContext:
        return httpx.create_ssl_context()


async def _raise_for_status(response: httpx.Response) -> None:
    """Raise the error for a response. The status is in its body: the HTTP status may be 400 for all errors."""
    if response.is_success:
        return
    problem: object = None
    with suppress(ValueError, RecursionError, ResponseTooLarge):
        problem = json.loads(await response.aread())
    members = cast("dict[str, object]", problem) if isinstance(problem, dict) else {}
    status = str(members.get("statusCode", response.status_code))
    match status, members.get("error", members.get("code")):
        case ("404", "Bucket not found" | "NoSuchBucket"):
            raise Unavailable("Supabase Storage has no such bucket: apply the migrations, which create it.")
        case ("404", _):
            raise NotFound("The original of this document no longer exists.")
        case ("409", _):
            raise Conflict("An original already exists at this path. Originals are never replaced.")
        case ("413", _):
            raise TooLarge("The file is larger than Supabase Storage accepts.")
        case ("401" | "403", _):
            raise Unavailable("Supabase Storage refused the secret key. Check SUPABASE_SECRET_KEY.")
        case _:
            raise Unavailable(f"Supabase Storage failed with status {status[:3]}. Try again.")
