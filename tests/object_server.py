"""A server on loopback with the part of the S3 API that is used: one bucket in memory, and faults on request.

It is no S3: what it shows is how the service deals with such answers. The same calls were tried against moto's server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from http_stub import http_stub

KEY_ID, SECRET = "AKIDEXAMPLE", "only/for+this/test"


@dataclass
class ObjectServer:
    """The bucket `inbox`, the received requests, and how to answer wrongly."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    # Statuses of the next answers.
    fail_next: list[int] = field(default_factory=list)
    # The next downloads of an object end after so many bytes, without the rest.
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    # Downloads of these objects get no answer for so long, or this status.
    hangs: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    # Called before an object is returned.
    before_get: object = None
    # The key is refused.
    is_key_expired: bool = False
    pause_seconds: float = 0.0
    page_size: int = 1000

    def keys_got(self) -> list[str]:
        return [path for method, path, _ in self.requests if method == "GET" and path]


def etag_of(content: bytes) -> str:
    return f'"{md5(content).hexdigest()}"'


@contextmanager
def object_server(bucket: str = "inbox") -> Iterator[ObjectServer]:
    state = ObjectServer()

    class Handler(_Handler):
        server_state, bucket_name = state, bucket

    with http_stub(Handler) as url:
        state.url = url
        yield state


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ObjectServer
    bucket_name: str

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if (key := self._key()) is None:
            return
        if self.headers.get("If-None-Match") == "*" and key in self.server_state.objects:
            self._error(412, "PreconditionFailed")
            return
        self.server_state.objects[key] = body
        self._send(200, {"ETag": etag_of(body)})

    def do_POST(self) -> None:
        """Delete the objects of a list."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self._key() is None:
            return
        keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", body)]
        for key in keys:
            self.server_state.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._send(200, {"Content-Type": "application/xml"}, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if (key := self._key()) is None:
            return
        if not key:
            self._list()
            return
        if callable(self.server_state.before_get) and self.command == "GET":
            self.server_state.before_get(key)
        time.sleep(self.server_state.hangs.get(key, 0))
        if key in self.server_state.refused:
            self._error(self.server_state.refused[key], "InvalidObjectState")
            return
        content = self.server_state.objects.get(key)
        if content is None:
            self._error(404, "NoSuchKey")
            return
        if self.headers.get("If-Match", etag_of(content)) != etag_of(content):
            self._error(412, "PreconditionFailed")
            return
        headers = {"ETag": etag_of(content), "Last-Modified": "Fri, 27 Nov 2026 08:00:00 GMT"}
        status, part = 200, content
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(found[1]), min(int(found[2] or len(content)), len(content) - 1)
            status, part = 206, content[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        headers["Content-Length"] = str(len(part))
        if self.command == "GET" and (cuts := self.server_state.cut_after.get(key)):
            part = part[: cuts.pop(0)]
            self.close_connection = True
        self._send(status, headers, part)

    def _list(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        objects = sorted(self.server_state.objects.items(), key=lambda one: one[0].encode())
        found = [
            (key, content)
            for key, content in objects
            if key.startswith(query.get("prefix", "")) and key.encode() > after.encode()
        ]
        most = min(int(query.get("max-keys", 1000)), self.server_state.page_size)
        is_url = query.get("encoding-type") == "url"
        items = "".join(
            f"<Contents><Key>{quote(key) if is_url else escape(key)}</Key>"
            f"<LastModified>2026-11-27T08:00:00.000Z</LastModified>"
            f"<ETag>{escape(etag_of(content))}</ETag><Size>{len(content)}</Size></Contents>"
            for key, content in found[:most]
        )
        more = len(found) > most
        token = f"<NextContinuationToken>{escape(found[most - 1][0])}</NextContinuationToken>" if more else ""
        encoding = "<EncodingType>url</EncodingType>" if is_url else ""
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{encoding}{token}{items}</ListBucketResult>"
        )
        self._send(200, {"Content-Type": "application/xml"}, body.encode())

    def _key(self) -> str | None:
        """Return the object's key, "" for the bucket, or None if an error was sent."""
        state, parts = self.server_state, urlsplit(self.path)
        _, bucket, *rest = parts.path.split("/", 2)
        key = unquote(rest[0]) if rest else ""
        state.requests.append((self.command, key, {name.lower(): value for name, value in self.headers.items()}))
        time.sleep(state.pause_seconds)
        if state.fail_next:
            status = state.fail_next.pop(0)
            self._error(status, "SlowDown")
        elif state.is_key_expired or KEY_ID not in self.headers.get("Authorization", "") + parts.query:
            self._error(403, "InvalidAccessKeyId")
        elif bucket != self.bucket_name:
            self._error(404, "NoSuchBucket")
        else:
            return key
        return None

    def _error(self, status: int, code: str) -> None:
        self._send(status, {}, f"<Error><Code>{code}</Code></Error>".encode())

    def _send(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
