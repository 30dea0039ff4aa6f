"""Printed lines that look like rows of a list and are in none of its items are listed; other lines are not."""

from __future__ import annotations

from typing import Any

import pytest

from page_words import document_index
from valuegrounding import DocumentIndex
from valuegrounding.missing_rows import LocatedValue, MissingRow
from valuegrounding.paths import walk

TABLE = """\
Invoice of 3 May 2024
Item           Quantity    Price     Total
Nut M8         10           1.20     12.00
Bolt M6        25           0.40     10.00
Washer         70           0.10      7.00
Ring           11           7.00     77.00
Hook            2          10.00     20.00
"""
ROWS: list[dict[str, Any]] = [
    {"item": "Nut M8", "quantity": 10, "price": 1.2, "total": 12},
    {"item": "Bolt M6", "quantity": 25, "price": 0.4, "total": 10},
    {"item": "Washer", "quantity": 70, "price": 0.1, "total": 7},
    {"item": "Ring", "quantity": 11, "price": 7, "total": 77},
    {"item": "Hook", "quantity": 2, "price": 10, "total": 20},
]


def missing(index: DocumentIndex, fields: Any) -> list[MissingRow]:
    found = index.ground(fields)
    names = {".".join(map(str, path)): path for path, _ in walk(fields)}
    located = [
        LocatedValue(path, one.location.page, one.location.boxes, one.location.quote)
        for path in names.values()
        if (one := next(finding for name, finding in found.items() if _steps(name) == path)).location
    ]
    return index.missing_rows(located)


def _steps(name: str) -> tuple[str | int, ...]:
    return tuple(int(step) if step.isdigit() else step for step in name.replace("[", ".").replace("]", "").split("."))


@pytest.mark.parametrize("at", range(5))
def test_row_that_is_in_no_item_is_listed_with_its_cells(at: int) -> None:
    rows = [row for n, row in enumerate(ROWS) if n != at]
    (one,) = missing(document_index(TABLE), {"items": rows})
    assert (one.path, one.page) == (("items",), 1)
    assert {column: cell.value or cell.text for (column,), cell in one.cells.items()} == ROWS[at]
    assert one.text.split() == TABLE.splitlines()[2 + at].split()


def test_nothing_is_listed_of_a_complete_list() -> None:
    assert missing(document_index(TABLE), {"items": ROWS}) == []


@pytest.mark.parametrize(
    "line",
    [
        "Total         118          18.70    126.00",  # called a total
        "                                    126.00",  # values are missing
        "Carriage       per km       0.50    by hand",  # a text where the others have numbers
        "Item no.       24             12         7",  # other numbers than those with cents
        "   Shipping    25           0.40     10.00",  # not at the edge of its column
    ],
)
def test_line_that_is_not_like_the_rows_is_not_listed(line: str) -> None:
    assert missing(document_index(f"{TABLE}{line}\n"), {"items": ROWS}) == []


def test_line_in_another_field_is_not_listed() -> None:
    index = document_index(TABLE)
    assert missing(index, {"items": ROWS[:4], "last": ROWS[4]}) == []


def test_line_far_from_the_rows_is_not_listed() -> None:
    assert missing(document_index(TABLE.replace("Hook", "\n\nHook")), {"items": ROWS[:4]}) == []


def test_list_that_is_a_selection_of_the_lines_has_none() -> None:
    assert missing(document_index(TABLE), {"items": ROWS[:3]}) == []


def test_two_rows_show_no_columns() -> None:
    three = "\n".join(TABLE.splitlines()[:5])
    assert len(missing(document_index(TABLE), {"items": ROWS[:4]})) == 1
    assert missing(document_index(three), {"items": ROWS[:2]}) == []
