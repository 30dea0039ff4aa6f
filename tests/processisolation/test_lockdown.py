"""Each operation works before lockdown and is refused after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from child_processes import is_alive, wait_all_ended
from running_server import PATIENCE

BACKEND = Path(__file__).parents[2] / "backend"
START = f"""
import ctypes, os, resource, socket, sys, threading
sys.path.insert(0, {str(BACKEND)!r})
from processisolation.lockdown import lock_down
if sys.argv[1] == "locked down":
    lock_down(memory_bytes=512 << 20, cpu_seconds=1 if sys.argv[2:] else 30, parent=os.getppid(), user=62500)
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can prevent this")


def run(body: str, *mode: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", START + body, *mode], capture_output=True, text=True, cwd="/", timeout=PATIENCE
    )


@pytest.mark.parametrize(
    "operation",
    [
        "open('/etc/hosts').close()",
        "os.close(os.open('/', os.O_RDONLY))",
        "socket.socket().close()",
        "os.pipe()",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        pytest.param("os.waitpid(os.fork(), 0) if os.fork() else os._exit(0)", marks=linux),
        pytest.param("thread = threading.Thread(target=int); thread.start(); thread.join()", marks=linux),
        pytest.param("bytearray(700 << 20)", marks=linux),
    ],
)
def test_operation_is_refused_after_lockdown(operation: str) -> None:
    body = f"""
try:
    {operation}
except (OSError, RuntimeError, MemoryError, ValueError):
    print("refused")
else:
    print("done")
"""
    assert run(body, "free").stdout.strip().endswith("done")
    assert run(body, "locked down").stdout.strip() == "refused"  # it can still answer


def test_no_file_can_be_written_and_no_core_dump_is_left() -> None:
    limits = "print(*resource.getrlimit(resource.RLIMIT_FSIZE), *resource.getrlimit(resource.RLIMIT_CORE))"
    assert run(limits, "locked down").stdout.split() == ["0"] * 4
    assert run(limits, "free").stdout.split() != ["0"] * 4


def test_processor_time_is_limited() -> None:
    done = run("while True: pass", "locked down", "for a second")
    assert done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_becomes_another_user_without_privileges() -> None:
    body = "print(*os.getresuid(), *os.getresgid(), *os.getgroups())"
    assert run(body, "free").stdout.split()[:3] == ["0", "0", "0"]
    assert run(body, "locked down").stdout.split()[:6] == ["62500"] * 6
    status = (
        "status = open('/proc/self/status'); lock_down(1 << 30, 2, os.getppid(), 62500); status.seek(0); "
        "print(status.read())"
    )
    fields = dict(line.split(":\t", 1) for line in run(status, "free").stdout.splitlines() if ":\t" in line)
    assert (fields["CapPrm"], fields["CapEff"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")


@linux
def test_locked_down_process_ends_with_its_parent() -> None:
    script = START + "print(os.getpid(), flush=True)\nwhile True: threading.Event().wait(1)"
    starter = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', {script!r}, 'locked down'])"
    with subprocess.Popen([sys.executable, "-I", "-c", starter], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        assert is_alive(child)
        process.kill()
    assert wait_all_ended([child]), "The locked-down process is still there."


SERVICE = f"""
import asyncio, os, sys
sys.path.insert(0, {str(BACKEND)!r})
from pagewords.jobs import ReadJob, job_to_json
from pagewords.pages import Limits
from pagewords.readers import Forkserver
async def main():
    server = Forkserver("plain")
    file, kept = os.pipe()  # a file that never ends
    async with server.reader(file, job_to_json(ReadJob("a.txt"), Limits(), None), 1000) as reader:
        print(server.pid, await reader.pid(), flush=True)
        await reader.answers.readline()
asyncio.run(main())
"""


@linux
def test_readers_and_fork_server_end_with_the_service() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(started) == 2 and all(map(is_alive, started))
        process.kill()
        assert wait_all_ended(started), "They wait for their file still."
