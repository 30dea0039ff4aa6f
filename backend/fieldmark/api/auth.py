"""From whom a request's token names (see `edge`) to its Scope, once a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from fieldmark.errors import Invalid, TooManyAtOnce
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import organisations

_bearer = HTTPBearer(auto_error=False, description="A Supabase Auth token, or locally one of `fieldmark token`.")


def runtime_of(request: Request) -> Runtime:
    """What this process works with."""
    return request.app.state.runtime


async def scope_of(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],  # for the description: `edge` has checked it
    x_org_id: Annotated[
        str | None, Header(description="Which of the caller's organisations; the personal one if left out.")
    ] = None,
) -> AsyncGenerator[Scope]:
    """Who asks, and in which organisation, until it is answered. Raises NotFound for an organisation not theirs, and
    TooManyAtOnce where as many of its requests are under way as may."""
    user_id: UUID = request.state.user_id
    scope = await organisations.enter(runtime_of(request).database, user_id, _asked_for(x_org_id))
    structlog.contextvars.bind_contextvars(org_id=str(scope.org_id), user_id=str(user_id))
    # A request may take as long as a run, and a stream longer. Without a bound one organisation had all connections.
    under_way: Counter[UUID] = request.app.state.requests
    if under_way[scope.org_id] >= max(1, runtime_of(request).settings.max_connections * 7 // 10):
        raise TooManyAtOnce("Too many requests of this organisation are under way at once: end some of its streams.")
    under_way[scope.org_id] += 1
    try:
        yield scope
    finally:
        under_way[scope.org_id] -= 1
        if not under_way[scope.org_id]:
            del under_way[scope.org_id]


def _asked_for(header: str | None) -> UUID | None:
    try:
        return UUID(header) if header else None
    except ValueError:
        raise Invalid("X-Org-Id must be a UUID.") from None


TheScope = Annotated[Scope, Depends(scope_of)]
TheRuntime = Annotated[Runtime, Depends(runtime_of)]
