"""Where a run gets its CLI from: a new process each time, in a folder of its own, gone when the run is."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import structlog
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message

from fieldmark.runs.gate import Calls
from fieldmark.runs.seal import sealed

log = structlog.get_logger()

CONNECT_SECONDS = 30
GOODBYE_SECONDS = 3
NOBODY = 65534
NEW_SECONDS = 10
_WORKPLACE = "fieldmark-workplace-"

_LAUNCHER_SAYS = re.compile(r"(/\S*/)?sealed-cli\.sh: ")


@asynccontextmanager
async def conversation(
    options_in: Callable[[Path], ClaudeAgentOptions], calls: Calls, prompt: str | None
) -> AsyncGenerator[AsyncIterator[Message]]:
    """What a new CLI says to a prompt, or without one from where its conversation stopped: an iterator of its messages.
    It raises Unsealed if the CLI has anything besides our tools, and what one of its `calls` failed with, if that must
    end the run. See `acquire`."""
    async with acquire(options_in) as client:
        if prompt is not None:
            await client.query(prompt)
        yield sealed(client.receive_response(), calls.toolkit, calls.check)


@asynccontextmanager
async def acquire(options_in: Callable[[Path], ClaudeAgentOptions]) -> AsyncGenerator[ClaudeSDKClient]:
    """A connected client for one run. `options_in(folder)` gives its options once its folder is there.

    However the block ends, the CLI is asked to go, killed by its pid if it stays, and its folder removed.
    """
    folder = _make_folder()
    client = ClaudeSDKClient(options_in(folder))
    in_order = False
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect()
        yield client
        in_order = True
    finally:
        # In a task of its own: a second cancellation must not interrupt the goodbye and leave the CLI behind.
        goodbye = asyncio.create_task(_say_goodbye(client, folder, in_order))
        try:
            await asyncio.shield(goodbye)
        except asyncio.CancelledError:
            await goodbye
            raise


@contextmanager
def workplace() -> Generator[None]:
    """What this process and the SDK put into temporary files lies in one folder of this process meanwhile. It is
    locked: what a killed process left behind, transcripts among it, is known by the lock that is free."""
    if _outside() != Path(tempfile.gettempdir()):  # a second service in one process
        yield
        return
    before = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix=_WORKPLACE))
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.chmod(0o711)  # the CLI's own user goes through it into its folder
        tempfile.tempdir = str(folder)  # the SDK cannot be told where to put a conversation that it resumes
        yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def clear_up() -> None:
    """Remove what processes that were killed have left in their workplaces."""
    for folder in _outside().glob(f"{_WORKPLACE}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                is_ours = os.fstat(lock).st_uid == os.geteuid()
                is_new = time.time() - os.fstat(lock).st_mtime < NEW_SECONDS  # made, and not locked yet
                if is_ours and not is_new:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _outside() -> Path:
    """Where workplaces stand: the system's own folder for temporary files."""
    here = Path(tempfile.gettempdir())
    return here.parent if here.name.startswith(_WORKPLACE) else here


def log_stderr(line: str) -> None:
    """What the CLI writes on standard error may repeat the document; what our launcher writes cannot."""
    if _LAUNCHER_SAYS.match(line):
        log.warning("the agent's process cannot be started", reason=line[:500])
    else:
        log.debug("the CLI wrote on standard error", characters=len(line))


def _make_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-agent-"))
    (folder / "config").mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(folder / "config", NOBODY, NOBODY)
        os.chown(folder, NOBODY, NOBODY)
    return folder


async def _say_goodbye(client: ClaudeSDKClient, folder: Path, in_order: bool) -> None:
    if not in_order:  # it may be waiting for a model that never answers
        _kill(folder)
    # Waited for and never cancelled: a cancelled goodbye leaves the process and its streams behind.
    going = asyncio.create_task(client.disconnect())
    try:
        _, staying = await asyncio.wait({going}, timeout=GOODBYE_SECONDS)
        if staying:
            log.warning("the CLI did not go by itself", folder=folder.name)
            _kill(folder)
            await asyncio.wait({going}, timeout=GOODBYE_SECONDS)
        if going.done() and (error := going.exception()):
            log.warning("the CLI did not go in order", folder=folder.name, error=type(error).__name__)
    finally:
        _kill(folder)
        await asyncio.to_thread(shutil.rmtree, folder, True)


def _kill(folder: Path) -> None:
    try:
        pid = int((folder / "pid").read_text())
        command = Path(f"/proc/{pid}/environ")
        # The pid may belong to somebody else by now: only a process that lives in this folder is ours.
        if command.exists() and str(folder).encode() not in command.read_bytes():
            return
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return
