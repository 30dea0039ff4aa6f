"""Users for processes that must not touch each other, where the service is root: one each, for as long as they live.

They are numbers out of a range that nobody has, without a name. Who has taken one holds the lock of its file; the
kernel lets go of it when the service dies. So several services on a machine never give one out twice.
"""

from __future__ import annotations

import fcntl
import os
import random
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fieldmark.errors import Misconfigured, Unavailable

DEFAULT: Final = range(62_000, 63_000)
_FEWEST: Final = 100
_LOCKS: Final = (Path("/run/fieldmark"), Path("/var/lib/fieldmark-users"))

_users = DEFAULT


def use(users: range) -> None:
    """Take users of this range from now on. Raises Misconfigured where this system has not all of them."""
    global _users
    if len(users) < _FEWEST:
        raise Misconfigured(f"FIELDMARK_PROCESS_USERS must be a range of {_FEWEST} users or more, such as 62000-62999.")
    if is_root() and not _are_mapped(users):
        raise Misconfigured(
            f"This container has no users {users[0]} to {users[-1]}. Set FIELDMARK_PROCESS_USERS to a range that it "
            "has."
        )
    _users = users


def is_root() -> bool:
    """Whether this process may give its children other users."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def of_postgres() -> int:
    """The embedded Postgres' user, which is never taken."""
    return _users[0]


def is_ours(user: int) -> bool:
    """Whether the user is one of the range."""
    return user in _users


@dataclass(frozen=True, slots=True)
class Taken:
    """A user that one process has, and its lock."""

    user: int
    _lock: int

    def give_back(self) -> None:
        """Once the process has ended."""
        os.close(self._lock)


def take() -> Taken | None:
    """A user that no other process has; None where the service is not root, and its children stay what it is.

    Raises Unavailable where all are taken, Misconfigured where they cannot be locked.
    """
    if not is_root():
        return None
    folder = _folder()
    # Anywhere in the range: what a process may have left in some place does not soon get its next owner.
    for user in random.sample(_users[1:], len(_users) - 1):
        lock = os.open(folder / str(user), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
        else:
            return Taken(user, lock)
    raise Unavailable("All users of FIELDMARK_PROCESS_USERS are taken. Give it a wider range.")


@contextmanager
def taken() -> Generator[int | None]:
    """A user as `take` gives it, for as long as this context lasts."""
    holding = take()
    try:
        yield None if holding is None else holding.user
    finally:
        if holding is not None:
            holding.give_back()


def _folder() -> Path:
    for folder in _LOCKS:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022:
            return folder
    raise Misconfigured(
        f"Neither {_LOCKS[0]} nor {_LOCKS[1]} can be made, where a service that is root locks the users of its "
        "processes. Make one of them writable, or start Fieldmark as an ordinary user."
    )


def _are_mapped(users: range) -> bool:
    if sys.platform != "linux":
        return True
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= users[0] and users[-1] < first + count:
            return True
    return False
