"""The project: its gateway, which checks keys and tokens, and its database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import psycopg
import uvicorn
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from running_server import Clone
from supabase_stand_in import realtime, rest, storage
from supabase_stand_in.auth import SupabaseAuth
from supabase_stand_in.database import Caller, Connect, Refused, set_role

PUBLISHABLE_KEY, SECRET_KEY = "sb_publishable_only_for_tests", "sb_secret_only_for_tests"
_ROLES = {PUBLISHABLE_KEY: "anon", SECRET_KEY: "service_role"}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]


@dataclass
class Project:
    """A running project. `objects` are the files in Storage by bucket and path."""

    url: str = ""
    auth: SupabaseAuth = field(default_factory=SupabaseAuth)
    objects: dict[str, bytes] = field(default_factory=dict)

    def caller(self, request: HTTPConnection) -> Caller:
        """Return the role and the claims of a request, or raise `Refused`. The bearer is a token of Auth; a key is
        accepted there only if it is the request's own `apikey`."""
        key = request.headers.get("apikey") or request.query_params.get("apikey", "")
        if key not in _ROLES:
            raise Refused(401, {"message": "Invalid API key" if key else "No API key found in request"})
        return self.token_caller(request.headers.get("authorization", "").removeprefix("Bearer "), key)

    def token_caller(self, token: str, key: str) -> Caller:
        if token in ("", key):
            return Caller(_ROLES[key], {"role": _ROLES[key]})
        try:
            claims = self.auth.claims(token)
        except jwt.ExpiredSignatureError:
            raise Refused(401, {"code": "PGRST303", "message": "JWT expired"}) from None
        except jwt.PyJWTError as error:
            raise Refused(401, {"code": "PGRST301", "message": str(error)}) from None
        return Caller(claims["role"], claims)


@asynccontextmanager
async def supabase_project(clone: Clone) -> AsyncIterator[Project]:
    """Serve a project on a test's database until the block ends."""
    project = Project()

    async def as_authenticator(connection: psycopg.AsyncConnection) -> None:
        # Has the effect of a login as authenticator, which has no password on this server.
        await connection.execute("set session authorization authenticator")

    pool = AsyncConnectionPool(
        clone.owner_url, min_size=0, max_size=8, open=False, configure=as_authenticator, kwargs={"autocommit": True}
    )

    @asynccontextmanager
    async def connect(caller: Caller) -> AsyncIterator[psycopg.AsyncConnection]:
        """Begin a transaction with the caller's role."""
        async with pool.connection() as connection, connection.transaction():
            await set_role(connection, caller)
            yield connection

    app = Starlette(
        routes=[
            Route("/auth/v1/{path:path}", _authenticate(project, clone), methods=_METHODS),
            Route("/rest/v1/{path:path}", _database_route(project, connect, rest.answer), methods=_METHODS),
            Route("/storage/v1/{path:path}", _database_route(project, connect, storage.answer), methods=_METHODS),
            WebSocketRoute("/realtime/v1/websocket", _follow(project, connect, clone)),
        ],
        middleware=[Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])],
    )
    await realtime.publish(clone.owner_url)
    server = uvicorn.Server(uvicorn.Config(app, port=0, ws="websockets-sansio", lifespan="off", log_config=None))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    project.url = project.auth.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    async with pool:
        try:
            yield project
        finally:
            server.force_exit = True
            await server.shutdown()


def _authenticate(project: Project, clone: Clone) -> Any:
    async def respond(request: Request) -> Response:
        body = await request.body()
        if not request.url.path.endswith("jwks.json"):
            project.caller(request)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        status, answer = project.auth.answer(
            request.method, request.url.path, dict(request.query_params), json.loads(body or b"{}"), bearer
        )
        if isinstance(answer, dict) and "user" in answer:
            user = answer["user"]
            async with await psycopg.AsyncConnection.connect(clone.owner_url) as connection:
                await connection.execute(
                    "insert into auth.users (id, email) values (%s, %s) on conflict (id) do update set email = "
                    "excluded.email",
                    [user["id"], user["email"]],
                )
        return Response(status_code=status) if answer is None else JSONResponse(answer, status)

    return _refusing(respond)


def _database_route(project: Project, connect: Connect, answer: Any) -> Any:
    async def respond(request: Request) -> Response:
        return await answer(request, project, connect)

    return _refusing(respond)


def _refusing(respond: Any) -> Any:
    async def answer(request: Request) -> Response:
        try:
            return await respond(request)
        except Refused as error:
            return JSONResponse(error.body, error.status)

    return answer


def _follow(project: Project, connect: Connect, clone: Clone) -> Any:
    async def follow(socket: WebSocket) -> None:
        try:
            project.caller(socket)
        except Refused:
            await socket.close()
            return
        await socket.accept()
        async with await psycopg.AsyncConnection.connect(clone.owner_url, autocommit=True) as changes:
            await realtime.follow(socket, project, connect, changes)

    return follow
