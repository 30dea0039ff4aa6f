"""Translates the exceptions of the Agent SDK into Fieldmark's."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import structlog
from claude_agent_sdk import (
    ClaudeSDKError,
    CLIConnectionError,
    CLIJSONDecodeError,
    CLINotFoundError,
    Message,
    ProcessError,
)

from fieldmark.domain.statuses import RunError
from fieldmark.errors import Unavailable

log = structlog.get_logger()

# The CLI exits with 128 + the signal number; its launcher is ended by the signal itself.
_KILLED = {-signal.SIGKILL} | {
    code for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) for code in (-number, 128 + number)
}


class CliFailed(Exception):
    """The CLI ended by itself, or sent a message that can't be read. Its text may be shown to users."""

    def __init__(self, sentence: str, code: RunError = RunError.AGENT_PROCESS) -> None:
        super().__init__(sentence)
        self.code = code


async def readable_messages(messages: AsyncIterator[Message]) -> AsyncIterator[Message]:
    """Yield the SDK's messages. Raise CliFailed if the SDK can't parse one: it reads no further message then, so the
    call can't be refused."""
    try:
        async for message in messages:
            yield message
    except (CLIJSONDecodeError, RecursionError) as error:
        log.warning("a message of the agent's process could not be read", error=type(error).__name__)
        raise CliFailed(
            "The model made a call that is too large or nested too deeply to be read. Start the run again.",
            RunError.CALL_UNREADABLE,
        ) from None


@contextmanager
def cli_errors() -> Generator[None]:
    """Translate the SDK's errors in the block: Unavailable, which the queue retries, if the CLI was killed or did not
    start; CliFailed for any other."""
    try:
        yield
    except ClaudeSDKError as error:
        # Not logged: its text may repeat the CLI's output, which may contain the document.
        exit_code = getattr(error, "exit_code", None)
        log.warning("the agent's process failed", error=type(error).__name__, exit_code=exit_code)
        if _was_killed(error):
            raise Unavailable("The agent's process was killed, or did not start. The run is retried.") from None
        raise CliFailed("The agent's process ended unexpectedly. Start the run again.") from None


def _was_killed(error: ClaudeSDKError) -> bool:
    """Whether the CLI was killed, by the system or together with a stopped service, or did not start."""
    if isinstance(error, ProcessError):
        return error.exit_code in _KILLED
    return isinstance(error, CLIConnectionError) and not isinstance(error, CLINotFoundError)
