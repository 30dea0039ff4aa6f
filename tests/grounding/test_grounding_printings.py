"""Numbers, dates and text in the printings of many locales and scripts: tables of real ones, and properties of all."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fieldmark.grounding import DocumentIndex, PageWords, Place
from printed import document_index, laid_out, words_of


def found(value: str | float | bool, *pages: str) -> Place:
    place = document_index(*pages).find(value)
    assert place is not None
    return place


NUMBERS = [
    (1250.0, "1,250.00"),  # English
    (1250.0, "1.250,00"),  # German, Spanish, Italian, Portuguese, Dutch
    (1250.0, "1 250,00"),  # French, Swedish, Czech
    (1250.0, "1\u00a0250,00"),  # with a no-break space
    (1250.0, "1\u202f250,00"),  # with a narrow one, as French is set
    (1250.0, "1\u2009250.00"),  # with a thin one, as science is set
    (1250.0, "1'250.00"),  # Swiss
    (1250.0, "1’250.00"),  # Swiss, typeset
    (1250.0, "1250.00"),
    (1250.0, "1250"),
    (1250.0, "1250,-"),  # German, Dutch, Danish
    (1250.0, "1.250,--"),
    (1250.0, "1250.–"),  # Swiss
    (125000.0, "1,25,000"),  # Indian
    (12500000.5, "1,25,00,000.50"),
    (1234567.89, "1.234.567,89"),
    (1234567.89, "1 234 567,89"),
    (1250, "$1,250.00"),
    (1250, "€1.250,00"),
    (1250, "1.250,00€"),
    (1250, "1.250,00 €"),
    (1250, "EUR1.250,00"),
    (1250, "1.250,00EUR"),
    (1250, "CHF 1'250.00"),
    (1250, "RM1,250.00"),
    (1250, "R$1.250,00"),
    (1250, "US$1,250.00"),
    (1250, "1.250,00 zł"),
    (1250, "kr.1.250,00"),
    (1250, "￥1,250"),
    (1250, "1,250円"),
    (1250, "₹1,250.00"),
    (1250, "Total:1,250.00"),
    (-1250, "(1,250.00)"),
    (-1250, "($1,250.00)"),
    (-1250, "-1,250.00"),
    (-1250, "−1,250.00"),
    (-1250, "1,250.00-"),
    (-1250, "1.250,00−"),
    (-1250, "-$1,250.00"),
    (-1250, "$-1,250.00"),
    (-1250, "-EUR 1.250,00"),
    (1250.5, "١٢٥٠٫٥"),  # Arabic-Indic
    (1250.5, "١٬٢٥٠٫٥٠"),
    (1250.5, "۱۲۵۰٫۵"),  # Persian
    (1250, "१,२५०"),  # Devanagari
    (1250, "１，２５０"),  # full width
    (0.5, ".50"),
    (0.5, "0,5"),
    (1.25, "1.250"),  # either way
    (1250, "1.250"),
    (1.25, "1,250"),
    (1250, "1,250"),
    (19, "19%"),
    (19, "19 %"),
    (0.19, "19 %"),
    (0.055, "5,5 %"),
    (25.5, "25.5cm"),
    (3, "3x"),
    (35.5, "35.5x25.5"),
    (9, "9.00/kg"),
    (7, "7"),
    (0, "0.00"),
    (12, "12.00*"),
    (1250, "1,250.00²"),  # with a footnote
    (5.0, "......5.00"),  # after leading dots
    (123, "#123"),
]


@pytest.mark.parametrize(("value", "printing"), NUMBERS)
def test_a_number_is_found_in_any_printing(value: float, printing: str) -> None:
    place = found(value, f"Some words {printing} behind it")
    body = [part for part in re.split(r"\s", printing) if re.search(r"\d", part)]
    assert re.sub(r"\D", "", place.quote) == re.sub(
        r"\D", "", "".join(body).replace("25.5", "" if value == 35.5 else "25.5")
    )
    assert place.match in ("number", "exact")
    assert place.page == 1


@pytest.mark.parametrize(
    ("value", "printing"),
    [
        (963.11, "963,12"),
        (9.0, "19.00"),
        (9.0, "9.001"),
        (9.0, "9.00.1"),
        (250, "1 250,00"),
        (250, "1\u00a0250,00"),
        (1, "1 250,00"),
        (10, "10 000"),
        (1250, "12,50"),
        (1250, "-1,250.00"),
        (1250, "1,250.00-"),
        (-1250, "1,250.00"),
        (1250, "A1250"),
        (1250, "1250B"),
        (1250, "12-1250"),
        (1250, "1250/12"),
        (1250, "12:1250"),
        (12, "12.03.2024"),
        (2024, "12.03.2024"),
        (2024, "2024-03-12"),
        (30, "12:30"),
        (4, "A4"),
        (3, "KR3M"),
        (2, "H2O"),
        (12, "12th"),
        (2, "m²"),
        (2, "2½"),
        (192, "192.168.0.1"),
        (3, "3.14.15"),
        (15, "10-15"),
        (1.5, "15"),
        (15, "1.5"),
        (0.19, "19"),
        (1e300, "1" * 200),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_no_other_number_and_no_piece_of_one_is_found(value: float, printing: str) -> None:
    assert document_index(f"Some words {printing} behind it").find(value) is None


@pytest.mark.parametrize(
    ("value", "printing", "match"),
    [
        ("1250.00", "1.250,00", "number"),
        ("1250.00", "1250.00", "exact"),
        ("1,250.00", "1250.00", "number"),
        ("RM 9.00", "RM9.00", "normalised"),
        ("9.00 EUR", "EUR 9,00", "number"),
        ("-5.00", "5.00-", "number"),
        ("15%", "15 %", "number"),
        ("-RM9.00", "-RM9.00", "exact"),
        ("94538", "94538", "exact"),
        ("007420", "007420", "exact"),
        ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "normalised"),
        ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000", "normalised"),
        ("+49 30 123456", "+49 (30) 123-456", "normalised"),
        ("25/12/2018", "25 Dec 2018", "date"),
        ("12 mars 2024", "2024-03-12", "date"),
        ("8:13 PM", "20:13", "date"),
        ("20:13", "8:13 PM", "date"),
    ],
)
def test_text_that_is_a_number_or_a_date_is_found_in_another_printing(value: str, printing: str, match: str) -> None:
    place = found(value, f"Some words {printing} behind it")
    assert place.quote in printing
    assert place.match == match


@pytest.mark.parametrize(
    ("value", "printing"),
    [
        ("9.00", "19.00"),
        ("9.00", "-9.00"),
        ("RM9.00", "-RM9.00"),
        ("RM9.00", "RM9,001"),
        ("$9.00", "-$9.00"),
        ("900", "9.00"),
        ("9.00", "900"),
        ("1.5", "15"),
        ("12 5", "125"),
        ("125", "12 5"),
        ("7420", "007420"),
        ("963.11", "963.12"),
        ("INV-2023-001", "INV-2023-002"),
        ("Order 4711 of 2023", "Order 4712 of 2023"),
        ("Acme", "Acmeville"),
        ("Acme", "acme.com"),
        ("Acme", "info@acme"),
        ("Acme", "Acme-Werke"),
        ("ville", "Acmeville"),
        ("C", "C++"),
        ("C++", "C"),
        ("2024", "12/03/2024"),
        ("575", "SX-575-1"),
        ("Smith", "Smyth"),
        ("Anderson", "Andersen"),
        ("Jan Jansen", "Jan Janssen en zonen"),
        ("12345678901234567890", "1234567890 1234567891"),
        ("true", "truely"),
        ("Rech", "Rech-\nnung"),
        ("nung", "Rech-\nnung"),
    ],
)
def test_no_other_text_and_no_piece_of_a_token_is_found(value: str, printing: str) -> None:
    assert document_index(f"Some words {printing} behind it").find(value) is None


MONTHS = {
    "en": "January February March April May June July August September October November December",
    "en short": "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "de short": "Jan. Feb. Mrz. Apr. Mai Jun. Jul. Aug. Sep. Okt. Nov. Dez.",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "fr short": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "es short": "ene feb mar abr may jun jul ago sep oct nov dic",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "it short": "gen feb mar apr mag giu lug ago set ott nov dic",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "pt short": "jan fev mar abr mai jun jul ago set out nov dez",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "nl short": "jan feb mrt apr mei jun jul aug sep okt nov dec",
}


@pytest.mark.parametrize("language", MONTHS)
def test_every_month_is_known_by_its_name(language: str) -> None:
    for month, name in enumerate(MONTHS[language].split(), 1):
        for printing in (f"12 {name} 2024", f"12. {name.upper()} 2024", f"12-{name}-24"):
            place = found(f"2024-{month:02}-12", f"Datum {printing}, ort")
            assert (place.match, place.quote) == ("date", printing)


@pytest.mark.parametrize(
    ("value", "printing"),
    [
        ("2024-03-12", "12.03.2024"),
        ("2024-03-12", "12.3.2024"),
        ("2024-03-12", "12/03/2024"),
        ("2024-03-12", "03/12/2024"),
        ("2024-03-12", "12-03-24"),
        ("2024-03-12", "2024/03/12"),
        ("2024-03-12", "2024.03.12"),
        ("2024-03-12", "20240312"),
        ("2024-03-12", "12 03 2024"),
        ("2024-03-12", "12. 03. 2024"),
        ("2024-03-12", "March 12, 2024"),
        ("2024-03-12", "Mar. 12th, 2024"),
        ("2024-03-12", "12th of March 2024"),
        ("2024-03-12", "12MAR2024"),
        ("2024-03-12", "12 de marzo de 2024"),
        ("2024-03-12", "12 de março de 2024"),
        ("2024-03-01", "1er mars 2024"),
        ("2024-03-01", "1º marzo 2024"),
        ("2024-03-12", "2024 March 12"),
        ("2024-03-12", "2024年3月12日"),
        ("2024-03-12", "2024년 3월 12일"),
        ("2024-03-12", "１２．０３．２０２４"),
        ("2024-03-12", "١٢/٠٣/٢٠٢٤"),
        ("1945-05-01", "01.05.45"),
        ("2024-03-12T20:13:00", "12.03.2024 20:13"),
        ("2024-03-12T20:13:39Z", "12/03/2024 8:13:39 PM"),
        ("2024-03-12T20:13:39+08:00", "2024-03-12T20:13:39"),
        ("2024-03-12 20:13", "12.03.2024 Uhrzeit 20.13"),
        ("2024-03-12T00:00:00", "12.03.2024"),
    ],
)
def test_a_date_is_found_in_any_printing(value: str, printing: str) -> None:
    place = found(value, f"Am {printing} in Ulm")
    assert place.quote == printing.replace("Uhrzeit ", "").replace("T20:13:39", " 20:13:39") or place.quote == printing


@pytest.mark.parametrize(
    ("value", "printing"),
    [
        ("2024-03-12", "13.03.2024"),
        ("2024-03-12", "12.03.2023"),
        ("2024-03-12", "12.03.1924"),
        ("2024-03-12", "112.03.2024"),
        ("2024-03-12", "12.03.20245"),
        ("2024-03-12", "1.12.03.2024"),
        ("2024-03-12", "12 Marx 2024"),
        ("2024-03-12", "12 3 24"),
        ("2024-02-30", "30.02.2024"),
        ("2024-03-12T20:13:00", "12.03.2024 20:14"),
        ("2024-03-12T20:13:00", "12.03.2024"),
        ("2024-03-12T08:13:00", "12.03.2024 8:13 PM"),
    ],
)
def test_no_other_date_is_found(value: str, printing: str) -> None:
    assert document_index(f"Am {printing} in Ulm").find(value) is None


@pytest.mark.parametrize(
    ("value", "page", "quote", "match"),
    [
        ("MÜLLER & SÖHNE", "Müller & Söhne GmbH", "Müller & Söhne", "normalised"),
        ("Müller", "Mu\u0308ller", "Mu\u0308ller", "normalised"),
        ("Société Générale", "SOCIETE GENERALE", "SOCIETE GENERALE", "normalised"),
        ("Straße", "STRASSE", "STRASSE", "normalised"),
        ("office file", "oﬃce ﬁle", "oﬃce ﬁle", "normalised"),
        ("Fieldmark", "Ｆｉｅｌｄｍａｒｋ", "Ｆｉｅｌｄｍａｒｋ", "normalised"),
        ("Rechnung", "Rech\u00adnung", "Rech\u00adnung", "normalised"),
        ("Rechnungsbetrag", "Rechnungs-\nbetrag", "Rechnungs- betrag", "normalised"),
        ("A - B", "A – B", "A – B", "normalised"),
        ("“Acme”", '"Acme"', '"Acme"', "normalised"),
        ("Acme  Corp", "Acme\nCorp", "Acme Corp", "exact"),
        ("BOOK TA.K (DAYA)", "BOOK TA .K(DAYA)", "BOOK TA .K(DAYA)", "normalised"),
        ("東京都千代田区", "住所：東京都千代田区丸の内", "東京都千代田区", "exact"),
        ("株式会社山田", "御中 株式会社山田", "株式会社山田", "exact"),
        ("北京市朝阳区", "北京市 朝阳区", "北京市 朝阳区", "normalised"),
        ("ﾔﾏﾀﾞ", "ヤマダ", "ヤマダ", "normalised"),
        ("삼성전자", "회사: 삼성전자", "삼성전자", "exact"),
        ("กรุงเทพ", "ที่กรุงเทพมหานคร", "กรุงเทพ", "exact"),
        ("कंपनी", "कंपनी लिमिटेड", "कंपनी", "exact"),
        ("السلام", "السَّلامُ عليكم", "السَّلامُ", "normalised"),
        ("שלום", "שָׁלוֹם", "שָׁלוֹם", "normalised"),
        ("ΑΘΗΝΑ", "Αθήνα", "Αθήνα", "normalised"),
        ("МОСКВА", "Москва", "Москва", "normalised"),
        ("İstanbul", "ISTANBUL", "ISTANBUL", "normalised"),
        ("№ 5", "No 5", "No 5", "normalised"),
    ],
)
def test_text_is_found_in_any_form_and_script(value: str, page: str, quote: str, match: str) -> None:
    place = found(value, page)
    assert (place.quote, place.match) == (quote, match)


@pytest.mark.parametrize(
    ("value", "page"),
    [
        ("MR D.I.Y. (JOHOR) SDN BHD", "MR D.T.Y. (JOHOR) SDN BHD"),
        ("International Business", "lnternationa1 Business"),
        ("Unit 10 Harbour Street", "Unit 1O Harbour Street"),
        ("Jon Smithson Ltd", "Joe Smithson Ltd"),
    ],
)
def test_what_ocr_may_have_misread_is_found_and_what_a_file_says_itself_is_not(value: str, page: str) -> None:
    place = document_index(page, confidence=0.9).find(value)
    assert place is not None and (place.quote, place.match) == (page, "fuzzy")
    assert document_index(page).find(value) is None


@pytest.mark.parametrize(
    ("value", "page"),
    [
        ("삼성", "삼성전자"),  # a piece of a word in a script with spaces
        ("का", "कि"),  # another vowel is another letter
        ("कम", "कमल"),
        ("سلام", "السلام"),
    ],
)
def test_scripts_with_spaces_have_whole_words_too(value: str, page: str) -> None:
    assert document_index(page).find(value) is None


def test_a_value_within_a_line_of_chinese_has_the_box_of_its_characters() -> None:
    place = laid_out([("合計金額一二三四", 0.1)]).find("金額")
    assert place is not None
    assert place.boxes == (pytest.approx((0.12, 0.02, 0.14, 0.04)),)


def test_a_value_within_a_right_to_left_word_has_its_box_at_the_right() -> None:
    place = laid_out([("שלום:עולם", 0.1)]).find("שלום")
    assert place is not None
    assert place.boxes[0][2] == pytest.approx(0.19)
    assert 0.13 < place.boxes[0][0] < 0.16


def test_words_of_a_right_to_left_line_may_come_in_the_order_of_their_places() -> None:
    # A reader that goes from left to right gives the last word first.
    place = laid_out([("לימיטד", 0.1), ("ישראל", 0.2), ("אקמה", 0.3)]).find("אקמה ישראל לימיטד")
    assert place is not None
    assert place.quote == "אקמה ישראל לימיטד"
    assert place.boxes == (pytest.approx((0.1, 0.02, 0.34, 0.04)),)


def test_text_wraps_within_its_column() -> None:
    page = laid_out(
        [("Seller", 0.05), ("Buyer", 0.6)],
        [("Acme", 0.05), ("Trading", 0.1), ("Globex", 0.6), ("Import", 0.67)],
        [("Company", 0.05), ("Ltd", 0.13), ("Export", 0.6), ("GmbH", 0.67)],
    )
    seller, buyer = page.find("Acme Trading Company Ltd"), page.find("Globex Import Export GmbH")
    assert seller is not None
    assert buyer is not None
    assert (seller.quote, seller.match) == ("Acme Trading Company Ltd", "exact")
    assert seller.boxes == (pytest.approx((0.05, 0.05, 0.17, 0.07)), pytest.approx((0.05, 0.08, 0.16, 0.1)))
    assert [box[0] for box in buyer.boxes] == [0.6, 0.6]


def test_a_date_wraps_within_its_column() -> None:
    page = laid_out(
        [("Start", 0.05), ("23rd", 0.3), ("July", 0.35), ("15th", 0.6), ("October", 0.65)],
        [("2013", 0.3), ("2013", 0.6)],
    )
    place = page.find("2013-10-15")
    assert place is not None
    assert (place.quote, place.match) == ("15th October 2013", "date")
    assert [box[0] for box in place.boxes] == [0.6, 0.6]
    assert page.find("2013-07-15") is None


def test_numbers_in_two_columns_are_two_numbers() -> None:
    page = laid_out([("1", 0.1), ("250.00", 0.5)])
    assert page.find(1250) is None
    for value in (1, 250):
        assert page.find(value) is not None


# Properties

LOCALES = [(",", "."), (".", ","), ("'", "."), ("\u00a0", ","), ("\u202f", ","), (" ", ","), ("", "."), ("", ",")]
AROUND = ["{}", "€{}", "{} €", "EUR {}", "{}EUR", "${}", "CHF {}", "{}.", "{},", "Total:{}", "[{}]", "{}*"]


def printing_of(amount: Decimal, locale: tuple[str, str]) -> str:
    group, point = locale
    return f"{amount:,.2f}".replace(",", "\0").replace(".", point).replace("\0", group)


amounts = st.decimals(min_value=0, max_value=10**10, places=2)


@given(amounts, st.sampled_from(LOCALES), st.sampled_from(AROUND), amounts)
@settings(max_examples=150, deadline=None)
def test_an_amount_printed_in_any_locale_is_found_and_no_other_is(
    amount: Decimal, locale: tuple[str, str], around: str, other: Decimal
) -> None:
    printing = printing_of(amount, locale)
    page = document_index(f"Net amount   {around.format(printing)}   payable")
    place = page.find(float(amount))
    assert place is not None
    assert re.sub(r"\D", "", place.quote) == re.sub(r"\D", "", printing)
    assume(other != amount)
    assert page.find(float(other)) is None
    assert page.find(str(other)) is None


@given(amounts, st.sampled_from(LOCALES), st.sampled_from(["-{}", "{}-", "−{}", "(€{})", "-€{}", "({})"]))
@settings(max_examples=80, deadline=None)
def test_a_negative_amount_is_found_with_its_sign(amount: Decimal, locale: tuple[str, str], around: str) -> None:
    assume(amount > 0)
    page = document_index(f"Discount   {around.format(printing_of(amount, locale))}   granted")
    assert page.find(-float(amount)) is not None
    assert page.find(float(amount)) is None


@given(
    st.dates(date(1950, 1, 1), date(2049, 12, 31)),
    st.sampled_from(list(MONTHS)),
    st.sampled_from(
        [
            "{d} {n} {y}",
            "{d}. {n} {y}",
            "{n} {d}, {y}",
            "{y}-{m:02}-{d:02}",
            "{d:02}.{m:02}.{y}",
            "{m}/{d}/{y}",
            "{d:02}-{n}-{s:02}",
        ]
    ),
    st.dates(date(1950, 1, 1), date(2049, 12, 31)),
)
@settings(max_examples=150, deadline=None)
def test_a_day_is_found_in_any_language_and_order_and_no_other_is(
    day: date, language: str, form: str, other: date
) -> None:
    name = MONTHS[language].split()[day.month - 1]
    printing = form.format(d=day.day, m=day.month, y=day.year, s=day.year % 100, n=name)
    page = document_index(f"Rechnung vom   {printing}   an Sie")
    place = page.find(day.isoformat())
    assert place is not None
    assert place.quote == printing
    either_way = {(day.month, day.day), (day.day, day.month)}
    assume((other.month, other.day) not in either_way or other.year % 100 != day.year % 100)
    assert page.find(other.isoformat()) is None


PRINTED = """
Acme Corp. Müller straße ﬁnance 東京都 株式会社 שלום עולם السلام कंपनी ไทย 한국 a-b O'Neil x@y.z 1,250.00 12/03/2024
(net) № ½ été İz ... — € #1 C++ ٣٤ 𝒜𝒷 👍 ​zero‍
"""
WORDS = st.sampled_from(PRINTED.split()) | st.text(min_size=1, max_size=8).filter(
    lambda text: len(text.split()) == 1 and text == text.strip()
)


@st.composite
def pages_of_words(draw: st.DrawFn) -> tuple[list[list[list[object]]], int, int, int]:
    """Pages of words, and a run of them on one page."""
    pages: list[list[list[object]]] = []
    for _ in range(draw(st.integers(1, 3))):
        lines = draw(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=4))
        pages.append(words_of("\n".join(" ".join(line) for line in lines), draw(st.sampled_from([None, 0.8]))))
    page = draw(st.sampled_from([n for n, words in enumerate(pages) if words] or [0]))
    assume(pages[page])
    first = draw(st.integers(0, len(pages[page]) - 1))
    return pages, page, first, draw(st.integers(first, min(len(pages[page]) - 1, first + 7)))


@given(pages_of_words())
@settings(max_examples=200, deadline=None)
def test_words_that_stand_on_a_page_are_found_and_the_quote_is_what_the_boxes_cover(
    drawn: tuple[list[list[list[object]]], int, int, int],
) -> None:
    pages, page, first, last = drawn
    run = " ".join(str(word[0]) for word in pages[page][first : last + 1])
    page_words = [PageWords(number, words) for number, words in enumerate(pages, 1)]
    place = DocumentIndex(page_words).find_quote(run)
    if any(character.isalnum() for character in run) and not re.search("[\u0640\u0345\u037a]", run):
        assert place is not None, run
    if place is None:
        return
    covered = " ".join(str(word[0]) for word in pages[place.page - 1])
    assert place.quote in covered
    tops = [box[1] for box in place.boxes]
    assert len(set(tops)) == len(tops)  # one box a line
    lines = {word[2] for word in pages[place.page - 1]}
    assert set(tops) <= lines
    for x0, y0, x1, y1 in place.boxes:
        assert 0 <= x0 <= x1 <= 1
        assert 0 <= y0 <= y1 <= 1
    assert place.word_confidence in (0.8, 1.0)


LETTERS = st.text("abcdefghijklm", min_size=1, max_size=9)


@given(st.lists(LETTERS, min_size=1, max_size=12), st.data())
@settings(max_examples=150, deadline=None)
def test_a_piece_of_a_word_is_never_found(words: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words))
    start = data.draw(st.integers(0, len(word) - 1))
    piece = word[start : data.draw(st.integers(start + 1, len(word)))]
    place = document_index("   ".join(words)).find(piece)
    # Whole words that make it up together are its printing with spaces.
    wholes = {"".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)}
    assert (place is not None) == (piece in wholes)


@given(st.lists(LETTERS, max_size=30), LETTERS)
@settings(max_examples=100, deadline=None)
def test_a_value_that_is_not_on_the_page_is_not_found(words: list[str], value: str) -> None:
    assume(value not in words)
    # Words that make up the value together are its printing over a line's end.
    assume(value not in "".join(words))
    assert document_index(" ".join(words)).find(value) is None


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_no_text_is_too_strange(page: str, value: str, quote: str) -> None:
    strange = DocumentIndex([PageWords(1, [[word, 0.1, 0.1, 0.2, 0.12] for word in page.split(" ")])])
    for place in (strange.find(value), strange.find_quote(value), strange.find(True, quote=quote)):
        assert place is None or place.page == 1
    strange.nearest(quote)
    strange.ground({"a": value, "b": [value, None], "c": True}, {})


def test_a_hostile_document_costs_no_more_than_its_length() -> None:
    """None of these ends in a time one waits for if any of the work is unbounded."""
    many = DocumentIndex([PageWords(1, [["a", 0.1, 0.1, 0.2, 0.12]] * 100_000)])
    place = many.find("a", label=("a",))
    assert place is not None
    assert place.places == 10_000
    assert many.find("b") is None
    assert many.find("a" * 1_000) is not None
    assert many.ground({"a": ["a"] * 50}, {})["a[49]"].state == "found"
    long = DocumentIndex(
        [PageWords(1, [["a" * 1_000_000, 0.1, 0.1, 0.2, 0.12], ["1" * 1_000_000, 0.1, 0.1, 0.2, 0.12]])]
    )
    for value in ("a", "a" * 1_000_000, 1, "ab" * 500):
        assert long.find(value) is None
    assert long.nearest("aaaa") is None
    dashes = DocumentIndex([PageWords(1, [["1-" * 500, 0.1, 0.1, 0.2, 0.12]] * 200)])
    assert dashes.find(1) is None
    assert dashes.find("2024-01-01") is None
    assert dashes.find("1-" * 9_000 + "2") is None
