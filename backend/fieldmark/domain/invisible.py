"""Detect invisible characters, which make different values look alike."""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

# Directional marks, zero-width spaces, soft hyphens, fillers, variation selectors and tags, except the two selectors
# for text or emoji presentation. The CHECK constraints of `extractions` list the same characters.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners change how letters of these scripts are drawn, and compose emoji. They are allowed in values, not in keys.
_JOINABLE: Final = (
    r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}\p{Telugu}"
    r"\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Khmer}\p{Myanmar}\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f]"
)
_INVISIBLE_IN_VALUE = regex.compile(rf"[{_INVISIBLE}]|(?<!{_JOINABLE})[\u200c\u200d]|[\u200c\u200d](?!{_JOINABLE})")
INVISIBLE_IN_KEY: Final = f"[{_INVISIBLE}\u200c\u200d]"
"""Regular expression of the characters that no key may contain."""
_INVISIBLE_IN_KEY = regex.compile(INVISIBLE_IN_KEY)


def find_invisible(text: str, *, key: bool = False) -> str | None:
    """Return the name of the first invisible character that may not be stored, or None."""
    if text.isascii():
        return None
    found = (_INVISIBLE_IN_KEY if key else _INVISIBLE_IN_VALUE).search(text)
    return None if found is None else f"U+{ord(found[0]):04X} {unicodedata.name(found[0], 'unnamed')}"
