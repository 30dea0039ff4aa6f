"""A router that builds a route when a request first matches it, not on import. Its routes refuse JSON with a number
whose digits would be lost, and with so many values that checking them would block the event loop."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from functools import cached_property, partial
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from fieldmark.domain.numbers import InexactNumber, exact_float

MAX_VALUES = 10_000
"""Limit of a JSON body. Each value may cause an error of its own, which takes a few microseconds."""

_JSON_TEXT = re.compile(rb'(?s)"[^"\\]*(?:\\.[^"\\]*)*"?')


def _has_too_many_values(body: bytes) -> bool:
    """Whether JSON has more than MAX_VALUES values, by its commas outside of text."""
    if body.count(b",") < MAX_VALUES:
        return False
    return body.count(b'"') > 10 * MAX_VALUES or _JSON_TEXT.sub(b"", body).count(b",") >= MAX_VALUES


class _CheckedRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if _has_too_many_values(body):
            raise HTTPException(400, f"body: has more than {MAX_VALUES:,} values. Send them in several requests.")
        try:
            return json.loads(body, parse_float=exact_float)
        except InexactNumber as error:
            raise HTTPException(400, f"body: {error}") from None


class _CheckedRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_checked(request: Request) -> Response:
            return await handle(_CheckedRequest(request.scope, request.receive))

        return handle_checked


class _DeclaredRoute(BaseRoute):
    """A route that is built when it is used."""

    def __init__(self, path: str, endpoint: Callable[..., Any], build: Callable[[], BaseRoute]) -> None:
        self.path = path
        self._path = Route(path, endpoint)
        self._build = build

    @cached_property
    def built(self) -> BaseRoute:
        return self._build()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_match = self._path.matches(scope)[0] is not Match.NONE
        return self.built.matches(scope) if is_match else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.built.handle(scope, receive, send)


def build_routes(app: FastAPI) -> None:
    """Build all routes of `app`, for its OpenAPI document."""
    app.router.routes[:] = [
        route.built if isinstance(route, _DeclaredRoute) else route for route in [*app.router.routes]
    ]


class Routes(APIRouter):
    """A router whose routes are built once in a process, for its first application. Later applications share them.

    FastAPI builds the routes of an included router twice: on import, and again at the first request. Each time takes a
    quarter of a second for the whole API, of which a command uses a few routes.
    """

    def __init__(self, prefix: str = "", tags: list[str | Enum] | None = None) -> None:
        super().__init__(prefix=prefix, tags=tags)
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []
        self._routes_of: dict[tuple[object, ...], list[BaseRoute]] = {}

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Declare a route. The options are FastAPI's."""
        self._declared.append((path, endpoint, options))

    def add_to(
        self,
        app: FastAPI,
        *,
        dependencies: Sequence[Depends] = (),
        responses: dict[int | str, dict[str, Any]] | None = None,
    ) -> None:
        """Add the routes to `app`, each with these dependencies and responses in addition to its own."""
        key = (*dependencies, *(responses or ()))
        if key in self._routes_of:
            app.router.routes.extend(self._routes_of[key])
            return
        routes: list[BaseRoute] = []
        for path, endpoint, options in self._declared:
            merged: dict[str, Any] = {
                "tags": [*self.tags, *(options.get("tags") or ())],
                "dependencies": [*dependencies, *(options.get("dependencies") or ())],
                "responses": {**(responses or {}), **(options.get("responses") or {})},
            }
            full_path = self.prefix + path
            build = partial(_build, app, full_path, endpoint, {**options, **merged})
            routes.append(_DeclaredRoute(full_path, endpoint, build))
        self._routes_of[key] = routes
        app.router.routes.extend(routes)


def _build(app: FastAPI, path: str, endpoint: Callable[..., Any], options: dict[str, Any]) -> BaseRoute:
    app.router.add_api_route(path, endpoint, route_class_override=_CheckedRoute, **options)
    return app.router.routes.pop()
