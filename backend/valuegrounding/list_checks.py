"""Checks of lists: items that are not rows of their own, and what shows that a list has all its rows, or not.

A doubt of a list item or a list is one of its path, not of each of its values.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from valuegrounding.evidence import Doubt
from valuegrounding.found_values import FoundValue, main_line, number_of
from valuegrounding.measures import Measure
from valuegrounding.paths import Path
from valuegrounding.word_index import WordIndex

_MIN_DIGITS: Final = 3
_MIN_CELLS: Final = 2  # that distinguish rows
_MIN_ROWS: Final = 4  # that show a numbering, a balance, or what each row has
_MAX_GAPS: Final = 3
_MAX_STARTS: Final = 50  # of sums that are equal
_MAX_WORDS_BESIDE: Final = 5
_MAX_PAGES: Final = 500  # of which one name is read
_MAX_COLUMNS: Final = 8  # of amounts, in which balances are looked for
SCALE: Final = 10_000  # sums are exact to four decimals
LARGEST: Final = 10**11
TOTAL = re.compile(
    r"((sub|grand|net|sous|sotto)[- ]?)?(totals?|totaal|totale|totali|totais|totaux|totalt)\b|sum(me|ma|a)?\b"
    r"|(zwischen|gesamt|end)(summe|betrag)|(carried|brought|balance) (forward|down)|übertrag|a reportar|report\b"
    r"|riporto|transporte\b|razem|celkem|spolu|összesen|yhteensä|i alt\b|toplam|σύνολο"
    r"|итого|всего|разом|סה.?.?כ\b|סך\b|סיכום\b"
    r"|المجموع|الإجمالي|إجمالي|合計|小計|総計|合计|小计|总计|합계|소계|รวม|tổng",
    re.IGNORECASE,
)
_PAGE = ("page", "seite", "pagina", "pag", "blatt", "strona", "sida", "side", "sivu", "oldal", "stranka")
_PAGE_OF = re.compile(r"(\d{1,4}) ?(?:/|of|von|de|di|van|sur|z|av|af|ze) ?(\d{1,4})\b")
_COUNTED: Final = ("item", "items", "article", "articles", "artikel", "articulos", "articoli")
_ROWS: Final = ("lines", "positions", "positionen", "zeilen")  # not pieces
_COUNTED_WORD = rf"(?:line )?(?:{'|'.join(_COUNTED)}|{'|'.join(_ROWS)})(?:\(s\))?"
_COUNT = r"(\d{1,4})(?![.,]?\d)"
_STATED = re.compile(
    rf"(?:\b(?:total|no\.?|number|anzahl|gesamt|nombre|numero)(?: of| der| de| di)? {_COUNTED_WORD}"
    rf"|{_COUNTED_WORD} (?:count|sold|total))\W*{_COUNT}"
    rf"|(?:item\(s\)|items|articles|articulos|articoli|{'|'.join(_ROWS)}) ?: ?{_COUNT}|^{_COUNT} {_COUNTED_WORD}$"
)

Column: TypeAlias = Path


@dataclass(slots=True)
class Row:
    """An item of a list: its values by path below it, and those that were found."""

    path: Path
    cells: dict[Path, JsonValue | Measure] = field(default_factory=dict[Path, JsonValue | Measure])
    found: list[FoundValue] = field(default_factory=list[FoundValue])

    @property
    def numbers(self) -> dict[Column, int]:
        """The numbers that are not 0, in units of the last decimal that counts."""
        numbers = ((column, number_of(value)) for column, value in self.cells.items())
        return {c: round(one * SCALE) for c, one in numbers if one and abs(one) < LARGEST}

    def has_total_word(self) -> bool:
        return any(isinstance(value, str) and TOTAL.match(value.strip()) for value in self.cells.values())


def doubted_rows(rows: Sequence[Row]) -> Iterator[tuple[Path, Doubt]]:
    """Yield the items of a list that are not rows of their own, each with the reason."""
    labels = _labels(rows)
    are_labelled = 2 * labels.count("own") >= len(rows) > 1
    subtotals = _subtotals(rows, [are_labelled and label != "own" for label in labels])
    filled = Counter(column for row in rows for column, value in row.cells.items() if not _is_empty(value))
    usual = [column for column, count in filled.items() if count == len(rows) - 1]
    seen: set[frozenset[tuple[Path, tuple[int, ...]]]] = set()
    for row, label, is_subtotal in zip(rows, labels, subtotals, strict=True):
        printed = frozenset((one.path[len(row.path) :], tuple(one.words)) for one in row.found)
        if len(printed) >= _MIN_CELLS and printed in seen:
            yield row.path, "duplicate_row"
        elif is_subtotal:
            yield row.path, "subtotal"
        elif are_labelled and label != "own" and row.found:
            yield row.path, "borrowed_label" if label == "borrowed" else "unlabelled_row"
        elif len(rows) >= _MIN_ROWS and any(_is_empty(row.cells.get(column)) for column in usual):
            yield row.path, "incomplete_row"
        seen.add(printed)


def _is_empty(value: JsonValue | Measure) -> bool:
    return value is None or value == ""


def _labels(rows: Sequence[Row]) -> list[Literal["own", "borrowed", "none"]]:
    """Return for each row whether a text or date of it is its own: on its line, or in no other row. `borrowed`: all are
    printed for other rows."""
    owners = Counter(tuple(one.words) for row in rows for one in row.found if isinstance(one.value, str))
    labels: list[Literal["own", "borrowed", "none"]] = []
    for row in rows:
        line = main_line(row.found)
        texts = [one for one in row.found if isinstance(one.value, str)]
        if any(owners[tuple(one.words)] == 1 or _is_on(line, one) for one in texts):
            labels.append("own")
        else:
            count = sum(isinstance(value, str) and value != "" for value in row.cells.values())
            labels.append("borrowed" if len(texts) == count else "none")
    return labels


def _is_on(line: tuple[int, float] | None, one: FoundValue) -> bool:
    return line is not None and line[0] == one.page and abs(line[1] - one.middle) <= 0.5 * one.line_height


def _subtotals(rows: Sequence[Row], is_bare: Sequence[bool]) -> list[bool]:
    """Return for each row whether each of its numbers is the sum of the same rows directly above, and that is hardly
    chance: it is called a total; or two of these hold: it has two numbers or more, it sums three rows or more, it
    has no label and other rows have one."""
    sums: defaultdict[Column, list[int]] = defaultdict(lambda: [0])
    result: list[bool] = []
    starts: defaultdict[Column, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    columns = {column for row in rows for column in row.numbers}
    kept = 0  # rows before, without subtotals
    for column in columns:
        starts[column][0].append(0)
    for at, row in enumerate(rows):
        numbers = row.numbers
        candidates: set[int] | None = None
        for column, number in numbers.items():
            of_column = set(starts[column].get(sums[column][-1] - number, [])[-_MAX_STARTS:])
            candidates = of_column if candidates is None else candidates & of_column
        lengths = [kept - start for start in candidates or () if start < kept]
        word = row.has_total_word()
        is_subtotal = any(
            (length >= 2 or word) and (len(numbers) >= 2) + (length >= 3) + 2 * word + is_bare[at] >= 2
            for length in lengths
        )
        result.append(is_subtotal)
        if not is_subtotal:
            kept += 1
            for column in columns:
                sums[column].append(sums[column][-1] + numbers.get(column, 0))
                starts[column][sums[column][-1]].append(kept)
    return result


def broken_balances(rows: Sequence[Row]) -> list[Path] | None:
    """Return the rows whose balance does not follow from the row above and their amounts, or None if no column is a
    running balance."""
    numbers = [row.numbers for row in rows]
    columns = list(Counter(column for one in numbers for column in one))[:_MAX_COLUMNS]
    best: list[Path] | None = None
    for balance in columns:
        steps = [
            (row.path, now[balance] - before[balance], now)
            for row, (before, now) in zip(rows[1:], pairwise(numbers), strict=True)
            if balance in before and balance in now
        ]
        moving = sum(step != 0 for _, step, _ in steps)
        if moving < max(_MIN_ROWS, 0.8 * (len(rows) - 1)):
            continue
        for plus, minus in product([one for one in columns if one != balance], [None, *columns]):
            if minus in (balance, plus):
                continue
            for sign in (1, -1):
                broken = [
                    path
                    for path, step, now in steps
                    if sign * step != now.get(plus, 0) - (0 if minus is None else now.get(minus, 0))
                ]
                if 4 * len(broken) <= len(steps) and (best is None or len(broken) < len(best)):
                    best = broken
    return best


def numbering(rows: Sequence[Row]) -> list[tuple[FoundValue, FoundValue, int]] | None:
    """Return the gaps in the numbers of the rows, each between two values, with its first number; or None if no column
    has consecutive numbers."""
    for column in rows[0].cells if rows else ():
        cells = [next((one for one in row.found if one.path[len(row.path) :] == column), None) for row in rows]
        found = [one for one in cells if one is not None]
        if len(found) < len(rows) or len(rows) < _MIN_ROWS:
            continue
        counts = [_count(one.value) for one in found]
        steps = [0 if a is None or b is None else b - a for a, b in pairwise(counts)]
        gaps = [
            (a, b, count + 1)
            for (a, b), count, step in zip(pairwise(found), counts, steps, strict=False)
            if count is not None and step != 1
        ]
        if all(1 <= step <= _MAX_GAPS for step in steps) and 4 * len(gaps) <= len(steps):
            return gaps
    return None


def _count(value: JsonValue | Measure) -> int | None:
    number = number_of(value)
    if isinstance(value, str) and value.strip(". ").isdecimal() and len(value) < 8:
        return int(value.strip(". "))
    return int(number) if number is not None and number == int(number) else None


def is_specific(number: int) -> bool:
    """Return whether a number has three digits or more before its zeros: others agree by chance."""
    return len(str(abs(number)).rstrip("0")) >= _MIN_DIGITS


def column_sums(rows: Sequence[Row], subtotals: Collection[Path]) -> set[int]:
    """Return the sum of each column of numbers that two rows or more have, as `Row.numbers` counts them."""
    sums: Counter[Column] = Counter()
    counts: Counter[Column] = Counter()
    for row in rows:
        if row.path not in subtotals:
            sums.update(row.numbers)
            counts.update(row.numbers.keys())
    return {total for column, total in sums.items() if counts[column] > 1 and is_specific(total)}


def item_counts(rows: Sequence[Row]) -> set[int]:
    """Return the number of rows, and of the pieces in them: sums of a column of whole numbers that all rows have."""
    sums: Counter[Column] = Counter()
    counts: Counter[Column] = Counter()
    for row in rows:
        pieces = {column: number // SCALE for column, number in row.numbers.items() if number > 0 == number % SCALE}
        sums.update(pieces)
        counts.update(pieces.keys())
    return {len(rows), *(total for column, total in sums.items() if counts[column] == len(rows))}


def are_pages_missing(index: WordIndex) -> bool:
    """Return whether a document says that it has more pages than there are: "Page 1 of 3"."""
    texts = (" ".join(index.folded[at + 1 : at + 4]) for word in _PAGE for at in index.occurrences(word)[:_MAX_PAGES])
    wholes = [(int(match[1]), int(match[2])) for text in texts if (match := _PAGE_OF.match(text))]
    return bool(wholes) and all(0 < page <= whole > len(index.pages) for page, whole in wholes)


def stated_count(index: WordIndex) -> tuple[int, bool] | None:
    """Return the number of items that a document states ("Number of items: 24"), and whether it may count pieces, or
    None if it states none or several."""
    found: set[tuple[int, bool]] = set()
    for word in (*_COUNTED, *_ROWS):
        for at in index.occurrences(word)[:_MAX_PAGES]:
            text = " ".join(index.folded[one] for one in index.words_beside(at, _MAX_WORDS_BESIDE))
            found.update((int(next(filter(None, one.groups()))), word not in _ROWS) for one in _STATED.finditer(text))
    return found.pop() if len(found) == 1 else None
