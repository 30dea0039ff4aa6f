"""Isolate the processes of a service from each other: Postgres, document readers, agents' CLIs."""

from __future__ import annotations

import ctypes
import sys

from fieldmark.isolation import landlock, users

_PR_SET_DUMPABLE = 4


def deny_memory_access() -> None:
    """Deny other processes of the same user access to this process's memory and environment, which contain keys and
    passwords. Disables core dumps too. Child processes do not inherit this."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def isolation_warning() -> str | None:
    """Return a warning for the operator about processes that this system cannot isolate, or None."""
    return isolation_warning_for(users.is_root(), landlock.version())


def isolation_warning_for(is_root: bool, landlock_version: int) -> str | None:
    """Return the warning for a system with this Landlock version (0: none)."""
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
