from __future__ import annotations

from pathlib import Path

import pytest

from generated_files import make_pdf, stream, text_at
from pagewords.garbled import is_garbled, is_spaced_out
from pagewords.pages import Limits
from pagewords.pdf import Pdf
from pagewords.reading_warnings import WarningCode
from pagewords.sandbox import read_file

LINES = (
    "Invoice number 4711 of the Harbour Trading Company",
    "Delivery of twenty chairs to the warehouse in Bremen",
    "Total amount payable within fourteen days: 1,250.00 EUR",
)
PRINTED = "".join(text_at(line, 50, 700 - 40 * row, size=14, font="F3") for row, line in enumerate(LINES))


def make_pdf_with_shifted_unicode_map(shift: int) -> bytes:
    lines = "".join(f"<{code:02X}> <{code + shift:04X}>\n" for code in range(0x21, 0x7F))
    names = "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange\n"
    names += f"94 beginbfchar\n{lines}endbfchar endcmap end"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 1001 0 R >>"
    # A small page, so that OCR is quick.
    return make_pdf([PRINTED], "[40 400 440 740]", extra=[font, stream(names)], catalog="")


@pytest.mark.parametrize("shift", [3, -29, 0xE000])
def test_garbled_text_layer_is_left_to_ocr(shift: int) -> None:
    assert Pdf(make_pdf_with_shifted_unicode_map(shift), Limits()).read_page(1) is None


def test_correct_text_layer_is_read() -> None:
    page = Pdf(make_pdf_with_shifted_unicode_map(0), Limits()).read_page(1)
    assert page is not None and page.text.splitlines()[0] == LINES[0]


def test_columns_of_short_codes_are_not_loose_letters() -> None:
    cells = [(at, 20.0 * row) for row in range(20) for at in range(5)]
    columns, letters = (
        [("AB", (pitch * at, top, pitch * at + 14, top + 10)) for at, top in cells] for pitch in (100.0, 16.0)
    )
    assert not is_spaced_out(columns)
    assert is_spaced_out(letters)


@pytest.mark.anyio
async def test_garbled_page_is_read_by_ocr_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf_with_shifted_unicode_map(3))
    (page,) = (await read_file(path, "a.pdf", Limits(seconds=600))).pages
    assert page.engine == "rapidocr" and "4711" in page.text and "1,250.00" in page.text
    assert [warning.code for warning in page.warnings] == [WarningCode.GARBLED_TEXT]


@pytest.mark.parametrize(
    "text",
    [
        "Chrząszcz brzmi w trzcinie w Szczebrzeszynie, w szczękach chrząszcza trzeszczy miąższ " * 4,
        "Τιμολόγιο Счёт-фактура 請求書 合計 فاتورة " * 20,
        "1,250.00 19,50 7,16 10,00 -2,84 " * 40,
        "\uf0b7 first point of the list \uf0b7 second point of the list",
    ],
)
def test_unusual_text_is_not_garbled(text: str) -> None:
    assert not is_garbled(text)
