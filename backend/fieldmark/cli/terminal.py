"""The two consoles of a command, and escaping of foreign text for them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.status import Status

err = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False)

_silent = Console(stderr=True, quiet=True)
_is_quiet = False


def be_quiet(quiet: bool) -> None:
    """Whether what a command does is left out of what it says. Errors and questions are not."""
    global _is_quiet
    _is_quiet = quiet


def steps() -> Console:
    """Where a command says what it does: standard error, or nowhere if it shall be quiet."""
    return _silent if _is_quiet else err


def spelt(text: str) -> str:
    """The text with all characters spelt out that a terminal would obey or hide (escapes, directions)."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def plain(text: str) -> str:
    """The same without markup."""
    return escape(spelt(text))


def tell(status: Status, words: str) -> None:
    """Print the step that begins now: in the status line of a terminal, elsewhere as a line of its own."""
    status.update(words)
    if not err.is_terminal:
        steps().print(words)


def show_lines(rows: Iterable[Iterable[object]], none: str) -> None:
    """Lines and no table: a narrow terminal breaks them, and what reads a pipe gets them whole. `none` is said where
    there are none."""
    shown = False
    for cells in rows:
        out.print(plain("  ".join(map(str, cells)).rstrip()), soft_wrap=True)
        shown = True
    if not shown:
        steps().print(none)
