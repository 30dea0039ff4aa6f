"""From whom a request's token or key names (see `edge`) to its Scope, once a request. What the route asks of its caller
is checked on the way: see `permissions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from fieldmark.api.permissions import ALSO_NEEDED, SAFE, permission_of
from fieldmark.api.request_log import route_of
from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import MembershipRole
from fieldmark.errors import Invalid, NotFound, PersonNeeded
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import Person
from fieldmark.runtime import Runtime
from fieldmark.services import organisations
from fieldmark.services.api_keys import Machine, check_permission

BEARER = HTTPBearer(
    auto_error=False,
    description="A Supabase Auth token, or locally one of `fieldmark token`; or a key (`fm_…`) with the scope that the "
    "operation names.",
)


def runtime_of(request: Request) -> Runtime:
    """What this process works with."""
    return request.app.state.runtime


async def caller_of(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],  # for the description: `edge` has checked it
) -> Person | Machine:
    """Who asks, in whatever organisation."""
    return request.state.caller


async def person_of(caller: Annotated[Person | Machine, Depends(caller_of)]) -> Person:
    """Who asks. Raises PersonNeeded for a key."""
    if isinstance(caller, Machine):
        raise PersonNeeded("A key cannot do this: a person must, with their own token.")
    structlog.contextvars.bind_contextvars(user_id=str(caller.user_id))
    return caller


async def scope_of(
    request: Request,
    caller: Annotated[Person | Machine, Depends(caller_of)],
    x_org_id: Annotated[
        str | None,
        Header(
            description="Which of the caller's organisations; the personal one if left out.",
            json_schema_extra={"format": "uuid"},
        ),
    ] = None,
) -> Scope:
    """Return the caller and their organisation. Raise NotFound for an organisation that is not theirs, and what
    `check_permission` raises."""
    return await _enter(request, caller, _asked_for(x_org_id))


async def organisation_scope_of(
    request: Request, organisation_id: UUID, caller: Annotated[Person | Machine, Depends(caller_of)]
) -> Scope:
    """The same, in the organisation that the path names."""
    return await _enter(request, caller, organisation_id)


async def _enter(request: Request, caller: Person | Machine, org_id: UUID | None) -> Scope:
    if isinstance(caller, Machine):
        if org_id not in (None, caller.org_id):
            raise NotFound("There is no such organisation.")
        scope, role, machine = Scope(caller.id, caller.org_id, caller.expires_at), caller.role, caller
    else:
        entered = await organisations.entered(runtime_of(request).database, caller.user_id, org_id)
        scope, role, machine = Scope(caller.user_id, entered.org_id, caller.expires_at), entered.role, None
    structlog.contextvars.bind_contextvars(org_id=str(scope.org_id), user_id=str(scope.user_id))
    _check(request, role, machine)
    return scope


def _check(request: Request, role: MembershipRole, machine: Machine | None) -> None:
    route = request.method, route_of(request.scope)
    permission, also = permission_of(*route), ALSO_NEEDED.get(route)
    is_read_only = request.method in SAFE or (permission is not None and permission.is_read_only)
    check_permission(permission, role, machine, writes=not is_read_only)
    if also is not None:
        check_permission(also, role, machine, writes=True)


def _asked_for(header: str | None) -> UUID | None:
    try:
        return UUID(header) if header else None
    except ValueError:
        raise Invalid("X-Org-Id must be a UUID.") from None


TheRuntime = Annotated[Runtime, Depends(runtime_of)]
TheCaller = Annotated[Person | Machine, Depends(caller_of)]
ThePerson = Annotated[Person, Depends(person_of)]
TheScope = Annotated[Scope, Depends(scope_of)]
TheOrganisation = Annotated[Scope, Depends(organisation_scope_of)]


async def connection_of(scope: TheScope, runtime: TheRuntime) -> AsyncGenerator[Connection]:
    """Open the request's transaction. It is committed before the response is sent, and undone if the route raises."""
    async with runtime.database.as_user(scope) as conn:
        yield conn


async def organisation_connection_of(scope: TheOrganisation, runtime: TheRuntime) -> AsyncGenerator[Connection]:
    """Open the request's transaction in the organisation that the path names."""
    async with runtime.database.as_user(scope) as conn:
        yield conn


# `function`: closed when the route returns. FastAPI's default would commit after the response.
Conn = Annotated[Connection, Depends(connection_of, scope="function")]
OrganisationConn = Annotated[Connection, Depends(organisation_connection_of, scope="function")]
