from __future__ import annotations

from math import cos, radians, sin
from pathlib import Path

import pytest
from ocr_stand_in import OcrStandIn

from generated_files import make_pdf, stream, text_at
from pagewords.pages import Limits, Page
from pagewords.pdf import Pdf
from pagewords.reading_warnings import WarningCode

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
SECRET = text_at("secret 4711", 50, 700)
ROTATED_SECRET = text_at("secret 4711", 300, 400, matrix="0 1 -1 0")
RECTANGLE = "40 690 200 30 re f "


def read(content: str, **rest: object) -> Page:
    page = Pdf(make_pdf([text_at("Seen by all", 50, 760) + content], **rest), Limits()).read_page(1)  # type: ignore[arg-type]
    assert page is not None
    words = page.text.split()
    assert words == [word.text for word in page.words] and words[:3] == ["Seen", "by", "all"]
    return page


def optional_content(state: str) -> dict[str, object]:
    return {
        "catalog": f"/OCProperties << /OCGs [1000 0 R] /D << /{state} [1000 0 R] >> >>",
        "extra": ["<< /Type /OCG /Name (layer) >>"],
        "resources": "/Properties << /P1 1000 0 R >>",
    }


def form_object(content: str) -> dict[str, object]:
    entries = "/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
    return {"resources": "/XObject << /X 1000 0 R >>", "extra": [stream(content, entries)], "catalog": ""}


TRANSPARENT_STATES = {"resources": "/ExtGState << /None << /ca 0 >> /Half << /ca 0.5 >> >>"}


@pytest.mark.parametrize(
    ("hidden", "visible", "rest"),
    [
        ("3 Tr " + SECRET, "1 Tr " + SECRET, {}),
        ("1 g " + SECRET, "0.8 g " + SECRET, {}),
        ("0.96 g " + SECRET, "0.9 g " + SECRET, {}),
        (f"0 g {RECTANGLE}{SECRET}", f"0 g {RECTANGLE} 1 g {SECRET}", {}),
        (f"1 0 0 rg {RECTANGLE}{SECRET}", f"0 0.5 0 rg {RECTANGLE} 0.98 0 0 rg {SECRET}", {}),
        ("/None gs " + SECRET, "/Half gs " + SECRET, TRANSPARENT_STATES),
        (f"{SECRET} 1 g {RECTANGLE}", f"1 g {RECTANGLE} 0 g {SECRET}", {}),
        (f"q 0 0 10 10 re W n {SECRET} Q", f"q 40 690 200 30 re W n {SECRET} Q", {}),
        (text_at("secret 4711", 50, 700, size=1), text_at("secret 4711", 50, 700, size=3), {}),
        ("BT /F1 12 Tf 0.5 Tz 50 700 Td (secret 4711) Tj ET", "BT /F1 12 Tf 70 Tz 50 700 Td (secret 4711) Tj ET", {}),
        (text_at("secret 4711", 700, 700), text_at("secret 4711", 500, 700), {}),
        (text_at("secret 4711", 50, 20), text_at("secret 4711", 50, 120), {"page_entries": "/CropBox [0 100 595 842]"}),
        ("1 g " + ROTATED_SECRET, ROTATED_SECRET, {}),
    ],
    ids=["mode", "white", "near", "black", "colours", "alpha", "covered", "clipped", "tiny", "narrow", "outside", "cut",
         "turned"],
)  # fmt: skip
def test_hidden_text_is_left_out_and_counted(hidden: str, visible: str, rest: dict[str, object]) -> None:
    page = read(hidden, **rest)
    assert page.text.split()[3:] == [] and (page.hidden_words, page.hidden_excerpt) == (2, "secret 4711")
    page = read(visible, **rest)
    assert page.text.split()[3:] == ["secret", "4711"] and (page.hidden_words, page.hidden_excerpt) == (0, "")


def test_text_in_a_disabled_layer_or_white_in_a_form_object_is_left_out() -> None:
    assert read(f"/OC /P1 BDC {SECRET} EMC", **optional_content("OFF")).hidden_excerpt == "secret 4711"
    assert read(f"/OC /P1 BDC {SECRET} EMC", **optional_content("ON")).text.split()[3:] == ["secret", "4711"]
    assert read("/X Do", **form_object("1 g " + SECRET)).hidden_excerpt == "secret 4711"
    assert read("/X Do", **form_object(SECRET)).text.split()[3:] == ["secret", "4711"]


def test_text_in_a_font_that_is_not_embedded_is_not_hidden() -> None:
    fonts = [
        "<< /Type /Font /Subtype /Type0 /BaseFont /HeiseiMin-W3 /Encoding /UniJIS-UCS2-H "
        "/DescendantFonts [1001 0 R] >>",
        "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /HeiseiMin-W3 /FontDescriptor 1002 0 R "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> >>",
        "<< /Type /FontDescriptor /FontName /HeiseiMin-W3 /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 "
        "/Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>",
    ]
    text = "BT /F3 12 Tf 50 700 Td <54088A080039> Tj ET"
    assert read(text, extra=fonts, catalog="").text.split()[3:] == ["合計9"]
    for trick in ("1 g ", "3 Tr ", "/None gs "):
        page = read(trick + text, extra=fonts, catalog="", **TRANSPARENT_STATES)
        assert (page.text.split()[3:], page.hidden_excerpt) == ([], "合計9")


@pytest.mark.parametrize("before", ["3 Tr ", "1 g "])
def test_hidden_digit_does_not_change_a_number(before: str) -> None:
    seen = before.replace("3", "0").replace("1 g", "0 g")
    page = read(f"BT /F1 12 Tf 50 700 Td 0 g (Total 1) Tj {before} (0) Tj {seen} (0,00) Tj ET")
    assert page.text.split()[3:] == ["Total", "1", "0,00"]
    assert (page.hidden_words, page.hidden_excerpt) == (1, "100,00")
    page = read("BT /F1 12 Tf 50 700 Td 0 g (Total 1) Tj (0) Tj (0,00) Tj ET")
    assert (page.text.split()[3:], page.hidden_words) == (["Total", "100,00"], 0)


@pytest.mark.parametrize("trick", ["3 Tr {} 0 Tr ", "1 g {} 0 g ", "/None gs {} /Whole gs "])
@pytest.mark.parametrize("hidden_first", [True, False])
def test_number_hidden_under_another_number_is_left_out(trick: str, hidden_first: bool) -> None:
    hidden, seen = trick.format(text_at("9999 9999", 50, 700)), text_at("1234 5678", 50, 700)
    content = "0 g " + (hidden + seen if hidden_first else seen + hidden)
    page = read(content, resources="/ExtGState << /None << /ca 0 >> /Whole << /ca 1 >> >>")
    assert (page.text.split()[3:], page.hidden_excerpt) == (["1234", "5678"], "9999 9999")


LINES_ABOVE = [("_" * 30, 13.88), ("WWWWWWWW", 9), ("gjpqgyjpqgyjpqgy", 10)]


@pytest.mark.parametrize(("above", "pitch"), LINES_ABOVE)
@pytest.mark.parametrize(("before", "after"), [("3 Tr ", "0 Tr "), ("1 g ", "0 g ")], ids=["mode", "white"])
@pytest.mark.parametrize("matrix", ["1 0 0 1", "0 1 -1 0"], ids=["level", "turned"])
def test_ink_of_the_line_above_does_not_reveal_hidden_text(
    above: str, pitch: float, before: str, after: str, matrix: str
) -> None:
    def line(text: str, along: float, down: float) -> str:
        x, y = (50 + along, 700 - down) if matrix[0] == "1" else (300 + down, 400 + along)
        return text_at(text, x, y, matrix=matrix)

    page = read(line(above, 0, 0) + before + line("Total 9,999.00", 10, pitch) + after)
    assert (page.text.split()[3:], page.hidden_excerpt) == ([above], "Total 9,999.00")
    page = read(line(above, 0, 0) + after + line("Total 9,999.00", 10, pitch))
    assert (page.text.split()[3:], page.hidden_words) == ([above, "Total", "9,999.00"], 0)


@pytest.mark.parametrize("pitch", [9, 12, 14])
@pytest.mark.parametrize("matrix", ["1 0 0 1", "0 1 -1 0"], ids=["level", "turned"])
def test_close_lines_are_read_completely(pitch: int, matrix: str) -> None:
    lines = [f"{row} gjpq Total __ due ... - gross 1,{row}34.50 | \xc4\xd6\xc5 ,." for row in range(6)]
    places = [(50, 700 - row * pitch) if matrix[0] == "1" else (300 + row * pitch, 200) for row in range(6)]
    page = read("".join(text_at(line, *place, matrix=matrix) for line, place in zip(lines, places, strict=True)))
    assert (page.text.split()[3:], page.hidden_words) == (" ".join(lines).split(), 0)


DIGIT_WIDTH = 12 * 0.556  # the width of one


@pytest.mark.parametrize(
    ("seen", "hidden", "word"),
    [
        (text_at("\u2014\u2014", 50, 690, 60), text_at("963.12", 60, 706, 3), "\u2014\u2014"),
        (text_at("TOTAL", 50, 650, size=60), text_at("secret", 100, 670, size=6), "TOTAL"),
        (text_at("100", 50, 700), text_at("9", 50 + 2 * DIGIT_WIDTH, 700), "100"),
        (text_at("88", 50, 700), text_at("9", 50 + 0.5 * DIGIT_WIDTH, 700), "88"),
        (text_at("99", 50, 700), text_at("9", 50 + 0.5 * DIGIT_WIDTH, 700), "99"),
        (text_at("100", 50, 700), text_at("0", 52 + 2 * DIGIT_WIDTH, 700), "100"),
        (text_at("700", 50, 700), text_at("-", 46, 700), "700"),
        (text_at("W", 50, 700), text_at("l", 60.33, 700), "W"),
        (text_at("9999", 50, 700), text_at("999", 50, 691), "9999"),
    ],
    ids=["dash", "large", "over", "between", "between-same", "same", "minus", "edge", "below"],
)
def test_text_hidden_in_the_ink_of_a_word_is_not_added_to_it(seen: str, hidden: str, word: str) -> None:
    for before, after in (("3 Tr ", "0 Tr "), ("1 g ", "0 g ")):
        for content in (seen + before + hidden, before + hidden + after + seen):
            page = read(content)
            assert (page.text.split()[3:], page.hidden_words) == ([word], 1)


def test_word_printed_letter_by_letter_is_read_completely() -> None:
    for content in (
        "BT /F1 12 Tf 50 700 Td (-) Tj (7) Tj (0) Tj (.) Tj (1) Tj (1) Tj ET",
        text_at("-7", 50, 700) + text_at("0.", 53.5 + DIGIT_WIDTH, 700) + text_at("11", 55.8 + 2 * DIGIT_WIDTH, 700),
    ):
        page = read(content)
        assert (page.text.split()[3:], page.hidden_words) == (["-70.11"], 0)


def test_text_printed_twice_for_bold_and_a_number_under_a_stamp_are_visible() -> None:
    stamp = "1 0 0 rg " + text_at("PAID", 40, 600, size=40) + "0 g " + text_at("1234 5678", 50, 610)
    page = read(text_at("Bold words", 50, 700) + text_at("Bold words", 50.4, 700) + stamp)
    assert set(page.text.split()[3:]) == {"Bold", "words", "PAID", "1234", "5678"} and page.hidden_words == 0


@pytest.mark.parametrize("degrees", [0, 20, 45, 60])
def test_equal_letters_beside_each_other_are_not_one_letter_printed_twice(degrees: int) -> None:
    across, up = cos(radians(degrees)), sin(radians(degrees))
    matrix = f"{across:.4f} {up:.4f} {-up:.4f} {across:.4f}"
    letters = zip("fill 11", [0, 3, 5.66, 8.32, 10.98, 14.32, 20.99], strict=True)
    drawn = "".join(text_at(one, 50 + at * across, 600 + at * up, matrix=matrix) for one, at in letters)
    page = read(drawn)
    assert (page.text.split()[3:], page.hidden_words) == (["fill", "11"], 0)


def test_letters_at_the_right_edge_of_a_wide_page_are_where_the_page_shows_them() -> None:
    lines = [text_at("ill till 1,111.11 ill", 1150, 700 - 9 * row, size=6) for row in range(9)]
    page = read("".join(lines), media_box="[0 0 1190.55 842]")
    assert (page.text.split()[3:], page.hidden_words) == (9 * ["ill", "till", "1,111.11", "ill"], 0)


def test_letters_with_an_outline_and_a_filling_of_their_own_are_visible() -> None:
    outline, filling = "4 w 0 G 1 Tr " + text_at("SAVE 50", 50, 700, 30), "1 g 0 Tr " + text_at("SAVE 50", 50, 700, 30)
    page = read(outline + filling + "0 g " + text_at("today", 60, 702))
    assert sorted(page.text.split()[3:]) == ["50", "SAVE", "today"] and page.hidden_words == 0
    page = read(outline + "1 g 0 Tr " + text_at("SAVE 99", 50, 700, 30) + "1 g " + text_at("today", 60, 702))
    assert "today" not in page.text.split()


@pytest.mark.parametrize("kind", ["/FreeText /Contents (no 4711)", "/Widget /FT /Tx /T (no) /V (no 4711)"])
def test_hidden_annotation_is_left_out(kind: str) -> None:
    look = stream(
        text_at("no 4711", 2, 4),
        "/Type /XObject /Subtype /Form /BBox [0 0 99 20] /Resources << /Font << /F1 3 0 R >> >>",
    )
    for flags, hidden, form in ((2, 2, None), (32, 2, None), (4, 0, None), (4, 0, "")):
        note = f"<< /Type /Annot /Subtype {kind} /F {flags} /Rect [200 690 300 710] /AP << /N 1001 0 R >> >>"
        page = read("", page_entries="/Annots [1000 0 R]", extra=[note, look], catalog=form)  # with and without a form
        assert page.hidden_words == hidden
        assert page.text.split()[3:] == ([] if hidden else ["no", "4711"])


def test_note_without_appearance_is_read_and_struck_out_words_are_left_out() -> None:
    quad = "/QuadPoints [48 712 95 712 48 696 95 696]"
    notes = [
        "<< /Type /Annot /Subtype /FreeText /F 4 /Contents (free 12.50) /Rect [200 600 300 620] >>",
        f"<< /Type /Annot /Subtype /StrikeOut /F 4 /Rect [48 696 95 712] {quad} >>",
    ]
    data = make_pdf(
        [text_at("Seen by all 1234.56", 50, 760) + text_at("1234.56", 50, 700)],
        page_entries="/Annots [1000 0 R 1001 0 R]", extra=notes, catalog="",
    )  # fmt: skip
    document = Pdf(data, Limits())
    page = document.read_page(1)
    assert page and page.text.split() == ["Seen", "by", "all", "1234.56", "free", "12.50"]
    assert [(one.code, one.excerpt) for one in page.warnings] == [(WarningCode.STRUCK_OUT, "1234.56")]
    note = page.words[-1]
    box = note.x0, note.y0, note.x1, note.y1
    pixels, _, _ = Pdf(data, Limits()).draw_page(1, 144, 10**6, box)
    assert min(pixels) < 100  # the picture of the page shows it, too


@pytest.mark.parametrize("text", ["Zapłacono 504 zł", "תאריך 17.05.2024 סהכ 504"])
def test_note_without_appearance_keeps_letters_of_any_script(text: str) -> None:
    contents = text.encode("utf-16-be").hex()
    note = f"<< /Type /Annot /Subtype /FreeText /F 4 /Contents <FEFF{contents}> /Rect [200 600 400 620] >>"
    page = read("", page_entries="/Annots [1000 0 R]", extra=[note], catalog="")
    assert page.text.split()[3:] == text.split()


def noise() -> str:
    return "".join(f"{(7 * at % 10) / 10} g {at % 40 * 12} {at // 40 * 12} 9 9 re f " for at in range(40 * 30))


def test_text_layer_of_a_scan_is_ignored_without_a_warning() -> None:
    layer = "3 Tr " + "".join(text_at(f"line number {at}", 60, 300 - 20 * at) for at in range(9))
    elsewhere = text_at("nowhere", 50, 600)
    document = Pdf(make_pdf([text_at("1", 300, 800) + noise() + layer + elsewhere]), Limits())
    assert document.read_page(1) is None  # left to OCR
    page = document.recognise_page(1, 72, 10**6, OcrStandIn(lambda *_: Page(1, 10, 10, "", [], "pdf")))
    assert page.hidden_excerpt == "nowhere"
    page = read(noise() + "3 Tr " + text_at("secret 4711", 60, 300))  # a few hidden words do not make a page a scan
    assert (page.text.split()[3:], page.hidden_excerpt) == ([], "secret 4711")


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.pdf")), ids=lambda path: path.stem)
def test_samples_have_no_hidden_text(sample: Path) -> None:
    document = Pdf(sample.read_bytes(), Limits())
    pages = [document.read_page(number) for number in range(1, document.page_count + 1)]
    assert all(page and page.words and page.hidden_words == 0 for page in pages)
