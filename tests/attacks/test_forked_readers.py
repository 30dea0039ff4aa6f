"""A compromised reader forked from the service's forkserver: what it cannot do, and what each guard alone prevents."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pagewords.jobs import ReadJob, job_to_json
from pagewords.pages import MIB, Limits
from pagewords.readers import Forkserver
from processisolation import landlock

pytestmark = pytest.mark.anyio

AS_ROOT = os.geteuid() == 0
scoped = pytest.mark.skipif(landlock.version() < landlock.SCOPES_SIGNALS, reason="Landlock has no scope of signals")
root = pytest.mark.skipif(not AS_ROOT, reason="only root has other users to give")

SECRET = "tocsin of the first"
# The reader attempts all attacks after its job. Its file contains the other reader's id, or asks it to stay alive.
ATTACKS = """
import sys; sys.path.insert(0, sys.argv.pop())
import ctypes, json, os, re, socket, time
from pagewords import child, forkserver
said = []
def tried(name, deed):
    try:
        deed()
    except OSError:
        return
    said.append(name)
def open_ones():
    found = []
    for number in range(3, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found
def knows():
    # What it begins with is looked for, and the rest compared backwards: this code is not what is found.
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            begin, end, rights = re.match("(.*?)-(.*?) (.)", line).groups()
            try:
                memory.seek(int(begin, 16))
                piece = memory.read(int(end, 16) - int(begin, 16)) if rights == "r" else b""
            except (OSError, OverflowError, ValueError):
                continue
            if any(piece[found.end() :][:12] == b"tsrif eht fo"[::-1] for found in re.finditer(b"tocsin ", piece)):
                return True
    return False
def work(parent):
    if knows():
        said.append("knew it before")
    said.append(f"open {open_ones()}")
    content = os.pread(0, 100, 0)
    if knows():
        said.append("knows it")
    child.main(parent)
    said.append(f"dumpable {ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}")
    said.append(f"user {os.getuid()}")
    tried("parent", lambda: os.kill(parent, 0))
    other = re.search(b"other (\\\\d+)", content)
    if other:
        tried("other", lambda: os.kill(int(other[1]), 0))
    tried("socket", lambda: socket.socket())
    tried("file", lambda: os.open("/etc/hosts", os.O_RDONLY))
    tried("process", lambda: os.fork() or os._exit(0))
    os.write(1, json.dumps(said).encode() + b"\\n")
    if b"stay" in content:
        time.sleep(600)
GONE
forkserver.confine_early()
child.load(ocr=False)
forkserver.serve(work)
"""
# Code that removes one guard each.
WITHOUT_OWN_CONFINEMENT = "forkserver.confine_early, first = lambda: None, forkserver.confine_early; first()"
WITHOUT_CLOSING = "os.closerange = lambda *_: None"
WITHOUT_LOCKDOWN = "child.lock_down = lambda *_: None"


@asynccontextmanager
async def attacking_reader(
    server: Forkserver, folder: Path, text: str, user: int | None
) -> AsyncGenerator[tuple[int, set[str]]]:
    """Start a reader, let it attempt all attacks, and yield its process id and the attacks that succeeded."""
    path = folder / "a.txt"
    path.write_text(text)
    job = job_to_json(ReadJob(f"{text[:30]}.txt"), Limits(), user)
    file = os.open(path, os.O_RDONLY)
    try:
        async with server.reader(file, job, MIB) as process:
            answer = json.loads(await process.answers.readline())
            assert answer["failure"] is None, answer
            await process.answers.readexactly(sum(answer["sizes"]))
            yield await process.pid(), set(json.loads(await process.answers.readline()))
    finally:
        os.close(file)


async def successful_attacks(
    folder: Path, *, user: int | None, removed_guards: str = "", other_user: int | None = None
) -> set[str]:
    """Return the attacks that succeed next to a reader of another document."""
    server = Forkserver("plain", ATTACKS.replace("GONE", removed_guards))
    try:
        async with attacking_reader(server, folder, f"stay, {SECRET}", other_user) as (other, first):
            assert "knows it" in first and "knew it before" not in first
            async with attacking_reader(server, folder, f"other {other}", user) as (_, succeeded):
                return succeeded
    finally:
        server.stop()


async def test_forked_reader_has_no_other_document_or_descriptor(tmp_path: Path) -> None:
    user = 62_601 if AS_ROOT else None
    succeeded = await successful_attacks(tmp_path, user=user, other_user=62_602 if AS_ROOT else None)
    assert succeeded == {"open []", "dumpable 0", f"user {user or os.geteuid()}"}
    succeeded = await successful_attacks(tmp_path, user=user, removed_guards=WITHOUT_CLOSING)
    assert not succeeded & {"open []", "knew it before", "knows it"}


@scoped
async def test_landlock_alone_confines_a_forked_reader(tmp_path: Path) -> None:
    succeeded = await successful_attacks(tmp_path, user=None)
    assert not succeeded & {"parent", "other"} and f"user {os.geteuid()}" in succeeded
    succeeded = await successful_attacks(tmp_path, user=None, removed_guards=WITHOUT_OWN_CONFINEMENT)
    assert succeeded >= {"parent", "other"}, "those of one confinement reach each other"


@root
async def test_separate_user_alone_confines_a_forked_reader(tmp_path: Path) -> None:
    succeeded = await successful_attacks(
        tmp_path, user=62_601, other_user=62_602, removed_guards=WITHOUT_OWN_CONFINEMENT
    )
    assert not succeeded & {"parent", "other"} and "user 62601" in succeeded


async def test_unconfined_forked_reader_can_reach_other_files(tmp_path: Path) -> None:
    succeeded = await successful_attacks(tmp_path, user=62_601, removed_guards=WITHOUT_LOCKDOWN)
    assert succeeded >= {"socket", "file", "process", "dumpable 1", f"user {os.geteuid()}"}
