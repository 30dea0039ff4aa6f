"""An MCP client signs in at Supabase's authorization server, which it finds by the service's metadata."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx2
import jwt
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from http_stub import http_stub
from mcp_calls import McpCalls
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

SECRET, REDIRECT = "s" * 32, "http://127.0.0.1:1/done"


class Stored:
    """What a client keeps."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


async def test_a_client_finds_the_authorization_server_and_signs_in(serve):
    asked: list[str] = []

    class Supabase(BaseHTTPRequestHandler):
        """The addresses of Supabase's OAuth server."""

        def log_message(self, format: str, *args: object) -> None:
            pass

        @property
        def issuer(self) -> str:
            return f"http://{self.headers['host']}/auth/v1"

        def answer(self, body: dict[str, Any], status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path != "/.well-known/oauth-authorization-server/auth/v1":
                self.answer({}, 404)
                return
            addresses = {"authorization": "authorize", "token": "token", "registration": "clients/register"}
            self.answer(
                {
                    "issuer": self.issuer,
                    **{f"{name}_endpoint": f"{self.issuer}/oauth/{path}" for name, path in addresses.items()},
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code", "refresh_token"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                }
            )

        def do_POST(self) -> None:
            asked.append(self.path)
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/register"):
                self.answer({**json.loads(body), "client_id": "c1"}, 201)
                return
            assert parse_qs(body.decode())["code"] == ["the-code"]
            claims = {"iss": self.issuer, "aud": "authenticated", "role": "authenticated", "sub": str(uuid4())}
            token = jwt.encode({**claims, "exp": int(time.time()) + 600, "email": "ann@example.org"}, SECRET, "HS256")
            self.answer({"access_token": token, "token_type": "bearer", "expires_in": 600})

    opened: list[dict[str, list[str]]] = []

    async def open_browser(address: str) -> None:
        opened.append(parse_qs(urlsplit(address).query))

    async def read_callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code="the-code", state=opened[-1]["state"][0])

    with http_stub(Supabase) as supabase:
        async with serve(supabase_url=supabase, supabase_jwt_secret=SECRET) as server:
            client = OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="Client")
            sign_in = OAuthClientProvider(f"{server.base_url}/mcp", client, Stored(), open_browser, read_callback)
            async with httpx2.AsyncClient(base_url=server.base_url, timeout=PATIENCE) as http:  # of the package `mcp`
                assert (await McpCalls(http).request("tools/list", {})).status_code == 401
                http.auth = sign_in
                listed = await McpCalls(http).request("tools/list", {})
            assert listed.status_code == 200 and "list_documents" in listed.text
            assert opened[0]["resource"] == [f"{server.base_url}/mcp"] and opened[0]["code_challenge_method"] == [
                "S256"
            ]
    assert "/auth/v1/oauth/clients/register" in asked and "/auth/v1/oauth/token" in asked
