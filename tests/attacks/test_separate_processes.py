"""A compromised CLI or file reader next to Postgres and another CLI: what it cannot do, and what an unconfined one can.
Two guards each suffice: a separate user (if the service is root), and Landlock."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fieldmark.isolation import isolation_warning, isolation_warning_for
from fieldmark.runs.engine import pool
from fieldmark.testing.script import Script
from processisolation import landlock, users
from running_server import Serve

AS_ROOT = os.geteuid() == 0
LAUNCHER = Path(pool.__file__).with_name("sealed-cli.sh")
BACKEND = Path(pool.__file__).parents[3]

scoped = pytest.mark.skipif(
    landlock.version() < landlock.SCOPES_SIGNALS, reason="Landlock, or its scope of signals, is not there"
)
root = pytest.mark.skipif(not AS_ROOT, reason="only root has other users to give")

ATTACKS = """
kill -0 {pid} 2>/dev/null && echo signalled
cat {folder}/secret 2>/dev/null
tr '\\0' '\\n' < /proc/{pid}/environ 2>/dev/null | grep ^SECRET
rm -f {folder}/doomed 2>/dev/null
echo planted > {folder}/planted 2>/dev/null
echo mine > "$HOME/mine" && cat "$HOME/mine"
"""
READER = f"""
import ctypes, os, sys
sys.path.insert(0, {str(BACKEND)!r})
from processisolation import lockdown
pid, folder, address, how, user = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
libc = ctypes.CDLL(None, use_errno=True)
print("mine")
if how == "landlock":
    lockdown.confine_early()
if how == "free":
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
else:
    lockdown.lock_down(1 << 30, 60, os.getppid(), user)
def tried(deed, said):
    try:
        deed()
    except OSError:
        return
    print(said)
def read_memory():
    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    into = ctypes.create_string_buffer(6)
    here, there = Piece(ctypes.addressof(into), 6), Piece(address, 6)
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 6:
        raise OSError(ctypes.get_errno(), "it is not given")
    print(into.value.decode())
tried(lambda: os.kill(pid, 0), "signalled")
tried(read_memory, "memory")
tried(lambda: os.unlink(folder + "/doomed"), "unlinked")
"""
PORTS = """
import importlib.util, socket, sys
_, backend, port, confined = sys.argv
spec = importlib.util.spec_from_file_location("landlock", backend + "/processisolation/landlock.py")
landlock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(landlock)
if confined:
    assert landlock.confine(["/"], may_connect=confined.endswith("True"))
for name, deed in (
    ("bind", lambda: socket.socket().bind(("127.0.0.1", 0))),
    ("connect", lambda: socket.create_connection(("127.0.0.1", int(port)), 60)),
):
    try:
        deed()
    except PermissionError:
        continue
    print(name)
"""
VICTIM = """
import ctypes, os, sys, time
if os.geteuid() == 0:
    user = int(sys.argv[1])
    os.setgroups([]), os.setresgid(user, user, user), os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as one that was started so: others of its user may look into it
secret = ctypes.create_string_buffer(b"secret")
print(ctypes.addressof(secret), flush=True)
time.sleep(600)
"""


@dataclass(frozen=True)
class Victim:
    """A process of a user, with a secret in its memory, environment and folder."""

    pid: int
    address: int
    user: int
    folder: Path
    home: Path


@pytest.fixture
def victim() -> Iterator[Victim]:
    """Start a process that stands in for Postgres and for another CLI. Only its separate OS user protects it."""
    user = 62_600 if AS_ROOT else os.geteuid()
    place = Path(tempfile.mkdtemp(prefix="fieldmark-separate-"))
    place.chmod(0o711)
    folder, home = place / "theirs", place / "mine"
    for made in (folder, home, home / "config"):
        made.mkdir(mode=0o700)
    for name in ("secret", "doomed"):
        (folder / name).write_text("secret of a file\n")
    for path in (folder, *folder.iterdir()):
        os.chown(path, user, -1)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", VICTIM, str(user)],
        stdout=subprocess.PIPE,
        env={"SECRET": "of the environment"},
        cwd="/",
    )
    try:
        assert process.stdout is not None
        yield Victim(process.pid, int(process.stdout.readline()), user, folder, home)
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(place)


def attacks_as_cli(victim: Victim, user: int, confine: str) -> list[str]:
    """Attempt all attacks as a CLI and return those that succeed."""
    for path in (victim.home, victim.home / "config"):
        os.chown(path, user, -1)
    environment = {
        "PATH": "/usr/bin:/bin",
        "FIELDMARK_CLI": "/bin/sh",
        "FIELDMARK_SEALED": str(victim.home),
        "FIELDMARK_CPU_SECONDS": "60",
        "FIELDMARK_ONE_AT_A_TIME": "true",
        "FIELDMARK_SERVICE_PID": str(os.getpid()),
        "FIELDMARK_USER": str(user),
        "FIELDMARK_PYTHON": sys.executable,
        "FIELDMARK_CONFINE": confine,
        "FIELDMARK_MODEL_KEY": "",
        "CLAUDE_CONFIG_DIR": str(victim.home / "config"),
        "CLAUDE_CODE_ENTRYPOINT": "",
        "FIELDMARK_MODEL_TOKEN": "",
        "CLAUDE_AGENT_SDK_VERSION": "",
        "CLAUDE_AGENT_SDK_CLIENT_APP": "",
        "FIELDMARK_RETRIES": "1",
        "CLAUDE_CODE_SDK_READS_SESSION_STATE": "",
        "ANTHROPIC_BASE_URL": "",
    }
    deeds = ATTACKS.format(pid=victim.pid, folder=victim.folder)
    done = subprocess.run([LAUNCHER, "-c", deeds], env=environment, capture_output=True, text=True, cwd=victim.home)
    return done.stdout.splitlines()


def attacks_as_reader(victim: Victim, mode: str, user: int) -> list[str]:
    """Attempt all attacks as a file reader and return those that succeed."""
    arguments = map(str, (victim.pid, victim.folder, victim.address, mode, user))
    done = subprocess.run([sys.executable, "-I", "-c", READER, *arguments], capture_output=True, text=True, cwd="/")
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split()


@pytest.fixture
def no_landlock(victim: Victim) -> str:
    """Return a replacement of landlock.py without confinement, to test the other guard alone."""
    path = victim.home.parent / "nothing.py"
    path.write_text("import os, sys; os.execv(sys.argv[4], sys.argv[4:])")
    return str(path)


def test_unconfined_process_can_attack_processes_of_its_user(victim: Victim, no_landlock: str) -> None:
    succeeded = attacks_as_cli(victim, victim.user, no_landlock)
    assert succeeded == ["signalled", "secret of a file", "SECRET=of the environment", "mine"]
    assert not (victim.folder / "doomed").exists() and (victim.folder / "planted").exists()
    (victim.folder / "doomed").touch()
    assert attacks_as_reader(victim, "free", victim.user) == ["mine", "signalled", "secret", "memory", "unlinked"]


@scoped
def test_landlock_alone_confines_a_cli(victim: Victim) -> None:
    assert attacks_as_cli(victim, victim.user, landlock.__file__) == ["mine"]
    assert (victim.folder / "doomed").exists() and not (victim.folder / "planted").exists()


@root
def test_separate_user_alone_confines_a_cli(victim: Victim, no_landlock: str) -> None:
    assert attacks_as_cli(victim, 62_601, no_landlock) == ["mine"]
    assert (victim.folder / "doomed").exists() and not (victim.folder / "planted").exists()


@scoped
def test_landlock_alone_confines_a_reader(victim: Victim) -> None:
    assert attacks_as_reader(victim, "landlock", victim.user) == ["mine"]
    assert (victim.folder / "doomed").exists()


@root
def test_separate_user_alone_confines_a_reader(victim: Victim) -> None:
    assert attacks_as_reader(victim, "user", 62_601) == ["mine"]
    assert (victim.folder / "doomed").exists()


@pytest.mark.skipif(landlock.version() < 4, reason="Landlock does not know of ports")
@pytest.mark.parametrize(
    ("confined", "can"),
    [("", ["bind", "connect"]), ("may_connect=True", ["connect"]), ("may_connect=False", [])],
    ids=["free", "cli", "reader"],
)
def test_confined_process_cannot_bind_a_port(confined: str, can: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        deeds = [sys.executable, "-I", "-S", "-c", PORTS, str(BACKEND), str(server.getsockname()[1]), confined]
        done = subprocess.run(deeds, capture_output=True, text=True, check=True)
        assert done.stdout.split() == can


@root
def test_each_process_and_postgres_has_its_own_user() -> None:
    taking = "from processisolation import users; print(users.lease_user().user); input()"
    others = [
        subprocess.Popen([sys.executable, "-c", taking], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    here = [users.lease_user() for _ in range(20)]
    try:
        assert all(one is not None for one in here)
        given = [one.user for one in here if one is not None]
        given += [int(other.stdout.readline()) for other in others if other.stdout is not None]
        assert len(set(given)) == 22 and users.postgres_user() not in given
        assert all(users.is_in_range(user) for user in given)
    finally:
        for one in here:
            if one is not None:
                one.release()
        for other in others:
            other.communicate("\n")


HOLDER = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[3])
from processisolation.lockdown import deny_memory_access
if os.geteuid() == 0:
    user = int(sys.argv[2])
    os.setgroups([]), os.setresgid(user, user, user), os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as one that was started so
if sys.argv[1] == "closed":
    deny_memory_access()
secret = ctypes.create_string_buffer(b"secret")
os.listdir("/proc/self/fd"), open("/proc/self/status").close()  # what it must it can
child = os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "cat /proc/self/environ > /dev/null"])
print(ctypes.addressof(secret), child, flush=True)
sys.stdin.read()
"""
LOOKER = """
import os, sys
pid, address, user = map(int, sys.argv[1:])
if os.geteuid() == 0:
    os.setgroups([]), os.setresgid(user, user, user), os.setresuid(user, user, user)
for name, at in ("environ", 0), ("mem", address):
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            file.seek(at)
            print(name if b"ecre" in file.read(6) or name == "environ" else "")
    except OSError:
        pass
"""


@pytest.mark.parametrize(("mode", "seen"), [("closed", []), ("open", ["environ", "mem"])])
def test_service_memory_is_closed_to_its_own_user(mode: str, seen: list[str]) -> None:
    arguments = ["-I", "-S", "-c", HOLDER, mode, "62600", str(BACKEND)]
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"SECRET": "of the environment"},
    ) as holder:
        assert holder.stdout is not None
        address, child = holder.stdout.readline().split()
        assert child == "0"
        looking = [sys.executable, "-I", "-S", "-c", LOOKER, str(holder.pid), address, "62600"]
        assert subprocess.run(looking, capture_output=True, text=True, cwd="/").stdout.split() == seen
        holder.communicate()


@pytest.mark.anyio
async def test_every_entry_point_disables_core_dumps(serve: Serve) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(4, 1, 0, 0, 0)
    try:
        async with serve(Script([])):
            assert libc.prctl(3, 0, 0, 0, 0) == 0
    finally:
        libc.prctl(4, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("is_root", "version", "succeeded"),
    [(True, 0, ""), (False, 6, ""), (False, 5, "6.12"), (False, 0, "no Landlock")],
)
def test_weaker_isolation_is_logged(is_root: bool, version: int, succeeded: str) -> None:
    warning = isolation_warning_for(is_root, version)
    assert (warning is None) is (succeeded == "") and succeeded in (warning or "")
    assert isolation_warning() == isolation_warning_for(AS_ROOT, landlock.version())


@root
def test_postgres_user_is_never_assigned_to_a_sandbox() -> None:
    few = range(63_400, 63_500)
    users.set_range(few)
    try:
        here = [users.lease_user() for _ in few[1:]]
        assert sorted(one.user for one in here if one is not None) == list(few[1:])
        assert users.postgres_user() == few[0]
        with pytest.raises(users.NoFreeUserError):
            users.lease_user()
        for one in here:
            if one is not None:
                one.release()
    finally:
        users.set_range(users.DEFAULT_RANGE)
