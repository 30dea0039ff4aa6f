"""Detect text layers that don't match what the page shows: a font may map its glyphs to wrong
characters, or to none."""

from __future__ import annotations

import re

# Missing characters, replacement characters, and private-use characters, whose meaning only the font knows.
_UNMAPPED = re.compile("[\0\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff]")
_VISIBLE = re.compile(r"\S")
_LATIN_WORD = re.compile("[a-z\u00df-\u024f]{4,}")
_VOWEL = re.compile("[aeiouy\u00df-\u024f]")

_MAX_NAMELESS_SHARE = 0.3
_MIN_CHARACTERS = 10
# In Latin script, at least a third of the letters are vowels in all languages. If each letter is replaced by another
# letter, an eighth to a fifth are.
_MIN_VOWEL_SHARE = 0.25
_MIN_WORDS = 12


def is_garbled(text: str) -> bool:
    """Return whether most of a page's text layer is not text. Codes, amounts and short pages are not garbled."""
    visible = len(_VISIBLE.findall(text))
    nameless = len(_UNMAPPED.findall(text))
    if visible >= _MIN_CHARACTERS and nameless > _MAX_NAMELESS_SHARE * visible:
        return True
    words = set(_LATIN_WORD.findall(text.lower()))
    letters = "".join(words)
    return len(words) >= _MIN_WORDS and len(_VOWEL.findall(letters)) < _MIN_VOWEL_SHARE * len(letters)
