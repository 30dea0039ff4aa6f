"""Originals in a bucket of Supabase Storage, reached with the project's secret key."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
from pydantic import JsonValue

from fieldmark.errors import Conflict, FieldmarkError, Misconfigured, NotFound, TooLarge, Unavailable
from fieldmark.files.stored_path import StoredPath, parse_stored_path

if TYPE_CHECKING:
    from ssl import SSLContext

    from storage3._async.file_api import AsyncBucketProxy

_TIMEOUT = httpx.Timeout(30, connect=5)
_CHUNK_BYTES = 1 << 20
_ERROR_BYTES = 1 << 16


class SupabaseFiles:
    """Originals in `bucket` of the project at `url`.

    The secret key bypasses all storage policies, so the caller must check who may touch a path. `max_bytes` bounds a
    download. Raises `Unavailable` if Storage does not answer, refuses the key or has no such bucket.
    """

    def __init__(self, url: str, secret_key: str, bucket: str = "documents", *, max_bytes: int) -> None:
        # httpx would print the key in its complaint about it.
        if not (secret_key.isascii() and secret_key.isprintable()) or " " in secret_key:
            raise Misconfigured("SUPABASE_SECRET_KEY contains characters that no key has.")
        self._url = url.rstrip("/")
        self._secret_key = secret_key
        self._bucket = bucket
        self._max_bytes = max_bytes

    async def put(self, path: str, source: Path) -> None:
        """Upload `source` to `path`. Raises `Conflict` if the path is taken, `TooLarge` if the bucket says so."""
        where = parse_stored_path(path)
        async with self._storage() as bucket:
            await bucket.upload(str(where), source, {"content-type": "application/octet-stream", "upsert": "false"})

    @asynccontextmanager
    async def local(self, path: str) -> AsyncGenerator[Path]:
        """The original, downloaded to a file that exists as long as the context.

        Raises `NotFound` if there is none, `TooLarge` if it is larger than `max_bytes`.
        """
        where = parse_stored_path(path)
        with tempfile.TemporaryDirectory(prefix="fieldmark-") as folder:
            target = Path(folder) / "original"
            await self._download(where, target)
            yield target

    async def size(self, path: str) -> int | None:
        """The original's size in bytes, or None if there is no original."""
        where = parse_stored_path(path)
        try:
            async with self._storage() as bucket:
                size: object = (await bucket.info(str(where)))["size"]
                # Null while the upload is under way.
                if size is not None and not isinstance(size, int):
                    raise TypeError("the size is no number")
                return size
        except NotFound:
            return None

    async def remove(self, path: str) -> None:
        """Remove the original. It is no error if there is none."""
        where = parse_stored_path(path)
        async with self._storage() as bucket:
            await bucket.remove([str(where)])

    async def _download(self, where: StoredPath, target: Path) -> None:
        # The client holds a whole download in memory, however large; so this one request is made without it.
        url = f"{self._url}/storage/v1/object/{quote(self._bucket, safe='')}/{quote(str(where))}"
        # Compressed on its way, a small body could become a large file.
        key = self._secret_key
        headers = {"apikey": key, "Authorization": f"Bearer {key}", "Accept-Encoding": "identity"}
        async with self._session() as session, session.stream("GET", url, headers=headers) as response:
            if response.status_code != 200:
                raise await _refusal_of(response)
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Unavailable("Supabase Storage answered in an encoding that was not asked for.")
            received = 0
            with await asyncio.to_thread(target.open, "xb") as file:
                async for chunk in response.aiter_raw(_CHUNK_BYTES):
                    received += len(chunk)
                    if received > self._max_bytes:
                        raise TooLarge(f"The original is larger than {self._max_bytes:,} bytes.")
                    await asyncio.to_thread(file.write, chunk)

    @asynccontextmanager
    async def _storage(self) -> AsyncGenerator[AsyncBucketProxy]:
        # Imported here, and beside the event loop, because it takes longer than the rest of the service's start.
        await asyncio.to_thread(import_module, "supabase")
        from storage3.exceptions import StorageApiError
        from supabase import AsyncClient, AsyncClientOptions

        async with self._session() as session:
            options = AsyncClientOptions(httpx_client=session, auto_refresh_token=False, persist_session=False)
            try:
                yield AsyncClient(self._url, self._secret_key, options).storage.from_(self._bucket)
            except StorageApiError as error:
                raise _refusal(str(error.status), error.code) from error
            except (ValueError, LookupError, TypeError) as error:
                raise Unavailable("What answers at SUPABASE_URL does not answer as Supabase Storage does.") from error

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[httpx.AsyncClient]:
        # A session for each call belongs to no event loop and has not to be closed by anybody. Redirects are not
        # followed: the secret key goes to SUPABASE_URL and nowhere else.
        async with httpx.AsyncClient(timeout=_TIMEOUT, verify=self._tls, follow_redirects=False) as session:
            try:
                yield session
            except httpx.HTTPError as error:
                raise Unavailable(f"Supabase Storage does not answer ({type(error).__name__}).") from error

    @cached_property
    def _tls(self) -> SSLContext:
        return httpx.create_ssl_context()


async def _refusal_of(response: httpx.Response) -> FieldmarkError:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _ERROR_BYTES:
            break
    status, code = str(response.status_code), ""
    try:
        told: JsonValue = json.loads(body)
    except ValueError:
        told = None
    if isinstance(told, dict):
        status = str(told.get("statusCode", status))
        code = str(told.get("error", told.get("code", "")))
    return _refusal(status, code)


def _refusal(status: str, code: str) -> FieldmarkError:
    """The error that the status and code in an answer's body stand for. Its HTTP status may be 400 for any of them."""
    match status, code:
        case ("404", "Bucket not found" | "NoSuchBucket"):
            return Unavailable("Supabase Storage has no such bucket: apply the migrations, which create it.")
        case ("404", _):
            return NotFound("The original of this document is gone.")
        case ("409", _):
            return Conflict("An original already lies at this path, and originals are never replaced.")
        case ("413", _):
            return TooLarge("The file is larger than Supabase Storage accepts.")
        case ("401" | "403", _):
            return Unavailable("Supabase Storage refuses the service: check SUPABASE_SECRET_KEY.")
        case _:
            return Unavailable(f"Supabase Storage could not do it (status {status[:3]}).")
