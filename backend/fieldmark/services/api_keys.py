"""API keys: authenticates requests by key, and checks the rights of callers."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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

KEY_PREFIX = "fm_"
"""The start of every API key. (The token of an invitation starts with `fmi_`.)"""

_KEY = re.compile(r"fm_[0-9a-f]{8}_[0-9a-f]{64}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeyCaller:
    """The API key that sends a request. It acts in one organisation, and is the author of what it writes."""

    id: UUID
    org_id: UUID
    name: str
    prefix: str
    scopes: frozenset[str]
    role: MembershipRole
    seconds_left: float | None = None


class ApiKeys:
    """Authenticates API keys. Asks the database for every request, so that all servers refuse a revoked key at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recording: dict[UUID, asyncio.Task[None]] = {}

    async def authenticate(self, key: str) -> KeyCaller:
        """Return the caller that a key belongs to. Raise Unauthenticated, KeyRevoked or KeyExpired."""
        if not _KEY.fullmatch(key):
            raise Unauthenticated(
                "The API key is malformed. A key is fm_, 8 characters, _ and 64 characters. Check that it was copied "
                "completely."
            )
        digest = hashlib.sha256(key.encode()).digest()
        found = await self._database.once(lambda conn: api_keys.find_by_hash(conn, digest))
        if found is None:
            raise Unauthenticated("There is no such API key. It may have been deleted: create another one.")
        if found.refusal == KeyExpired.code:
            raise KeyExpired("The API key has expired. Create another one.")
        if found.role is None:
            raise KeyRevoked(
                "The API key was revoked, or the person who created it has left the organisation. Create another one."
            )
        if found.needs_recording and found.id not in self._recording:
            task = asyncio.create_task(self._record_use(found.id), name="key use")
            self._recording[found.id] = task
            task.add_done_callback(lambda _: self._recording.pop(found.id, None))
        scopes, role = frozenset(found.scopes), MembershipRole(found.role)
        if Permission.DOCUMENTS_WRITE in scopes:
            scopes |= {Permission.DOCUMENTS_ADD}
        return KeyCaller(found.id, found.org_id, found.name, found.prefix, scopes, role, found.seconds_left)

    async def _record_use(self, key_id: UUID) -> None:
        # A background task: the request neither waits for it nor fails with it.
        try:
            async with self._database.as_service() as conn:
                await api_keys.record_use(conn, key_id)
        except FieldmarkError as error:
            _log.warning("key use not recorded", reason=type(error).__name__)

    async def close(self) -> None:
        """Cancel the background tasks."""
        tasks = list(self._recording.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def open_api_keys(database: Database) -> AsyncGenerator[ApiKeys]:
    """Open `ApiKeys`, and close it with the context."""
    keys = ApiKeys(database)
    try:
        yield keys
    finally:
        await keys.close()


def has_scope(caller: object, scope: Permission) -> bool:
    """Return whether the caller is a person, or a key with this scope."""
    return not isinstance(caller, KeyCaller) or scope in caller.scopes


def require_scope(caller: object, scope: Permission, feature: str) -> None:
    """Raise ScopeMissing for a key without a scope that a feature needs in addition to the route's scope."""
    if not has_scope(caller, scope):
        raise ScopeMissing(
            f"The API key lacks the scope {scope}, which is needed for {feature}. Create a key that has it."
        )


def check_permission(
    permission: Permission | None, role: MembershipRole, key: KeyCaller | None, *, writes: bool
) -> None:
    """Raise ScopeMissing if a key lacks the permission (or if no key can have it, when `permission` is None), ReadOnly
    if a viewer would write, and OwnerNeeded if only an owner has the permission."""
    if key is not None and permission is None:
        raise ScopeMissing("No API key can do this. Use a person's token.")
    if key is not None and permission not in key.scopes:
        raise ScopeMissing(f"The API key lacks the scope {permission}. Create a key that has it.")
    if writes and role is MembershipRole.VIEWER:
        raise ReadOnly("Viewers cannot change anything. Ask an owner of the organisation for another role.")
    if permission is not None and not is_at_least(role, permission.minimum_role):
        raise OwnerNeeded("Only an owner of the organisation can do this.")
