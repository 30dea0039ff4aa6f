"""One CLI: its folder, what it is asked and says, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    ConversationResetMessage,
    Message,
    MirrorErrorMessage,
    ResultMessage,
    SystemMessage,
)

from fieldmark.agents.spec import Prompt
from fieldmark.isolation import users
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.cli_attestation import COMMANDS, SandboxViolation, check_init, sealed
from fieldmark.runs.engine.model_stream import conversation_result
from fieldmark.runs.engine.options import CliKind
from fieldmark.runs.outcome import outcome_of_result

log = structlog.get_logger()

CONNECT_SECONDS = 30
CLEAR_SECONDS = 10
GOODBYE_SECONDS = 3
FOLDER = "fieldmark-agent-"

# What the CLI needs for its own life, by its place in the folder; a run has left the rest.
_ITS_OWN = ("pid", "config/.claude.json", "config/sessions")


class Process:
    """A CLI that lives until `end`. `options_in(folder)` gives its options once its folder is there.

    One that `is_clearable` has slash commands; what is not ours is then sent to it marked as text."""

    # What the pool notes of it: its organisation from its first run on, and once it is kept the task that clears it,
    # which returns why that failed.
    org_id: UUID | None = None
    runs = 0
    idle_since = 0.0
    clearing: asyncio.Task[str | None]

    def __init__(
        self,
        options_in: Callable[[Path], ClaudeAgentOptions],
        kind: CliKind,
        binding: RunBinding,
        is_clearable: bool = False,
    ) -> None:
        self.kind = kind
        self.binding = binding
        self.is_clearable = is_clearable
        self.ended_well = False
        self._options_in = options_in
        self._commands = COMMANDS if is_clearable else frozenset[str]()
        self._home = contextlib.ExitStack()
        self._folder: Path | None = None
        self._client: ClaudeSDKClient | None = None

    @property
    def session_id(self) -> UUID:
        """The conversation that it is in."""
        return self.binding.session_id

    async def connect(self, seconds: float = CONNECT_SECONDS) -> None:
        """Start it. Raise what the SDK raises, and CLIConnectionError too where the system has no room for it or it
        takes longer. Whatever this raises, the CLI has to be ended."""
        try:
            folder = self._make_folder()
        except OSError as error:
            raise CLIConnectionError(f"The agent's CLI has no folder ({type(error).__name__}).") from None
        self._client = ClaudeSDKClient(self._options_in(folder))
        try:
            async with asyncio.timeout(seconds):
                # In a context of its own: it may outlive the run whose ids are in the log and the span.
                await asyncio.create_task(self._client.connect(), context=contextvars.Context())
        except TimeoutError:  # which a run would take for its own deadline
            raise CLIConnectionError("The agent's CLI did not start in time.") from None

    def _make_folder(self) -> Path:
        user = self._home.enter_context(users.taken())
        self._folder = folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        self._home.callback(shutil.rmtree, folder, True)
        (folder / "config").mkdir(mode=0o700)
        if user is not None:
            os.chown(folder / "config", user, user)
            os.chown(folder, user, user)
        return folder

    async def converse(self, prompt: Prompt | None) -> AsyncIterator[Message]:
        """Yield the CLI's messages in reply to a prompt; without one the CLI continues where its conversation stopped.

        Afterwards `ended_well` says whether the last message was that of a run that completed. Raise SandboxViolation
        if the CLI has anything besides our tools or is in another conversation, and the error of a call that must end
        the run."""
        self.ended_well = False
        if prompt is not None:
            await self._say(prompt, as_text=True)
        async for message in sealed(self._connected.receive_response(), self.kind.toolset, self._commands):
            self.binding.check()
            session_id = _session_of(message)
            if session_id not in (None, str(self.session_id)) and not isinstance(message, MirrorErrorMessage):
                raise SandboxViolation("The agent's CLI is in another conversation than this run's.")
            if isinstance(message, ResultMessage):
                self.ended_well = outcome_of_result(conversation_result(message)).status == "completed"
            yield message

    async def clear(self, seconds: float = CLEAR_SECONDS) -> None:
        """Make the CLI forget its conversation, and remove what lies of it in its folder: it is in a new one then.
        Raise SandboxViolation unless it confirms that, TimeoutError, or what the SDK raises."""
        self.ended_well = False
        async with asyncio.timeout(seconds):
            await self._say("/clear", as_text=False)
            self.binding.begin(await self._cleared())
        assert self._folder is not None
        await asyncio.to_thread(_tidy, self._folder, self.session_id)

    async def end(self, in_order: bool) -> None:
        """Ask it to go, kill it if it stays (at once if not `in_order`), and remove its folder."""
        # In a task of its own: a second cancellation must not interrupt the goodbye and leave the CLI behind.
        goodbye = asyncio.create_task(self._say_goodbye(in_order))
        try:
            await asyncio.shield(goodbye)
        except asyncio.CancelledError:
            await goodbye
            raise

    def lives(self) -> bool:
        """Whether it has not ended by itself."""
        pid = self._pid()
        if pid is None:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def worn_out(self, *, runs: int, max_mb: int, cpu_seconds: float) -> str | None:
        """Return why it must not be used again, as a metric's label."""
        if self.binding.spoilt:
            return "spoilt"
        if not self.lives():
            return "died"
        if self.runs >= runs:
            return "runs"
        if self.memory_mb() > max_mb:
            return "memory"
        return "cpu" if self.cpu_seconds() > cpu_seconds else None

    def memory_mb(self) -> float:
        """What it holds of memory that nobody shares; 0 where the system does not tell."""
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{self._pid()}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) / 1024
        return 0

    def cpu_seconds(self) -> float:
        """What it has used of its processor time; 0 where the system does not tell."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name stands in brackets and may hold anything: what follows the last one is numbers.
            numbers = Path(f"/proc/{self._pid()}/stat").read_text().rpartition(")")[2].split()
            return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
        return 0

    async def _say(self, prompt: Prompt, *, as_text: bool) -> None:
        """Tell it something. Only what is wholly our own may be a command; all else is text, whatever it looks like."""
        message: dict[str, Any] = {
            "type": "user",
            "message": {"role": "user", "content": prompt if isinstance(prompt, str) else _blocks(*prompt)},
            "parent_tool_use_id": None,
        }
        if as_text:
            message["client_composed"] = True

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._connected.query(messages())

    async def _cleared(self) -> UUID:
        before, was_reset = str(self.session_id), False
        async for message in self._connected.receive_response():
            if isinstance(message, ConversationResetMessage) and not was_reset and message.session_id == before:
                was_reset = True
            elif isinstance(message, ResultMessage):
                if was_reset and not message.is_error and message.num_turns == 0 and message.session_id != before:
                    return UUID(message.session_id)
                break
            elif isinstance(message, SystemMessage) and not isinstance(message, MirrorErrorMessage):
                if message.subtype == "init":
                    check_init(message.data, self.kind.toolset, self._commands)
            else:
                break
        raise SandboxViolation("The agent's CLI was not cleared.")

    @property
    def _connected(self) -> ClaudeSDKClient:
        assert self._client is not None, "connect() comes first"
        return self._client

    async def _say_goodbye(self, in_order: bool) -> None:
        if not in_order:  # it may be waiting for a model that never answers
            self._kill()
        try:
            if self._client is not None:
                await self._disconnect(self._client)
        finally:
            self._kill()
            await asyncio.to_thread(self._home.close)

    async def _disconnect(self, client: ClaudeSDKClient) -> None:
        # Waited for and never cancelled: a cancelled goodbye leaves the process and its streams behind.
        going = asyncio.create_task(client.disconnect())
        _, staying = await asyncio.wait({going}, timeout=GOODBYE_SECONDS)
        if staying:
            log.warning("the CLI did not go by itself")
            self._kill()
            await asyncio.wait({going}, timeout=GOODBYE_SECONDS)
        if going.done() and not going.cancelled() and (error := going.exception()):
            log.warning("the CLI did not go in order", error=type(error).__name__)

    def _pid(self) -> int | None:
        """The CLI's, if it is still the process that lives in this folder: the number may belong to somebody else by
        now, and the file is the CLI's to write."""
        folder = self._folder
        with contextlib.suppress(OSError, ValueError):
            if folder is None:
                return None
            pid = int((folder / "pid").read_text())
            process = Path(f"/proc/{pid}")
            if not process.exists():
                return pid
            try:
                is_ours = str(folder).encode() in (process / "environ").read_bytes()
            except PermissionError:
                # Root in a container has not CAP_SYS_PTRACE, and may not look into what belongs to others.
                is_ours = os.geteuid() == 0 and process.stat().st_uid == folder.stat().st_uid
            return pid if is_ours else None
        return None

    def _kill(self) -> None:
        pid = self._pid()
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _blocks(common: str, own: str) -> list[dict[str, Any]]:
    """Two texts as one message, of which the model's service may keep all up to the end of the first. It takes four
    such marks in a request, and the CLI sets three."""
    kept = {"type": "text", "text": common, "cache_control": {"type": "ephemeral"}}
    return [kept, {"type": "text", "text": own}]


def _session_of(message: Message) -> str | None:
    found: object = getattr(message, "session_id", None)
    if found is None and isinstance(message, SystemMessage):
        found = message.data.get("session_id")
    return found if isinstance(found, str) else None


def _tidy(folder: Path, session_id: UUID) -> None:
    """Remove what earlier conversations have left: transcripts, logs of calls, whatever else."""
    # By descriptors, as rmtree does: a folder that the CLI swaps for a link meanwhile leads nowhere.
    for place, folders, files, descriptor in os.fwalk(folder, topdown=False, follow_symlinks=False):
        here = Path(place).relative_to(folder)
        for name in (*files, *folders):
            if str(here / name).startswith(_ITS_OWN) or name.startswith(str(session_id)):
                continue
            with contextlib.suppress(OSError):  # a folder that is not empty
                try:
                    os.unlink(name, dir_fd=descriptor)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=descriptor)
