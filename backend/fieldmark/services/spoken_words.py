"""For which fields a correction has the word of the person who asked for it: those that their message speaks of.

The model that carries a correction out may have been led astray by the document. So what a person locked gives way only
where the message itself says so. A leaf is spoken for where

(a) the message names it: its path (`items[2].price`) stands in the message, or the words of its last key do
    (`due_date` by "due date"), and no other leaf with the same last key is named better by the words of what it
    stands in;
(b) or its new value stands in the message, it is of the same sort as the value that gives way, and the message names
    what it stands in but none of the fields there, or names no field at all.

"The vendor is Acme Ltd" speaks for `vendor.name` = "Acme Ltd", and never for `vendor.iban`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import folding, paths
from fieldmark.domain.fields import Nothing, value_at, walk
from fieldmark.domain.paths import Path
from fieldmark.grounding import DocumentIndex, PageWords

DOCUMENT_TYPE: Final = "document_type"
"""How the document's type is named among the leaves that are spoken for."""

# Keys for what an object is called by: "the vendor is Acme" means its name.
_HEADS: Final = frozenset(
    {"name", "title", "label", "value", "amount", "text", "description", "total", "number", "id", "full name"}
    | {"company", "company name", "legal name", "nom", "nombre", "naam", "bezeichnung", "名称", "名前"}
)
_CAMEL: Final = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
# Between the words of a key that are said the other way round: the date of issue.
_FILLERS: Final = frozenset(
    {"of", "the", "de", "del", "des", "du", "da", "do", "di", "la", "le", "el", "il"}
    | {"der", "dem", "den", "von", "vom", "van"}
)
_ORDINALS: Final[Mapping[str, int]] = {
    word: number
    for number, words in enumerate(
        [
            "first 1st erste ersten erster erstes premier premiere primera primero prima primo",
            "second 2nd zweite zweiten zweiter zweites deuxieme segunda segundo seconda secondo",
            "third 3rd dritte dritten dritter drittes troisieme tercera tercero terza terzo",
            "fourth 4th vierte vierten vierter viertes quatrieme cuarta cuarto quarta quarto",
            "fifth 5th funfte funften funfter funftes cinquieme quinta quinto",
            "sixth 6th",
            "seventh 7th",
            "eighth 8th",
            "ninth 9th",
            "tenth 10th",
        ]
    )
    for word in words.split()
}
_LAST: Final = frozenset(["last", "letzte", "letzten", "letzter", "letztes", "dernier", "derniere", "ultima", "ultimo"])
_ROW: Final = frozenset(
    {"item", "items", "row", "rows", "line", "lines", "position", "positions", "entry"}
    | {"zeile", "posten", "ligne", "linea", "fila"}
)

MOST_ROWS: Final = 1_000
"""Items of one list of which the message is asked whether it names them by their path."""

Words: TypeAlias = tuple[str, ...]


class Speech:
    """A person's message about an extraction, as its fields stand before the write."""

    def __init__(self, message: str, fields: Mapping[str, JsonValue]) -> None:
        self._message = message
        self._fields: dict[str, JsonValue] = dict(fields)
        self._plain = folding.fold(message)
        self._words = words_of(message)
        self._leaves = {path: value for path, value in walk(self._fields) if path}
        self._places: dict[str, list[int]] = defaultdict(list)
        for at, word in enumerate(self._words):
            self._places[_stem(word)].append(at)
        self._keys = {words_of(step) for path in self._leaves for step in path if isinstance(step, str)}
        # What was found out, so that thousands of fields take no longer than they must.
        self._mentioned: dict[Words, bool] = {}
        self._told: dict[Path, frozenset[Path]] = {}

    # What is asked ----------------------------------------------------------------------------------------------------

    def speaks_for(self, written: Mapping[Path, JsonValue]) -> frozenset[str]:
        """The names of those leaves of a write that are spoken for; `written` is every leaf with its new value."""
        return frozenset(
            paths.name(path) for path, value in written.items() if self._names(path) or self._says(path, value)
        )

    def speaks_for_removal(self, path: Path, locks: Iterable[str]) -> frozenset[str]:
        """The names of the leaves at or below a path that may go. Of an object, a list or a row all or none: it must be
        named itself, and so must be every locked leaf in it."""
        if path in self._leaves:
            return frozenset([paths.name(path)]) if self._names(path) else frozenset()
        below = value_at(self._fields, path)
        if isinstance(below, Nothing) or not (self._names(path) or self._tells_row(path)):
            return frozenset()
        names = {paths.name(leaf): leaf for leaf, _ in walk(below, path)}
        spoken = {name for name, leaf in names.items() if self._names(leaf)}
        return frozenset() if any(name in names and name not in spoken for name in locks) else frozenset(spoken)

    def speaks_for_type(self, document_type: str) -> bool:
        """Whether the message says what kind of document it is."""
        if self._mentions(("document", "type")) or "document_type" in self._plain:
            return True
        return self._stands(document_type) and (
            self._mentions(("document",)) or self._mentions(("type",)) or not self._names_any
        )

    # (a) the message names it -----------------------------------------------------------------------------------------

    def _names(self, path: Path) -> bool:
        if self._has_path(path):
            return True
        key = _last_key(path)
        words = words_of(key) if key is not None else ()
        if not self._mentions(words) or self._is_in_another_row(path):
            return False
        return self._rank(path) >= self._best_ranks.get(words, (0, -len(path)))

    @cached_property
    def _best_ranks(self) -> dict[Words, tuple[int, int]]:
        """By the words of a last key that is mentioned: how well the best named of its leaves is."""
        best: dict[Words, tuple[int, int]] = {}
        for path in self._leaves:
            words = words_of(_last_key(path) or "")
            if self._mentions(words):
                best[words] = max(best.get(words, self._rank(path)), self._rank(path))
        return best

    def _rank(self, path: Path) -> tuple[int, int]:
        """How well the message names what a leaf stands in: how many words, and how few keys it leaves out."""
        said = unsaid = 0
        for depth, step in enumerate(path[:-1], 1):
            if isinstance(step, int):
                said += path[:depth] in self._rows_told(path[: depth - 1])
            elif self._mentions(words_of(step)):
                said += len(words_of(step))
            else:
                unsaid += 1
        return said, -unsaid

    def _has_path(self, path: Path) -> bool:
        """Whether the path stands in the message as it is written: not for a key alone, which is a word like others."""
        name = folding.fold(paths.name(path))
        if name.isalnum():
            return False
        return _stands_in(name, self._plain)

    def _begins_path(self, path: Path) -> bool:
        """Whether a path stands in the message, or one that leads on from there."""
        name = folding.fold(paths.name(path))
        return any(not _goes_on(self._plain, at, at) for at in _every(self._plain, name))

    def _mentions(self, words: Words) -> bool:
        """Whether the words of a key stand in the message, together, and not only within the words of a longer key."""
        if words not in self._mentioned:
            self._mentioned[words] = any(not self._is_within_longer(words, span) for span in self._spans(words))
        return self._mentioned[words]

    def _spans(self, words: Words) -> Iterator[tuple[int, int]]:
        if not words:
            return
        said = self._words
        if len(words) == 1 and folding.UNSPACED.search(words[0]):
            # Written without spaces, a word stands within a longer run.
            yield from ((at, at) for at, word in enumerate(said) if words[0] in word)
            return
        stems = tuple(map(_stem, words))
        for at in self._places.get(stems[0], ()):
            if tuple(map(_stem, said[at : at + len(words)])) == stems:
                yield at, at + len(words) - 1
        joined = "".join(words)
        if len(words) > 1:
            yield from ((at, at) for at in self._places.get(_stem(joined), ()))
        if len(words) == 2:  # "date of issue" for issue_date
            for at in self._places.get(stems[1], ()):
                end = at + 1
                while end < len(said) and end - at <= 2 and said[end] in _FILLERS:
                    end += 1
                if at + 1 < end < len(said) and _stem(said[end]) == stems[0]:
                    yield at, end

    def _is_within_longer(self, words: Words, span: tuple[int, int]) -> bool:
        first, last = span
        return any(
            start <= first and last <= end and (start, end) != span and key != words
            for key, start, end in self._longer_mentions
        )

    @cached_property
    def _longer_mentions(self) -> list[tuple[Words, int, int]]:
        """Where keys of several words are mentioned: "tax rate" names tax_rate, and not tax."""
        return [(key, *span) for key in self._keys if len(key) > 1 for span in self._spans(key)]

    @cached_property
    def _names_any(self) -> bool:
        return any(self._mentions(key) for key in self._keys)

    # Rows -------------------------------------------------------------------------------------------------------------

    def _tells_row(self, path: Path) -> bool:
        """Whether the message tells that the innermost item on a path is meant."""
        at = next((n for n in range(len(path), 0, -1) if isinstance(path[n - 1], int)), None)
        return at is not None and path[:at] in self._rows_told(path[: at - 1])

    def _is_in_another_row(self, path: Path) -> bool:
        """Whether the message tells which items of a list are meant, and the path leads into another one."""
        lists = [at for at, step in enumerate(path) if isinstance(step, int)]
        return any(told and path[: at + 1] not in told for at in lists if (told := self._rows_told(path[:at])))

    def _rows_told(self, of: Path) -> frozenset[Path]:
        """The items of a list that the message tells: by their number, else by a text that only they have."""
        if of not in self._told:
            rows = value_at(self._fields, of)
            found: set[int] = set()
            if isinstance(rows, list):
                found = set(self._numbers(of, len(rows))) or set(self._told_by_content(rows))
            self._told[of] = frozenset((*of, number) for number in found)
        return self._told[of]

    def _told_by_content(self, rows: Sequence[JsonValue]) -> Iterator[int]:
        holding: dict[str, set[int]] = defaultdict(set)
        for number, row in enumerate(rows):
            for _, value in walk(row):
                if isinstance(value, str) and any(c.isalpha() for c in value):
                    holding[" ".join(folding.fold(value).split())].add(number)
        for text, numbers in holding.items():
            if len(numbers) == 1 and _stands_in(text, self._plain):
                yield from numbers

    def _numbers(self, of: Path, count: int) -> Iterator[int]:
        """The indexes that are said of a list: as "items[2]", "second item", "item 3" (counted from one), "last"."""
        for number in range(min(count, MOST_ROWS)) if "[" in self._plain else ():
            if self._begins_path((*of, number)):
                yield number
        key = _last_key(of)
        called = _ROW | {_stem(word) for word in words_of(key or "")}
        for at, word in enumerate(self._words):
            behind = self._words[at + 1] if at + 1 < len(self._words) else ""
            if word in _ORDINALS and _ORDINALS[word] < count and (behind in called or _stem(behind) in called):
                yield _ORDINALS[word]
            elif word in _LAST and count and (behind in called or _stem(behind) in called):
                yield count - 1
            elif (
                (word in called or _stem(word) in called)
                and behind.isdecimal()
                and len(behind) < 7
                and 1 <= int(behind) <= count
                and not self._begins_path((*of, int(behind)))
            ):
                yield int(behind) - 1

    # (b) its value stands in the message ------------------------------------------------------------------------------

    def _says(self, path: Path, value: JsonValue) -> bool:
        before = self._leaves.get(path)
        if not self._stands(value) or _sort(before) not in (None, _sort(value)):
            return False
        if self._is_in_another_row(path) or self._mentions(words_of(_last_key(path) or "")):
            return False  # the message names its key, and means another leaf by it
        if not self._names_any:
            return True
        above = [step for step in path[:-1] if isinstance(step, str)]
        if not any(self._mentions(words_of(step)) for step in above) and not self._tells_row(path):
            return False
        return not self._means_another(path)

    def _means_another(self, path: Path) -> bool:
        """Whether the message means another leaf beside this one: one that it names, or that by which their object is
        called."""
        beside = [key for key in self._beside.get(path[:-1], ()) if key != path[-1]]
        if any(self._mentions(words_of(key)) for key in beside):
            return True
        return not _is_head(path[-1]) and any(map(_is_head, beside))

    @cached_property
    def _beside(self) -> dict[Path, list[str]]:
        """The last keys of the leaves of each object."""
        found: dict[Path, list[str]] = defaultdict(list)
        for path in self._leaves:
            if isinstance(path[-1], str):
                found[path[:-1]].append(path[-1])
        return found

    def _stands(self, value: JsonValue) -> bool:
        """Whether a value stands in the message as one stands on a page: not merely something like it."""
        if value is None or isinstance(value, bool | dict | list) or value == "":
            return False
        place = self._index.find(value)
        return place is not None and place.match in ("exact", "normalised", "number", "date")

    @cached_property
    def _index(self) -> DocumentIndex:
        words: list[list[str | float]] = []
        for row, line in enumerate(self._message.splitlines()):
            at = 0.0
            for word in line.split():
                # Laid out like a line of print: numbers of several groups are told by how near these stand.
                width = len(word) * 0.001
                words.append([word, at, row * 0.02, at + width, row * 0.02 + 0.01])
                at += width + 0.001
        return DocumentIndex([PageWords(1, words)])


@lru_cache(maxsize=4096)
def words_of(text: str) -> Words:
    """The words of a key or a message in one case: `taxNumber`, `tax_number` and "Tax number" are alike."""
    return tuple(_WORD.findall(folding.fold(_CAMEL.sub(" ", text))))


def _stem(word: str) -> str:
    """A word without its plural's ending."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _last_key(path: Sequence[str | int]) -> str | None:
    return next((step for step in reversed(path) if isinstance(step, str)), None)


def _is_head(key: str | int) -> bool:
    return " ".join(words_of(str(key))) in _HEADS


def _sort(value: JsonValue) -> str | None:
    """What sort of value it is, as far as one cannot be taken for another: a name is no IBAN. None where it tells
    nothing."""
    if value is None or isinstance(value, bool | dict | list) or value == "":
        return None
    text = str(value)
    letters, digits = sum(c.isalpha() for c in text), sum(c.isdigit() for c in text)
    if digits * 2 >= letters + digits:
        return "figures" if digits else None
    return "words"


def _stands_in(part: str, text: str) -> bool:
    return any(not _goes_on(text, at, at + len(part)) for at in _every(text, part))


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether what stands in a text from `start` to `end` is only a part of a word or of a path; where both are the
    same, only whether something goes on there from before."""
    if folding.UNSPACED.search(text[start:end]):
        return False
    before, after = text[max(start - 1, 0) : start], "" if end == start else text[end : end + 2]
    if before and (before.isalnum() or before in "_.["):
        return True
    return bool(after) and (after[0].isalnum() or after[0] in "_[" or (after[0] == "." and after[1:].isalnum()))


def _every(text: str, part: str) -> Iterator[int]:
    at = text.find(part) if part else -1
    while at >= 0:
        yield at
        at = text.find(part, at + 1)
