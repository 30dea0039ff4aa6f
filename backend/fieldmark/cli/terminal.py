"""The two consoles of a command, and escaping of untrusted text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.status import Status

_SECONDS_BETWEEN_LINES: Final = 10

err = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False)

_silent = Console(stderr=True, quiet=True)
_is_quiet = False
_line_shown_at = 0.0


def be_quiet(quiet: bool) -> None:
    """Set whether progress messages are suppressed. Errors and questions are always shown."""
    global _is_quiet
    _is_quiet = quiet


def steps() -> Console:
    """Return the console for progress messages: standard error, or none with --quiet."""
    return _silent if _is_quiet else err


def escape_control(text: str) -> str:
    """Escape characters that a terminal would interpret or hide (escape sequences, text direction)."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def plain(text: str) -> str:
    """Escape a text for a console: terminal characters and Rich markup."""
    return escape(escape_control(text))


def show_step(status: Status, words: str) -> None:
    """Show the current step: in the status line of a terminal, otherwise as a line."""
    status.update(words)
    if not err.is_terminal:
        _show_line(words)


def show_progress(status: Status, read: int, total: int, what: str) -> None:
    """Show how far a step is: in the status line of a terminal, otherwise as a line every 10 seconds. The end is always
    a line, because a status line disappears."""
    bar = "█" * (filled := round(20 * read / total) if total else 20) + "░" * (20 - filled)
    words = f"{bar} {read} of {total} {what}"
    status.update(words)
    if read == total or (not err.is_terminal and time.monotonic() - _line_shown_at >= _SECONDS_BETWEEN_LINES):
        _show_line(words)


def _show_line(words: str) -> None:
    global _line_shown_at
    _line_shown_at = time.monotonic()
    steps().print(words)


def say_if_more(found: Sequence[object], is_more: bool) -> None:
    """Say that a list was cut off at its limit."""
    if is_more:
        steps().print(f"The first {len(found)}. There are more: pass a higher --limit.")


def show_lines(rows: Iterable[Iterable[object]], none: str) -> None:
    """Print rows as plain lines, so that pipes get whole lines. `none` is printed if there are no rows."""
    shown = False
    for cells in rows:
        out.print(plain("  ".join(map(str, cells)).rstrip()), soft_wrap=True)
        shown = True
    if not shown:
        steps().print(none)
