"""Originals in a bucket of Supabase Storage, reached over its REST API with the project's secret key."""

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

    The secret key bypasses all storage policies, so the caller must check who may touch a path. `max_bytes` bounds a
    download. Raises `Unavailable` if Storage does not answer, refuses the key or has no such bucket.
    """

    def __init__(self, url: str, secret_key: str, bucket: str = "documents", *, max_bytes: int) -> None:
        # httpx would print the key in its complaint about it.
        if not (secret_key.isascii() and secret_key.isprintable()) or " " in secret_key:
            raise Misconfigured("SUPABASE_SECRET_KEY contains characters that no key has.")
        self._objects_url = f"{url.rstrip('/')}/storage/v1/object"
        # Without compression: a small body could become a large file.
        self._headers = {"apikey": secret_key, "Authorization": f"Bearer {secret_key}", "Accept-Encoding": "identity"}
        self._bucket = quote(bucket, safe="")
        self._max_bytes = max_bytes
        self._downloads = DownloadCache()

    async def put(self, path: str, source: Path) -> None:
        """Upload `source` to `path`. Raises `Conflict` if the path is taken, `TooLarge` if the bucket says so."""
        where = parse_stored_path(path)
        with await asyncio.to_thread(source.open, "rb") as content:
            form = {"files": {"file": (where.name, content, "application/octet-stream")}}
            async with self._answer("POST", self._at(where), headers={"x-upsert": "false"}, **form) as response:
                stored = await _json(response)
        if not isinstance(stored, dict) or "Key" not in stored:
            raise _not_storage()

    @asynccontextmanager
    async def local(self, path: str) -> AsyncGenerator[Path]:
        """The original, downloaded to a file that exists at least as long as the context.

        Raises `NotFound` if there is none, `TooLarge` if it is larger than `max_bytes`.
        """
        where = parse_stored_path(path)
        async with self._downloads.open(str(where), lambda target: self._download(where, target)) as file:
            yield file

    async def size(self, path: str) -> int | None:
        """The original's size in bytes, or None if there is no original."""
        where = parse_stored_path(path)
        try:
            async with self._answer("GET", f"info/{self._at(where)}") as response:
                info = await _json(response)
        except NotFound:
            return None
        size = info.get("size", "none") if isinstance(info, dict) else "none"
        if size is not None and not isinstance(size, int):  # null while the upload is under way
            raise _not_storage()
        return size

    async def remove(self, path: str) -> None:
        """Remove the original. It is no error if there is none."""
        where = parse_stored_path(path)
        self._downloads.remove(str(where))
        async with self._answer("DELETE", self._bucket, json={"prefixes": [str(where)]}):
            pass

    async def _download(self, where: StoredPath, target: Path) -> None:
        async with self._answer("GET", self._at(where)) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Unavailable("Supabase Storage answered in an encoding that was not asked for.")
            received = 0
            with await asyncio.to_thread(target.open, "xb") as file:
                async for chunk in response.aiter_raw(_CHUNK_BYTES):
                    received += len(chunk)
                    if received > self._max_bytes:
                        raise TooLarge(f"The original is larger than {self._max_bytes:,} bytes.")
                    await asyncio.to_thread(file.write, chunk)

    def _at(self, where: StoredPath) -> str:
        return f"{self._bucket}/{quote(str(where))}"

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any
    ) -> AsyncGenerator[httpx.Response]:
        """Ask Storage, and return its answer before the body is read. Raise what an error stands for."""
        url, headers = f"{self._objects_url}/{path}", {**self._headers, **(headers or {})}
        try:
            # A session for each call belongs to no event loop and has not to be closed by anybody. Redirects are not
            # followed: the secret key goes to SUPABASE_URL and nowhere else.
            async with (
                httpx.AsyncClient(timeout=_TIMEOUT, verify=self._tls, follow_redirects=False) as session,
                session.stream(method, url, headers=headers, **body) as response,
            ):
                if not response.is_success:
                    raise await _refusal_of(response)
                yield response
        except httpx.HTTPError as error:
            raise Unavailable(f"Supabase Storage does not answer ({type(error).__name__}).") from error

    @cached_property
    def _tls(self) -> SSLContext:
        return httpx.create_ssl_context()


async def _json(response: httpx.Response) -> JsonValue:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_JSON_BYTES:
            break
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def _refusal_of(response: httpx.Response) -> FieldmarkError:
    """Return the error that an answer stands for: its body has the status and code, its HTTP status may be 400."""
    status, code = str(response.status_code), ""
    problem = await _json(response)
    if isinstance(problem, dict):
        status = str(problem.get("statusCode", status))
        code = str(problem.get("error", problem.get("code", "")))
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


def _not_storage() -> Unavailable:
    return Unavailable("What answers at SUPABASE_URL does not answer as Supabase Storage does.")
