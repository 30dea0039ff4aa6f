"""Isolate the processes of a service from each other: Postgres, document readers, agents' CLIs."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from fieldmark.errors import Misconfigured, Unavailable
from processisolation import landlock, users


def set_user_range(user_ids: range) -> None:
    """Set the user ids of isolated processes. Raise Misconfigured if this system cannot use them."""
    with _as_service_errors():
        users.set_range(user_ids)


def lease_user() -> users.UserLease | None:
    """Return a free user id, or None if the service is not root. Raise Unavailable or Misconfigured."""
    with _as_service_errors():
        return users.lease_user()


@contextmanager
def _as_service_errors() -> Generator[None]:
    try:
        yield
    except users.NoFreeUserError as error:
        raise Unavailable(f"FIELDMARK_PROCESS_USERS: {error}") from error
    except users.UserIdsError as error:
        raise Misconfigured(f"FIELDMARK_PROCESS_USERS: {error}") from error


def isolation_warning() -> str | None:
    """Return a warning for the operator about processes that this system cannot isolate, or None."""
    if sys.platform != "linux":
        return (
            "Agents, document readers and the embedded Postgres run as one user and can access each other's files: "
            "only Linux isolates them. Use this system for a trial with documents that you trust."
        )
    return isolation_warning_for(users.is_root(), landlock.version())


def isolation_warning_for(is_root: bool, landlock_version: int) -> str | None:
    """Return the warning for a Linux with this Landlock version (0: none)."""
    if is_root or landlock_version >= landlock.SCOPES_SIGNALS:
        return None
    if landlock_version:
        return (
            "Agents, document readers and the embedded Postgres run as one user and can signal each other, because "
            "Landlock of this kernel is older than Linux 6.12. Start Fieldmark as root to give each its own user."
        )
    return (
        "Agents, document readers and the embedded Postgres run as one user and can access each other's files, because "
        "this system has no Landlock. Start Fieldmark as root to give each its own user."
    )
