"""Lists and downloads the objects of an S3-compatible bucket.

Written here and not with `obstore`, which cannot connect to an address that was checked, and cannot list a bucket in
which one object has a name such as `a//b`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, unquote_plus, urlsplit
from xml.etree import ElementTree

import httpx

from fieldmark.public_addresses import IpNetwork, host_header, send_request
from fieldmark.services.sources.failures import SourceFailure

PAGE_SIZE: Final = 1000
_SECONDS: Final = 30.0
_MAX_LIST_BYTES: Final = 16 << 20
_MAX_LIST_ELEMENTS: Final = 50 * PAGE_SIZE
_PARSED_AT_ONCE: Final = 64 << 10
"""Bytes of a listing, during which nothing else runs."""
_EMPTY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class BucketObject:
    """An object of a listing. `etag` changes when its content does."""

    name: str
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket at `url`, `https://host/bucket`. Its methods raise SourceFailure, and the errors of connections."""

    url: str
    key_id: str
    secret: str
    allowed: Sequence[IpNetwork]

    async def list_objects(self, prefix: str, after: str) -> tuple[list[BucketObject], bool]:
        """Return up to 1,000 objects with names after `after`, in their order, and whether there are more."""
        query = {
            "encoding-type": "url", "list-type": "2", "max-keys": str(PAGE_SIZE), "prefix": prefix,
            "start-after": after,
        }  # fmt: skip
        async with self._get("", query, {}) as response:
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_LIST_BYTES:
                    raise SourceFailure("not_understood")
        return await asyncio.to_thread(parse_list, bytes(body))

    async def download(self, name: str, etag: str, target: Path, max_bytes: int) -> bool:
        """Write an object to a new file. Return False if it was deleted or changed since it was listed."""
        async with self._get(name, {}, {"If-Match": etag}) as response:
            if response.status_code in (404, 412):
                return False
            received = 0
            with await asyncio.to_thread(target.open, "wb") as file:
                async for chunk in response.aiter_raw(1 << 20):
                    received += len(chunk)
                    if received > max_bytes:
                        raise SourceFailure("not_understood")
                    await asyncio.to_thread(file.write, chunk)
        return True

    @asynccontextmanager
    async def _get(
        self, name: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncGenerator[httpx.Response]:
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/") + (f"/{quote(name, safe='/~')}" if name else "")
        text = "&".join(f"{key}={quote(value, safe='~')}" for key, value in sorted(query.items()))
        signed = sign(
            "GET", host_header(parts), path, text, self.key_id, self.secret, region_of(parts.hostname or ""), _now()
        )
        url = parts._replace(path=path, query=text).geturl()
        headers = {**headers, **signed, "Accept-Encoding": "identity"}
        async with send_request("GET", url, headers, self.allowed, timeout_seconds=_SECONDS) as response:
            match response.status_code:
                case 200:
                    pass
                case 404 | 412 if name:
                    pass
                case 401 | 403:
                    raise SourceFailure("credentials_refused")
                case 404:
                    raise SourceFailure("not_found")
                case status if status >= 500 or status == 429:
                    raise SourceFailure("unreachable")
                case _:
                    raise SourceFailure("not_understood")
            yield response


def region_of(host: str) -> str:
    """Return the region that a request is signed for: that of hosts such as `s3.eu-central-1.amazonaws.com`."""
    found = re.match(r"s3[.-]([a-z0-9-]+)\.[a-z0-9-]+\.[a-z.]+$", host)
    return found[1] if found else "us-east-1"


def sign(
    method: str, host: str, path: str, query: str, key_id: str, secret: str, region: str, now: datetime
) -> dict[str, str]:
    """Return the headers that sign a request without a body (AWS Signature Version 4)."""
    at = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": at}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{_EMPTY}"
    scope = f"{at[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    authorization = f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {"x-amz-date": at, "x-amz-content-sha256": _EMPTY, "Authorization": authorization}


def _now() -> datetime:
    return datetime.now(UTC)


def parse_list(body: bytes) -> tuple[list[BucketObject], bool]:
    try:
        root = _parse_xml(body)
        is_encoded = root.findtext("{*}EncodingType") == "url"
        found: list[BucketObject] = []
        for item in root.iterfind("{*}Contents"):
            name = item.findtext("{*}Key") or ""
            found.append(
                BucketObject(
                    unquote_plus(name, errors="strict") if is_encoded else name,
                    item.findtext("{*}ETag") or "",
                    int(item.findtext("{*}Size") or ""),
                )
            )
    except (ElementTree.ParseError, ValueError):
        raise SourceFailure("not_understood") from None
    if len(found) > PAGE_SIZE:
        raise SourceFailure("not_understood")
    return found, root.findtext("{*}IsTruncated") == "true"


def _parse_xml(body: bytes) -> ElementTree.Element:
    """Return the root. Raise ParseError, and ValueError for more elements than a listing has."""
    # Expat limits what entities expand to, and loads none.
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("start",))
    found: list[ElementTree.Element] = []
    for start in range(0, len(body), _PARSED_AT_ONCE):
        parser.feed(body[start : start + _PARSED_AT_ONCE])
        found += (element for _, element in cast("Iterator[tuple[str, ElementTree.Element]]", parser.read_events()))
        if len(found) > _MAX_LIST_ELEMENTS:
            raise ValueError("too many elements")
    parser.close()
    return found[0]
