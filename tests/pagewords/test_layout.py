from __future__ import annotations

import pytest

from pagewords.layout import layout_page
from pagewords.pages import PlacedWord, clean


def test_crooked_scan_keeps_its_lines() -> None:
    # Two lines 30 apart that fall by 40 from left to right.
    rows = [[f"{row}{column}" for column in range(10)] for row in range(2)]
    pieces: list[PlacedWord] = []
    for column in range(10):
        for row in range(2):
            x, y = 100 * column, 30 * row + 4 * column
            pieces.append(PlacedWord(rows[row][column], x, y, x + 40, y + 24))

    def lines(slope: float) -> list[list[str]]:
        return [line.split() for line in layout_page(1, 1000, 200, [(0, pieces)], "rapidocr", slope).text.splitlines()]

    assert lines(0.04) == rows
    assert lines(0) != rows


def test_large_word_behind_smaller_ones_is_not_in_their_lines() -> None:
    rows = [["Gate", "1", "95.00"], ["Soil", "3", "12.00"], ["Total", "4", "107.00"]]
    pieces = [
        PlacedWord(text, 100 * x, 30 * y, 100 * x + 60, 30 * y + 12) for y in range(3) for x, text in enumerate(rows[y])
    ]
    watermark, large_label = PlacedWord("8", 40, 0, 150, 80), PlacedWord("€", 310, 20, 340, 60)
    page = layout_page(1, 400, 100, [(0, [watermark, *pieces, large_label])], "pdf")
    assert [line.split() for line in page.text.splitlines()] == [rows[0], [*rows[1], "€"], rows[2], ["8"]]
    assert page.words[-1].x1 == pytest.approx(150 / 400)


def test_arabic_lines_keep_their_order_numbers_and_columns() -> None:
    # As it is printed, from the left: an amount, a wide gap, and "المبلغ الإجمالي" from the right.
    arabic = [("1250.00", 20, 70), ("EUR", 74, 95), ("الإجمالي", 400, 450), ("المبلغ", 455, 500)]
    latin = [("Total", 20, 60), ("1250.00", 430, 500)]
    pieces = [PlacedWord(t, x0, 10, x1, 22) for t, x0, x1 in arabic]
    pieces += [PlacedWord(t, x0, 40, x1, 52) for t, x0, x1 in latin]
    page = layout_page(1, 520, 100, [(0, pieces)], "pdf")
    first, _, second = page.text.splitlines()
    assert first.split() == ["المبلغ", "الإجمالي", "1250.00", "EUR"] and "الإجمالي   " in first
    assert second.split() == ["Total", "1250.00"]
    boxes = {word.text: word.x0 * 520 for word in page.words}
    assert boxes["المبلغ"] == pytest.approx(455, abs=0.1) and boxes["EUR"] == pytest.approx(74, abs=0.1)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("lone\ud800", "lone\ufffd"),
        ("\ud83d\ude00 halves", "😀 halves"),
        ("\ufb01nal o\ufb03ce", "final office"),
        ("soft\u00adhyphen", "softhyphen"),
        ("left\u202eright", "leftright"),
        ("Größe 5 € 中文 e\u0301", "Größe 5 € 中文 e\u0301"),
        ("\ufe8d\ufedf\ufee4\ufe92\ufee0\ufed0", "المبلغ"),
        ("\ufe70\ufdfa", "\u064bصلىاللهعليهوسلم"),
    ],
)
def test_unstorable_and_invisible_characters_are_removed(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned
