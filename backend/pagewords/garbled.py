"""Detect text layers that don't match what the page shows: a font may map its glyphs to wrong
characters, or to none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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
# A page of loose letters: fonts for vertical script and fonts with wrong widths place Latin letters apart.
_LETTERS = re.compile("[A-Za-zß-ɏ]{1,2}")
_MIN_LETTERS = 40
_MAX_LETTER_GAP = 0.5  # heights of a letter between two letters of a word
_MIN_LOOSE_SHARE = 0.6  # of the Latin words of a page


def is_garbled(text: str) -> bool:
    """Return whether most of a page's text layer is not text. Codes, amounts and short pages are not garbled."""
    visible = len(_VISIBLE.findall(text))
    nameless = len(_UNMAPPED.findall(text))
    if visible >= _MIN_CHARACTERS and nameless > _MAX_NAMELESS_SHARE * visible:
        return True
    words = set(_LATIN_WORD.findall(text.lower()))
    letters = "".join(words)
    return len(words) >= _MIN_WORDS and len(_VOWEL.findall(letters)) < _MIN_VOWEL_SHARE * len(letters)


def is_spaced_out(words: Sequence[tuple[str, tuple[float, float, float, float]]]) -> bool:
    """Return whether most Latin words of a page, given with their boxes, are single letters close to each other."""
    latin = sum(text[:1].isalpha() and text[:1] < "ɐ" for text, _ in words)
    loose = 0
    for (one, (_, _, right, bottom)), (other, (left, top, _, end)) in pairwise(words):
        if _LETTERS.fullmatch(one) and _LETTERS.fullmatch(other) and top < bottom:
            loose += 0 <= left - right < _MAX_LETTER_GAP * (end - top)
    return loose >= _MIN_LETTERS and loose > _MIN_LOOSE_SHARE * latin
