"""Order the Hebrew and Arabic letters of a PDF's text layer if the file draws a line in many pieces.

PDFium reverses each piece of a line separately, which scrambles words made of several pieces. The letters' boxes are
right.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from pagewords.pages import is_right_to_left

Box = tuple[float, float, float, float]

SPACE: Final = 0x20
# Minimum gap between words, in character heights: where the file has a space, and where it has none.
_GAP_WITH_SPACE, _GAP_WITHOUT_SPACE = 0.08, 0.18
_LINE = re.compile(r"[^\r\n]+")
# Hebrew of code page 1255 that a font maps to Latin 1, such as ð for nun. It occurs beside Hebrew letters.
_HEBREW_AS_LATIN = re.compile("(?<=[א-ת])[à-ú]+|(?<![à-ú])[à-ú]+(?=[א-ת])")
_LATIN_TO_HEBREW = {code: code - 0xE0 + 0x5D0 for code in range(0xE0, 0xFB)}
_BRACKETED_NUMBER = re.compile(r"[)\]] ?\d|\d ?[(\[]")  # as PDFium orders it in a right-to-left line
# PDFium puts the colon between a label and its number behind the number.
_NUMBER_AND_COLON = re.compile(r"(?<![\d.,/-])(\d)[\d.,/-]*+([:;])(?!\w)")
# A Latin word ends before a right-to-left one, also without a space. A prefix may be joined to a Latin word.
_END_OF_LATIN = re.compile("(?<=[A-Za-z])(?=[\u05d0-\u05ea\u0620-\u064a\u066e-\u06d3\ufb1d-\ufdfb\ufe70-\ufefc])")
# PDFium moves the number of `INV-204` in front of the letters.
_LATIN_OR_NUMBER = re.compile(r"[^\W_]\S*[^\W_]")
_LEFT_TO_RIGHT = re.compile(r"[^\W_](?:.*[^\W_])?")


def in_reading_order(codes: list[int], box_of: Callable[[int], Box]) -> tuple[list[int], list[int]]:
    """Return the codes in reading order, with their original indexes. Lines already in order are unchanged.

    A space that was inserted between two words has the index -1.
    """
    order = list(range(len(codes)))
    text = "".join([chr(code) if code <= 0x10FFFF else " " for code in codes])
    if not is_right_to_left(text):
        return codes, order
    text = _HEBREW_AS_LATIN.sub(lambda found: found[0].translate(_LATIN_TO_HEBREW), text)
    ordered: list[int] = []
    at = 0
    for line in _LINE.finditer(text):
        ordered += order[at : line.start()]
        at = line.end()
        indexes = order[line.start() : at]
        ordered += _reordered(text, indexes, box_of) if _is_scrambled(text, indexes, box_of) else indexes
    ordered += order[at:]
    shown = "".join([" " if index < 0 else text[index] for index in ordered])
    if ends := {found.start() for found in _END_OF_LATIN.finditer(shown)}:
        ordered = [one for at, index in enumerate(ordered) for one in ((-1, index) if at in ends else (index,))]
    return [SPACE if index < 0 else ord(text[index]) for index in ordered], ordered


def _is_scrambled(text: str, indexes: Sequence[int], box_of: Callable[[int], Box]) -> bool:
    """Return whether a letter of a horizontal line is to the right of the letter before it, or a bracket, a colon or a
    number is on the wrong side of what it belongs to."""
    boxes = [box_of(index) for index in indexes if is_right_to_left(text[index]) and not _is_mark(text[index])]
    if boxes and _BRACKETED_NUMBER.search(text, indexes[0], indexes[-1] + 1):
        return True
    numbers = _NUMBER_AND_COLON.finditer(text, indexes[0], indexes[-1] + 1) if boxes else ()
    if any(box_of(found.start(2))[0] > box_of(found.start(1))[0] for found in numbers):
        return True
    words = _LATIN_OR_NUMBER.finditer(text, indexes[0], indexes[-1] + 1) if boxes else ()
    for word in words:
        first, last = box_of(word.start()), box_of(word.end() - 1)
        if first[0] > last[0] and not is_right_to_left(word[0]) and _are_on_one_line(first, last):
            return True
    return any(a[0] + a[2] < b[0] + b[2] and min(a[3], b[3]) > max(a[1], b[1]) for a, b in pairwise(boxes))


def _reordered(text: str, indexes: Sequence[int], box_of: Callable[[int], Box]) -> list[int]:
    rows: list[list[tuple[Box, list[int]]]] = []
    for index in indexes:
        box = box_of(index)
        if _is_mark(text[index]) and rows:
            rows[-1][-1][1].append(index)
            continue
        if box[3] - box[1] <= 0:
            continue  # a space inserted by PDFium
        row = next((row for row in rows if _are_on_one_line(row[0][0], box)), None)
        if row is None:
            rows.append([(box, [index])])
        else:
            row.append((box, [index]))
    found: list[int] = []
    for row in rows:
        words = _split_words(text, sorted(row, key=lambda one: -one[0][0] - one[0][2]))
        for word in words:
            found += [*_order_word(text, word), -1]
    return found


def _split_words(text: str, glyphs: Sequence[tuple[Box, list[int]]]) -> list[list[list[int]]]:
    """Split the glyphs of a line, the rightmost first, into words."""
    words: list[list[list[int]]] = []
    before: Box | None = None
    is_spaced = False
    for box, indexes in glyphs:
        if text[indexes[0]].isspace():
            is_spaced = True
            continue
        if words and text[words[-1][-1][0]] in ":;" and _is_foreign(text[indexes[0]]) and _has_letter(text, words[-1]):
            words.append([])  # the number after a label
            before = None
        if not words or (
            before is not None
            and before[0] - box[2] > (_GAP_WITH_SPACE if is_spaced else _GAP_WITHOUT_SPACE) * (box[3] - box[1])
        ):
            words.append([])
        words[-1].append(indexes)
        before, is_spaced = box, False
    return words


def _is_foreign(character: str) -> bool:
    return character.isalnum() and not is_right_to_left(character)


def _has_letter(text: str, glyphs: Sequence[Sequence[int]]) -> bool:
    return any(is_right_to_left(text[index]) for glyph in glyphs for index in glyph)


def _order_word(text: str, glyphs: Sequence[list[int]]) -> list[int]:
    """Return the indexes of a word's glyphs, given from the right, in reading order. Numbers and Latin run to the
    right."""
    first = [text[glyph[0]] for glyph in glyphs]
    if not any(map(is_right_to_left, first)):
        indexes = [index for glyph in reversed(glyphs) for index in glyph]
        if text[indexes[0]] in ")]" and text[indexes[-1]] in "([":  # brackets that PDFium has already exchanged
            indexes[0], indexes[-1] = indexes[-1], indexes[0]
        return indexes
    found = list(glyphs)
    masked = "".join(" " if is_right_to_left(character) else character for character in first)
    for part in re.finditer(r"\S+", masked):
        run = _LEFT_TO_RIGHT.search(part[0])
        if run:
            start, end = part.start() + run.start(), part.start() + run.end()
            found[start:end] = found[start:end][::-1]
    return [index for glyph in found for index in glyph]


def _is_mark(character: str) -> bool:
    return unicodedata.combining(character) > 0


def _are_on_one_line(a: Box, b: Box) -> bool:
    return min(a[3], b[3]) - max(a[1], b[1]) > 0.5 * min(a[3] - a[1], b[3] - b[1])
