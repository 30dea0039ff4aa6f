"""What a printing means: the rows of printings.txt, each a value, a page and the place that is right, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from printed import document_index

ROWS = [
    [cell.strip() for cell in line.split(" | ")]
    for line in (Path(__file__).parent / "printings.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_the_table_is_whole() -> None:
    assert len(ROWS) >= 200
    assert len({(row[0], row[1]) for row in ROWS}) == len(ROWS)
    assert {len(row) for row in ROWS} == {3, 4}


@pytest.mark.parametrize("row", ROWS, ids=[" | ".join(row[:2]) for row in ROWS])
def test_a_value_is_found_where_it_is_printed_and_nowhere_else(row: list[str]) -> None:
    said, page, expected, *match = row
    value, end = json.JSONDecoder().raw_decode(said)
    quote = json.loads(said[end:]) if said[end:] else None
    place = document_index(page.replace(" / ", "\n")).find(value, quote=quote)
    if expected == "-":
        assert place is None
        return
    assert place is not None
    assert place.quote == expected
    assert match in ([], [place.match])
