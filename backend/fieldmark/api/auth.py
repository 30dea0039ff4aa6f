"""FastAPI dependencies: the caller of a request, their scope, and its database connection.

`request_guard` has authenticated the caller; the rights that the route needs (`permissions`) are checked here.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from fieldmark.api.permissions import SAFE_METHODS, SECOND_SCOPES, required_scope
from fieldmark.api.request_log import route_template
from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import MembershipRole
from fieldmark.errors import Invalid, NotFound, PersonNeeded
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import Person
from fieldmark.runtime import Runtime
from fieldmark.services import organisations
from fieldmark.services.api_keys import KeyCaller, check_permission

BEARER = HTTPBearer(
    auto_error=False,
    description="A token of Supabase Auth or of `fieldmark token`; or an API key (`fm_…`) with the scopes listed at "
    "the operation.",
)


def get_runtime(request: Request) -> Runtime:
    return request.app.state.runtime


async def get_caller(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],  # only for the OpenAPI
) -> Person | KeyCaller:
    return request.state.caller


async def get_person(caller: Annotated[Person | KeyCaller, Depends(get_caller)]) -> Person:
    """Return the calling person. Raise PersonNeeded for an API key."""
    if isinstance(caller, KeyCaller):
        raise PersonNeeded("An API key cannot do this. Use a person's token.")
    structlog.contextvars.bind_contextvars(user_id=str(caller.user_id))
    return caller


async def get_scope(
    request: Request,
    caller: Annotated[Person | KeyCaller, Depends(get_caller)],
    x_org_id: Annotated[
        str | None,
        Header(
            description="The id of one of the caller's organisations. Default: the personal one.",
            json_schema_extra={"format": "uuid"},
        ),
    ] = None,
) -> Scope:
    """Return the caller and their organisation. Raise NotFound for an organisation that is not theirs, and the errors
    of `check_permission`."""
    return await _enter(request, caller, _parse_org_id(x_org_id))


async def get_organisation_scope(
    request: Request, organisation_id: UUID, caller: Annotated[Person | KeyCaller, Depends(get_caller)]
) -> Scope:
    """Like `get_scope`, in the organisation that the path names."""
    return await _enter(request, caller, organisation_id)


async def _enter(request: Request, caller: Person | KeyCaller, org_id: UUID | None) -> Scope:
    if isinstance(caller, KeyCaller):
        if org_id not in (None, caller.org_id):
            raise NotFound("There is no such organisation.")
        scope, role, key = Scope(caller.id, caller.org_id, _deadline(caller.seconds_left)), caller.role, caller
    else:
        entered = await organisations.organisation_of_user(get_runtime(request).database, caller.user_id, org_id)
        until = caller.accepted_until
        left = None if until is None else (until - datetime.now(UTC)).total_seconds()
        scope, role, key = Scope(caller.user_id, entered.org_id, _deadline(left)), entered.role, None
    structlog.contextvars.bind_contextvars(org_id=str(scope.org_id), user_id=str(scope.user_id))
    _check_rights(request, role, key)
    return scope


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _check_rights(request: Request, role: MembershipRole, key: KeyCaller | None) -> None:
    route = request.method, route_template(request.scope)
    permission, second = required_scope(*route), SECOND_SCOPES.get(route)
    is_read_only = request.method in SAFE_METHODS or (permission is not None and permission.is_read_only)
    check_permission(permission, role, key, writes=not is_read_only)
    if second is not None:
        check_permission(second, role, key, writes=not second.is_read_only)


def _parse_org_id(header: str | None) -> UUID | None:
    try:
        return UUID(header) if header else None
    except ValueError:
        raise Invalid("The header X-Org-Id is not a UUID. Send an id from GET /api/organisations.") from None


TheRuntime = Annotated[Runtime, Depends(get_runtime)]
TheCaller = Annotated[Person | KeyCaller, Depends(get_caller)]
ThePerson = Annotated[Person, Depends(get_person)]
TheScope = Annotated[Scope, Depends(get_scope)]
TheOrganisation = Annotated[Scope, Depends(get_organisation_scope)]


async def get_connection(scope: TheScope, runtime: TheRuntime) -> AsyncGenerator[Connection]:
    """Open the request's transaction. It commits before the response is sent, and rolls back if the route raises."""
    async with runtime.database.as_user(scope) as conn:
        yield conn


async def get_organisation_connection(scope: TheOrganisation, runtime: TheRuntime) -> AsyncGenerator[Connection]:
    """Like `get_connection`, in the organisation that the path names."""
    async with runtime.database.as_user(scope) as conn:
        yield conn


# `function`: closed when the route returns. FastAPI's default would commit after the response.
Conn = Annotated[Connection, Depends(get_connection, scope="function")]
OrganisationConn = Annotated[Connection, Depends(get_organisation_connection, scope="function")]
