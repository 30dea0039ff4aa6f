"""TXT and CSV, and the setting of lines as pages that all formats without pages share."""

from __future__ import annotations

import codecs

import pytest

from fieldmark.documents.reading.mail import read_mail
from fieldmark.documents.reading.markup import html_parts
from fieldmark.documents.reading.pages import Limits, Page
from fieldmark.documents.reading.pagination import PAGE_CHARACTERS, Part, align, expand_tabs, paginate
from fieldmark.documents.reading.text import csv_parts, decode, encoding_warnings, plain_parts
from fieldmark.domain.reading_warnings import WarningCode
from fieldmark.errors import Unreadable


def pages(*parts: list[str], limits: Limits | None = None) -> list[Page]:
    made = paginate(parts, "text", limits or Limits())
    for page in made:
        assert page.text.split() == [word.text for word in page.words]
        assert all(0 <= word.x0 < word.x1 <= 1 and 0 <= word.y0 < word.y1 <= 1 for word in page.words)
    return made


@pytest.mark.parametrize(
    "data",
    [
        "Größe 5 €".encode(),
        "Größe 5 €".encode("utf-8-sig"),
        "Größe 5 €".encode("cp1252"),
        codecs.BOM_UTF16_LE + "Größe 5 €".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Größe 5 €".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "Größe 5 €".encode("utf-32-le"),
    ],
)
def test_text_is_read_in_every_common_encoding(data: bytes) -> None:
    assert decode(data) == "Größe 5 €"


def test_a_declared_encoding_is_used_unless_it_is_unknown_or_wrong() -> None:
    assert decode("Цена".encode("koi8-r"), "koi8-r") == "Цена"
    assert decode("Größe".encode(), "klingon") == "Größe"
    assert decode("Größe".encode("cp1252"), "utf-8") == "Größe"
    assert decode("Größe, Stück".encode()[:-3], "utf-8") == "Größe, St\ufffd"


@pytest.mark.parametrize(
    ("declared", "written", "text"),
    [
        ("iso-8859-1", "cp1252", "5 € “a”"),
        ("latin1", "cp1252", "5 €"),
        ("iso-8859-9", "cp1254", "5 € ğ"),
        ("us-ascii", "cp1252", "5 €"),
        ("us-ascii", "utf-8", "5 €"),
        ("gb2312", "gb18030", "合计 5 镕 €"),
        ("ks_c_5601-1987", "cp949", "합계 5 똠"),
        ("euc-kr", "cp949", "합계 5 똠"),
        ("shift_jis", "cp932", "①合計 5 髙"),
        ("x-sjis", "cp932", "合計 5"),
        ("tis-620", "cp874", "รวม 5 €"),
        ("hex", "utf-8", "5 €"),
    ],
)
def test_a_declared_encoding_is_the_extension_that_browsers_read(declared: str, written: str, text: str) -> None:
    assert decode(text.encode(written), declared) == text


def test_one_bad_byte_costs_no_more_than_itself_in_a_declared_encoding() -> None:
    assert decode("합계".encode("cp949") + b"\xff 5", "euc-kr") == "합계\ufffd 5"


@pytest.mark.parametrize(
    ("declared", "codes"),
    [(None, [WarningCode.UNCERTAIN_ENCODING]), ("koi8-r", []), ("klingon", [WarningCode.UNCERTAIN_ENCODING])],
)
def test_a_text_that_is_most_likely_decoded_wrongly_gets_a_warning(
    declared: str | None, codes: list[WarningCode]
) -> None:
    data = "Итого к оплате: 1250".encode("koi8-r")
    assert [one.code for one in encoding_warnings(data, declared)] == codes
    charset = f"<meta charset={declared}>" if declared else ""
    (page,) = html_parts(f"<html><head>{charset}<body>".encode() + data)
    assert [one.code for one in page.warnings] == codes
    charset = f"Content-Type: text/plain; charset={declared}\n" if declared else ""
    (mail,) = read_mail(f"From: a@example.com\n{charset}\n".encode() + data).parts
    assert isinstance(mail, Part) and [one.code for one in mail.warnings] == codes


def test_a_form_feed_starts_a_page_and_tabs_are_wide_gaps() -> None:
    made = pages(*[list(part) for part in plain_parts(b"Total\t19.50\n\fsecond")])
    assert [page.text for page in made] == ["Total   19.50", "second"]
    assert expand_tabs("1234567\tx") == "1234567  x"


def test_csv_is_a_table_with_any_delimiter() -> None:
    for delimiter in ",;\t|":
        rows = [["No", "Text", "Price"], ["1", f'"Screws{delimiter} ""M4"""', "12.5"], ["2", "", "7"]]
        (lines,) = csv_parts("\n".join(delimiter.join(row) for row in rows).encode())
        column = lines[0].index("Price")
        assert [line[column:] for line in lines] == ["Price", "12.5", "7"]
        assert lines[0].startswith("No   Text  ") and '"M4"' in lines[1]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("Pos;Text\n1;nuts, bolts, screws\n2;a, b\n", "2     a, b"),
        ("x;1,50;2,50\ny;3,50;4,50\n", "y   3,50   4,50"),
        ("a,b\n'x;y',2\n3,4\n".replace("'", '"'), "3     4"),
        ("Report; made today\n\na,b\nc,d\n", "c                    d"),
        ("Betrag\n12,50\n-1.213,75 EUR\n", "-1.213,75 EUR"),
        ("Amount\n12.50\n$1,213.75\n", "$1,213.75"),
        ("Betrag,Tag\n12,50\n", "12       50"),
        ("1,2,3\n4,5,6\n", "4   5   6"),
        ("a^b, c\nd^e\n", "d   e"),
        ("a^b\nc\n", "c"),
        ("a:b:c\nd:e:f\n", "d   e   f"),
        ("a:b\nd:e\n", "d:e"),
        ("10:20:30\n11:21:31\n", "11:21:31"),
    ],
)
def test_the_delimiter_is_the_one_that_gives_rows_of_equal_length(text: str, row: str) -> None:
    ((*_, last),) = csv_parts(text.encode())
    assert last == row


def test_align_keeps_cells_two_spaces_apart_even_after_a_long_one() -> None:
    lines = align([["a", "b"], ["x" * 60, "after"], ["", "only second"]])
    assert lines == ["a" + " " * 42 + "b", "x" * 60 + "  after", " " * 43 + "only second"]


def test_long_text_is_paged_on_line_borders_and_nothing_is_lost() -> None:
    lines = [f"line {number} " + "word " * 10 for number in range(500)]
    made = pages(lines)
    assert len(made) > 5
    assert all(len(page.text) <= PAGE_CHARACTERS + 100 for page in made)
    assert all(page.text.startswith("line ") for page in made)
    assert " ".join(page.text for page in made).split() == " ".join(lines).split()


def test_an_endless_line_is_cut_and_a_long_one_wraps_in_its_boxes_only() -> None:
    made = pages(["x" * 10_000 + " end"])
    assert "".join(page.text for page in made).replace(" ", "") == "x" * 10_000 + "end"
    assert len(made) > 2
    (page,) = pages(["word " * 40])
    assert page.text.count("\n") == 0
    assert len({word.y0 for word in page.words}) == 3


def test_a_table_gets_a_page_as_wide_as_it_needs() -> None:
    narrow, wide = pages(["a  b"]), pages(["a" + " " * 150 + "b"])
    assert narrow[0].width == 595 and wide[0].width > 900
    assert len({word.y0 for word in wide[0].words}) == 1


def test_more_pages_than_the_limit_are_refused() -> None:
    lines = ["word " * 20] * 100
    count = len(pages(lines))
    assert len(pages(lines, limits=Limits(max_pages=count))) == count
    with pytest.raises(Unreadable, match=f"more than {count - 1} pages"):
        pages(lines, limits=Limits(max_pages=count - 1))
