"""A fake Supabase Auth on loopback: passwords, token refresh, links by email, signing keys."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from http_stub import http_stub
from identity.test_tokens import Key, make_es256_key

EMAIL, PASSWORD = "ann@example.org", "correct horse"
PUBLISHABLE_KEY = "sb_publishable_test"


@dataclass
class SupabaseAuth:
    """An auth server with one user. `token_seconds` is the lifetime of a token; `calls` are the requests it
    received."""

    url: str = ""
    key: Key = field(default_factory=lambda: make_es256_key("page"))
    user_id: str = field(default_factory=lambda: str(uuid4()))
    token_seconds: int = 3600
    calls: list[str] = field(default_factory=list)

    def session(self) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": f"{self.url}/auth/v1",
            "sub": self.user_id,
            "aud": "authenticated",
            "role": "authenticated",
            "iat": now,
            "exp": now + self.token_seconds,
            "email": EMAIL,
            "is_anonymous": False,
            "session_id": str(uuid4()),
        }
        user = {"id": self.user_id, "aud": "authenticated", "role": "authenticated", "email": EMAIL}
        user |= {"app_metadata": {}, "user_metadata": {}, "created_at": "2026-01-01T00:00:00Z"}
        token = {"access_token": self.key.sign(claims), "token_type": "bearer", "refresh_token": str(uuid4())}
        return {**token, "expires_in": self.token_seconds, "expires_at": now + self.token_seconds, "user": user}

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        match method, path:
            case "GET", "/auth/v1/.well-known/jwks.json":
                return 200, {"keys": [self.key.jwk]}
            case "POST", "/auth/v1/token" if query["grant_type"] == ["refresh_token"]:
                return 200, self.session()
            case "POST", "/auth/v1/token" if (body.get("email"), body.get("password")) == (EMAIL, PASSWORD):
                return 200, self.session()
            case "POST", "/auth/v1/token":
                return 400, {"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"}
            case "POST", "/auth/v1/otp":
                return 200, {}
            case "POST", "/auth/v1/logout":
                return 204, None
            case _:
                return 404, {"msg": "not found"}


@contextmanager
def supabase_auth() -> Iterator[SupabaseAuth]:
    auth = SupabaseAuth()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}") if length else {}
            parts = urlsplit(self.path)
            status, content_json = (204, None)
            if self.command != "OPTIONS":
                query = parse_qs(parts.query)
                auth.calls.append(" ".join([self.command, parts.path, *query.get("grant_type", [])]))
                status, content_json = auth.answer(self.command, parts.path, query, body)
            content = b"" if content_json is None else json.dumps(content_json).encode()
            self.send_response(status)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "*, authorization")
            self.send_header("Access-Control-Allow-Methods", "*")
            self.send_header("Content-Type", "application/json")
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_OPTIONS = _do  # noqa: N815  names of the standard library

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http_stub(Handler) as auth.url:
        yield auth
