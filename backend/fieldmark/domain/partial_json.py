"""JSON that is still being written: each of its leaves as soon as its end is seen.

A parser that begins anew with every piece takes time with the square of the text, and does not say of a number at the
end whether more of it will come. So this one goes over each character once; what a leaf says, `json` decides.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NoReturn, TypeAlias

from pydantic import JsonValue

from fieldmark.domain.paths import Path

WrittenLeaf: TypeAlias = tuple[Path, JsonValue]
"""Where a leaf stands, and what it is: a scalar, or an empty object or list."""

MOST_LEVELS: Final = 40
MOST_LEAVES: Final = 2_000
MAX_CHARACTERS: Final = 8_000
"""How much of a text, or of a word that has not ended, is kept. A longer text is no leaf; what follows it is."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_WORD: Final = re.compile(r"[-+.0-9A-Za-z]+")
# As much of a text as is whole: a backslash at the end waits for what it escapes.
_IN_TEXT: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class _Next(Enum):
    """What may come next."""

    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()


@dataclass(slots=True)
class _Level:
    """An object or list that is open, and the key or index of what stands in it now."""

    is_list: bool
    step: str | int


class PartialJson:
    """Takes JSON in pieces that may be cut anywhere.

    `is_over` once it answers no more: what came is no JSON, or more than anybody wants to look at."""

    def __init__(self) -> None:
        self.is_over = False
        self._levels: list[_Level] = []
        self._next = _Next.VALUE
        self._rest = ""
        # The text that is being read; None between texts.
        self._text: list[str] | None = None
        self._text_length = 0
        self._leaves = 0

    def feed(self, piece: str) -> list[WrittenLeaf]:
        """The leaves whose end stands in this piece, in their order."""
        found: list[WrittenLeaf] = []
        text, self._rest = self._rest + piece, ""
        at = 0
        try:
            while at < len(text) and not self.is_over:
                at = self._between(text, at, found) if self._text is None else self._inside(text, at, found)
        except ValueError:
            self.is_over = True
        return found

    def _inside(self, text: str, at: int, found: list[WrittenLeaf]) -> int:
        """Go on with a text; answers where to go on."""
        assert self._text is not None
        match = _IN_TEXT.match(text, at)
        assert match is not None  # it matches nothing, too
        end = match.end()
        self._text_length += end - at
        if self._text_length <= MAX_CHARACTERS:
            self._text.append(match[0])
        if end == len(text):
            return end
        if text[end] == "\\":
            self._rest = text[end:]
            return len(text)
        words, self._text = self._text, None
        is_whole = self._text_length <= MAX_CHARACTERS
        if self._next is not _Next.COLON:
            if is_whole:
                self._leaf(json.loads(f'"{"".join(words)}"'), found)
            self._next = _Next.COMMA_OR_END
        elif is_whole:
            self._levels[-1].step = json.loads(f'"{"".join(words)}"')
        else:
            raise ValueError("no key is as long as that")
        return end + 1

    def _between(self, text: str, at: int, found: list[WrittenLeaf]) -> int:
        """Go on with what is no text; answers where to go on."""
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at == len(text):
            return at
        character = text[at]
        if character == '"' and self._next is not _Next.COMMA_OR_END and self._next is not _Next.COLON:
            if self._next in (_Next.KEY, _Next.KEY_OR_END):
                self._next = _Next.COLON
            self._text, self._text_length = [], 0
            return at + 1
        word = _WORD.match(text, at)
        if word is None:
            self._mark(character, found)
            return at + 1
        if word.end() == len(text):  # more of it may come
            if len(word[0]) > MAX_CHARACTERS:
                raise ValueError("no number is as long as that")
            self._rest = word[0]
            return len(text)
        self._expect(_Next.VALUE, _Next.VALUE_OR_END)
        self._leaf(json.loads(word[0], parse_constant=_no_json), found)
        self._next = _Next.COMMA_OR_END
        return word.end()

    def _mark(self, character: str, found: list[WrittenLeaf]) -> None:
        match character:
            case "{" | "[":
                self._expect(_Next.VALUE, _Next.VALUE_OR_END)
                if len(self._levels) == MOST_LEVELS:
                    raise ValueError("nothing is as deep as that")
                is_list = character == "["
                self._levels.append(_Level(is_list, 0 if is_list else ""))
                self._next = _Next.VALUE_OR_END if is_list else _Next.KEY_OR_END
            case "}" | "]":
                self._expect(_Next.COMMA_OR_END, _Next.VALUE_OR_END if character == "]" else _Next.KEY_OR_END)
                if self._levels.pop().is_list != (character == "]"):
                    raise ValueError("another is open")
                if self._next is not _Next.COMMA_OR_END:
                    self._leaf([] if character == "]" else {}, found)
                self._next = _Next.COMMA_OR_END
                self.is_over = not self._levels
            case ",":
                self._expect(_Next.COMMA_OR_END)
                level = self._levels[-1]
                if isinstance(level.step, int):
                    level.step += 1
                self._next = _Next.VALUE if level.is_list else _Next.KEY
            case ":":
                self._expect(_Next.COLON)
                self._next = _Next.VALUE
            case _:
                raise ValueError("this is no JSON")

    def _leaf(self, value: JsonValue, found: list[WrittenLeaf]) -> None:
        found.append((tuple(level.step for level in self._levels), value))
        self._leaves += 1
        self.is_over = self._leaves == MOST_LEAVES or not self._levels

    def _expect(self, *wanted: _Next) -> None:
        if self._next not in wanted:
            raise ValueError("this cannot stand here")


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
