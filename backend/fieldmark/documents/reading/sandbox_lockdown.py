"""Lock this process down before it parses an untrusted file: no new files, sockets, processes or privileges.

What holds after lockdown, also if the file takes the process over:

- everywhere: no file, socket or other descriptor can be opened (a limit of zero descriptors, which only root could
  raise again), so there is no network and no reading of other files; no core dump; bounded CPU time;
- on Linux: bounded memory; no process or thread can be started; no set-user-id program gives privileges; the process
  dies with the one that started it;
- on Linux with Landlock, from `confine_early` on: nothing is written, deleted or renamed, no process outside is looked
  into or traced, and from Landlock's version 6 on none is signalled;
- on Linux as root: the process has a user of its own, and a network namespace without interfaces where the container
  allows making one. It cannot touch what belongs to anybody.

Not prevented where the service does not run as root and Landlock is missing: system calls that need no descriptor, such
as deleting the user's own files or ending their processes. The service says so when it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

from fieldmark.isolation import landlock

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_NO_NEW_PRIVS = 1, 4, 15, 38
_CLONE_NEWNET = 0x4000_0000
CPU_GRACE_SECONDS = 2


def confine_early() -> None:
    """Give up what loading needs not: all but reading files. Before any thread begins, which would keep it.

    A process confines itself again after it was forked: those of one confinement may signal and trace each other.
    """
    landlock.confine(readable=("/",))


def lock_down(memory_bytes: int, cpu_seconds: int, parent: int, user: int | None = None) -> None:
    """Lock this process down for good; as `user`, where it is root. All that it needs must be imported, loaded and
    open already."""
    sys.meta_path.insert(0, _NoImports())
    linux = sys.platform == "linux"
    library = ctypes.CDLL(None, use_errno=True) if linux else None
    if library:
        library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        library.unshare(_CLONE_NEWNET)  # needs privileges; without them the limit on descriptors has to do
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_FSIZE, 0)
    limit_cpu(cpu_seconds)
    if linux:
        lower_limit(resource.RLIMIT_AS, memory_bytes)
    if linux and user is not None and os.geteuid() == 0:
        # A container may have taken root the right to change its user; then root is no more than a name in it.
        with contextlib.suppress(OSError):
            os.setgroups([])
        with contextlib.suppress(OSError):
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
    if library:
        library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        lower_limit(resource.RLIMIT_NPROC, 0)
    lower_limit(resource.RLIMIT_NOFILE, 0)
    die_with_parent(parent)  # again: the change of user has taken it back


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. Only on Linux; at once if the parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def name_process(name: str) -> None:
    """Have the system show this process under a name, of at most 15 characters. Only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def limit_cpu(seconds: int) -> None:
    """Lower the limit on processor time: SIGXCPU ends the process then, and a while later SIGKILL, which cannot be
    ignored. Both at once would look like a lack of memory."""
    lower_limit(resource.RLIMIT_CPU, seconds + CPU_GRACE_SECONDS)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, hard), hard))


class _NoImports:
    """Finds no module, so that an import after lockdown fails as for a module that is not installed.

    Otherwise it would fail as a file that cannot be opened, which callers do not expect. Example: a mail names an
    encoding that does not exist, and Python looks for a module of that name.
    """

    def find_spec(self, name: str, *_: object) -> None:
        raise ModuleNotFoundError(f"{name} was not imported before lockdown", name=name)


def lower_limit(kind: int, value: int) -> None:
    """Lower a resource limit, soft and hard, to the value. A limit that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))
