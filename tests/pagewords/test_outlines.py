from __future__ import annotations

from pathlib import Path

import pytest

from generated_files import make_pdf, outlines, text_at
from pagewords.pages import Limits
from pagewords.pdf import Pdf
from pagewords.sandbox import read_file

ARROW = "300 700 m 312 700 l 312 697 l 318 703 l 312 709 l 312 706 l 300 706 l h f "


@pytest.mark.parametrize("text", ["1,147.41", "41 477", "1,487.50 EUR"])
@pytest.mark.parametrize("as_one_path", [False, True])
def test_amount_drawn_as_outlines_needs_ocr(text: str, as_one_path: bool) -> None:
    operators = (" " if as_one_path else " f ").join(outlines(text, 200, 700)) + " f"
    content = text_at("Total", 50, 700) + operators
    assert Pdf(make_pdf([content]), Limits()).read_page(1) is None


def test_page_with_lines_shapes_and_one_bar_does_not_need_ocr() -> None:
    table = "".join(f"50 {y} 400 0.6 re f " for y in range(500, 680, 20)) + "40 490 m 480 490 l 480 690 l 40 690 l h S "
    page = Pdf(make_pdf([text_at("Total", 50, 700) + table + "300 300 8 60 re f"]), Limits()).read_page(1)
    assert page is not None and page.text.split() == ["Total"]


@pytest.mark.anyio
@pytest.mark.parametrize("media_box", ["[0 0 595 842]", "[40 600 340 740]"], ids=["A4", "small, with a picture"])
async def test_lone_digits_drawn_as_outlines_are_read_once_and_shapes_are_not(media_box: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    quantities = [f"{glyph} f " for at, digit in enumerate("741") for glyph in outlines(digit, 200, 700 - 30 * at)]
    labels = [text_at(label, 50, 700 - 30 * at) for at, label in enumerate(("Chair", "Table", "Lamp"))]
    hidden = "1 g " + outlines("9", 250, 700)[0] + " f 0 g "
    amount = "".join(f"{glyph} f " for glyph in outlines("1,147.41", 200, 610)) + text_at("Total", 50, 610)
    path.write_bytes(make_pdf(["".join([*labels, *quantities, hidden, ARROW, amount])], media_box))
    (page,) = (await read_file(path, "a.pdf", Limits(seconds=600))).pages
    assert page.text.split() == ["Chair", "7", "Table", "4", "Lamp", "1", "Total", "1,147.41"]
    assert not page.warnings
