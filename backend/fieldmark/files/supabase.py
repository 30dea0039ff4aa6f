"""Store originals in Supabase Storage, through its REST API with the project's secret key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx
from pydantic import JsonValue

from fieldmark.errors import Conflict, FieldmarkError, Misconfigured, NotFound, TooLarge, Unavailable
from fieldmark.files.download_cache import DownloadCache
from fieldmark.files.stored_path import StoredPath, parse_stored_path

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
        # The error of httpx would contain the key.
        if not (secret_key.isascii() and secret_key.isprintable()) or " " in secret_key:
            raise Misconfigured("SUPABASE_SECRET_KEY contains characters that are not allowed in a key. Copy it again.")
        self._objects_url = f"{url.rstrip('/')}/storage/v1/object"
        # Without compression: a small body could become a large file.
        self._headers = {"apikey": secret_key, "Authorization": f"Bearer {secret_key}", "Accept-Encoding": "identity"}
        self._bucket = quote(bucket, safe="")
        self._max_bytes = max_bytes
        self._downloads = DownloadCache()

    async def put(self, path: str, source: Path) -> None:
        """Upload `source` to `path`. Raise `Conflict` if the path exists, `TooLarge` if the bucket refuses its size."""
        where = parse_stored_path(path)
        with await asyncio.to_thread(source.open, "rb") as content:
            form = {"files": {"file": (where.name, content, "application/octet-stream")}}
            async with self._request(
                "POST", self._object_path(where), headers={"x-upsert": "false"}, **form
            ) as response:
                stored = await _parse_json(response)
        if not isinstance(stored, dict) or "Key" not in stored:
            raise _not_storage_error()

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
            async with self._request("GET", f"info/{self._object_path(where)}") as response:
                info = await _parse_json(response)
        except NotFound:
            return None
        size = info.get("size", "none") if isinstance(info, dict) else "none"
        if size is not None and not isinstance(size, int):  # null during the upload
            raise _not_storage_error()
        return size

    async def remove(self, path: str) -> None:
        """Remove the original if it exists."""
        where = parse_stored_path(path)
        self._downloads.remove(str(where))
        async with self._request("DELETE", self._bucket, json={"prefixes": [str(where)]}):
            pass

    async def _download(self, where: StoredPath, target: Path) -> None:
        async with self._request("GET", self._object_path(where)) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Unavailable(
                    "Supabase Storage sent an unsupported content encoding. Check the proxy in front of it."
                )
            received = 0
            with await asyncio.to_thread(target.open, "xb") as file:
                async for chunk in response.aiter_raw(_CHUNK_BYTES):
                    received += len(chunk)
                    if received > self._max_bytes:
                        raise TooLarge(f"The original is larger than {self._max_bytes:,} bytes.")
                    await asyncio.to_thread(file.write, chunk)

    def _object_path(self, where: StoredPath) -> str:
        return f"{self._bucket}/{quote(str(where))}"

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request to Storage and yield the response before its body is read. Raise our error for its status."""
        url, headers = f"{self._objects_url}/{path}", {**self._headers, **(headers or {})}
        try:
            # A client for each call is not bound to an event loop and needs no closing. Redirects are not followed, so
            # that the secret key is sent to SUPABASE_URL only.
            async with (
                httpx.AsyncClient(timeout=_TIMEOUT, verify=self._tls, follow_redirects=False) as session,
                session.stream(method, url, headers=headers, **body) as response,
            ):
                if not response.is_success:
                    raise await _response_error(response)
                yield response
        except httpx.HTTPError as error:
            raise Unavailable(f"Supabase Storage does not answer ({type(error).__name__}).") from error

    @cached_property
    def _tls(self) -> SSLContext:
        return httpx.create_ssl_context()


async def _parse_json(response: httpx.Response) -> JsonValue:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_JSON_BYTES:
            break
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def _response_error(response: httpx.Response) -> FieldmarkError:
    """Return the error for a response. The status is in its body: the HTTP status may be 400 for all errors."""
    status, code = str(response.status_code), ""
    problem = await _parse_json(response)
    if isinstance(problem, dict):
        status = str(problem.get("statusCode", status))
        code = str(problem.get("error", problem.get("code", "")))
    match status, code:
        case ("404", "Bucket not found" | "NoSuchBucket"):
            return Unavailable("Supabase Storage has no such bucket: apply the migrations, which create it.")
        case ("404", _):
            return NotFound("The original of this document no longer exists.")
        case ("409", _):
            return Conflict("An original already exists at this path. Originals are never replaced.")
        case ("413", _):
            return TooLarge("The file is larger than Supabase Storage accepts.")
        case ("401" | "403", _):
            return Unavailable("Supabase Storage refused the secret key. Check SUPABASE_SECRET_KEY.")
        case _:
            return Unavailable(f"Supabase Storage failed with status {status[:3]}. Try again.")


def _not_storage_error() -> Unavailable:
    return Unavailable("The response is not from Supabase Storage. Check SUPABASE_URL.")
