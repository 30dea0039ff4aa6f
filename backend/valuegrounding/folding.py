"""Fold text for comparison: `ﬁnancé`, `FINANCE` and `Finance` are equal after folding.

`fold` normalises case, Unicode forms, ligatures, dashes, accents and non-ASCII digits, and keeps punctuation.
`alphanumeric` keeps only the letters, marks and digits of a folded text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import regex

# A no-break or thin space, which separates thousands. An ordinary space would separate tokens instead.
HARD_SPACE = "\x1f"

_CONTROL_CHARACTERS = {code: " " for code in (*range(32), *range(127, 160)) if chr(code) not in f"\t\n{HARD_SPACE}"}
_REPLACED_IN_ASCII = {**_CONTROL_CHARACTERS, ord("`"): "'"}
_REPLACED_BEFORE_NFKC = str.maketrans(
    {
        **{chr(code): space for code, space in _CONTROL_CHARACTERS.items()},
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f", HARD_SPACE),
        # Superscripts are footnotes or powers, not digits of the number before them.
        # A fraction is separate from the digits before it: 7½ is not 71/2.
        **{c: " " + unicodedata.normalize("NFKC", c) for c in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"},
        **{c: "^" + unicodedata.normalize("NFKC", c) for c in "²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"},
        **dict.fromkeys("∙⋅‧⸱˙", "·"),
        "ı": "i",
        "İ": "i",
        "ø": "o",
        "Ø": "o",
        "ł": "l",
        "Ł": "l",
    }
)
_REPLACED_AFTER_NFKC = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−﹘﹣－⁃➖˗\uf02d", "-"),
        **dict.fromkeys("‘’‚‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»‹›", '"'),
        "٪": "%",
        "٫": ".",  # the Arabic decimal separator has only this meaning, and the thousands separator only its own
        "٬": "'",
        "،": ",",
        "。": ".",
        "、": ",",
    }
)
# Soft hyphens, joiners, directions, byte order marks, stretching; accents; the optional vowel points of Hebrew and
# Arabic. The vowel signs of other scripts are letters of their own and stay.
_IGNORED = re.compile(
    "[\u00ad\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u0640\ufe00-\ufe0f"
    "\U000e0000-\U000e0fff"
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]"
)
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_NOT_ALPHANUMERIC = regex.compile(r"[^\p{L}\p{M}\p{N}\n]+")
_ASCII_NOT_ALPHANUMERIC = {code: None for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"}
# Scripts written without spaces: a "word" may be a whole line, so a match may start inside it.
UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー]")
RIGHT_TO_LEFT = regex.compile(r"[\p{Hebrew}\p{Arabic}\p{Syriac}\p{Thaana}]")
_CLUSTER = regex.compile(r"\X")


def fold(text: str) -> str:
    """Return the folded text. Line breaks stay, control characters become spaces; an ASCII text keeps its length."""
    if text.isascii():
        return text.lower().translate(_REPLACED_IN_ASCII)
    text = unicodedata.normalize("NFKD", text.translate(_REPLACED_BEFORE_NFKC))
    text = unicodedata.normalize("NFC", _IGNORED.sub("", text).casefold()).translate(_REPLACED_AFTER_NFKC)
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def alphanumeric(folded: str) -> str:
    """Return the letters, marks, digits and line breaks of a folded text."""
    if folded.isascii():
        return folded.translate(_ASCII_NOT_ALPHANUMERIC)
    return _NOT_ALPHANUMERIC.sub("", folded)


def fold_alphanumeric(text: str) -> str:
    """Return the folded letters, marks and digits of a text: `Acme Corp.` gives `acmecorp`."""
    return alphanumeric(fold(text))


@lru_cache(maxsize=4096)
def source_ranges(text: str, folder: Callable[[str], str]) -> list[tuple[int, int]]:
    """Return, for each character of `folder(text)`, the range (start, end) of `text` that it was folded from."""
    if text.isascii():
        if folder is fold:
            return [(at, at + 1) for at in range(len(text))]
        return [(at, at + 1) for at, character in enumerate(text) if character.isalnum()]
    found: list[tuple[int, int]] = []
    for cluster in _CLUSTER.finditer(text):
        found += [cluster.span()] * len(folder(cluster[0]))
    # If folding depends on several clusters, offsets are unknown: each character maps to the whole text.
    return found if len(found) == len(folder(text)) else [(0, len(text))] * len(folder(text))
