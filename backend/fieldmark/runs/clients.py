"""Where a run gets its CLI from: a new process each time, in a folder of its own, gone when the run is."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message

from fieldmark.runs.gate import Calls
from fieldmark.runs.seal import sealed

log = structlog.get_logger()

CONNECT_SECONDS = 30
GOODBYE_SECONDS = 3
NOBODY = 65534


@asynccontextmanager
async def conversation(
    options_in: Callable[[Path], ClaudeAgentOptions], calls: Calls, prompt: str
) -> AsyncGenerator[AsyncIterator[Message]]:
    """What a new CLI says to a prompt: an iterator of its messages. It raises Unsealed if the CLI has anything besides
    our tools, and what one of its `calls` failed with, if that must end the run. See `acquire`."""
    async with acquire(options_in) as client:
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
            log.warning("the CLI did not go in order", folder=folder.name, error=str(error)[:500])
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
