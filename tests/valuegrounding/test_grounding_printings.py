"""Runs the rows of printings.txt, then properties that hold for random texts."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from page_words import document_index, index_of_lines, words_of
from valuegrounding import DocumentIndex, Location, PageWords
from valuegrounding.measures import Measure


def find(value: str | float | bool, *pages: str) -> Location:
    location = document_index(*pages).find(value)
    assert location is not None
    return location


ROWS = [
    [cell.strip() for cell in re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line).split(" | ")]
    for line in (Path(__file__).parent / "printings.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def find_as_printed(value_and_quote: str, page: str, _: str, *match_and_certainty: str) -> list[str]:
    """Return the expected columns of a row as they are found."""
    value, end = json.JSONDecoder().raw_decode(value_and_quote)
    quote = json.loads(value_and_quote[end:]) if value_and_quote[end:] else None
    location = document_index(page.replace(" / ", "\n")).find(value, quote=quote)
    if location is None:
        return ["-"]
    return [
        location.quote,
        *[location.match if one.isalpha() else f"{location.certainty:g}" for one in match_and_certainty],
    ]


def test_values_are_found_as_printings_txt_expects() -> None:
    # One test, since pytest takes longer for a thousand tests than the search does.
    found = [(row, find_as_printed(*row)) for row in ROWS]
    assert len(found) > 1000
    assert [(row, as_found) for row, as_found in found if as_found != row[2 : 2 + len(as_found)]] == []


MONTHS = {
    "en": "January February March April May June July August September October November December",
    "en short": "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "de short": "Jan. Feb. Mrz. Apr. Mai Jun. Jul. Aug. Sep. Okt. Nov. Dez.",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "da": "januar februar marts april maj juni juli august september oktober november december",
    "nb": "januar februar mars april mai juni juli august september oktober november desember",
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    "fi": "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta "
    "marraskuuta joulukuuta",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "cs": "ledna února března dubna května června července srpna září října listopadu prosince",
    "hu": "január február március április május június július augusztus szeptember október november december",
    "ro": "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
    "hr": "siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenoga prosinca",
    "tr": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "uk": "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
    "el": "Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου "
    "Δεκεμβρίου",
    "he": "בינואר בפברואר במרץ באפריל במאי ביוני ביולי באוגוסט בספטמבר באוקטובר בנובמבר בדצמבר",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
}


@pytest.mark.parametrize("language", MONTHS)
def test_month_names_are_known(language: str) -> None:
    for month, name in enumerate(MONTHS[language].split(), 1):
        for printing in (f"12 {name} 2024", f"12. {name.upper()} 2024", f"12-{name}-24"):
            location = find(f"2024-{month:02}-12", f"Datum {printing}, ort")
            assert (location.match, location.quote) == ("date", printing)


@pytest.mark.parametrize(
    ("value", "page"),
    [
        ("MR D.I.Y. (JOHOR) SDN BHD", "MR D.T.Y. (JOHOR) SDN BHD"),
        ("International Business", "lnternationa1 Business"),
        ("Unit 10 Harbour Street", "Unit 1O Harbour Street"),
        ("Jon Smithson Ltd", "Joe Smithson Ltd"),
    ],
)
def test_fuzzy_matches_are_found_only_in_ocr_text(value: str, page: str) -> None:
    location = document_index(page, confidence=0.9).find(value)
    assert location is not None and (location.quote, location.match) == (page, "fuzzy")
    assert document_index(page).find(value) is None


def test_value_within_a_chinese_line_has_the_box_of_its_characters() -> None:
    location = index_of_lines([("合計金額一二三四", 0.1)]).find("金額")
    assert location is not None
    assert location.boxes == (pytest.approx((0.12, 0.02, 0.14, 0.04)),)


def test_right_to_left_text_is_found_in_either_word_order() -> None:
    location = index_of_lines([("שלום:עולם", 0.1)]).find("שלום")
    assert location is not None
    assert location.boxes[0][2] == pytest.approx(0.19)
    assert 0.13 < location.boxes[0][0] < 0.16
    # A reader from left to right returns the last word first.
    location = index_of_lines([("לימיטד", 0.1), ("ישראל", 0.2), ("אקמה", 0.3)]).find("אקמה ישראל לימיטד")
    assert location is not None
    assert location.quote == "אקמה ישראל לימיטד"
    assert location.boxes == (pytest.approx((0.1, 0.02, 0.34, 0.04)),)


def test_hebrew_wraps_within_its_column() -> None:
    page = index_of_lines(
        [("12", 0.9), ("שלום", 0.8), ("לכל", 0.76), ("1,250", 0.5), ("880", 0.4)],
        [("העולם", 0.78)],
    )
    location = page.find("שלום לכל העולם")
    assert location is not None
    assert location.boxes == (pytest.approx((0.76, 0.02, 0.84, 0.04)), pytest.approx((0.78, 0.05, 0.83, 0.07)))
    row = page.ground({"rows": [{"name": "שלום לכל", "amount": 880}]}, {})
    assert row["rows[0].amount"].location is not None


def test_text_wraps_within_its_column() -> None:
    page = index_of_lines(
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
    page = index_of_lines(
        [("Start", 0.05), ("23rd", 0.3), ("July", 0.35), ("15th", 0.6), ("October", 0.65)],
        [("2013", 0.3), ("2013", 0.6)],
    )
    location = page.find("2013-10-15")
    assert location is not None
    assert (location.quote, location.match) == ("15th October 2013", "date")
    assert [box[0] for box in location.boxes] == [0.6, 0.6]
    assert page.find("2013-07-15") is None


def test_numbers_in_two_columns_are_not_joined() -> None:
    page = index_of_lines([("1", 0.1), ("250.00", 0.5)])
    assert page.find(1250) is None
    for value in (1, 250):
        assert page.find(value) is not None


@pytest.mark.parametrize(
    ("lines", "value", "is_found"),
    [
        (["Item    Qty kg   Qty lb", "Steel    10       22"], "10 kg", True),
        (["Item    Qty kg   Qty lb", "Steel    10       22"], "22 lb", True),
        (["Item    Qty kg   Qty lb", "Steel    10       22"], "10 lb", False),
        (["Item    Qty kg   Qty lb", "Steel    10       22"], "22 kg", False),
        (["Length    Length", "(mm)      (in)", "254       10"], "254 mm", True),
        (["Length    Length", "(mm)      (in)", "254       10"], "10 mm", False),
        # Under no heading
        (["Item    Qty kg   Qty lb", "Steel                         10"], "10 kg", False),
        # A column of units
        (["Item     Qty      Unit", "Steel    10       kg", "Paint    20       lb"], "10 kg", True),
        (["Item     Qty      Unit", "Steel    10       kg", "Paint    20       lb"], "20 kg", False),
    ],
)
def test_number_has_the_unit_of_its_own_column_or_line(lines: list[str], value: str, is_found: bool) -> None:
    page = document_index("\n".join(lines))
    assert (page.find(value) is not None) is is_found
    number, unit = value.split()
    finding = page.ground_leaves([(("quantity",), Measure(int(number), unit))], {})["quantity"]
    assert (finding.confidence > 0.5) is is_found


@pytest.mark.parametrize(
    ("key", "value", "is_sure"),
    [
        ("qty_kg", 10, True),
        ("qtyLb", 22, True),
        ("qty_lb", 10, False),
        ("qty_kg", 22, False),
        ("amount_usd", 500, True),
        ("amountEur", 460, True),
        ("amount_usd", 460, False),
        ("amount", 460, True),
        ("price_eur_per_kg", 500, True),
    ],
)
def test_key_with_a_unit_or_currency_is_unsure_in_the_column_of_another(key: str, value: int, is_sure: bool) -> None:
    page = document_index(
        "Item    Qty kg   Qty lb   Amount USD   Amount EUR\nSteel    10       22       500          460"
    )
    finding = page.ground({"rows": [{key: value}]}, {})[f"rows[0].{key}"]
    assert finding.state == "found" and (finding.confidence > 0.5) is is_sure


# Properties

LOCALES = [(",", "."), (".", ","), ("'", "."), ("\u00a0", ","), ("\u202f", ","), (" ", ","), ("", "."), ("", ",")]
AFFIXES = ["{}", "€{}", "{} €", "EUR {}", "{}EUR", "${}", "CHF {}", "{}.", "{},", "Total:{}", "[{}]", "{}*"]


def format_amount(amount: Decimal, locale: tuple[str, str]) -> str:
    group, point = locale
    return f"{amount:,.2f}".replace(",", "\0").replace(".", point).replace("\0", group)


amounts = st.decimals(min_value=0, max_value=10**10, places=2)


@given(amounts, st.sampled_from(LOCALES), st.sampled_from(AFFIXES), amounts)
@settings(max_examples=150, deadline=None)
def test_amount_in_any_locale_is_found_and_other_amounts_are_not(
    amount: Decimal, locale: tuple[str, str], affix: str, other: Decimal
) -> None:
    printing = format_amount(amount, locale)
    page = document_index(f"Net amount   {affix.format(printing)}   payable")
    location = page.find(float(amount))
    assert location is not None
    assert re.sub(r"\D", "", location.quote) == re.sub(r"\D", "", printing)
    assume(other != amount)
    assert page.find(float(other)) is None
    assert page.find(str(other)) is None


PRINTED = """
Acme Corp. Müller straße ﬁnance 東京都 株式会社 שלום עולם السلام कंपनी ไทย 한국 a-b O'Neil x@y.z 1,250.00 12/03/2024
(net) № ½ été İz ... — € #1 C++ ٣٤ 𝒜𝒷 👍 ​zero‍
"""
WORDS = st.sampled_from(PRINTED.split()) | st.text(min_size=1, max_size=8).filter(
    lambda text: len(text.split()) == 1 and text == text.strip()
)


@st.composite
def pages_with_a_range_of_words(draw: st.DrawFn) -> tuple[list[list[list[object]]], int, int, int]:
    pages: list[list[list[object]]] = []
    for _ in range(draw(st.integers(1, 3))):
        lines = draw(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=4))
        pages.append(words_of("\n".join(" ".join(line) for line in lines), draw(st.sampled_from([None, 0.8]))))
    page = draw(st.sampled_from([n for n, words in enumerate(pages) if words] or [0]))
    assume(pages[page])
    first = draw(st.integers(0, len(pages[page]) - 1))
    return pages, page, first, draw(st.integers(first, min(len(pages[page]) - 1, first + 7)))


@given(pages_with_a_range_of_words())
@settings(max_examples=200, deadline=None)
def test_consecutive_words_are_found_and_boxes_contain_the_quote(
    drawn: tuple[list[list[list[object]]], int, int, int],
) -> None:
    pages, page, first, last = drawn
    text = " ".join(str(word[0]) for word in pages[page][first : last + 1])
    page_words = [PageWords(number, words) for number, words in enumerate(pages, 1)]
    location = DocumentIndex(page_words).find_quote(text)
    if any(character.isalnum() for character in text) and not re.search("[\u0640\u0345\u037a]", text):
        assert location is not None, text
    if location is None:
        return
    covered = " ".join(str(word[0]) for word in pages[location.page - 1])
    assert location.quote in covered
    tops = [box[1] for box in location.boxes]
    assert len(set(tops)) == len(tops)  # one box per line
    lines = {word[2] for word in pages[location.page - 1]}
    assert set(tops) <= lines
    for x0, y0, x1, y1 in location.boxes:
        assert 0 <= x0 <= x1 <= 1
        assert 0 <= y0 <= y1 <= 1
    assert location.word_confidence in (0.8, 1.0)


LETTERS = st.text("abcdefghijklm", min_size=1, max_size=9)


@given(st.lists(LETTERS, min_size=1, max_size=12), st.data())
@settings(max_examples=150, deadline=None)
def test_part_of_a_word_is_never_found(words: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words))
    start = data.draw(st.integers(0, len(word) - 1))
    piece = word[start : data.draw(st.integers(start + 1, len(word)))]
    location = document_index("   ".join(words)).find(piece)
    # Adjacent whole words may form the text, printed with spaces.
    wholes = {"".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)}
    assert (location is not None) == (piece in wholes)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_text_is_accepted(page: str, value: str, quote: str) -> None:
    strange = DocumentIndex([PageWords(1, [[word, 0.1, 0.1, 0.2, 0.12] for word in page.split(" ")])])
    for location in (strange.find(value), strange.find_quote(value), strange.find(True, quote=quote)):
        assert location is None or location.page == 1
    strange.nearest(quote)
    strange.ground({"a": value, "b": [value, None], "c": True}, {})


def test_hostile_document_takes_linear_time() -> None:
    many = DocumentIndex([PageWords(1, [["a", 0.1, 0.1, 0.2, 0.12]] * 100_000)])
    location = many.find("a", label=("a",))
    assert location is not None
    assert location.location_count == 10_000
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
