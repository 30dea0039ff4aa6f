"""Numbers of list items, which are computed and not part of a file's text: number formats, and the lists of Word."""

from __future__ import annotations

import re
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_KINDS = {"lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I", "decimalZero": "01"}
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_LARGEST = 4000  # as a letter or a Roman number; above, it is written in digits
LEVELS = 9


def write_number(number: int, kind: str) -> str:
    """Return a number as `kind` writes 1: `1`, `01`, `a`, `A`, `i` or `I`.

    >>> [write_number(28, kind) for kind in ("1", "a", "I")]
    ['28', 'ab', 'XXVIII']
    """
    written = str(number)
    if kind.lower() == "a" and 0 < number < _LARGEST:
        written, left = "", number
        while left:
            left, letter = divmod(left - 1, 26)
            written = chr(ord("a") + letter) + written
    elif kind.lower() == "i" and 0 < number < _LARGEST:
        written = ""
        for value, letters in _ROMAN:
            written += letters * (number // value)
            number %= value
    return written.upper() if kind.isupper() else written.zfill(len(kind))


class WordLists:
    """The numbers of the paragraphs of a Word document. Call it for the paragraphs in order."""

    def __init__(self, numbering: Any | None, styles: Any | None) -> None:
        self._lists: dict[str, tuple[str, dict[int, int]]] = {}  # by id: the definition, and the first numbers by level
        self._levels: dict[tuple[str, int], Any] = {}
        self._style_properties: dict[str, Any] = {}
        self._counts: dict[str, dict[int, int]] = {}
        for definition in numbering.iterchildren(f"{_W}abstractNum") if numbering is not None else ():
            for level in definition.iterchildren(f"{_W}lvl"):
                self._levels[definition.get(f"{_W}abstractNumId", ""), _integer(level.get(f"{_W}ilvl"))] = level
        for instance in numbering.iterchildren(f"{_W}num") if numbering is not None else ():
            starts = {
                _integer(override.get(f"{_W}ilvl")): _integer(_value(override, "startOverride"), 1)
                for override in instance.iterchildren(f"{_W}lvlOverride")
                if _value(override, "startOverride") is not None
            }
            self._lists[instance.get(f"{_W}numId", "")] = _value(instance, "abstractNumId") or "", starts
        for style in styles.iter(f"{_W}style") if styles is not None else ():
            if (properties := style.find(f"{_W}pPr/{_W}numPr")) is not None:
                self._style_properties[style.get(f"{_W}styleId", "")] = properties

    def label(self, paragraph: Any) -> str:
        """Return the number shown before a paragraph: `2.1`, `(a)`, `•`. Empty if it is not a list item."""
        properties = paragraph.find(f"{_W}pPr/{_W}numPr")
        style = _value(paragraph, f"pPr/{_W}pStyle")
        if properties is None:
            properties = self._style_properties.get(style or "")
        if properties is None or (number := _value(properties, "numId")) not in self._lists:
            return ""
        definition, starts = self._lists[number]
        depth = min(max(_integer(_value(properties, "ilvl")), 0), LEVELS - 1)
        level = self._levels.get((definition, depth))
        if level is None:
            return ""
        counts = self._counts.setdefault(definition, {})
        counts[depth] = starts.pop(depth, counts.get(depth, _integer(_value(level, "start"), 1) - 1) + 1)
        for deeper in range(depth + 1, LEVELS):
            counts.pop(deeper, None)
        if _value(level, "numFmt") == "bullet":
            return "•"

        def format_number(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            numbered_level = self._levels.get((definition, index), level)
            kind = _KINDS.get(_value(numbered_level, "numFmt") or "", "1")
            return write_number(counts.get(index, _integer(_value(numbered_level, "start"), 1)), kind)

        return re.sub(r"%([1-9])", format_number, _value(level, "lvlText") or "").strip()


def _value(node: Any, path: str) -> str | None:
    found = node.find(f"{_W}{path}")
    return None if found is None else found.get(f"{_W}val")


def _integer(text: str | None, default: int = 0) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else default
