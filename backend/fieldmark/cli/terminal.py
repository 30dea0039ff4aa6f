"""What is said at the terminal: the two consoles, and foreign text made fit for them."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.status import Status

err = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False)


def plain(text: str) -> str:
    """Text for a console: no markup, and what a terminal would obey or hide (escapes, directions) spelt out."""
    return escape("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def tell(status: Status, words: str) -> None:
    """Say what begins now: in the line that moves on a terminal, as a line of its own elsewhere."""
    status.update(words)
    if not err.is_terminal:
        err.print(words)
