"""Names of schemas, prompts, tags and documents: one line of visible characters. `private.is_name` in SQL checks the
same."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from fieldmark.domain.invisible import INVISIBLE_IN_KEY, find_invisible

MAX_CHARACTERS: Final = 200
MAX_TITLE: Final = 100
_INVISIBLE: Final = re.compile(INVISIBLE_IN_KEY)
_CONTROL_CATEGORIES: Final = ("Cc", "Zl", "Zp")  # controls, among them line ends


def name_problem(text: str) -> str | None:
    """Return why a text is not a valid name, or None if it is valid.

    >>> name_problem("Invoices"), name_problem(" Invoices")
    (None, 'A name must not begin or end with a space.')
    """
    if not 1 <= len(text) <= MAX_CHARACTERS:
        return f"A name must have 1 to {MAX_CHARACTERS} characters."
    if text != text.strip():
        return "A name must not begin or end with a space."
    if any(unicodedata.category(letter) in _CONTROL_CATEGORIES for letter in text):
        return "A name must be one line without control characters."
    if invisible := find_invisible(text, key=True):
        return f"A name must not contain the invisible character {invisible}."
    return None


def thread_title(message: str) -> str | None:
    """Return a thread title from the beginning of a message, one line. None if the message has no visible character."""
    line = " ".join(_INVISIBLE.sub("", message).split())
    return "".join(character for character in line if character.isprintable())[:MAX_TITLE].strip() or None
