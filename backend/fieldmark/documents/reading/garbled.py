"""Detect text layers that don't match what the page shows: a font may map its glyphs to wrong
characters, or to none."""

from __future__ import annotations

import re

# Missing characters, replacement characters, and private-use characters, whose meaning only the font knows.
_NAMELESS = re.compile("[\0\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff]")
_VISIBLE = re.compile(r"\S")
_LATIN_WORD = re.compile("[a-z\u00df-\u024f]{4,}")
_VOWEL = re.compile("[aeiouy\u00df-\u024f]")

_MOST_NAMELESS = 0.3
_FEWEST_CHARACTERS = 10
# In all languages in Latin script, at least a third of the letters are vowels. If each letter is replaced by another
# one, an eighth to a fifth are.
_FEWEST_VOWELS = 0.25
_FEWEST_WORDS = 12


def is_garbled(text: str) -> bool:
    """Return whether most of a page's text layer is not text. Codes, amounts and short pages are not garbled."""
    visible = len(_VISIBLE.findall(text))
    nameless = len(_NAMELESS.findall(text))
    if visible >= _FEWEST_CHARACTERS and nameless > _MOST_NAMELESS * visible:
        return True
    words = set(_LATIN_WORD.findall(text.lower()))
    letters = "".join(words)
    return len(words) >= _FEWEST_WORDS and len(_VOWEL.findall(letters)) < _FEWEST_VOWELS * len(letters)
