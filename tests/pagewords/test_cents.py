from __future__ import annotations

import numpy
import pytest
from PIL import Image, ImageDraw, ImageFont

from pagewords.cents import restore_decimal_points
from pagewords.pages import PlacedWord

DIGIT_WIDTH, FIRST_ROW_TOP, ROW_HEIGHT = 12, 100, 40  # pixels


def read(amounts: list[str], line: tuple[float, int, int] | None, right: int = 300) -> list[str]:
    """Return the texts of amounts that end at `right`. `line` is a dotted line: its distance from `right` in digits,
    top and bottom."""
    image = Image.new("L", (400, 600), 230)
    draw = ImageDraw.Draw(image)
    words: list[PlacedWord] = []
    for row, text in enumerate(amounts):
        y = FIRST_ROW_TOP + row * ROW_HEIGHT
        for position, character in enumerate(reversed(text), 1):
            draw.text((right - position * DIGIT_WIDTH, y), character, fill=20, font=ImageFont.load_default(18))
        words.append(PlacedWord(text, right - len(text) * DIGIT_WIDTH, y, right, y + 24, 0.99))
    if line:
        x = int(right - line[0] * DIGIT_WIDTH)
        for y in range(line[1], line[2], 2):
            draw.point((x, y), fill=60)
    return [word.text for word in restore_decimal_points(words, numpy.asarray(image).astype(float))]


AMOUNTS = ["185467", "50589", "4002", "379210"]


@pytest.mark.parametrize(
    ("amounts", "line", "expected"),
    [
        (AMOUNTS, (2.0, 90, 270), ["1854.67", "505.89", "40.02", "3792.10"]),
        (AMOUNTS, (2.4, 90, 270), ["1854.67", "505.89", "40.02", "3792.10"]),
        (AMOUNTS, None, AMOUNTS),
        (AMOUNTS, (1.0, 90, 270), AMOUNTS),  # one digit from the right
        (AMOUNTS, (3.2, 90, 270), AMOUNTS),  # three digits from the right
        (AMOUNTS, (2.0, 0, 600), AMOUNTS),  # a streak over the whole page
        (AMOUNTS, (2.0, 165, 270), AMOUNTS),  # not between the first two
        (AMOUNTS[:2], (2.0, 90, 270), AMOUNTS[:2]),  # two amounts are not a column
        (["1854.67", "505.89", "40.02"], (2.0, 90, 270), ["1854.67", "505.89", "40.02"]),
        (["12", "15", "99"], (2.0, 90, 270), ["12", "15", "99"]),
    ],
)
def test_line_before_the_cents_of_a_column_is_a_decimal_point(amounts, line, expected) -> None:
    assert read(amounts, line) == expected
