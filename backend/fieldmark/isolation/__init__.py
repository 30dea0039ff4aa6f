"""What keeps the processes of a service apart: Postgres, readers of files, agents' CLIs."""

from __future__ import annotations

import ctypes
import sys

from fieldmark.isolation import landlock, users

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """From now on no other process of this one's user looks into its memory or its environment, where keys and
    passwords are, and it leaves no core. What it starts begins anew, open as ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def shortcoming() -> str | None:
    """What this system does not keep apart, as a sentence for whoever runs the service; None where all is."""
    return shortcoming_of(users.is_root(), landlock.version())


def shortcoming_of(is_root: bool, landlock_version: int) -> str | None:
    """As `shortcoming`, of a system like that."""
    if is_root or landlock_version >= landlock.SCOPES_SIGNALS:
        return None
    if landlock_version:
        return (
            "Agents, readers of files and the embedded Postgres run as one user and can end each other: this kernel's "
            "Landlock is older than Linux 6.12. Start Fieldmark as root, and each gets a user of its own."
        )
    return (
        "Agents, readers of files and the embedded Postgres run as one user and can reach each other's files: this "
        "system has no Landlock. Start Fieldmark as root, and each gets a user of its own."
    )
