from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin

import pytest

from generated_files import make_pdf, stream, text_at
from pagewords.pages import Limits
from pagewords.pdf import Pdf
from pagewords.reading_warnings import WarningCode

LABEL = text_at("I agree", 70, 700)
FORM = (
    "/Type /XObject /Subtype /Form /BBox [0 0 12 12] /Resources << /Font << /Z << /Type /Font /Subtype /Type1 "
    "/BaseFont /ZapfDingbats >> >> >>"
)
APPEARANCES = [
    stream("0 0 12 12 re S BT /Z 10 Tf 2 2 Td (4) Tj ET", FORM),
    stream("0 0 12 12 re S", FORM),
]
APPEARANCE_ENTRY = "/AP << /N << /Yes 1001 0 R /Off 1002 0 R >> >>"
RADIO, PUSH_BUTTON = "/Ff 32768", "/Ff 65536"


def first_line(content: str, **rest: object) -> str:
    page = Pdf(make_pdf([content], **rest), Limits()).read_page(1)  # type: ignore[arg-type]
    assert page is not None and page.text.split() == [word.text for word in page.words]
    return " ".join(page.text.splitlines()[0].split())


@pytest.mark.parametrize(
    ("entries", "marked"),
    [("/V (Family) /I [1]", ["Family"]), ("/V (Pupil)", ["Pupil"]), ("/Ff 2097152 /V [(Family) (Pupil)]",
     ["Family", "Pupil"]), ("", [])],
)  # fmt: skip
def test_chosen_options_of_a_list_box_are_marked(entries: str, marked: list[str]) -> None:
    options = ["Family plus", "Family", "Pupil"]
    look = stream("".join(text_at(option, 4, 44 - 16 * at) for at, option in enumerate(options)),
                  "/Type /XObject /Subtype /Form /BBox [0 0 99 60] /Resources << /Font << /F1 3 0 R >> >>")  # fmt: skip
    field = (
        f"<< /Type /Annot /Subtype /Widget /FT /Ch /T (t) /F 4 /Rect [200 640 299 700] {entries} "
        "/Opt [(Family plus) (Family) (Pupil)] /AP << /N 1001 0 R >> >>"
    )
    page = Pdf(make_pdf([text_at("Tariff", 50, 686)], page_entries="/Annots [1000 0 R]", extra=[field, look]), Limits())
    read = page.read_page(1)
    assert read is not None
    lines = [" ".join(line.split()) for line in read.text.splitlines() if line]
    assert [line.removeprefix("Tariff ") for line in lines] == [
        f"● {option}" if option in marked else option for option in options
    ]


@pytest.mark.parametrize(
    ("entries", "mark"),
    [
        ("/AS /Yes " + APPEARANCE_ENTRY, "☒"),
        ("/AS /Off " + APPEARANCE_ENTRY, "☐"),
        ("/AS /Off /V /Yes " + APPEARANCE_ENTRY, "☐"),
        ("/V /Yes " + APPEARANCE_ENTRY, "☒"),
        (APPEARANCE_ENTRY, "☐"),
        ("/AS /Yes", "☒"),
        ("/AS /Off", "☐"),
        ("/V /Yes", "☒"),
        ("/V /Off", "☐"),
        (f"{RADIO} /AS /Yes {APPEARANCE_ENTRY}", "●"),
        (f"{RADIO} /AS /Off", "○"),
        (PUSH_BUTTON, ""),
    ],
)
def test_form_box_has_its_visible_or_stored_state(entries: str, mark: str) -> None:
    box = f"<< /Type /Annot /Subtype /Widget /F 4 /Rect [50 698 62 710] /FT /Btn /T (a) {entries} >>"
    for catalog in (None, ""):  # with and without a form
        data = make_pdf([LABEL], page_entries="/Annots [1000 0 R]", extra=[box, *APPEARANCES], catalog=catalog)
        page = Pdf(data, Limits()).read_page(1)
        assert page and page.text.split() == [*filter(None, [mark]), "I", "agree"]
        if mark:
            word = page.words[0]
            assert [round(word.x0 * 595), round(word.x1 * 595), round(842 * (1 - word.y1))] == [50, 62, 698]
    if entries == "/AS /Yes":  # the page's picture shows it, too
        place = 48 / 595, 1 - 712 / 842, 64 / 595, 1 - 696 / 842
        assert min(Pdf(data, Limits()).draw_page(1, 144, 10**6, place)[0]) < 100


def circle(radius: float, paint: str) -> str:
    x, y, c, r = 55, 704, 0.5523 * radius, radius
    return (
        f"{x + r} {y} m {x + r} {y + c} {x + c} {y + r} {x} {y + r} c {x - c} {y + r} {x - r} {y + c} {x - r} {y} c "
        f"{x - r} {y - c} {x - c} {y - r} {x} {y - r} c {x + c} {y - r} {x + r} {y - c} {x + r} {y} c h {paint} "
    )


SQUARE = "50 699 10 10 re S "
CROSS = "51 700 m 59 708 l S 51 708 m 59 700 l S "
NESTED = "50 699 10 10 re f 1 g 51 700 8 8 re f 0 g "
FINDER = "46 697 14 14 re f 1 g 48 699 10 10 re f 0 g 50 701 6 6 re f 60 697 2 4 re f 44 701 2 6 re f 50 711 2 4 re f "


@pytest.mark.parametrize("is_rotated", [False, True])
@pytest.mark.parametrize(
    ("drawing", "mark"),
    [
        (SQUARE, "☐"),
        (SQUARE + CROSS, "☒"),
        (SQUARE + "52 704 m 54 701 l 60 711 l S ", "☒"),
        (SQUARE + text_at("X", 51.5, 700.5, 10), "☒"),
        (SQUARE + text_at("x", 52, 701, 10), "☒"),
        (SQUARE + text_at("A", 51.5, 700.5, 10), "A"),
        (NESTED, "☐"),
        (NESTED + CROSS, "☒"),
        ("60 701 6 6 re S ", "☐"),
        ("60 701 6 6 re S " + text_at("x", 60.5, 702, 8), "☒"),
        ("0.3 w " + SQUARE, "☐"),
        ("2 w " + SQUARE, "☐"),
        ("50 699 m 60 699 l 60 709 l 50 709 l h S ", "☐"),
        ("1 g 50 699 10 10 re B 0 g ", "☐"),
        ("50 699 10 10 re f ", ""),
        ("0.5 g 50 699 10 10 re B 0 g ", ""),
        (SQUARE + "20 699 m 300 699 l S 20 709 m 300 709 l S ", ""),
        (SQUARE + "60 699 10 10 re S 40 699 10 10 re S ", ""),
        (SQUARE + "38 699 10 10 re S 26 699 10 10 re S ", ""),
        ("10 699 10 10 re S ", ""),
        ("300 400 10 10 re S ", ""),
        (circle(5, "S"), "○"),
        (circle(5, "S") + circle(2.5, "f"), "●"),
        (circle(5, "f"), ""),
        (circle(7, "S") + text_at("3", 52, 701, 9), "3"),
        (circle(7, "S") + CROSS, ""),
        (FINDER, ""),
    ],
    ids=["empty", "cross", "tick", "X", "x", "letter", "nested", "nested-cross", "small", "small-x", "thin", "thick",
         "path", "white", "filled", "legend", "cell", "cells", "comb", "far", "alone", "circle", "dot", "disc",
         "number", "icon", "code"],
)  # fmt: skip
def test_only_drawn_box_beside_a_word_is_a_check_box(drawing: str, mark: str, is_rotated: bool) -> None:
    content = f"q {drawing} Q {LABEL}"
    if is_rotated:  # like landscape pages
        content = f"0 1 -1 0 595 0 cm 1 0 0 1 0 -300 cm {content}"
    assert first_line(content, page_entries="/Rotate 90" if is_rotated else "") == f"{mark} I agree".strip()


def box(x: float, y: float, side: float, mark: str = "") -> str:
    """Draw a box whose lower left corner is at (x, y), with a mark."""
    marks = {
        "x": f"{x} {y} m {x + side} {y + side} l S {x} {y + side} m {x + side} {y} l S ",
        "block": f"{x + 0.2 * side} {y + 0.2 * side} {0.6 * side} {0.6 * side} re f ",
        "full": f"{x} {y} {side} {side} re f ",
    }
    return f"{x} {y} {side} {side} re S " + marks.get(mark, "")


YES_NO = text_at("Yes", 200, 730) + text_at("No", 260, 730)
ROWS = "".join(text_at(label, 50, 700 - 40 * row) for row, label in enumerate(("Fever", "Cough")))
GRID_ROWS = "".join(f"40 {y} m 300 {y} l S " for y in (722, 682, 642))
GRID = GRID_ROWS + "".join(f"{x} 642 m {x} 722 l S " for x in (40, 190, 240, 300))


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        (YES_NO + box(203, 699, 10, "x") + box(262, 699, 10) + box(203, 659, 10) + box(262, 659, 10, "x"),
         "Yes No Fever ☒ ☐ Cough ☐ ☒"),
        (YES_NO + GRID + box(203, 699, 9, "x") + box(262, 699, 9) + box(203, 659, 9) + box(262, 659, 9, "x"),
         "Yes No Fever ☒ ☐ Cough ☐ ☒"),
        (box(112, 699, 10, "x") + box(118, 659, 10), "Fever ☒ Cough ☐"),
        (box(20, 692, 24, "x") + box(20, 652, 24), "☒ Fever ☐ Cough"),
        (box(40, 701, 5, "x") + box(40, 661, 5), "☒ Fever ☐ Cough"),
        (box(35, 699, 10, "block") + box(35, 659, 10), "☒ Fever ☐ Cough"),
        (box(35, 699, 10, "full") + box(35, 659, 10), "� Fever ☐ Cough"),
        (box(35, 699, 10, "full") + box(35, 659, 10, "full"), "Fever Cough"),
        (box(203, 699, 10) + box(203, 600, 10), "Fever Cough"),
        (box(200, 699, 10) + box(217, 699, 10) + box(200, 659, 10) + box(217, 659, 10), "Fever Cough"),
        (box(203, 699, 6) + box(203, 659, 6) + "150 702 m 203 702 l S 150 662 m 203 662 l S", "Fever Cough"),
    ],
    ids=["columns", "grid", "30 points after", "large", "small", "block", "full", "legend", "single", "comb", "chart"],
)  # fmt: skip
def test_boxes_away_from_their_label_are_read_if_there_are_equal_ones(drawing: str, expected: str) -> None:
    page = Pdf(make_pdf([ROWS + drawing]), Limits()).read_page(1)
    assert page is not None and " ".join(page.text.split()) == expected
    codes = [WarningCode.UNKNOWN_SYMBOLS] if "�" in expected else []
    assert [(warning.code, warning.count) for warning in page.warnings] == [(code, 1) for code in codes]


def test_radio_buttons_made_of_many_curves_are_read() -> None:
    def many_curves(x: float, y: float, radius: float, paint: str) -> str:
        points = [(x + radius * cos(n * pi / 16), y + radius * sin(n * pi / 16)) for n in range(33)]
        curves = "".join(
            f"{a + (c - a) / 3} {b + (d - b) / 3} {c - (c - a) / 3} {d - (d - b) / 3} {c} {d} c "
            for (a, b), (c, d) in pairwise(points)
        )
        return f"{points[0][0]} {points[0][1]} m {curves} h {paint} "

    drawing = many_curves(40, 704, 4.5, "S") + many_curves(40, 704, 2.5, "f") + many_curves(40, 664, 4.5, "S")
    page = Pdf(make_pdf([ROWS + drawing]), Limits()).read_page(1)
    assert page is not None and " ".join(page.text.split()) == "● Fever ○ Cough"


@pytest.mark.parametrize(
    ("font", "code", "mapped", "word"),
    [
        ("Wingdings", "A8", "F0A8", "☐"),
        ("ABCDEF+Wingdings-Regular", "6F", "F0FE", "☒"),
        ("Wingdings 2", "52", "F052", "☒"),
        ("Wingdings", "52", "F052", "\uf052"),
        ("Helvetica", "6F", "006F", "o"),
    ],
)
def test_box_symbol_of_a_symbol_font_is_a_check_box(font: str, code: str, mapped: str, word: str) -> None:
    cmap = f"begincmap 1 begincodespacerange <00> <FF> endcodespacerange\n1 beginbfchar <{code}> <{mapped}> endbfchar"
    name = font.replace(" ", "#20")
    fonts = [f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /ToUnicode 1001 0 R >>", stream(cmap + " endcmap")]
    drawn = f"BT /F3 12 Tf 50 700 Td <{code}> Tj ET {LABEL}"
    assert first_line(drawn, extra=fonts, catalog="") == f"{word} I agree"
