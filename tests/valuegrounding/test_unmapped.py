from __future__ import annotations

import pytest

from page_words import document_index
from valuegrounding import Claim, DocumentIndex, PageWords


def unmapped_after(text: str, *values: object) -> list[tuple[str, str]]:
    found = document_index(text).unmapped(((), value, Claim()) for value in values).items
    return [(item.kind, item.text) for item in found]


@pytest.mark.parametrize(
    ("text", "kind", "printed", "value"),
    [
        ("Summe 1.250,00 €", "number", "1.250,00", 1250),
        ("Saldo (75.00)", "number", "(75.00)", -75),
        ("1.250 kg", "number", "1.250", None),  # 1250 or 1.25
        ("Invoice RE-1001/b", "number", "RE-1001/b", None),
        ("um 20:13 Uhr", "number", "20:13", None),
        ("IBAN DE89 3704 0044 0532 0130 00", "number", "DE89 3704 0044 0532 0130 00", None),
        ("合計 1,203,000円", "number", "1,203,000", 1203000),
        ("المبلغ ١٢٥٠", "number", "١٢٥٠", 1250),
        ("fällig am 12. März 2024", "date", "12. März 2024", "2024-03-12"),
        ("日付 2024年3月12日", "date", "2024年3月12日", "2024-03-12"),
        ("on 02/03/2024", "date", "02/03/2024", None),  # the second of March, or the third of February
    ],
)
def test_unmapped_number_or_date_has_its_value(text, kind, printed, value):
    found = document_index(text).unmapped([]).items
    assert [(item.kind, item.text, item.value) for item in found] == [(kind, printed, value)]
    assert type(found[0].value) is type(value)
    words = text.split()
    # Its words contain the printed text.
    assert " ".join(words[found[0].first : found[0].last + 1]).find(printed) >= 0
    assert found[0].page == 1 and len(found[0].boxes) == 1


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("Net 113,00 Total 113.00 Tax 7", 113, [("number", "7")]),  # all locations of a value
        ("on 12 March 2024 or 2024-03-13", "2024-03-12", [("date", "2024-03-13")]),
        ("Widget 20 cm, 5 pieces", "Widget 20 cm", [("number", "5")]),
        ("qty 2 100", 2, [("number", "100")]),  # two numbers, since a value covers one
        ("12 March 2024", 2024, []),  # partly covered
    ],
)
def test_text_covered_by_a_value_is_not_unmapped(text, value, expected):
    assert unmapped_after(text, value) == expected


def test_boolean_covers_its_quote():
    index = document_index("Paid on 7 yes\nPieces 8")
    found = index.unmapped([((), True, Claim("Paid on 7 yes", 1))]).items
    assert [item.text for item in found] == ["8"]


def test_xml_pages_are_unmapped_only_without_printed_pages():
    words = [["Total", 0.1, 0.1, 0.2, 0.12], ["12.50", 0.3, 0.1, 0.4, 0.12]]
    printed, xml = PageWords(1, words), PageWords(2, words, is_xml=True)
    assert [item.page for item in DocumentIndex([printed, xml]).unmapped([]).items] == [1]
    assert [item.page for item in DocumentIndex([xml]).unmapped([]).items] == [2]
    debit = document_index("Posted -75.00").unmapped([(("debit",), 75, Claim())])
    assert debit.items == []
    assert DocumentIndex([]).unmapped([((), "x", Claim())]).items == []


def test_result_can_continue_at_any_page():
    found = document_index("b 2 a 1\nc 3", "c 4").unmapped([]).items
    assert [(item.page, item.text) for item in found] == [(1, "2"), (1, "1"), (1, "3"), (2, "4")]
    assert [(item.first, item.last) for item in found] == [(1, 1), (3, 3), (5, 5), (1, 1)]


def test_limit_returns_whole_pages_and_the_next_page():
    index = document_index("1 2", "no digit", "3 4", "5 6 7 8")
    first = index.unmapped([], limit=5)
    assert ([item.text for item in first.items], first.counts, first.next) == (list("1234"), [(1, 2), (3, 2)], 4)
    rest = index.unmapped([], since_page=4, limit=3)
    # A page over the limit is truncated, and the next page follows.
    assert ([item.text for item in rest.items], rest.counts, rest.next) == (list("567"), [(4, 4)], None)
