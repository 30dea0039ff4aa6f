"""Supabase Auth: passwords, token refresh, links by email, signing keys."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import jwt

from identity.test_tokens import Key, make_es256_key

EMAIL, PASSWORD = "ann@example.org", "correct horse"
"""The user of most tests. Every address is a user with this password and an id that is computed from the address."""


@dataclass
class SupabaseAuth:
    """Users, and the key that signs their tokens. `token_seconds` is the lifetime of a token; `calls` are the requests
    it received."""

    url: str = ""
    key: Key = field(default_factory=lambda: make_es256_key("page"))
    token_seconds: int = 3600
    calls: list[str] = field(default_factory=list)

    def session(self, email: str = EMAIL) -> dict[str, Any]:
        now = int(time.time())
        user = {"id": user_id(email), "aud": "authenticated", "role": "authenticated", "email": email}
        claims = {
            "iss": f"{self.url}/auth/v1",
            "sub": user["id"],
            "aud": "authenticated",
            "role": "authenticated",
            "iat": now,
            "exp": now + self.token_seconds,
            "email": email,
            "is_anonymous": False,
            "session_id": str(uuid4()),
        }
        user |= {"app_metadata": {}, "user_metadata": {}, "created_at": "2026-01-01T00:00:00Z"}
        token = {"access_token": self.key.sign(claims), "token_type": "bearer", "refresh_token": f"{uuid4()}|{email}"}
        return {**token, "expires_in": self.token_seconds, "expires_at": now + self.token_seconds, "user": user}

    def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token. Raise `jwt.PyJWTError` if it is invalid or expired."""
        return jwt.decode(token, self.key.private.public_key(), [self.key.algorithm], audience="authenticated")

    def answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any], bearer: str
    ) -> tuple[int, Any]:
        """Return the status and the JSON of a response."""
        grant = query.get("grant_type")
        self.calls.append(" ".join(filter(None, [method, path, grant])))
        match method, path:
            case "GET", "/auth/v1/.well-known/jwks.json":
                return 200, {"keys": [self.key.jwk]}
            case "GET", "/auth/v1/user":
                return 200, self.session(self.claims(bearer)["email"])["user"]
            case "POST", "/auth/v1/token" if grant == "refresh_token":
                return 200, self.session(body["refresh_token"].partition("|")[2])
            case "POST", "/auth/v1/token" | "/auth/v1/signup" if body.get("password") == PASSWORD:
                return 200, self.session(body["email"])
            case "POST", "/auth/v1/token":
                return 400, {"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"}
            case "POST", "/auth/v1/otp":
                return 200, {}
            case "POST", "/auth/v1/logout":
                return 204, None
            case _:
                return 404, {"msg": "not found"}


def user_id(email: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"mailto:{email}"))
