"""Folding printed text to what it says: case, Unicode forms, ligatures, dashes, accents and foreign digits aside.

`plain` keeps punctuation and is the same length as an ASCII text; `bones` keeps letters, marks and digits alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import regex

# What separates thousands within a token: it must not become an ordinary space, which separates tokens.
HARD_SPACE = "\x1f"

_BEFORE_FORMS = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f", HARD_SPACE),
        # Superscripts are footnotes or powers, not digits of the number before them.
        **{c: "^" + unicodedata.normalize("NFKC", c) for c in "²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"},
        "ı": "i",
        "İ": "i",
        "ø": "o",
        "Ø": "o",
        "ł": "l",
        "Ł": "l",
    }
)
_AFTER_FORMS = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−﹘﹣－⁃", "-"),
        **dict.fromkeys("‘’‚‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»‹›", '"'),
        "٫": ".",  # the Arabic decimal separator has only this meaning, and the thousands separator only its own
        "٬": "'",
        "،": ",",
        "。": ".",
        "、": ",",
    }
)
# Soft hyphens, joiners, directions, byte order marks, stretching; accents; the optional vowel points of Hebrew and
# Arabic. The vowel signs of other scripts are letters of their own and stay.
_UNSEEN = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u0640\ufe00-\ufe0f"
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]"
)
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_NOT_BONES = regex.compile(r"[^\p{L}\p{M}\p{N}\n]+")
_ASCII_NOT_BONES = {code: None for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"}
# Written without spaces between words: a word of it may be a whole line, so what stands within one is not cut off.
UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー]")
RIGHT_TO_LEFT = regex.compile(r"[\p{Hebrew}\p{Arabic}\p{Syriac}\p{Thaana}]")
_CLUSTER = regex.compile(r"\X")


def plain(text: str) -> str:
    """The text in one case and one Unicode form; line breaks stay, and ASCII keeps its offsets."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.translate(_BEFORE_FORMS))
    text = unicodedata.normalize("NFC", _UNSEEN.sub("", text).casefold()).translate(_AFTER_FORMS)
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def bones(plain_text: str) -> str:
    """The letters, marks and digits of a plain text, and its line breaks."""
    if plain_text.isascii():
        return plain_text.translate(_ASCII_NOT_BONES)
    return _NOT_BONES.sub("", plain_text)


def bones_of(text: str) -> str:
    return bones(plain(text))


@lru_cache(maxsize=4096)
def origins(text: str, fold: Callable[[str], str]) -> list[tuple[int, int]]:
    """For each character of `fold(text)` which characters of `text` it came from, as (start, end)."""
    if text.isascii():
        if fold is plain:
            return [(at, at + 1) for at in range(len(text))]
        return [(at, at + 1) for at, character in enumerate(text) if character.isalnum()]
    found: list[tuple[int, int]] = []
    for cluster in _CLUSTER.finditer(text):
        found += [cluster.span()] * len(fold(cluster[0]))
    # Where folding looks beyond a cluster the word is not taken apart.
    return found if len(found) == len(fold(text)) else [(0, len(text))] * len(fold(text))
