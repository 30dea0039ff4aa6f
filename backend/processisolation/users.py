"""Give each isolated process its own user id while it runs, if this program is root.

The ids come from a range that is not used on the system. Each id in use is locked by a file lock, which the kernel
releases when the program dies. So several programs on one machine never use the same id.
"""

from __future__ import annotations

import fcntl
import os
import random
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEFAULT_RANGE: Final = range(62_000, 63_000)
_MIN_USERS: Final = 100
_LOCK_FOLDERS: Final = (Path("/run/fieldmark"), Path("/var/lib/fieldmark-users"))

_users = DEFAULT_RANGE


class UserIdsError(Exception):
    """User ids cannot be used on this system. `str(error)` says why, and what to do."""


class NoFreeUserError(UserIdsError):
    """All user ids of the range are in use."""


def set_range(users: range) -> None:
    """Set the range of user ids. Raise UserIdsError if it is too small or not available on this system."""
    global _users
    if len(users) < _MIN_USERS:
        raise UserIdsError(f"The range of user ids must have {_MIN_USERS} or more, such as 62000-62999.")
    if is_root() and not _are_mapped(users):
        raise UserIdsError(
            f"The user ids {users[0]} to {users[-1]} are not mapped in this container. Choose a range that is."
        )
    _users = users


def is_root() -> bool:
    """Return whether this process can start children as other users."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def postgres_user() -> int:
    """Return the user id reserved for the embedded Postgres."""
    return _users[0]


def is_in_range(user: int) -> bool:
    """Return whether a user id is in the range."""
    return user in _users


@dataclass(frozen=True, slots=True)
class UserLease:
    """A user id in use by a process, and its file lock."""

    user: int
    _lock: int

    def release(self) -> None:
        """Release the user id, after its process has ended."""
        os.close(self._lock)


def lease_user() -> UserLease | None:
    """Return a free user id, or None if this process is not root: then its children keep its user.

    Raise NoFreeUserError if all ids are in use, UserIdsError if they cannot be locked.
    """
    if not is_root():
        return None
    folder = _lock_folder()
    # A random id: files that a process left behind then rarely belong to the next process.
    for user in random.sample(_users[1:], len(_users) - 1):
        lock = os.open(folder / str(user), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
        else:
            return UserLease(user, lock)
    raise NoFreeUserError(f"All {len(_users) - 1} user ids are in use. Choose a wider range.")


def _lock_folder() -> Path:
    for folder in _LOCK_FOLDERS:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022:
            return folder
    raise UserIdsError(
        f"Neither {_LOCK_FOLDERS[0]} nor {_LOCK_FOLDERS[1]} can be created. A program that is root needs one for lock "
        "files. Make one writable, or start it as an ordinary user."
    )


def _are_mapped(users: range) -> bool:
    if sys.platform != "linux":
        return True
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= users[0] and users[-1] < first + count:
            return True
    return False
