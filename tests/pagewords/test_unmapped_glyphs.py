from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from generated_files import make_pdf, stream, text_at
from pagewords.pages import Limits
from pagewords.pdf import Pdf
from pagewords.reading_warnings import WarningCode
from pagewords.sandbox import read_file
from pagewords.symbols import UNKNOWN
from pagewords.unmapped import Box, UnmappedWord, resolve_words

BOX = (10.0, 20.0, 110.0, 30.0)


def resolve(words: Sequence[UnmappedWord], readings: dict[str, tuple[str, float]]) -> tuple[list[str], int, int]:
    placed = [word._replace(box=(float(at), 0.0, at + 1.0, 1.0)) for at, word in enumerate(words)]

    def read(boxes: Sequence[tuple[float, Box]]) -> list[tuple[str, float]]:
        return [readings[words[int(box[0])].text] for _, box in boxes]

    shown, changed, unknown = resolve_words(placed, read)
    return [word.text for _, word in sorted(shown, key=lambda one: one[1].x0)], changed, unknown


def test_words_of_a_font_are_kept_if_ocr_reads_most_of_them_so() -> None:
    words = [UnmappedWord(text, 0, BOX, 1) for text in ("Zapłacono", "Łódź", "1.275,00")]
    readings = {"Zapłacono": ("Zapacono", 0.9), "Łódź": ("todz", 0.8), "1.275,00": ("1.275,00", 0.99)}
    assert resolve(words, readings) == (["Zapłacono", "Łódź", "1.275,00"], 0, 0)


def test_words_of_a_font_with_other_characters_are_those_that_ocr_reads() -> None:
    words = [UnmappedWord(text, 0, BOX, 1) for text in ("6XPPD", "(85", "18")]
    readings = {"6XPPD": ("Summa", 0.99), "(85": ("EUR", 0.98), "18": ("", 0.0)}
    assert resolve(words, readings) == (["Summa", "EUR", UNKNOWN], 2, 1)


def test_word_with_one_unmapped_character_is_kept_only_if_ocr_reads_the_same() -> None:
    words = [UnmappedWord(text, 0, BOX, None) for text in ("There’s", "1.2h5,00", f"di{UNKNOWN}culties", f"{UNKNOWN}9")]
    readings = {"There’s": ("There's", 0.9), "1.2h5,00": ("1.275,00", 0.9)}
    readings |= {f"di{UNKNOWN}culties": ("difficulties", 0.9), f"{UNKNOWN}9": ("79", 0.5)}
    assert resolve(words, readings) == (["There’s", "1.275,00", "difficulties", UNKNOWN], 2, 1)


@pytest.mark.parametrize(
    ("direction", "second"),
    [(0, (60.0, 20.0, 110.0, 30.0)), (1, (10.0, 25.0, 110.0, 30.0)), (2, (10.0, 20.0, 60.0, 30.0)),
     (3, (10.0, 20.0, 110.0, 25.0))],
)  # fmt: skip
def test_each_word_that_ocr_reads_in_a_box_gets_its_share(direction: int, second: Box) -> None:
    word = UnmappedWord(f"{UNKNOWN}x", direction, BOX, None)
    shown, _, _ = resolve_words([word], lambda _: [("EUR 504", 0.9)])
    assert [one.text for _, one in shown] == ["EUR", "504"]
    box = shown[1][1][1:5]
    assert box == pytest.approx(second, abs=11 if direction % 2 == 0 else 1.1)


def make_type3_font(drawn: str, first: int = 65) -> list[str]:
    """Return a font that maps no character, as objects from number 1000 on. Its codes from `first` on
    draw these characters."""
    names = " ".join(f"/u{at}x" for at in range(len(drawn)))
    glyphs = " ".join(f"/u{at}x {1001 + at} 0 R" for at in range(len(drawn)))
    font = (
        "<< /Type /Font /Subtype /Type3 /FontBBox [0 -300 800 1000] /FontMatrix [0.001 0 0 0.001 0 0] "
        f"/FirstChar {first} /LastChar {first - 1 + len(drawn)} /Widths [{'560 ' * len(drawn)}] "
        f"/CharProcs << {glyphs} >> /Encoding << /Type /Encoding /Differences [{first} {names}] >> "
        "/Resources << /Font << /F1 3 0 R >> >> >>"
    )
    return [font, *(stream(f"560 0 d0 BT /F1 1000 Tf ({character}) Tj ET") for character in drawn)]


def make_invoice(drawn: str, amount: str) -> bytes:
    """Return a PDF with an amount of text operators; font /F3 draws `drawn` for its codes from `A` on."""
    label = text_at("Invoice of the Harbour Trading Company", 50, 700) + text_at("Total", 50, 660)
    content = f"{label} BT /F1 14 Tf 200 660 Td {amount} Tj ET"
    return make_pdf([content], "[40 600 340 740]", extra=make_type3_font(drawn), catalog="")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("drawn", "amount", "text", "codes"),
    [
        ("7", "(1.2) Tj /F3 14 Tf (A) Tj /F1 14 Tf (5,00)", "1.275,00", [WarningCode.GARBLED_TEXT]),
        ("0123456789.,", "/F3 14 Tf (BKCHFLAA)", "1.275,00", [WarningCode.GARBLED_TEXT]),
        ("ABCDE", "/F3 14 Tf (DECADE)", "DECADE", []),
    ],
    ids=["one digit", "amount", "right codes"],
)
async def test_amount_with_unmapped_glyphs_is_what_the_page_shows(
    drawn: str, amount: str, text: str, codes: list[WarningCode], tmp_path: Path
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(make_invoice(drawn, amount))
    assert Pdf(path.read_bytes(), Limits()).read_page(1) is None
    (page,) = (await read_file(path, "a.pdf", Limits(seconds=600))).pages
    assert page.text.splitlines()[0] == "Invoice of the Harbour Trading Company"
    assert page.text.split()[-2:] == ["Total", text]
    assert [warning.code for warning in page.warnings] == codes


@pytest.mark.anyio
@pytest.mark.parametrize("code", ["200B", "0020", "00A0"])
async def test_minus_that_its_font_calls_a_space_is_read(code: str, tmp_path: Path) -> None:
    font, *glyphs = make_type3_font("-")
    cmap = f"begincmap 1 begincodespacerange <41> <41> endcodespacerange 1 beginbfchar <41> <{code}> endbfchar endcmap"
    amount = "/F3 14 Tf (A) Tj /F1 14 Tf (275,00)"
    label = text_at("Invoice of the Harbour Trading Company", 50, 700) + text_at("Total", 50, 660)
    content = f"{label} BT /F1 14 Tf 200 660 Td {amount} Tj ET"
    fonts = [font.removesuffix(">>") + "/ToUnicode 1002 0 R >>", *glyphs, stream(cmap)]
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf([content], "[40 600 340 740]", extra=fonts, catalog=""))
    (page,) = (await read_file(path, "a.pdf", Limits(seconds=600))).pages
    assert "".join(page.text.split()).endswith("Total-275,00")


def test_minus_of_a_font_that_is_not_in_the_file_is_an_unknown_character() -> None:
    cmap = "begincmap 1 begincodespacerange <2D> <39> endcodespacerange 1 beginbfchar <2D> <200B> endbfchar "
    cmap += "1 beginbfrange <30> <39> <0030> endbfrange endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 1001 0 R >>"
    content = text_at("Total", 50, 700) + text_at("-275", 200, 700, font="F3")
    page = Pdf(make_pdf([content], extra=[font, stream(cmap)], catalog=""), Limits()).read_page(1)
    assert page is not None and page.text.split() == ["Total", "\ufffd275"]


def test_drawn_tick_without_mapping_is_the_mark_of_its_box() -> None:
    box = "50 700 12 12 re S "
    tick = "BT /F3 12 Tf 52 702 Td (\\001) Tj ET " + text_at("I agree", 70, 702)
    page = Pdf(make_pdf([box + tick], extra=make_type3_font("X", first=1), catalog=""), Limits()).read_page(1)
    assert page is not None and page.text.split() == ["☒", "I", "agree"]


def test_word_in_a_font_that_is_not_in_the_file_is_kept_with_a_warning() -> None:
    font = "<< /Type /Font /Subtype /TrueType /BaseFont /Missing /Encoding << /Differences [65 /u1x /u2x] >> >>"
    page = Pdf(
        make_pdf([text_at("Total", 50, 700) + text_at("AB", 200, 700, font="F3")], extra=[font], catalog=""), Limits()
    )
    read = page.read_page(1)
    assert read is not None and read.text.split() == ["Total", "AB"]
    assert [warning.code for warning in read.warnings] == [WarningCode.GARBLED_TEXT]


def test_text_in_a_font_that_is_neither_embedded_nor_installed_gives_a_warning() -> None:
    description = (
        "/FontDescriptor << /Type /FontDescriptor /FontName /Ryumin-Light /Flags 6 /FontBBox [0 -120 999 880] >>"
    )
    system = "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> /DW 1000"
    fonts = [
        "<< /Type /Font /Subtype /Type0 /BaseFont /Ryumin-Light /Encoding /Identity-V /DescendantFonts [1001 0 R] >>",
        f"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light {description} {system} >>",
    ]
    japanese = "".join(f"BT /F3 12 Tf 300 {600 - 12 * at} Td <{0x4BC + at:04X}> Tj ET\n" for at in range(3))
    latin = text_at("Total", 50, 700) + text_at(" ", 90, 700) + text_at(" ", 90, 680, font="F2")
    page = Pdf(make_pdf([latin + japanese, latin], extra=fonts, catalog=""), Limits())
    first, second = page.read_page(1), page.read_page(2)
    assert first and second and second.warnings == ()
    is_installed = len(first.words) > 1
    assert is_installed or [(one.code, one.count) for one in first.warnings] == [(WarningCode.FONTS_MISSING, 3)]
