from __future__ import annotations

import math

import pytest

from page_words import document_index, index_of_lines, words_of
from valuegrounding import WEIGHTS, Claim, DocumentIndex, PageWords
from valuegrounding.measures import UNITS, Measure, unit_name
from valuegrounding.units import UNIT_OF

INVOICE = """\
Acme Corp.,          Invoice No:123
Date: 25/12/2018
Total       EUR 9.00    19.00
Discount    (1,250)
VAT    """


def test_only_a_printed_value_is_found_with_its_box() -> None:
    location = document_index(INVOICE).find("Acme Corp.")
    assert location is not None
    assert (location.page, location.quote, location.match, location.location_count) == (1, "Acme Corp.", "exact", 1)
    assert location.boxes == (pytest.approx((0.01, 0.02, 0.11, 0.04), abs=0.005),)
    assert document_index(INVOICE).find("Apex Corp.") is None


def test_leaves_are_found_blank_or_not_found() -> None:
    fields = {"total": 9, "vat": None, "iban": "", "date": "2018-12-26", "items": []}
    findings = document_index(INVOICE).ground(fields, {"total": Claim(confidence=0.9)})
    assert {name: finding.state for name, finding in findings.items()} == {
        "total": "found",
        "vat": "blank",
        "iban": "not_found",
        "date": "not_found",
        "items": "not_found",
    }
    assert findings["total"].as_json(Claim(confidence=0.9)) == {
        "state": "found",
        "match": "number",
        "page": 1,
        "boxes": [[0.17, 0.08, 0.21, 0.1]],
        "quote": "9.00",
        "location_count": 1,
        "supports": ["label"],
        "claim": {"confidence": 0.9, "quote": None, "page": None},
    }


@pytest.mark.parametrize(
    ("value", "unit", "page", "quote", "confidence"),
    [
        (1.5, "kg", "Weight 1,5 kg net", "1,5", 0.99),
        (1.5, "kg", "Weight 1500 g net", "1500", 0.99),
        (1.1, "kg", "Weight 1.100,0 g net", "1.100,0", 0.99),
        (1.5, "kg", "Weight 0.0015 t net", "0.0015", 0.99),
        (1.5, "kg", "Carton 1.5 lb of 1500 g", "1500", 0.98),
        (2, "h", "Time 120 min taken", "120", 0.98),
        (19, "%", "VAT 19 % of 100", "19", 0.98),
        # Another measure, another unit, or no unit: the number may be wrong.
        (1500, "kg", "Weight 1500 g net", "1500", 0.4),
        (1.5, "kg", "Weight 1.5 lb net", "1.5", 0.4),
        (1.5, "kg", "Weight 1.5 net", "1.5", 0.4),
        (1.5, "kg", "Weight 3.3 lb net", None, 0),
        (0.333, "h", "Time 20 min taken", None, 0),
    ],
)
def test_number_with_a_unit_is_found_as_the_same_measure(
    value: float, unit: str, page: str, quote: str | None, confidence: float
) -> None:
    finding = document_index(page).ground_leaves([(("weight",), Measure(value, unit))], {})["weight"]
    assert (finding.location and finding.location.quote, finding.confidence) == (quote, confidence)


@pytest.mark.parametrize(
    ("currency", "page", "reason"),
    [
        ("USD", "Total $9.00", None),
        ("USD", "Springfield, IL 62701 / Total $9.00", None),
        ("USD", "Rechnung der Firma mit Betrag und Datum / Total $9.00", None),
        ("USD", "Kedai Sdn. Bhd., Johor / the total of your receipt for you $9.00", "ambiguous_currency"),
        ("USD", "12 King St, Toronto / Total $9.00", "ambiguous_currency"),
        ("CAD", "12 King St, Toronto / Total $9.00", None),
        ("USD", "www.shop.com.au / Total $9.00", "ambiguous_currency"),
        ("USD", "www.shop.com.au / Total US$9.00", None),
    ],
)
def test_dollar_sign_of_another_country_is_unclear_for_usd(currency: str, page: str, reason: str | None) -> None:
    location = document_index(page).find(currency)
    assert location is not None
    assert (location.reason, location.confidence < 0.5) == (reason, reason is not None)


def test_units_of_fields_are_known_as_printed_units() -> None:
    assert {unit_name(unit) for unit in UNITS} <= set(UNIT_OF.values())


def test_confidence_is_match_weight_times_lowest_word_confidence() -> None:
    words = [["Acme", 0.1, 0.1, 0.2, 0.12, 0.9], ["Corp", 0.21, 0.1, 0.3, 0.12, 0.5]]
    location = DocumentIndex([PageWords(1, words)]).find("ACME CORP")
    assert location is not None
    assert location.match == "normalised"
    assert location.confidence == pytest.approx(WEIGHTS["normalised"] * 0.5)


@pytest.mark.parametrize(
    ("page", "day", "certainty"),
    [
        ("Due 12/03/2024", "2024-03-12", 0.4),
        ("Due 12/03/2024", "2024-12-03", 0.4),
        # A month's name, a country, a language or a currency shows the order.
        ("Due 12/03/2024 Made on 12 March 2024", "2024-12-03", 0.4),
        ("Due 12/03/2024 Shop Sdn Bhd", "2024-03-12", 0.9),
        ("Due 12/03/2024 Shop Sdn Bhd", "2024-12-03", 0.4),
        ("Due 12/03/2024 www.shop.co.uk", "2024-03-12", 0.9),
        ("Due 12/03/2024 Total RM 5.00 (INC. GST)", "2024-03-12", 0.9),
        ("Due 12/03/2024 Shop Inc. Austin, TX 78701", "2024-12-03", 0.9),
        ("Due 12/03/2024 Shop Inc. Austin, TX 78701", "2024-03-12", 0.4),
        ("Due 12/03/2024 Boston, MA 02110", "2024-12-03", 0.9),
        ("Due 12/03/2024 Total £5.00", "2024-03-12", 0.9),
        ("Due 12/03/2024 Total $5.00", "2024-03-12", 0.4),
        ("Due 12/03/2024 Shop Inc. 5.00 EUR", "2024-03-12", 0.4),
        ("le 12/03/2024 avec la facture pour Paris", "2024-03-12", 0.9),
        # With dots the day comes first, unless another date has the month first.
        ("Due 12.03.2024", "2024-03-12", 1),
        ("Due 12.03.2024", "2024-12-03", 0.4),
        ("Due 12.03.2024 Made 12.25.2023", "2024-12-03", 1),
        # A month in two languages
        ("Dnia 12 listopada 2024 r.", "2024-11-12", 0.9),
        ("Dana 12. listopada 2024.", "2024-10-12", 0.9),
        ("Due 12.12.2024", "2024-12-12", 1),
        ("Due 25/12/2018", "2018-12-25", 1),
        # Another date shows the order of day and month.
        ("Due 03/12/2024 Made 25/12/2023", "2024-12-03", 1),
        ("Due 03/12/2024 Made 25/12/2023", "2024-03-12", None),
        ("Due 03/12/2024 Made 25-12-2023", "2024-03-12", 0.4),
        ("Due 03/12/2024 Made 25-12-2023 and 12/25/2023", "2024-03-12", 1),
        ("Due 03/12/2024 Made 12/25/2023", "2024-03-12", 1),
        ("Due 03/12/24 Made 12/25/2023", "2024-03-12", 1),
        ("Due 03/12/24 Made 12/25/2023", "2003-12-24", 0.4),
        ("Due 03/12/24 Made 12/25/2023 and 25/12/2023", "2024-03-12", 0.4),
        # A short year is of this century up to 35.
        ("Due 25/12/24", "2024-12-25", 1),
        ("Due 25/12/24", "1924-12-25", 0.4),
        ("Born 25/12/55", "1955-12-25", 1),
        ("Born 25/12/55", "2055-12-25", 0.4),
        # A reference number shows no order.
        ("Due 03/12/24 Ref 12/25/23", "2024-12-03", 0.4),
        # After "Ref" the digits may be a reference number.
        ("Ref 10/11/12", "2012-11-10", 0.4),
        ("Ref 25/11/12", "2012-11-25", 0.6),
        ("Made 10 Nov 2012", "2012-11-10", 1),
        ("Made 2012-11-10", "2012-11-10", 1),
        ("Ref 10/11/12 Made 10 Nov 2012", "2012-11-10", 1),
    ],
)
def test_ambiguous_date_is_less_certain(page: str, day: str, certainty: float | None) -> None:
    location = document_index(page).find(day)
    if certainty is None:
        assert location is None
        return
    assert location is not None
    assert location.confidence == pytest.approx(WEIGHTS["date" if location.quote != day else "exact"] * certainty)
    assert location.reason == ("ambiguous_date" if certainty < 0.5 else None)


@pytest.mark.parametrize("label", ["debitAmount", "total_payments", "Rabatt"])
def test_deduction_is_found_at_its_negative_number_with_less_certainty(label: str) -> None:
    page = document_index("Card -75.00 Fee 8.00 -8.00")
    location = page.find(75, label=("rows", 0, label))
    assert location is not None and (location.quote, location.confidence) == (
        "-75.00",
        pytest.approx(WEIGHTS["number"] * 0.6),
    )
    assert page.find(75, label=("rows", 0, "balance")) is None
    assert page.find(-9, label=("rows", 0, label)) is None
    exact_match = page.find(8, label=("rows", 0, label))
    assert exact_match is not None and exact_match.quote == "8.00"


@pytest.mark.parametrize(
    ("page", "share"),
    [
        ("Dark chocolate     5.00", 1),
        ("Item: Dark chocolate, 5.00", 1),
        ("5.00\nDark chocolate\n8.00", 1),
        ("Dark chocolate with nuts     5.00", 0.98),
        ("Very Dark chocolate     5.00", 0.98),
    ],
)
def test_text_that_is_part_of_a_longer_text_is_less_certain(page: str, share: float) -> None:
    location = document_index(page).find("Dark chocolate")
    assert location is not None and location.confidence == pytest.approx(share)


def test_location_nearest_to_the_label_wins_and_all_are_counted() -> None:
    page = document_index("9.00   Tax 9.00\nTotal  9.00\n9.00")
    location = page.find(9.0, label=("invoice", "total"))
    assert location is not None
    assert (location.location_count, location.boxes[0][:2]) == (4, (0.08, 0.05))
    tax = page.find(9.0, label=("tax",))
    assert tax is not None
    assert tax.boxes[0][:2] == (0.12, 0.02)


@pytest.mark.parametrize("key", ["unitPrice", "unit-price"])
def test_label_matches_a_key_in_any_case_beside_or_above_the_value(key: str) -> None:
    page = document_index("Price      Unit Price    Amount\n7.00       7.00          7.00")
    location = page.find(7, label=("items", 0, key))
    assert location is not None
    assert location.boxes[0][0] == pytest.approx(0.12)


def test_without_a_label_the_claimed_page_or_first_location_wins() -> None:
    pages = document_index("9.00", "9.00", "9.00")
    assert [location.page for page in (None, 1, 2, 3, 9) if (location := pages.find(9, page=page))] == [1, 1, 2, 3, 1]
    assert (
        document_index("Paid to Acme", "Trading Company").find("Acme Trading") is None
    )  # texts do not continue on the next page
    glued = document_index("Printed:25/12/2018\nDate:25/12/2018").find("2018-12-25", label=("date",))
    assert glued is not None and glued.boxes[0][1] == pytest.approx(0.05)


def test_quote_selects_among_equal_values() -> None:
    page = document_index("Total 9.00\nService charge 9.00\n")
    location = page.find(9, label=("total",), quote="charge 9.00")
    assert location is not None
    assert location.boxes[0][1] == pytest.approx(0.05)


def test_only_booleans_are_grounded_by_their_quote_alone() -> None:
    page = document_index("I agree to the terms   No smoking")
    location = page.find(True, quote="agree to the terms")
    assert location is not None
    assert (location.match, location.quote) == ("quote", "agree to the terms")
    assert page.find(True) is None
    assert page.find(False, quote="no parking") is None
    assert page.find("Berlin", quote="agree to the terms") is None
    assert page.find(7, quote="agree to the terms") is None


def test_leaves_of_one_row_share_a_line_and_rows_use_different_lines() -> None:
    page = document_index(
        "Item      Qty  Price  Amount\n"
        "Pen        1    2.00   2.00\n"
        "Ink        1    2.00   2.00\n"
        "Pen        2    1.00   2.00\n"
        "Total                  6.00"
    )
    items = [
        {"item": "Pen", "qty": 2, "price": 1, "amount": 2},
        {"item": "Pen", "qty": 1, "price": 2, "amount": 2},
        {"item": "Ink", "qty": 1, "price": 2, "amount": 2},
    ]
    findings = page.ground({"items": items, "total": 6}, {})
    tops = {name: finding.location.boxes[0][1] for name, finding in findings.items() if finding.location}
    lines = [round((tops[f"items[{n}].{key}"] - 0.02) / 0.03) for n in range(3) for key in items[n]]
    assert lines == [3] * 4 + [1] * 4 + [2] * 4
    price, amount = findings["items[1].price"].location, findings["items[1].amount"].location
    assert price is not None
    assert amount is not None
    assert price.boxes[0][0] < amount.boxes[0][0]


def test_nested_list_starts_at_the_line_of_its_row() -> None:
    page = document_index("Order A1\ntax 19 %\nOrder B2\ntax 19 %\nOrder C3\ntax 19 %")
    orders = [{"id": name, "taxes": [{"rate": 19, "kind": "tax"}]} for name in ("B2", "C3", "A1")]
    findings = page.ground({"orders": orders}, {})
    tops = [finding.location.boxes[0][1] for finding in findings.values() if finding.location]
    assert [round((top - 0.02) / 0.03) for top in tops] == [2, 3, 3, 4, 5, 5, 0, 1, 1]


def test_frequent_value_of_a_late_row_is_found_on_the_line_of_its_row() -> None:
    filler = "\n".join(["1  2.00  1  2.00"] * 10)
    pages = document_index(*(f"Item{number}  1  2.00\n{filler}" for number in range(100)), "Deposit 2.00")
    findings = pages.ground({"items": [{"name": "Item90", "qty": 1, "price": 2.0}], "deposit": 2}, {})
    found = [(finding.location.page, finding.location.boxes[0][1]) for finding in findings.values() if finding.location]
    assert found == [(91, 0.02), (91, 0.02), (91, 0.02), (101, 0.02)]
    claimed = pages.ground({"charge": 2}, {"charge": Claim(page=95)})["charge"].location
    assert claimed is not None
    assert (claimed.page, claimed.location_count) == (95, 2101)


def test_items_of_a_list_have_different_locations() -> None:
    page = document_index("Serials A17 A18 A17")
    findings = page.ground({"serials": ["A17", "A18", "A17"]}, {})
    assert [finding.location.boxes[0][0] for finding in findings.values() if finding.location] == [0.09, 0.13, 0.17]


def test_nearest_returns_the_text_most_similar_to_a_wrong_quote() -> None:
    page = document_index("Invoice total 963,12 EUR\nNet 804,35")
    for quote, printed in (("963.11", "963,12"), ("Invoice totals", "Invoice total"), ("zzzzzzzzzz", None)):
        location = page.nearest(quote)
        assert (location and location.quote) == printed
    location = document_index("Net 804,35", "Net 804,53").nearest("804,54", page=1)
    assert location is not None
    assert (location.quote, location.page) == ("804,35", 1)


def test_sign_beside_a_quote_may_belong_to_the_next_number() -> None:
    assert document_index("Total 1.250,00 EUR").find_quote("1250") is None  # a quote is matched as text, not as a value
    page = document_index("Net 4,99 € Tax 0,95 € Sum 963,12 €\nFee $ 1 $ 2 $ 3\nRate < 5 % of 7 €")
    assert page.find_quote("Sum 963,12 €") is not None and page.find_quote("0,95 € Sum 963,12 €") is not None
    assert page.find_quote("$ 2") is not None
    assert page.find_quote("Sum 963,12 $") is None and page.find_quote("5 %") is None


def test_nothing_is_found_in_an_empty_document() -> None:
    assert not any(document_index("inf nan " + "1" * 200).find(value) for value in (math.inf, math.nan, 1e300))
    for empty in (DocumentIndex([]), DocumentIndex([PageWords(1, [])]), document_index("", "")):
        assert empty.find("Acme") is None
        assert empty.find(9.0) is None
        assert empty.find("2018-12-25") is None
        assert empty.nearest("Acme") is None
        assert empty.ground({"a": {"b": [1, "x", None]}}, {})["a.b[0]"].state == "not_found"


def test_quote_is_found_on_the_claimed_page_in_any_reading_order() -> None:
    columns = "Paid in advance to      Terms of delivery\nAcme Trading            free on board"
    pages = document_index("Paid in advance to Acme Trading", columns, "Total 9.00")
    assert [pages.find_quote("advance to Acme", page).page for page in (1, 2, 3, 9)] == [1, 2, 1, 1]  # pyright: ignore
    misread = DocumentIndex(
        [
            PageWords(1, words_of("International Trading", 0.9)),
            PageWords(2, words_of("Intemational Trading", 0.9)),
            PageWords(3, words_of("International Trading", 0.9)),
        ]
    )
    assert [misread.find_quote("International Trading", page).page for page in (1, 2, 3)] == [1, 2, 3]  # pyright: ignore


def test_value_is_located_inside_its_quote_on_the_claimed_page() -> None:
    pages = document_index("Total 9.00", "Brought forward 9.00", "Brought forward 9.00\nTotal 9.00")
    location = pages.find(9, label=("total",), quote="forward 9.00", page=2)
    assert location is not None
    assert location.page == 2
    location = pages.find(True, quote="forward", page=3)
    assert location is not None
    assert (location.page, location.location_count) == (3, 1)


def test_separate_number_is_preferred_to_part_of_an_identifier() -> None:
    location = document_index("Grass 3m wide   3").find(3)
    assert location is not None
    assert (location.location_count, location.boxes[0][0]) == (2, 0.17)
    assert index_of_lines([("12345678", 0.1), ("87654321", 0.6)]).find("1234567887654321") is None
    assert index_of_lines([("12345678", 0.1), ("87654321", 0.19)]).find("1234567887654321") is not None


def test_printed_page_is_preferred_to_an_xml_page() -> None:
    printed = "Total 963,12 €\nDate 26.10.22\nNote Thank you"
    paths = "a.Total: 963.12\na.Currency: EUR\na.Date: 2022-10-26\na.Iban: DE75512108001245126199\na.Note: Thank you"
    index = DocumentIndex([PageWords(2, words_of(paths), is_xml=True), PageWords(1, words_of(printed))])
    fields = {"total": 963.12, "currency": "EUR", "date": "2022-10-26", "iban": "DE75512108001245126199"}
    # Even if the claim names the XML page.
    claims = {name: Claim(quote=f"a.{name.capitalize()}:", page=2) for name in fields}
    for found in (index.ground(fields, {}), index.ground(fields, claims)):
        pages = {name: finding.location.page for name, finding in found.items() if finding.location}
        assert pages == {"total": 1, "currency": 1, "date": 1, "iban": 2}
    assert index.find(963.12).page == 1 and index.find("DE75512108001245126199").page == 2
    # A quote is searched on the claimed page.
    assert [index.find_quote("Thank you", page=page).page for page in (None, 1, 2)] == [1, 1, 2]
    assert index.find_quote("Date", page=2).page == 1 and index.find_quote("a.Total: 963.12").page == 2
    assert index.find("nowhere") is None


def test_quote_on_a_printed_page_does_not_hide_the_value_on_an_xml_page() -> None:
    index = DocumentIndex(
        [PageWords(1, words_of("Account see below")), PageWords(2, words_of("Iban: DE75 5121"), is_xml=True)]
    )
    found = index.ground({"iban": "DE755121"}, {"iban": Claim(quote="see below", page=1)})["iban"]
    assert found.location is not None and (found.location.page, found.location.match) == (2, "normalised")


@pytest.mark.parametrize("character", ["\0", "\x07", "\x1b", "\x1f", "\x7f", "\x9f"])
def test_control_characters_count_as_spaces_on_the_page_and_in_a_quote(character: str) -> None:
    page = "Fee ☒ Paid 12.50 € AB-1"
    for quote in ("☒", "Paid 12.50", "12.50 €", "€", "€ AB-1", "12.50"):
        odd = [character + quote + character, quote.replace(" ", character), quote.replace(" ", f" {character} ")]
        assert all(document_index(page).find_quote(one) for one in odd)
        assert all(document_index(page.replace(quote, one)).find_quote(quote) for one in odd[::2])
    # Two numbers stay two.
    assert document_index(f"Fee 12{character}50 paid").find(1250) is None
