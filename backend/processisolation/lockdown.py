"""Lock this process down before it parses an untrusted file: no new files, sockets, processes or privileges.

Guarantees after lockdown, even if the file takes over the process:

- everywhere: no file, socket or other descriptor can be opened (a limit of zero descriptors, which only root could
raise again), so there is no network and no reading of other files; no core dump; bounded CPU time; - on Linux: bounded
memory; no process or thread can be started; set-user-id programs give no privileges; the process dies with its parent;
- on Linux with Landlock, from `confine_early` on: no file is written, deleted or renamed, no outside process is
inspected or traced, and from Landlock's version 6 on none is signalled; - on Linux as root: the process has a user of
its own, and a network namespace without interfaces if the container allows one. It cannot access files or processes of
other users.

Not prevented if the program does not run as root and Landlock is missing: system calls that need no descriptor, such as
deleting the user's own files or ending its processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

from processisolation import landlock

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_NO_NEW_PRIVS = 1, 4, 15, 38
_CLONE_NEWNET = 0x4000_0000
CPU_GRACE_SECONDS = 2


def confine_early() -> None:
    """Drop all rights that loading does not need; reading files stays allowed. Call it before any thread starts, since
    threads would keep their rights. Call it again after a fork: processes of the same confinement may signal and trace
    each other."""
    landlock.confine(readable=("/",))


def lock_down(memory_bytes: int, cpu_seconds: int, parent: int, user: int | None = None) -> None:
    """Lock this process down permanently; as `user`, if it is root. Everything that it needs must already be imported,
    loaded and open."""
    sys.meta_path.insert(0, _NoImports())
    linux = sys.platform == "linux"
    library = ctypes.CDLL(None, use_errno=True) if linux else None
    if library:
        library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        library.unshare(_CLONE_NEWNET)  # needs privileges; without them the limit on descriptors protects
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_FSIZE, 0)
    limit_cpu(cpu_seconds)
    if linux:
        lower_limit(resource.RLIMIT_AS, memory_bytes)
    if linux and user is not None and os.geteuid() == 0:
        # A container may forbid root to change its user.
        with contextlib.suppress(OSError):
            os.setgroups([])
        with contextlib.suppress(OSError):
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
    if library:
        library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        lower_limit(resource.RLIMIT_NPROC, 0)
    lower_limit(resource.RLIMIT_NOFILE, 0)
    die_with_parent(parent)  # again: the change of user resets it


def deny_memory_access() -> None:
    """Deny other processes of the same user access to this process's memory and environment, which contain keys and
    passwords. Disables core dumps too. Child processes do not inherit this. Only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, or now if the parent has ended. Only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def name_process(name: str) -> None:
    """Set this process's name, of at most 15 characters. Only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def limit_cpu(seconds: int) -> None:
    """Lower the limit on processor time: SIGXCPU ends the process, and CPU_GRACE_SECONDS later SIGKILL, which cannot be
    ignored. If both came at once, the end would look like a lack of memory."""
    lower_limit(resource.RLIMIT_CPU, seconds + CPU_GRACE_SECONDS)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, hard), hard))


class _NoImports:
    """An import finder that raises ModuleNotFoundError for every import after lockdown. Without it, an import would
    fail with an OSError, which callers do not expect. Example: an email names an unknown encoding, and Python looks for
    a module of that name."""

    def find_spec(self, name: str, *_: object) -> None:
        raise ModuleNotFoundError(f"{name} was not imported before lockdown", name=name)


def lower_limit(kind: int, value: int) -> None:
    """Lower a resource limit, soft and hard, to the value. A lower limit is kept."""
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))
