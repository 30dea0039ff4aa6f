from __future__ import annotations

import codecs

import pytest

from pagewords.errors import Unreadable
from pagewords.mail import read_mail
from pagewords.markup import html_parts
from pagewords.pages import Limits, Page
from pagewords.pagination import PAGE_CHARACTERS, Part, align, expand_tabs, paginate
from pagewords.reading_warnings import WarningCode
from pagewords.text import csv_parts, decode, encoding_warnings, plain_parts


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
def test_text_in_every_common_encoding_is_decoded(data: bytes) -> None:
    assert decode(data) == "Größe 5 €"


def test_declared_encoding_is_used_unless_unknown_or_wrong() -> None:
    assert decode("Цена".encode("koi8-r"), "koi8-r") == "Цена"
    assert decode("Größe".encode(), "klingon") == "Größe"
    assert decode("Größe".encode("cp1252"), "utf-8") == "Größe"
    assert decode("Größe, Stück".encode()[:-3], "utf-8") == "Größe, St\ufffd"


@pytest.mark.parametrize(
    ("declared", "actual_encoding", "text"),
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
def test_declared_encoding_is_decoded_as_its_whatwg_superset(declared: str, actual_encoding: str, text: str) -> None:
    assert decode(text.encode(actual_encoding), declared) == text


def test_one_invalid_byte_loses_one_character() -> None:
    assert decode("합계".encode("cp949") + b"\xff 5", "euc-kr") == "합계\ufffd 5"


_ALIKE = ("cp1253", "iso8859-7", "iso8859-2")  # differ from another code page in a few letters


@pytest.mark.parametrize(
    ("encodings", "text"),
    [
        (
            "cp1252 cp850 cp437 mac-roman",
            "Empfänger;Straße;Betrag\nJörg Müller;Große Gasse 5;12,50\nfür Büromöbel;;7,00\n",
        ),
        (
            "cp1252 cp850",
            "Descripción;Año;Importe\nReparación del camión;2024;12,50\n¿Qué más? Señor Muñoz;2023;7,00\n",
        ),
        ("cp1250 cp852 iso8859-2", "Odběratel;Částka\nDvořák a synové, Plzeň;1 250,00\nTřebíč, příjem zboží;7,00\n"),
        ("cp1250 cp852 iso8859-2", "Nazwa;Ilość;Wartość\nUsługi księgowe, Łódź;1;12,50\nźródło, część;2;7,00\n"),
        ("cp1250 cp852 iso8859-2", "Megnevezés;Összeg\nKönyvelői szolgáltatás;12,50\nŐszi lakbér, műszaki;7,00\n"),
        ("cp1251 cp866 koi8-r", "Наименование;Сумма\nСчёт на оплату услуг;12,50\nИтого к оплате;7,00\n"),
        ("cp1253 iso8859-7 cp737", "Περιγραφή;Αξία\nΤιμολόγιο παροχής υπηρεσιών;12,50\nΆννα, σύνολο;7,00\n"),
        ("cp1254 cp857", "Açıklama;Tutar\nHizmet faturası, İstanbul;12,50\nÖdenecek değişiklik ücreti, şirket;7,00\n"),
        ("cp1257", "Pavadinimas;Suma\nSąskaita už paslaugas;12,50\nPirkėjas, įmonė, Šiauliai;7,00\n"),
        ("cp1255", "תיאור;סכום\nחשבונית עבור שירותים;12,50\nסך הכל לתשלום;7,00\n"),
        ("cp1256", "الوصف;المبلغ\nفاتورة الخدمات;12,50\nالمجموع شامل الضريبة;7,00\n"),
        ("cp932 euc-jp", "品名;金額\n請求書の金額;1250\n消費税、合計、お支払い;70\n"),
        ("gb18030", "名称;金额\n服务发票，请在月底前付款;1250\n合计含税金额;70\n"),
        ("big5", "品名;金額\n服務發票，請在月底前付款;1250\n合計含稅金額;70\n"),
        ("cp949", "품명;금액\n서비스 청구서;1250\n합계 부가세 포함;70\n"),
        ("cp1252", "Item;Price\nPostage “Net 30” – don’t pay twice;£25.00\nStorage at 25 °C, ½ kg;€7\n"),
    ],
)
def test_undeclared_code_page_is_known_by_its_language(encodings: str, text: str) -> None:
    for encoding in encodings.split():
        data = text.encode(encoding)
        assert decode(data) == text
        assert not encoding_warnings(data) or encoding in _ALIKE


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be", "iso2022_jp"])
def test_unicode_without_a_mark_and_escaped_japanese_are_known(encoding: str) -> None:
    data = "品名;金額\n請求書の金額;1250\n".encode(encoding)
    assert (decode(data), encoding_warnings(data)) == ("品名;金額\n請求書の金額;1250\n", [])


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("mac-roman", "Müller;12,50\n"),
        ("cp437", "Straße\n"),
        ("cp1252", "50 £\n" * 8),
        ("euc-jp", "名前,金額\n田中太郎,1200\n"),
        ("koi8-r", "Да;5\n"),
    ],
)
def test_words_of_a_guessed_encoding_are_not_certain(encoding: str, text: str) -> None:
    made = pages(*csv_parts((text + "\f\nTotal;5\n" + text).encode(encoding)))
    assert [one.code for one in made[0].warnings] == [WarningCode.UNCERTAIN_ENCODING]
    assert {word.text.isascii(): word.confidence for page in made for word in page.words} == {True: None, False: 0.9}
    (first, second) = pages(*plain_parts((text + "Total 5\f" + text).encode(encoding)))
    assert {word.confidence for word in (*first.words, *second.words) if not word.text.isascii()} == {0.9}


@pytest.mark.parametrize("text", ["50 £", "© 2024", "Größe 5 €", "½ kg", "Straße 5", "“Total” 5", "Société Générale"])
def test_few_letters_beyond_ascii_are_windows_1252(text: str) -> None:
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize(
    ("declared", "codes"),
    [(None, [WarningCode.UNCERTAIN_ENCODING]), ("cp1253", []), ("klingon", [WarningCode.UNCERTAIN_ENCODING])],
)
def test_uncertain_encoding_gives_a_warning(declared: str | None, codes: list[WarningCode]) -> None:
    data = "Ανδρέας, Άννα".encode("cp1253")
    assert [one.code for one in encoding_warnings(data, declared)] == codes
    charset = f"<meta charset={declared}>" if declared else ""
    (page,) = html_parts(f"<html><head>{charset}<body>".encode() + data)
    assert [one.code for one in page.warnings] == codes
    charset = f"Content-Type: text/plain; charset={declared}\n" if declared else ""
    (mail,) = read_mail(f"From: a@example.com\n{charset}\n".encode() + data).parts
    assert isinstance(mail, Part) and [one.code for one in mail.warnings] == codes
    (ascii_page,) = html_parts(b"<html><body>Total<script>'" + data + b"'</script>")
    assert not ascii_page.warnings


def test_form_feed_starts_a_page_and_tabs_become_wide_gaps() -> None:
    made = pages(*[list(part) for part in plain_parts(b"Total\t19.50\n\fsecond")])
    assert [page.text for page in made] == ["Total   19.50", "second"]
    assert expand_tabs("1234567\tx") == "1234567  x"


def test_csv_with_any_delimiter_becomes_a_table() -> None:
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
        ("a\x1fb\nd\x1fe\n", "d   e"),
        ("a^b\nc\n", "c"),
        ("a:b:c\nd:e:f\n", "d   e   f"),
        ("a:b\nd:e\n", "d:e"),
        ("10:20:30\n11:21:31\n", "11:21:31"),
    ],
)
def test_delimiter_gives_rows_of_equal_length(text: str, row: str) -> None:
    ((*_, last),) = csv_parts(text.encode())
    assert last == row


def test_align_keeps_cells_two_spaces_apart_even_after_a_long_one() -> None:
    lines = align([["a", "b"], ["x" * 60, "after"], ["", "only second"]])
    assert lines == ["a" + " " * 42 + "b", "x" * 60 + "  after", " " * 43 + "only second"]


def test_long_text_is_paginated_between_lines_without_loss() -> None:
    lines = [f"line {number} " + "word " * 10 for number in range(500)]
    made = pages(lines)
    assert len(made) > 5
    assert all(len(page.text) <= PAGE_CHARACTERS + 100 for page in made)
    assert all(page.text.startswith("line ") for page in made)
    assert " ".join(page.text for page in made).split() == " ".join(lines).split()


def test_very_long_line_is_split_and_long_line_wraps_in_its_boxes_only() -> None:
    made = pages(["x" * 10_000 + " end"])
    assert "".join(page.text for page in made).replace(" ", "") == "x" * 10_000 + "end"
    assert len(made) > 2
    (page,) = pages(["word " * 40])
    assert page.text.count("\n") == 0
    assert len({word.y0 for word in page.words}) == 3


def test_wide_table_gets_a_wide_page() -> None:
    narrow, wide = pages(["a  b"]), pages(["a" + " " * 150 + "b"])
    assert narrow[0].width == 595 and wide[0].width > 900
    assert len({word.y0 for word in wide[0].words}) == 1


def test_text_over_the_page_limit_is_refused() -> None:
    lines = ["word " * 20] * 100
    count = len(pages(lines))
    assert len(pages(lines, limits=Limits(max_pages=count))) == count
    with pytest.raises(Unreadable, match=f"more than {count - 1} pages"):
        pages(lines, limits=Limits(max_pages=count - 1))
