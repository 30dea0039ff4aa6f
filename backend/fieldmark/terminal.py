"""Foreign text, made fit for a terminal."""

from __future__ import annotations

import json

from rich.markup import escape


def plain(text: str) -> str:
    """Text for a console: no markup, and what a terminal would obey or hide (escapes, directions) spelt out."""
    return escape("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))
