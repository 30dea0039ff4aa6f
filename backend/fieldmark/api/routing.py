"""A router that builds its routes when an application is created, not on import. Its routes refuse JSON with a number
whose digits would be lost, and with so many values that checking them would block the event loop."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

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


class Routes(APIRouter):
    """A router whose routes are built once in a process, on its first application. Later applications share them.

    FastAPI builds the routes of an included router twice: on import, and again at the first request. Each time takes a
    quarter of a second for the whole API.
    """

    def __init__(self, prefix: str = "", tags: list[str | Enum] | None = None) -> None:
        super().__init__(prefix=prefix, tags=tags)
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []
        self._built: dict[tuple[object, ...], list[BaseRoute]] = {}

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
        if key in self._built:
            app.router.routes.extend(self._built[key])
            return
        first = len(app.router.routes)
        for path, endpoint, options in self._declared:
            merged: dict[str, Any] = {
                "tags": [*self.tags, *(options.get("tags") or ())],
                "dependencies": [*dependencies, *(options.get("dependencies") or ())],
                "responses": {**(responses or {}), **(options.get("responses") or {})},
            }
            app.router.add_api_route(
                self.prefix + path, endpoint, route_class_override=_CheckedRoute, **(options | merged)
            )
        self._built[key] = app.router.routes[first:]
