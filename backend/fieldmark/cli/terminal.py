"""The two consoles of a command, and escaping of foreign text for them."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.status import Status

err = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False)


def plain(text: str) -> str:
    """The text without markup. Characters that a terminal would obey or hide (escapes, directions) are spelt out."""
    return escape("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def tell(status: Status, words: str) -> None:
    """Print the step that begins now: in the status line of a terminal, elsewhere as a line of its own."""
    status.update(words)
    if not err.is_terminal:
        err.print(words)
