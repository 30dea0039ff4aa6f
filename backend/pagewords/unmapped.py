"""Words of a PDF page with characters that are drawn, but that their font maps to no character.

PDFium returns the glyph's code in place of such a character: a control character, a wrong letter, or by chance the
right one. What OCR reads at the word decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from pagewords.pages import PlacedWord
from pagewords.pdfium import Handle, get_font, has_ink, has_map_error, is_embedded, text_object
from pagewords.symbols import UNKNOWN

# Controls, and private-use characters except those of symbol fonts and the parts of tall brackets. PDFium marks hyphens
# by U+0002 and U+FFFE.
_NAMELESS = re.compile(
    "[\0\1\3-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\uffff\ue000-\uf01f\uf100-\uf8e4\uf8ff\U000f0000-\U0010ffff]"
)
# Invisible characters, and spaces at a digit. If one is drawn, the font maps the glyph of another to it.
_WITHOUT_INK = re.compile(
    "[\u034f\u061c\u115f\u1160\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
    r"|(?<=\d)[ \u00a0]|[ \u00a0](?=\d)"
)
Box = tuple[float, float, float, float]

_SPACES = frozenset({0x9, 0xA, 0xD, 0x20, 0xA0})
_SAMPLE_WORDS = 20  # of a font, compared with OCR
_MIN_AGREEMENT = (
    0.6  # from which a font's codes are its characters: OCR supports few scripts, and misreads some letters
)
_MIN_SCORE = 0.75  # of OCR: scripts that it does not support score less, and so do most symbols

Read = Callable[[Sequence[tuple[float, Box]]], Sequence[tuple[str, float]]]
"""Reads words by OCR, given their directions and boxes. Returns text and score of each."""


class UnmappedWord(NamedTuple):
    """A word with unmapped characters, as their codes say. `font` is set if all are of one font that maps none."""

    text: str
    direction: float
    box: Box
    font: Handle | None


def mark_unmapped(layer: Handle, codes: list[int]) -> set[int]:
    """Return the indexes of characters without a mapping. Codes that are not characters become UNKNOWN."""
    found = {at for at, code in enumerate(codes) if has_map_error(layer, at) and code not in _SPACES}
    text = "".join([_character(code) for code in codes])
    found.update(match.start() for match in _NAMELESS.finditer(text))
    inked = {match.start() for match in _WITHOUT_INK.finditer(text) if has_ink(layer, match.start())}
    for at in found | inked:
        if at in inked or codes[at] == 2 or codes[at] == 0xFFFE or _NAMELESS.match(text[at]):
            codes[at] = ord(UNKNOWN)
    return found | inked


def _character(code: int) -> str:
    return chr(code) if code <= 0x10FFFF else UNKNOWN


class Fonts:
    """The fonts of a page with unmapped characters."""

    def __init__(self, layer: Handle, codes: Sequence[int], unmapped: set[int]) -> None:
        self._layer = layer
        mapped = {at for at, code in enumerate(codes) if at not in unmapped and code not in _SPACES}
        self._without_mapping = self._of(unmapped) - self._of(mapped) if unmapped else set[Handle]()

    def _of(self, indexes: set[int]) -> set[Handle]:
        return {get_font(item) for item in {text_object(self._layer, at) for at in indexes} if item}

    def are_embedded(self, indexes: set[int]) -> bool:
        """Return whether the page shows the characters as everywhere: PDFium replaces a font that is not embedded."""
        return all(map(is_embedded, self._of(indexes)))

    def single_without_mapping(self, indexes: set[int]) -> Handle | None:
        """Return the font of the characters, if they have one that maps none of its characters."""
        found = self._of(indexes)
        return next(iter(found)) if len(found) == 1 and found <= self._without_mapping else None


def resolve_words(words: Sequence[UnmappedWord], read: Read) -> tuple[list[tuple[float, PlacedWord]], int, int]:
    """Return the words that the page shows, with their directions; the number of words that OCR changed; and the number
    of words that it could not read, which are UNKNOWN.

    A word is kept if OCR reads it as its codes say. All words of a font are kept if OCR reads most of a sample so.
    """
    readings: dict[int, tuple[str, float]] = {}

    def read_missing(indexes: Iterable[int]) -> None:
        missing = [at for at in indexes if at not in readings]
        readings.update(zip(missing, read([words[at][1:3] for at in missing]) if missing else (), strict=True))

    samples: dict[Handle, list[int]] = {}
    for at in sorted(range(len(words)), key=lambda at: -len(words[at].text)):
        if font := words[at].font:
            samples.setdefault(font, []).append(at)
    samples = {font: indexes[:_SAMPLE_WORDS] for font, indexes in samples.items()}
    read_missing(at for indexes in samples.values() for at in indexes)
    trusted = {
        font
        for font, indexes in samples.items()
        if _agreement([(words[at].text, readings[at][0]) for at in indexes]) >= _MIN_AGREEMENT
    }
    doubtful = [at for at, word in enumerate(words) if word.font not in trusted or UNKNOWN in word.text]
    read_missing(doubtful)
    shown = [(word.direction, PlacedWord(word.text, *word.box)) for at, word in enumerate(words) if at not in doubtful]
    changed = unknown = 0
    for at in doubtful:
        word, (text, score) = words[at], readings[at]
        is_same = _folded(text) == _folded(word.text) != ""
        if is_same and UNKNOWN not in word.text:
            shown.append((word.direction, PlacedWord(word.text, *word.box)))
        elif text and score >= _MIN_SCORE:
            changed += not is_same
            shown += [(word.direction, one) for one in _split(text, word.direction, word.box, score)]
        else:
            unknown += 1
            shown.append((word.direction, PlacedWord(UNKNOWN, *word.box)))
    return shown, changed, unknown


def _agreement(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the share of characters that two readings of the same words have in common."""
    equal = total = 0
    for pair in pairs:
        first, second = map(_folded, pair)
        matcher = SequenceMatcher(None, first, second, autojunk=False)
        equal += 2 * sum(block.size for block in matcher.get_matching_blocks())
        total += len(first) + len(second)
    return equal / total if total else 0.0


def _folded(text: str) -> str:
    """Return the letters and digits of a text, without case and accents."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", text).casefold()))


def _split(text: str, direction: float, box: Box, score: float) -> Iterator[PlacedWord]:
    """Yield the words of a text that fills a box, with a share of the box each."""
    left, top, right, bottom = box
    direction = round(direction) % 4
    at = 0
    for word in text.split():
        at = text.index(word, at)
        start, end = at / len(text), (at + len(word)) / len(text)
        at += len(word)
        if direction > 1:
            start, end = 1 - end, 1 - start
        if direction % 2:
            yield PlacedWord(word, left, top + (bottom - top) * start, right, top + (bottom - top) * end, score)
        else:
            yield PlacedWord(word, left + (right - left) * start, top, left + (right - left) * end, bottom, score)
