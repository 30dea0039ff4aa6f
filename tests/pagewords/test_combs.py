from __future__ import annotations

import pytest

from generated_files import make_pdf, text_at
from pagewords.pages import Limits
from pagewords.pdf import Pdf


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


@pytest.mark.parametrize("low", [697, 704])
def test_cells_with_short_lines_between_them_in_groups_are_a_word_a_group(low: int) -> None:
    content = text_at("Date", 50, 700)
    for at, character in enumerate("17051984"):
        x = 200 + 14 * at + 20 * (at > 1) + 20 * (at > 3)
        content += text_at(character, x + 4, 700, size=10) + f"{x} {low} m {x} 696 l {x + 14} 696 l {x + 14} {low} l S "
    assert read_lines(content) == [["Date 1 7 0 5 1 9 8 4", "Date 17 05 1984"][low > 700]]


def test_characters_of_a_comb_field_are_one_word() -> None:
    entries = "/FT /Tx /T (date) /V (17051984) /Ff 16777216 /MaxLen 8 /DA (/F1 10 Tf 0 g) /F 4"
    field = f"<< /Type /Annot /Subtype /Widget {entries} /Rect [200 690 360 710] >>"
    resources = "/AcroForm << /Fields [1000 0 R] /NeedAppearances true /DR << /Font << /F1 3 0 R >> >> >>"
    page = Pdf(make_pdf([""], page_entries="/Annots [1000 0 R]", extra=[field], catalog=resources), Limits()).read_page(
        1
    )
    assert page is not None and page.text.split() == ["17051984"]


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
