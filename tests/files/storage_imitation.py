"""An imitation of Supabase Storage's REST API on loopback: objects in memory, errors shaped as the real one's are.

It is no Supabase: written from the routes and error classes of supabase/storage and from what storage3 sends. What it
shows is how `SupabaseFiles` deals with such answers, not that the real service gives them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

SECRET_KEY = "sb_secret_only_for_this_test"
LEGACY_KEY = "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.c2lnbmF0dXJl"
API = "/storage/v1/object/"


@dataclass
class Storage:
    """The bucket `documents` in memory, the received requests, and how to answer wrongly."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    # (status, headers, body) for every request.
    fixed_response: tuple[int, dict[str, str], bytes] | None = None
    # Errors of older releases: HTTP 400, with the status in the body.
    has_old_error_format: bool = True
    # The connection drops after this many bytes of an object.
    drop_after_bytes: int | None = None
    # If set, uploads are counted and not kept, and each download has this many bytes.
    large_bytes: int | None = None


@contextmanager
def storage() -> Iterator[Storage]:
    state = Storage()

    class Handler(_Handler):
        storage = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    storage: Storage

    def do_POST(self) -> None:
        if self.storage.large_bytes is not None:
            left = self.storage.large_bytes = int(self.headers["Content-Length"])
            while left:
                left -= len(self.rfile.read(min(left, 1 << 16)))
            self._json(200, {"Id": "1", "Key": "documents/large"})
            return
        body = self._body()
        if self._sent_fixed_response():
            return
        name = self._name(API + "documents/")
        if name in self.storage.objects:
            self._error(409, "Duplicate", "KeyAlreadyExists", "The resource already exists")
            return
        form = message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode() + body)
        [content] = [part for part in form.get_payload() if part.get_filename()]
        self.storage.objects[name] = content.get_payload(decode=True)
        self._json(200, {"Id": "1", "Key": f"documents/{name}"})

    def do_GET(self) -> None:
        if self._sent_fixed_response():
            return
        info = self.path.startswith(API + "info/")
        name = self._name(API + ("info/documents/" if info else "documents/"))
        content = self.storage.objects.get(name)
        if self.storage.large_bytes is not None:
            self.send_response(200)
            self.send_header("Content-Length", str(self.storage.large_bytes))
            self.end_headers()
            for _ in range(self.storage.large_bytes >> 16):
                self.wfile.write(bytes(1 << 16))
            self.wfile.write(bytes(self.storage.large_bytes % (1 << 16)))
        elif content is None:
            self._error(404, "not_found", "NoSuchKey", "Object not found")
        elif info:
            self._json(200, {"name": name, "bucket_id": "documents", "size": len(content)})
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: self.storage.drop_after_bytes])

    def do_DELETE(self) -> None:
        body = self._body()
        if self._sent_fixed_response():
            return
        gone = [name for name in json.loads(body)["prefixes"] if self.storage.objects.pop(name, None) is not None]
        self._json(200, [{"name": name} for name in gone])

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        raise AssertionError("an upload names its length")

    def _sent_fixed_response(self) -> bool:
        self.storage.requests.append((self.command, self.path, dict(self.headers)))
        if self.storage.fixed_response is not None:
            status, headers, body = self.storage.fixed_response
            self.send_response(status)
            for header in headers.items():
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body)
            return True
        key, authorization = self.headers.get("apikey"), self.headers.get("Authorization")
        if key not in (SECRET_KEY, LEGACY_KEY):
            self._error(403, "Unauthorized", "AccessDenied", "Invalid API key")
        elif authorization is None and key == SECRET_KEY:
            return False  # Supabase's gateway adds a JWT for such a key
        elif authorization is None:
            self._error(400, "Error", "InvalidRequest", "headers must have required property 'authorization'")
        elif authorization != f"Bearer {LEGACY_KEY}":
            self._error(403, "Unauthorized", "AccessDenied", "Invalid Compact JWS")
        else:
            return False
        return True

    def _name(self, prefix: str) -> str:
        assert self.path.startswith(prefix), self.path
        return unquote(self.path.removeprefix(prefix))

    def _error(self, status: int, error: str, code: str, message: str) -> None:
        body = {"statusCode": str(status), "error": error, "code": code, "message": message}
        self._json(400 if self.storage.has_old_error_format else status, body)

    def _json(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
