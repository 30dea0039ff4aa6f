from __future__ import annotations

import pytest
from generated_files import make_pdf, text_at

from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.pdf import Pdf


def read_lines(content: str) -> list[str]:
    page = Pdf(make_pdf([content]), Limits()).read_page(1)
    assert page is not None and page.text.split() == [word.text for word in page.words]
    return [" ".join(line.split()) for line in page.text.splitlines() if line]


def cells(text: str, drawn: str, width: float = 14) -> str:
    """Draw each character in the middle of a cell; `drawn` are the operators of a cell at `x`. A comma has no cell."""
    content = text_at("Field", 50, 700)
    for at, character in enumerate(text):
        x = 200 + at * width
        content += text_at(character, x + width / 2 - 3, 700, size=10)
        content += "" if character == "," else drawn.format(x=x, right=x + width, width=width)
    return content


@pytest.mark.parametrize(
    "drawn",
    ["{x} 696 {width} 14 re S ", "{x} 696 m {x} 710 l {right} 696 m {right} 710 l S ",
     "{x} 704 m {x} 696 l {right} 696 l {right} 704 l S ", "0.6 w {x} 692 {width} 22 re S "],
    ids=["boxes", "lines", "combs", "tall boxes"],
)  # fmt: skip
@pytest.mark.parametrize("text", ["17051984", "1504,25", "12345"])
def test_characters_in_a_row_of_cells_are_one_word(text: str, drawn: str) -> None:
    assert read_lines(cells(text, drawn)) == [f"Field {text}"]


@pytest.mark.parametrize(
    ("text", "drawn", "width"),
    [
        ("12345", "", 14),
        ("12345", "{x} 692 m {right} 692 l S ", 14),
        ("12345", "{x} 690 {width} 22 re S ", 40),
        ("12", "{x} 696 {width} 14 re S ", 14),
        ("***", "{x} 696 {width} 14 re S ", 14),
    ],
    ids=["no lines", "underlined", "columns of a table", "two cells", "no letters"],
)
def test_other_single_characters_stay_apart(text: str, drawn: str, width: float) -> None:
    assert read_lines(cells(text, drawn, width)) == ["Field " + " ".join(text)]
