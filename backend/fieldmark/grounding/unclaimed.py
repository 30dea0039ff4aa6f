"""Unclaimed: the numbers, dates and names of pages on which no value of an extraction stands.

A *number* is what has digits and is no date: an amount, a count, an identifier. A *name* is a run of two or more
capitalised words that are no label. Scripts without capitals have no names here, and a name of one word is not seen.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import regex

from fieldmark.domain.folding import UNSPACED
from fieldmark.grounding import layout
from fieldmark.grounding.dates import find_dates
from fieldmark.grounding.labelled_fields import PHRASES, plain
from fieldmark.grounding.layout import Box
from fieldmark.grounding.numbers import BODY
from fieldmark.grounding.places import Candidates, Piece, boxes_of_pieces, pieces_of
from fieldmark.grounding.word_index import WordIndex

Kind: TypeAlias = Literal["number", "date", "name"]
Value: TypeAlias = str | int | float | None

MOST_UNCLAIMED: Final = 1000  # told at once
MOST_SPANS: Final = 200_000  # places of values; what further ones would claim is told as unclaimed
_MOST_WORDS: Final = 12  # of a name
_MOST_DIGITS: Final = 15  # of a JSON number that every reader keeps

_WIDEST_SPACE_IN_A_NAME: Final = 1.2  # in heights of a line: a wider one ends a cell
_DIGIT = re.compile(r"\d")
# What is written as one: `INV/2023/03`, `20:13`, `a.b@c1`. Not across scripts without spaces, where a line is one word.
_TOKEN = regex.compile(
    rf"(?V1)[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED.pattern}]+"
    rf"(?:(?:[-/.,'_·&@+]|(?<=\p{{Nd}}):(?=\p{{Nd}}))[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED.pattern}]+)*"
)
# Account and telephone numbers, which are printed in groups: one identifier, if their words are close. (In the text a
# word is a line.)
_GROUPED = re.compile(
    r"(?<![^\n])[a-z]{2}\d\d(?:\n[a-z\d]{4}){2,7}(?:\n[a-z\d]{1,3})?(?![^\n.,;])"
    r"|(?<![^\n(])\+\d{1,4}(?:\n[(\d][\d()/-]*)+(?![^\n.,;])(?![.,]\d)"
    r"|(?<![^\n])\(\d{2,5}\)\n?\d+-\d+(?![^\n.,;])"
    r"|(?<![^\n(])\(?0\d{2,5}\)?(?:\n[\d/-][\d()/-]*)+(?![^\n.,;])(?![.,]\d)"
)

# The words of known labels, of types of documents and of currencies make no name by themselves, nor those of the heads
# of tables. They are spelt as `plain` spells them.
_HEADS = """
unit units price prices qty quantity description amount amounts taxes disc discount page item items product service code
reference details terms rate
einzelpreis gesamtpreis preis menge anzahl einheit beschreibung bezeichnung artikel position pos betrag seite rabatt
quantite designation description prix unitaire montant remise reference taux
cantidad descripcion precio unitario importe articulo quantita descrizione prezzo unitario importo articolo sconto
aantal omschrijving prijs bedrag eenheid korting
"""
_OF_LABELS = frozenset(word for phrase in PHRASES for word in phrase.split()) | frozenset(_HEADS.split())
# They stand with a capital where a sentence begins, or in a heading: `The Buyer`, `Für Rechnung`.
_SMALL = """
a an the and or of in on at to for from by with without per this that these those please we you he she they it your our
their his her its my is are was were be been has have if when where what who how all any no not yes as
der die das den dem des ein eine einen einem einer eines und oder von vom zu zum zur im an am auf aus für fur bei mit
ohne nach über uber bis pro bitte wir sie ihr ihre ihren ihrer ihrem unser unsere ist sind wird werden wenn nicht
le la les l un une et ou du de d des à au aux en dans pour par avec sans sur vous nous votre vos notre nos ce cette ces
est sont si ne pas
el los las y o u del al por para con sin su sus se es son que no lo
il gli i e ed di da dal della dei delle per nel nella con che non è si
het een van voor met zonder op uit bij naar door uw u wij ons onze zijn wordt niet als
os as um uma do da dos das ao na em com sem seu sua não
"""
# They stand within a name with a small letter: `Bank of America`, `Ludwig van Beethoven`.
_BETWEEN = "of the and und et e y & + de du des di da do dos del della la le van von der den ten ter zu"
_FUNCTION_WORDS = frozenset(_SMALL.split())
_WITHIN = frozenset(_BETWEEN.split())


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """What stands on a page and in no value. `text` is as printed; `first` and `last` are its words, counted on the
    page from 0. `value` is what it means where it can mean one thing only: of a number the number, of a date the day
    (YYYY-MM-DD), of a name its text."""

    page: int
    kind: Kind
    text: str
    value: Value
    boxes: tuple[Box, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class UnclaimedPart:
    """Whole pages of what no value stands on, the items of one page cut where it alone has too many. `counts` are those
    of these pages: (page, how many). `next` is the page from which on others follow, None at the end."""

    items: Sequence[Unclaimed]
    counts: Sequence[tuple[int, int]]
    next: int | None


class ClaimedWords:
    """The characters of words on which values stand."""

    def __init__(self, index: WordIndex) -> None:
        self._index = index
        self._ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._left = MOST_SPANS

    def add(self, candidates: Candidates) -> None:
        """A value stands at all of these."""
        for span in candidates.spans[: self._left]:
            self._left -= 1
            time = candidates.times.get(span) if candidates.times else None
            for one in (span, time) if time is not None else (span,):
                for word, start, end in pieces_of(self._index, one, candidates.wanted):
                    self._ranges[word].append((start, end))

    def has(self, some: Iterable[Piece]) -> bool:
        """Whether a value stands on any character of these."""
        return any(
            start < other_end and other_start < end
            for word, start, end in some
            for other_start, other_end in self._ranges.get(word, ())
        )


def unclaimed(index: WordIndex, claimed: ClaimedWords, since_page: int, most: int) -> UnclaimedPart:
    """What no value stands on, from a page on, in the order of the words. Further pages are not looked at."""
    items: list[Unclaimed] = []
    counts: list[tuple[int, int]] = []
    for page, number in enumerate(index.pages):
        found = _of_page(index, claimed, page) if number >= since_page else []
        if found and items and len(items) + len(found) > most:
            return UnclaimedPart(items, counts, number)
        if found:
            counts.append((number, len(found)))
            items += [_told(index, *one) for one in found[:most]]
    return UnclaimedPart(items, counts, None)


def _of_page(index: WordIndex, claimed: ClaimedWords, page: int) -> list[tuple[Kind, list[Piece], Value]]:
    own = index.words_of_page(page)
    if not own:
        return []
    found: list[tuple[Kind, list[Piece], Value]] = []
    taken: set[int] = set()  # words of numbers and dates, which are none of a name
    for kind, start, end, value in _numbers_and_dates(index, claimed, own):
        under = _pieces_of(index, start, end)
        taken.update(word for word, _, _ in under)
        if under and not claimed.has(under):
            found.append((kind, under, value))
    found.extend(("name", under, None) for under in _names(index, claimed, own, taken))
    found.sort(key=lambda one: one[1][0])
    return found


def _told(index: WordIndex, kind: Kind, own: list[Piece], value: Value) -> Unclaimed:
    page = index.page_of[own[0][0]]
    first = index.words_of_page(page).start
    text = " ".join(index.words[word][0][start:end] for word, start, end in own)
    boxes = boxes_of_pieces(index, own)
    meant = text if kind == "name" else value
    return Unclaimed(index.pages[page], kind, text, meant, boxes, own[0][0] - first, own[-1][0] - first)


def _pieces_of(index: WordIndex, start: int, end: int) -> list[Piece]:
    """The pieces under characters of the folded text."""
    return pieces_of(index, index.folded_stream.span(start, end), "")


# Numbers and dates, by their offsets in the folded text. What is longer comes first, and nothing is told twice.


def _numbers_and_dates(index: WordIndex, claimed: ClaimedWords, own: range) -> Iterator[tuple[Kind, int, int, Value]]:
    """Those of some words that follow each other."""
    text, starts = index.folded_stream.text, index.folded_stream.starts
    first, last = starts[own[0]], starts[own[-1]] + len(index.folded[own[-1]])
    over: list[tuple[int, int]] = []

    dated = sorted(find_dates(text[first:last]), key=lambda one: (one.start, -one.end))
    for start, end, days in ((first + one.start, first + one.end, one.days) for one in dated):
        if (not over or start >= over[-1][1]) and index.is_read_together(start, end):
            (year, month, day), *others = days
            yield "date", start, end, None if others else f"{year:04}-{month:02}-{day:02}"
            over.append((start, end))

    identifiers = [group.span() for group in _GROUPED.finditer(text, first, last)]
    identifiers = [span for span in identifiers if not _is_over(over, *span) and _are_close(index, *span)]
    for span in identifiers:
        yield "number", *span, None
    over = sorted(over + identifiers)

    grouped: list[tuple[int, int]] = []
    groups = index.numbers.groups
    for start, end in groups[bisect_left(groups, (first, 0)) : bisect_left(groups, (last, 0))]:
        # `2 100` may be two numbers: one of them in a value leaves the other.
        if not _is_over(over, start, end) and not claimed.has(_pieces_of(index, start, end)):
            for number in index.numbers.read(start, end)[:1]:
                yield "number", number.start, number.end, _number(number.values, number.shifted)
                grouped.append((start, end))
    over = sorted(over + grouped)

    for at in own:
        word, begin = index.folded[at], starts[at]
        if _DIGIT.search(word) is None:
            continue
        for token in _TOKEN.finditer(word):
            start, end = begin + token.start(), begin + token.end()
            bodies = [body.span() for body in BODY.finditer(text, start, end)]
            if not bodies or _is_over(over, start, end):
                continue
            numbers = [index.numbers.read(*body) for body in bodies]
            if all(numbers):
                for number, *_ in numbers:
                    yield "number", number.start, number.end, _number(number.values, number.shifted)
            else:
                yield "number", start, end, None


def _is_over(over: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether characters are told already; what is told does not overlap and is in order."""
    at = bisect_left(over, (end, end))
    return at > 0 and over[at - 1][1] > start


def _are_close(index: WordIndex, start: int, end: int) -> bool:
    own = index.folded_stream.span(start, end).indexes()
    return index.page_of[own[0]] == index.page_of[own[-1]] and all(
        index.are_close(at, at + 1) for at in range(own[0], own[-1])
    )


def _number(values: tuple[str, ...], shifted: tuple[str, ...]) -> int | float | None:
    """The one number that it can be, as JSON; None where it can be several, or no reader would keep its digits."""
    readings = values or shifted
    if len(readings) != 1 or sum(map(str.isdigit, readings[0])) > _MOST_DIGITS:
        return None
    return float(readings[0]) if "." in readings[0] else int(readings[0])


# Names.


def _names(index: WordIndex, claimed: ClaimedWords, own: range, taken: set[int]) -> Iterator[list[Piece]]:
    run: list[Piece] = []
    for at in own:
        word = index.words[at]
        piece = _core(at, word[0]) if index.folded[at] and at not in taken else None
        if piece is not None and claimed.has((piece,)):
            piece = None
        follows = bool(run) and _follows(index, run[-1], at)
        if run and (piece is None or not follows or len(run) == _MOST_WORDS):
            yield from _name(index, run)
            run = []
        if piece is not None and (run or word[0][piece[1]].isupper() or word[0][piece[1]].istitle()):
            run.append(piece)
    yield from _name(index, run)


def _core(at: int, text: str) -> Piece | None:
    """What of a word may be part of a name: a capitalised word, or a small one that stands within names."""
    start, end = 0, len(text)
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    if start == end:
        return (at, 0, len(text)) if text in _WITHIN else None
    if text[start].isupper() or text[start].istitle():
        return at, start, end + (text[end : end + 1] == "." and end - start < 5)
    return (at, start, end) if text in _WITHIN else None


def _follows(index: WordIndex, before: Piece, at: int) -> bool:
    """Whether a word goes on with what stands before it: on its line, close, and without a sign between that parts."""
    word, _, end = before
    behind = index.words[word][0][end:]
    return (
        word + 1 == at
        and index.page_of[word] == index.page_of[at]
        and not (behind and behind[0] in ",;:!?|.)]}/")
        and layout.are_adjacent(index.words[word], index.words[at], _WIDEST_SPACE_IN_A_NAME)
    )


def _name(index: WordIndex, run: list[Piece]) -> Iterator[list[Piece]]:
    """The run without function words at its ends, if it is a name."""
    words = [index.words[at][0][start:end] for at, start, end in run]
    first, last = 0, len(run)
    while first < last and (words[first].casefold() in _FUNCTION_WORDS or words[first] in _WITHIN):
        first += 1
    while first < last and (words[last - 1].casefold() in _FUNCTION_WORDS or words[last - 1] in _WITHIN):
        last -= 1
    run, words = run[first:last], words[first:last]
    long = [word for word in words if len(word.rstrip(".")) > 1 and word not in _WITHIN]
    if len(run) < 2 or not long:
        return
    at, _, end = run[-1]
    if index.words[at][0][end : end + 1] == ":":
        return  # a label
    if all(part in _OF_LABELS for part in plain(" ".join(words)).split()):
        return
    yield run
