"""Keys for machines: whose request it is that bears one, and what it may do."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from fieldmark.db.pool import Database
from fieldmark.domain.permissions import Permission, is_at_least
from fieldmark.domain.statuses import MembershipRole
from fieldmark.errors import (
    FieldmarkError,
    KeyExpired,
    KeyRevoked,
    OwnerNeeded,
    ReadOnly,
    ScopeMissing,
    Unauthenticated,
)
from fieldmark.stores import api_keys

BEGINNING = "fm_"
"""What every key begins with. (An invitation's token begins with `fmi_`, and is none.)"""

_KEY = re.compile(r"fm_[0-9a-f]{8}_[0-9a-f]{64}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Machine:
    """A request's key. It acts under its own id in one organisation."""

    id: UUID
    org_id: UUID
    name: str
    prefix: str
    scopes: frozenset[str]
    role: MembershipRole
    expires_at: datetime | None = None


class ApiKeys:
    """Knows machines by their keys. Each time the database is asked, so that a key that is revoked on one server is
    refused on all of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noting: dict[UUID, asyncio.Task[None]] = {}

    async def machine_of(self, key: str) -> Machine:
        """Whose key it is. Raises Unauthenticated, KeyRevoked, KeyExpired."""
        if not _KEY.fullmatch(key):
            raise Unauthenticated("This is no whole key: fm_, eight characters, _, and sixty-four more.")
        async with self._database.as_service() as conn:
            found = await api_keys.use(conn, hashlib.sha256(key.encode()).digest())
        if found is None:
            raise Unauthenticated("There is no such key.")
        if found.refusal == KeyExpired.code:
            raise KeyExpired("The key has expired: make another.")
        if found.role is None:
            raise KeyRevoked("The key was revoked, or whoever made it has left the organisation: make another.")
        if found.unnoted and found.id not in self._noting:
            task = asyncio.create_task(self._note(found.id), name="key use")
            self._noting[found.id] = task
            task.add_done_callback(lambda _: self._noting.pop(found.id, None))
        scopes, role = frozenset(found.scopes), MembershipRole(found.role)
        return Machine(found.id, found.org_id, found.name, found.prefix, scopes, role, found.expires_at)

    async def _note(self, key_id: UUID) -> None:
        """Beside the request, which does not wait for it and does not fail with it."""
        try:
            async with self._database.as_service() as conn:
                await api_keys.note(conn, key_id)
        except FieldmarkError as error:
            _log.warning("the use of a key was not noted", reason=type(error).__name__)

    async def close(self) -> None:
        """End what is being noted."""
        tasks = list(self._noting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def known_keys(database: Database) -> AsyncGenerator[ApiKeys]:
    """The keys that a server knows, while it lives."""
    keys = ApiKeys(database)
    try:
        yield keys
    finally:
        await keys.close()


def has_scope(caller: object, scope: Permission) -> bool:
    """Whether the caller is a person, or a key with this scope."""
    return not isinstance(caller, Machine) or scope in caller.scopes


def require_scope(caller: object, scope: Permission, why: str) -> None:
    """Raise ScopeMissing for a key without a scope that it needs besides that of its route, with why it does."""
    if not has_scope(caller, scope):
        raise ScopeMissing(f"The key lacks the scope {scope}, which {why}.")


def check_permission(
    permission: Permission | None, role: MembershipRole, machine: Machine | None, *, writes: bool
) -> None:
    """Raise ScopeMissing for a key that was not made for this (none is, where no permission is named), ReadOnly for a
    viewer who would write, OwnerNeeded for whoever is less than an owner where one is needed."""
    if machine is not None and permission is None:
        raise ScopeMissing("No key can be made for this.")
    if machine is not None and permission not in machine.scopes:
        raise ScopeMissing(f"The key lacks the scope {permission}: make one that has it.")
    if writes and role is MembershipRole.VIEWER:
        raise ReadOnly("A viewer reads what is in the organisation and changes nothing: ask an owner for another role.")
    if permission is not None and not is_at_least(role, permission.minimum_role):
        raise OwnerNeeded("Only an owner of the organisation can do this.")
