from __future__ import annotations

from math import cos, radians, sin
from pathlib import Path

import pytest
from ocr_stand_in import OcrStandIn
from PIL import Image, ImageDraw, ImageFont

from generated_files import image_object, make_pdf, stream, text_at, text_image
from pagewords.errors import OverLimit, Unreadable
from pagewords.pages import Limits, Page
from pagewords.pdf import Groups, Pdf
from pagewords.reading_warnings import WarningCode
from pagewords.visibility import Box

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"


def read(data: bytes, number: int = 1, limits: Limits | None = None) -> Page:
    page = Pdf(data, limits or Limits()).read_page(number)
    assert page is not None
    assert page.text.split() == [word.text for word in page.words]
    return page


def lines(page: Page) -> list[str]:
    return [line.strip() for line in page.text.splitlines() if line.strip()]


def test_label_and_value_are_one_line_in_any_drawing_order() -> None:
    content = (
        text_at("19.50", 400, 700)
        + text_at("Total", 50, 660)
        + text_at("Subtotal", 50, 700)
        + text_at("23.21", 400, 660, size=10)
    )
    page = read(make_pdf([content]))
    assert [line.split("  ", 1)[0] for line in lines(page)] == ["Subtotal", "Total"]
    assert [line.rsplit("  ", 1)[1] for line in lines(page)] == ["19.50", "23.21"]


def test_column_starts_at_the_same_position_in_every_line() -> None:
    rows = [("1", "Screws", "12.50"), ("22", "", "7.00"), ("333", "Nuts and bolts", "1.00")]
    content = "".join(
        text_at(cell, x, 700 - 20 * row, font="F2")
        for row, cells in enumerate(rows)
        for cell, x in zip(cells, (50, 120, 400), strict=True)
        if cell
    )
    assert {line.rindex("  ") for line in read(make_pdf([content])).text.splitlines()} == {47}


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_box_contains_the_ink_of_its_word_on_rotated_and_cropped_pages(rotation: int) -> None:
    data = make_pdf(
        [text_at("Invoice", 150, 600, size=30)], page_entries=f"/Rotate {rotation} /CropBox [100 200 500 800]"
    )
    (word,) = read(data).words
    pixels, width, height = Pdf(data, Limits()).draw_page(1, 72, 10**7)
    page = read(data)
    assert (width, height) == (int(page.width), int(page.height))
    image = Image.frombytes("RGB", (width, height), pixels, "raw", "RGBX").convert("L").point(lambda v: 255 * (v < 128))
    left, top, right, bottom = image.getbbox() or (0, 0, 0, 0)
    assert right - left > 25 or bottom - top > 25
    slack = 2.0
    assert word.x0 * width - slack <= left and right <= word.x1 * width + slack
    assert word.y0 * height - slack <= top and bottom <= word.y1 * height + slack
    # And no more than that: the line's height around it, not the page.
    assert (word.x1 - word.x0) * width < right - left + 20 and (word.y1 - word.y0) * height < bottom - top + 20


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("degrees", [5, 12, 20, 30, 45, 60, 100, 200, -10, -45])
def test_slanted_lines_are_read_in_their_own_direction(degrees: int, rotation: int) -> None:
    across, up = cos(radians(degrees)), sin(radians(degrees))
    content = text_at("Upright", 50, 700)
    for row, text in enumerate(("PAID 17.05.2024 EUR 1,257.00", "by A. Sample")):
        x, y = 300 + 20 * row * up, 400 - 20 * row * across
        content += text_at(text, x, y, matrix=f"{across:.5f} {up:.5f} {-up:.5f} {across:.5f}")
    page = read(make_pdf([content], page_entries=f"/Rotate {rotation}"))
    slanted = ["PAID 17.05.2024 EUR 1,257.00", "by A. Sample"]
    assert lines(page) in (["Upright", *slanted], [*slanted, "Upright"])


@pytest.mark.parametrize("matrix", ["0 1 -1 0", "0 -1 1 0", "-1 0 0 -1"])
def test_rotated_text_is_read_in_its_own_direction(matrix: str) -> None:
    page = read(make_pdf([text_at("Upright", 50, 700) + text_at("first second", 300, 400, matrix=matrix)]))
    assert lines(page) == ["Upright", "first second"]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_words_are_apart_where_the_gap_is_wider_than_those_between_their_letters(rotation: int) -> None:
    def texts(content: str) -> list[str]:
        return read(make_pdf([f"BT /F2 12 Tf 50 700 Td {content} ET"], page_entries=f"/Rotate {rotation}")).text.split()

    assert texts("(0.92) Tj 30.6 0 Td (12) Tj") == ["0.92", "12"]  # a gap of 1.8, which PDFium ignores
    assert texts("(0.92) Tj 30.6 0 Td (12) Tj 16.2 0 Td (75) Tj") == ["0.92", "12", "75"]
    assert texts("1.8 Tc (0.9212) Tj") == ["0.9212"]


def test_hyphenated_word_is_two_words_with_a_box_each() -> None:
    page = read(make_pdf([text_at("a long docu-", 50, 700) + text_at("ment here", 50, 684)]))
    assert lines(page) == ["a long docu-", "ment here"]
    assert all(word.y1 - word.y0 < 0.03 for word in page.words)


def test_text_of_form_fields_is_read() -> None:
    appearance = text_at("4711", 2, 4)
    field = (
        "<< /Type /Annot /Subtype /Widget /FT /Tx /T (no) /V (4711) /F 4 "
        "/Rect [200 690 300 710] /AP << /N 1001 0 R >> >>"
    )
    form = (
        f"<< /Type /XObject /Subtype /Form /BBox [0 0 100 20] /Resources << /Font << /F1 3 0 R >> >> "
        f"/Length {len(appearance)} >>\nstream\n{appearance}\nendstream"
    )
    # Some programs leave the drawing to the reader.
    fonts = "/DR << /Font << /F1 3 0 R >> >>"
    bare = field.replace("/AP << /N 1001 0 R >>", "/DA (/F1 12 Tf 0 g)")
    for made, catalog in ((field, None), (bare, f"/AcroForm << /Fields [1000 0 R] {fonts} >>")):
        number = text_at("Number:", 50, 694)
        data = make_pdf([number], page_entries="/Annots [1000 0 R]", extra=[made, form], catalog=catalog)
        assert [word.text for word in read(data).words] == ["Number:", "4711"]


@pytest.mark.parametrize("own_resources", ["", "/Resources null /Rotate null"])
@pytest.mark.parametrize("annotation", ["/FreeText /Contents (no)", "/Widget /FT /Tx /T (no) /V (no)"])
def test_page_with_inherited_fonts_and_images_keeps_them_beside_an_annotation(
    annotation: str, own_resources: str
) -> None:
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [65 /five /zero /four] >> >>"
    look = stream(
        text_at("no 7", 2, 4), "/Type /XObject /Subtype /Form /BBox [0 0 99 20] /Resources << /Font << /F1 3 0 R >> >>"
    )
    note = f"<< /Type /Annot /Subtype {annotation} /F 4 /Rect [200 690 300 710] /AP << /N 1001 0 R >> >>"
    data = make_pdf(
        [text_at("ABC", 50, 694, font="F3") + "q 8 0 0 8 400 600 cm /I1 Do Q"],
        page_entries=f"/Annots [1000 0 R] {own_resources}",
        extra=[note, look, font, image_object(Image.new("L", (8, 8), 0))],
        inherited="/Resources << /Font << /F3 1002 0 R >> /XObject << /I1 1003 0 R >> >>",
    )  # fmt: skip
    document = Pdf(data, Limits())
    pixels, width, height = document.draw_page(1, 72, 10**7)
    assert Image.frombytes("RGB", (width, height), pixels, "raw", "RGBX").getpixel((404, height - 604)) == (0, 0, 0)
    assert read(data).text.split() == ["504", "no", "7"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("(100) Tj 5 Ts /F1 7 Tf (1) Tj", "100¹"),
        ("(12) Tj 5 Ts (99) Tj 0 Ts ( EUR) Tj", "12⁹⁹ EUR"),
        ("-3 Ts /F1 7 Tf (10) Tj 0 Ts /F1 12 Tf (100) Tj", "₁₀100"),
        ("/F1 7 Tf 5 Ts (1) Tj 0 Ts /F1 12 Tf (250,00) Tj", "¹250,00"),
        ("(12.) Tj /F1 7 Tf (99) Tj", "12.99"),
        ("(7) Tj /F1 6 Tf (1/2) Tj", "7 1/2"),
        ("(17) Tj /F1 7 Tf 2 Ts (11/16) Tj", "17 11/16"),
        ("(12/24) Tj", "12/24"),
        ("0.98 0.17 -0.17 0.98 50 700 Tm (12345.67) Tj", "12345.67"),
        ("0.7 0.7 -0.7 0.7 50 700 Tm (12) Tj 5 Ts (99) Tj", "12⁹⁹"),
    ],
    ids=[
        "footnote",
        "cents",
        "lowered",
        "before",
        "small",
        "fraction",
        "raised fraction",
        "date",
        "slanted",
        "slanted cents",
    ],
)
def test_raised_digits_do_not_merge_with_a_number(content: str, text: str) -> None:
    assert read(make_pdf([f"BT /F1 12 Tf 50 700 Td {content} ET"])).text.strip() == text


@pytest.mark.parametrize("is_rotated", [False, True])
@pytest.mark.parametrize(
    ("line", "is_struck"),
    [
        ("50 703.5 60 0.6 re f", True),
        ("0.6 w 50 703.5 m 110 703.5 l S", True),
        ("1 0 0 rg 50 703.5 60 0.6 re f", True),
        ("50 698 60 0.6 re f", False),
        ("50 711 60 0.6 re f", False),
        ("50 703.5 12 0.6 re f", True),
        ("[3 2] 0 d 1 w 50 703.5 m 105 703.5 l S", True),
        ("".join(f"{x} 703 4 1.2 re " for x in range(50, 102, 7)) + "f", True),
        ("".join(f"{x} 703 1.5 1.2 re f " for x in range(50, 104, 3)), True),
        ("50 701 m " + "".join(f"{50 + 2 * n} {705 if n % 2 else 702} l " for n in range(28)) + "S", True),
        ("4 w 50 704 m 105 704 l S", True),
        ("50 702 55 4 re f", True),
        ("1 1 0.4 rg 50 702 55 5 re f", False),
        ("0.7 g 50 699 55 9 re f", False),
        ("50 698 52 9 re S", False),
        ("20 703.5 200 0.6 re f", False),
        ("1 g 50 703.5 60 0.6 re f", False),
        ("20 703.5 200 0.6 re f 1 g 40 690 100 24 re f", False),
        ("0.8 g 50 690 60 24 re f", False),
        ("50 698 m 105 709 l S", True),
        ("50 709 m 105 698 l S", True),
        ("48 701 m 110 705 l S", True),
        ("50 698 m 105 709 l 105 710 l 50 699 l h f", True),
        ("50 698 m 100 711 l 50 711 m 100 698 l S", True),
        ("20 680 m 250 720 l S 20 720 m 250 680 l S", True),
        ("65 697 m 90 712 l S", True),
        ("1 G 50 698 m 105 709 l S", False),
        ("0 650 m 500 780 l S", False),
        ("50 694 m 105 699 l S", False),
        ("70 695 m 78 712 l S", False),
        ("90 690 m 140 720 l S", False),
        ("50 698 m 80 704 l 105 709 l S", False),
    ],
    ids=["box", "stroke", "red", "under", "over", "short", "dash pattern", "dashes", "dots", "wave", "thick stroke",
         "thick box", "marker", "label", "frame", "long", "white", "covered", "background", "rising",
         "falling", "slight", "bar", "cross", "crossed block", "slash", "white slanted", "chart", "under slanted",
         "fraction", "corner", "curve"],
)  # fmt: skip
def test_word_struck_out_by_a_line_is_left_out_with_a_warning(line: str, is_struck: bool, is_rotated: bool) -> None:
    content = f"q {line} Q " + text_at("1234.56", 52, 700) + text_at("49.00", 300, 700)
    if is_rotated:  # as landscape pages are
        content = f"0 1 -1 0 595 0 cm 1 0 0 1 0 -300 cm {content}"
    page = read(make_pdf([content], page_entries="/Rotate 90" if is_rotated else ""))
    assert page.text.split() == (["49.00"] if is_struck else ["1234.56", "49.00"])
    warnings = [(one.code, one.page, one.excerpt) for one in page.warnings]
    assert warnings == ([(WarningCode.STRUCK_OUT, 1, "1234.56")] if is_struck else [])


@pytest.mark.parametrize(
    ("word", "part", "rest"),
    [
        ("59.00;", "59.00", ""),
        ("\\(69.00\\)", "69.00", ""),
        ("79.00€", "79.00", ""),
        ("$89.00", "89.00", ""),
        ("1250", "50", ""),
        ("1250", "1", ""),
        ("12-345-7", "345", ""),
        ("$89.00$79.00", "$89.00", ""),
        ("50EUR", "50", "EUR"),
        ("Yes/No", "No", "Yes/"),
        ("Yes/No", "Yes", "/No"),
        ("Yes/Never", "Never", "Yes/"),
        ("12.34", ".", "12.34"),
    ],
)
@pytest.mark.parametrize("mark", ["line", "thick line", "annotation"])
def test_struck_characters_of_a_word_are_left_out_and_the_rest_is_never_a_number(
    word: str, part: str, rest: str, mark: str
) -> None:
    # Courier: each character is 0.6 of the size wide.
    x0 = 50 + 7.2 * word.replace("\\", "").index(part)
    x1 = x0 + 7.2 * len(part)
    line = {"line": f"{x0} 703 {x1 - x0} 0.6 re f ", "thick line": f"4 w {x0} 703.5 m {x1} 703.5 l S "}.get(mark, "")
    quad = f"/QuadPoints [{x0} 710 {x1} 710 {x0} 697 {x1} 697] /Rect [{x0} 697 {x1} 710]"
    notes = [] if line else [f"<< /Type /Annot /Subtype /StrikeOut /F 4 {quad} >>"]
    content = text_at(word, 50, 700, font="F2") + text_at("49.00", 300, 700) + line
    page = read(make_pdf([content], page_entries="/Annots [1000 0 R]" if notes else "", extra=notes, catalog=""))
    assert page.text.split() == [*filter(None, [rest]), "49.00"]
    shown = word.replace("\\", "")
    assert [(one.code, one.excerpt) for one in page.warnings] == (
        [] if rest == shown else [(WarningCode.STRUCK_OUT, shown)]
    )


@pytest.mark.parametrize(
    ("entries", "is_struck"),
    [
        ("/Line /L [50 698 105 709]", True),
        ("/Line /L [105 704 50 704]", True),
        ("/Line /L [50 694 105 697]", False),
        ("/Ink /InkList [[50 703 70 705 90 703 108 706]]", True),
        ("/Ink /InkList [[50 703 70 725 90 703 108 706]]", False),
    ],
)
def test_word_struck_out_by_an_annotation_is_left_out_with_a_warning(entries: str, is_struck: bool) -> None:
    line = f"<< /Type /Annot /F 4 /Rect [48 690 110 730] /Subtype {entries} >>"
    content = text_at("1234.56", 52, 700) + text_at("49.00", 300, 700)
    page = read(make_pdf([content], page_entries="/Annots [1000 0 R]", extra=[line], catalog=""))
    assert [one.excerpt for one in page.warnings] == (["1234.56"] if is_struck else [])
    assert page.text.split() == (["49.00"] if is_struck else ["1234.56", "49.00"])


@pytest.mark.parametrize(
    ("entries", "words", "hidden"),
    [
        ("/Text /Contents (pay 500)", [], "pay 500"),
        ("/Highlight /Contents (pay 500)", [], "pay 500"),
        ("/FreeText /RC (<body><p>A &amp; B</p><p>500</p></body>)", ["A", "&", "B", "500"], ""),
        ("/FreeText /RC (<<<500<b)", [], ""),
        ("/Stamp /Name /NotApproved", ["Not", "Approved"], ""),
    ],
)
def test_notes_and_stamps_are_read_and_comments_give_a_warning(entries: str, words: list[str], hidden: str) -> None:
    note = f"<< /Type /Annot /F 4 /Rect [200 600 300 640] /Subtype {entries} >>"
    page = read(make_pdf([text_at("49.00", 300, 700)], page_entries="/Annots [1000 0 R]", extra=[note], catalog=""))
    assert (page.text.split(), page.hidden_excerpt) == (["49.00", *words], hidden)


def test_page_with_a_picture_needs_ocr_and_logo_only_on_its_first_page() -> None:
    images = [
        image_object(text_image(lines, (900, 300)))
        for lines in (["Acme Trading  and Sons"] * 3, ["Invoice No: 4711 of today"] * 3)
    ]
    resources = "/XObject << /Logo 1000 0 R /Table 1001 0 R >>"
    small, large = "q 200 0 0 60 50 780 cm /Logo Do Q ", "q 500 0 0 240 50 500 cm /Table Do Q "
    dot, outside = "q 20 0 0 6 50 700 cm /Logo Do Q ", "q 200 0 0 60 -300 780 cm /Logo Do Q "
    contents = [text_at("Text", 50, 400) + drawn for drawn in (small, small, small + large, large, large, dot, outside)]
    document = Pdf(make_pdf(contents, resources=resources, extra=images, catalog=""), Limits())
    pages = [document.read_page(number) for number in range(1, document.page_count + 1)]
    assert [page is None for page in pages] == [True, False, True, True, True, False, False]

    seen: list[tuple[list[str], Box]] = []

    def recognise(number: int, image: Image.Image, width: float, height: float, words: Groups, box: Box) -> Page:
        assert image.size == (width, height)
        ink = image.convert("L").point(lambda level: 255 * (level < 128)).getbbox()
        assert ink and box[0] <= ink[0] < ink[2] <= box[2] and box[1] <= ink[1] < ink[3] <= box[3]
        seen.append(([word.text for _, group in words for word in group], box))
        return Page(number, width, height, "", [], "pdf")

    document.recognise_page(4, 72, 10**6, OcrStandIn(recognise))
    ((text, box),) = seen
    assert text == ["Text"] and box[3] < 360  # the printed word, further down, is not in the image


def test_picture_of_a_short_line_needs_ocr_even_if_pale() -> None:
    def line(text: str, size: tuple[int, int], paper: int = 255, ink: int = 0) -> Image.Image:
        image = Image.new("L", size, paper)
        ImageDraw.Draw(image).text((6, 2), text, fill=ink, font=ImageFont.load_default(30))
        return image

    image_at = "q {} 0 0 {} 300 600 cm /I1 Do Q "
    cases = [
        (line("1,234.56", (150, 40)), image_at.format(50, 13), True),
        (line("1,234.56", (150, 40), 255, 205), image_at.format(50, 13), True),
        (line("19.50 EUR", (180, 40), 90, 0), image_at.format(60, 13), True),
        (line("W", (40, 40)), image_at.format(13, 13), False),
        (Image.new("L", (150, 40), 255), image_at.format(50, 13), False),
    ]
    for image, drawn, needs_ocr in cases:
        data = make_pdf([text_at("Total", 50, 600) + drawn], resources="/XObject << /I1 1000 0 R >>",
                   extra=[image_object(image)], catalog="")  # fmt: skip
        assert (Pdf(data, Limits()).read_page(1) is None) is needs_ocr


@pytest.mark.parametrize("is_rotated", [False, True])
def test_undecodable_picture_gives_a_warning_with_its_page(is_rotated: bool) -> None:
    entries = "/Type /XObject /Subtype /Image /Width 40 /Height 12 /ColorSpace /DeviceGray /BitsPerComponent 8"
    broken = [stream("abcd", f"{entries} /Filter /{name}") for name in ("FooDecode", "DCTDecode", "JPXDecode")]
    for image in (*broken, image_object(Image.new("L", (40, 12), 255))):
        for text in (text_at("Total", 50, 700), ""):
            data = make_pdf(
                ["", f"{text} q 300 0 0 90 50 500 cm /I1 Do Q"], resources="/XObject << /I1 1000 0 R >>",
                page_entries="/Rotate 90" if is_rotated else "", extra=[image], catalog="",
            )  # fmt: skip
            document = Pdf(data, Limits())
            page = document.read_page(2) or document.recognise_page(
                2, 72, 10**6, OcrStandIn(lambda number, *_: Page(number, 10, 10, "", [], "pdf"))
            )
            warnings = [(one.code, one.page, one.count) for one in page.warnings]
            assert warnings == ([(WarningCode.PICTURES_NOT_READ, 2, 1)] if image in broken else [])


def test_sample_invoice_is_read_as_printed() -> None:
    azure = read((SAMPLES / "i2d_AzureInterior.pdf").read_bytes())
    assert any(line.startswith("Total  ") and line.endswith("  $ 279.84") for line in lines(azure))
    assert "Invoice INV/2023/03/0008" in lines(azure)


def test_page_limit_counts_pages() -> None:
    limits = Limits(max_pages=3)
    assert Pdf(make_pdf([text_at("x", 50, 700)] * 3), limits).page_count == 3
    with pytest.raises(Unreadable, match="has 4 pages; the limit is 3"):
        Pdf(make_pdf([text_at("x", 50, 700)] * 4), limits)


def test_huge_page_and_page_with_too_much_text_are_refused() -> None:
    assert read(make_pdf([text_at("x", 50, 700)], media_box="[0 0 9000 9000]")).width == 9000
    crowded = "".join(text_at("abcdefghij" * 1000, 50, 700 - row, size=1) for row in range(51))
    for data in (make_pdf([text_at("x", 50, 700)], media_box="[0 0 20000 20000]"), make_pdf([crowded])):
        with pytest.raises(OverLimit):
            read(data)


def test_arabic_text_layer_keeps_its_lines() -> None:
    # The letters A to F stand for Arabic ones, and are drawn as a page shows them: the first of a word at its right.
    cmap = "begincmap 1 begincodespacerange <41> <46> endcodespacerange\n"
    cmap += "1 beginbfrange <41> <46> <0627> endbfrange endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 1001 0 R >>"
    content = text_at("1250", 50, 700) + text_at("FED CBA", 300, 700, font="F3")
    content += text_at("7", 50, 650) + text_at("ABC", 330, 650, font="F3")
    page = read(make_pdf([content], extra=[font, stream(cmap)], catalog=""))
    first, second = [line.split() for line in page.text.splitlines() if line]
    assert (first, second) == (["ابة", "تثج", "1250"], ["ةبا", "7"])


def test_arabic_digits_are_read_from_left_to_right() -> None:
    # A to F stand for Arabic letters, 1 to 9 for Arabic-Indic digits.
    cmap = "begincmap 1 begincodespacerange <31> <46> endcodespacerange\n"
    cmap += "2 beginbfrange <31> <39> <0661> <41> <46> <0627> endbfrange endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 1001 0 R >>"
    content = "BT /F3 12 Tf 1 0 0 1 350 700 Tm [(A) 1200 (B) 1200 (C)] TJ ET\n"
    content += text_at("125", 300, 700, font="F3") + text_at("Sum", 50, 650) + text_at("1234", 90, 650, font="F3")
    page = read(make_pdf([content], extra=[font, stream(cmap)], catalog=""))
    assert page.text.split() == ["ابة", "١٢٥", "Sum", "١٢٣٤"]


def test_number_behind_a_hebrew_label_and_colon_is_a_word_of_its_own() -> None:
    # The letters A to Z stand for Hebrew ones, drawn as a page shows them: the first at the right.
    cmap = "begincmap 1 begincodespacerange <2E> <5A> endcodespacerange\n"
    cmap += "2 beginbfrange <2E> <3A> <002E> <41> <5A> <05D0> endbfrange endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 1001 0 R >>"
    content = text_at("2041:CBA", 300, 700, font="F3") + text_at("17.05.2024:ED", 300, 650, font="F3")
    page = read(make_pdf([content], extra=[font, stream(cmap)], catalog=""))
    assert [line.split() for line in page.text.splitlines() if line] == [["אבג:", "2041"], ["דה:", "17.05.2024"]]


def test_latin_words_and_numbers_in_a_hebrew_line_keep_their_order_and_end_before_the_next_word() -> None:
    # The letters A to H stand for Hebrew ones, drawn as a page shows them: the first at the right.
    cmap = "begincmap 1 begincodespacerange <20> <5A> endcodespacerange\n"
    cmap += "3 beginbfrange <20> <40> <0020> <41> <48> <05D0> <49> <5A> <0049> endbfrange endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 1001 0 R >>"
    drawn = ["17.05.2024 DC INV-204 BA", "DCINV BA", "INVDC BA"]
    content = "".join(text_at(line, 200, 700 - 50 * row, font="F3") for row, line in enumerate(drawn))
    page = read(make_pdf([content], extra=[font, stream(cmap)], catalog=""))
    lines = [line.split() for line in page.text.splitlines() if line]
    assert lines == [["אב", "INV-204", "גד", "17.05.2024"], ["אב", "INV", "גד"], ["אב", "גדINV"]]


def test_hebrew_letters_drawn_in_pieces_are_read_in_order() -> None:
    # The letters A to Z stand for Hebrew ones, 7.2 points wide. n is nun under a wrong name (ð), as some fonts have it.
    cmap = "begincmap 1 begincodespacerange <41> <6E> endcodespacerange\n"
    cmap += "2 beginbfrange <41> <5A> <05D0> <6E> <6E> <00F0> endbfrange endcmap"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /ToUnicode 1001 0 R >>"

    def leftwards(text: str, x: float, y: float) -> str:
        """Draw letters in logical order, each to the left of the previous one."""
        moves = "1200 ".join(f"({letter})" for letter in text)
        return f"BT /F3 12 Tf 1 0 0 1 {x} {y} Tm [{moves}] TJ ET\n"

    content = leftwards("AB", 350, 700) + leftwards("CD", 335.6, 700) + text_at("12/3", 292.4, 700, font="F2")
    content += leftwards("GH", 270.8, 700)
    content += text_at("nCn", 328.4, 650, font="F3") + text_at("BA", 350, 650, font="F3")
    content += text_at("BA", 350, 600, font="F3") + text_at("\\)", 338, 600, font="F2")
    content += text_at("25.00", 302, 600, font="F2") + text_at("\\(", 294.8, 600, font="F2")
    page = read(make_pdf([content], extra=[font, stream(cmap)], catalog=""))
    lines = [line.split() for line in page.text.splitlines() if line]
    assert lines == [["אבגד", "12/3", "זח"], ["אבנגנ"], ["אב", "(25.00)"]]
    box = page.words[0]
    assert (box.x0 * 595, box.x1 * 595) == (pytest.approx(328.4, abs=0.1), pytest.approx(357.2, abs=0.1))
