"""What the Agent SDK raises, as errors of ours."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

import structlog
from claude_agent_sdk import ClaudeSDKError, CLIConnectionError, CLINotFoundError, ProcessError

from fieldmark.errors import Unavailable

log = structlog.get_logger()

# The CLI itself exits with 128 + the number, the launcher before it dies of the signal.
_KILLED = {-signal.SIGKILL} | {
    code for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) for code in (-number, 128 + number)
}


class CliFailed(Exception):
    """The CLI ended by itself, or sent more than it may. Its text is fit to be shown."""


@contextmanager
def cli_errors() -> Generator[None]:
    """Raise Unavailable in the block for a CLI that was killed or did not start, for the queue to try again, and
    CliFailed for any other error of the SDK."""
    try:
        yield
    except ClaudeSDKError as error:
        # Its text may repeat what the CLI wrote, and with it the document.
        exit_code = getattr(error, "exit_code", None)
        log.warning("the agent's process failed", error=type(error).__name__, exit_code=exit_code)
        if _was_killed(error):
            raise Unavailable("The agent's process was killed, or did not start.") from None
        raise CliFailed("The agent's process ended unexpectedly, or sent more than it may.") from None


def _was_killed(error: ClaudeSDKError) -> bool:
    """Whether the CLI did not end by itself, or never began: killed by the system for want of memory or time, or with
    all processes of a service that is stopped."""
    if isinstance(error, ProcessError):
        return error.exit_code in _KILLED
    return isinstance(error, CLIConnectionError) and not isinstance(error, CLINotFoundError)
