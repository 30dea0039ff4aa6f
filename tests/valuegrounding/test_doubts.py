"""A value that is printed can still be the wrong one: each doubt, and a page that gives no reason for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from page_words import document_index
from valuegrounding import DocumentIndex

TABLE = """\
Item           Quantity    Price     Total
Nut M8         10          1.20      12.00
Bolt M6        25          0.40      10.00
Washer         70          0.10       7.00
Ring           11          3.00      33.00
"""
ROWS = [
    {"item": "Nut M8", "quantity": 10, "price": 1.2, "total": 12},
    {"item": "Bolt M6", "quantity": 25, "price": 0.4, "total": 10},
    {"item": "Washer", "quantity": 70, "price": 0.1, "total": 7},
    {"item": "Ring", "quantity": 11, "price": 3, "total": 33},
]


def doubts(index: DocumentIndex, fields: Any) -> dict[str, tuple[str, ...]]:
    return {name: one.doubts for name, one in index.ground(fields).items() if one.doubts}


def changed(row: int, **values: object) -> dict[str, object]:
    return {"rows": [{**one, **(values if at == row else {})} for at, one in enumerate(ROWS)]}


def test_table_as_printed_has_no_doubt() -> None:
    assert doubts(document_index(TABLE), {"rows": ROWS}) == {}


def test_value_of_another_row_is_doubted() -> None:
    found = doubts(document_index(TABLE), changed(1, quantity=70))
    assert found == {"rows[1].quantity": ("other_row",)}


def test_cell_that_several_rows_share_is_not_doubted() -> None:
    page = "Hardware\n" + TABLE
    rows = [{**one, "group": "Hardware"} for one in ROWS]
    assert doubts(document_index(page), {"rows": rows}) == {}


def test_value_of_another_column_is_doubted() -> None:
    found = doubts(document_index(TABLE), changed(2, total=0.1))
    assert found == {"rows[2].total": ("other_column",)}


def test_number_that_is_printed_as_another_field_of_its_row_is_doubted() -> None:
    page = "Pay          Base      Amount\nSalary                 3000.00\nBonus        2800.00    450.00\n"
    salary: dict[str, Any] = {"pay": "Salary", "amount": 3000}
    bonus = {"pay": "Bonus", "base": 2800, "amount": 450}
    assert doubts(document_index(page), {"rows": [salary, bonus]}) == {}
    copied = doubts(document_index(page), {"rows": [{**salary, "base": 3000}, bonus]})
    assert copied == {"rows[0].base": ("other_column",)}


SCHEDULE = """\
Months                  Rate        Rent
                        19.25
1 to 12                 19.78       18,642.02
13 to 24                20.32       19,155.29
25 to 36                20.88       19,678.23
37 to 48                21.46       20,220.54
49 to 60                            20,782.23
"""


@pytest.mark.parametrize(
    ("rates", "is_doubted"),
    [((19.25, 19.78, 20.32, 20.88, 21.46), False), ((19.25, 19.78, 20.32, 21.46, None), True)],
)
def test_column_that_passes_over_a_number_is_doubted(rates: Sequence[float | None], is_doubted: bool) -> None:
    months = ["1 to 12", "13 to 24", "25 to 36", "37 to 48", "49 to 60"]
    rents = [18642.02, 19155.29, 19678.23, 20220.54, 20782.23]
    rows: list[Any] = [{"months": a, "rate": b, "rent": c} for a, b, c in zip(months, rates, rents, strict=True)]
    found = doubts(document_index(SCHEDULE), {"rows": rows})
    # (Of the others, those on the line of another row are doubted for that.)
    assert ("other_row" in found.get("rows[0].rate", ())) is is_doubted
    if is_doubted:
        assert found["rows[3].rate"] == ("other_row",)


def test_value_of_the_document_on_the_line_of_a_row_is_doubted() -> None:
    page = TABLE + "Sum                              62.00\n"
    assert doubts(document_index(page), {"rows": ROWS, "total": 62}) == {}
    assert doubts(document_index(page), {"rows": ROWS, "total": 33}) == {"total": ("inside_row",)}


@pytest.mark.parametrize(
    ("page", "value"),
    [
        ("Seller     Acme Corporation Ltd", "Acme Corporation"),
        ("Condition  Chronic kidney disease,\n           stage 3", "kidney disease,"),
        ("Buyer      University of\n           applied sciences", "University of"),
        ("Income     Interest and similar\n           earnings", "earnings"),
        ("Seller     Acme (Holding) Ltd", "Acme (Holding)"),
        ("Size     up to 200 (each) -and more", "up to 200 (each)"),
    ],
)
def test_text_that_goes_on_is_doubted(page: str, value: str) -> None:
    assert doubts(document_index(page), {"name": value}) == {"name": ("goes_on",)}


@pytest.mark.parametrize(
    ("page", "field", "value"),
    [
        ("Seller     Acme Corporation Ltd", "name", "Acme Corporation Ltd"),
        ("Seller: Acme Corporation", "name", "Acme Corporation"),  # a colon ends a label
        ("Invoice INV/17", "invoice_number", "INV/17"),  # the field's name
        ("Buyer      University of\n           Applied sciences", "name", "University of"),
        ("Due 4 May 2024 noon", "due", "2024-05-04"),  # a date is read as a whole
    ],
)
def test_text_that_ends_there_is_not_doubted(page: str, field: str, value: str) -> None:
    assert doubts(document_index(page), {field: value}) == {}


def test_text_that_goes_on_in_another_field_is_not_doubted() -> None:
    index = document_index("Acme Corporation Berlin")
    assert doubts(index, {"name": "Acme Corporation", "city": "Berlin"}) == {}


def test_text_from_two_cells_is_doubted() -> None:
    index = document_index("Personnel costs          (11)")
    assert doubts(index, {"name": "Personnel costs (11)"}) == {"name": ("two_cells",)}
    assert doubts(document_index("Personnel costs (11)"), {"name": "Personnel costs (11)"}) == {}


def test_text_with_another_label_is_doubted() -> None:
    page = "Main street 1, Dubai\nPhone: 04-233456"
    assert doubts(document_index(page), {"address": page.replace("\n", " ")}) == {"address": ("two_cells",)}


def test_long_text_is_doubted() -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert doubts(document_index(text), {"name": text}) == {"name": ("long_text",)}
    lines = "Acme Ltd\nMain street 1\nPittsburgh"
    assert doubts(document_index(lines), {"name": lines.replace("\n", " ")}) == {"name": ("long_text",)}


@pytest.mark.parametrize(
    ("page", "value", "others"),
    [
        ("Soll: 50.00", 50, ["-50"]),
        ("Miete 50.00 S", 50, ["-50"]),
        ("Huur 50,00 Af", 50, ["-50"]),
        ("abzüglich 50 EUR", 50, ["-50"]),
        ("Less € 50", "50 EUR", ["-50"]),
        ("Max. EUR 50", 50, []),
        ("ab 50", 50, []),
        ("50 EUR max.", 50, []),
        ("jusqu'à 50 €", 50, []),
        ("≤ 50", 50, []),
        ("~50", 50, []),
        ("ca. 50", 50, []),
        ("50 +/- 2", 50, []),
        ("50 +/- 2", 2, []),
        ("5 à 7", 5, []),
        ("5 oder 7", 7, []),
        ("Rate 25 bps", 25, ["0.25", "0.0025"]),
        ("Rate 25 basis points", 25, ["0.25", "0.0025"]),
        ("Eggs 50 dozen", 50, []),
        ("Sum 12 34.56", 34.56, ["1234.56"]),
        ("1 2 3 . 4 5", 5, []),
    ],
)
def test_number_that_is_changed_by_what_is_beside_it_is_doubted(page: str, value: Any, others: list[str]) -> None:
    index = document_index(f"Header\n{page}\nFooter")
    finding = index.ground({"amount": value})["amount"]
    assert finding.doubts == ("qualifier",)
    location = finding.location
    assert location is not None
    number = float(str(value).split()[0])
    assert index.other_values_at(location.page, location.boxes, location.quote, number) == others


@pytest.mark.parametrize(
    ("page", "field", "value"),
    [
        ("Max. 50", "max_weight", 50),  # the field's name
        ("Debit: 50.00", "debit", 50),
        ("Rate 25 bps", "spread_bps", 25),
        ("abzgl. 50", "amount", -50),
        ("Los Angeles, CA 90210", "number", 90210),  # a code
        ("Size 50 S", "amount", 50),
        ("12 min 30 sec", "seconds", 30),
        ("Für 7 Stück à 12 EUR", "count", 7),
        ("Payment from Acme 50.00", "amount", 50),
        ("Valid from        50", "amount", 50),  # in another cell
    ],
)
def test_number_with_its_own_label_beside_it_is_not_doubted(page: str, field: str, value: Any) -> None:
    finding = document_index(f"Header\n{page}\nFooter").ground({field: value})[field]
    assert (finding.state, finding.doubts) == ("found", ())


def test_quantity_before_an_amount_is_not_a_part_of_it() -> None:
    index = document_index("Nut 12 34.56")
    assert doubts(index, {"quantity": 12, "amount": 34.56}) == {}


@pytest.mark.parametrize("page", ["less 50", "Soll: 50.00", "50.00 S"])
def test_debit_is_found_where_only_a_word_makes_it_negative(page: str) -> None:
    finding = document_index(page).ground({"amount": -50})["amount"]
    assert finding.state == "found" and 0.5 < finding.confidence < 0.7


def test_amount_without_separator_where_cents_make_the_sum_is_unclear() -> None:
    page = "Gross     100.00\nTax        24.77\nNet pay     7523\n"
    found = document_index(page).ground({"net": 7523})["net"]
    assert (found.doubts, found.reason, found.confidence < 0.5) == (("scale",), "scale", True)
    assert found.as_json()["doubts"] == ["scale"]
    whole = "Gross     10000\nTax        2477\nNet pay     7523\n"
    assert doubts(document_index(whole), {"net": 7523}) == {}
    assert doubts(document_index(page + "Order       8211\n"), {"order": 8211}) == {}


def test_doubt_lowers_confidence_and_leaves_the_value_found() -> None:
    index = document_index(TABLE)
    sure, doubted = (index.ground(fields)["rows[1].quantity"] for fields in ({"rows": ROWS}, changed(1, quantity=70)))
    assert (doubted.state, doubted.reason) == ("found", None)
    assert 0.5 < doubted.confidence < sure.confidence


def test_longer_text_is_less_certain_and_still_above_the_threshold() -> None:
    text = "one two three four five six seven eight nine ten eleven twelve"
    found = [document_index(one).ground({"name": one})["name"].confidence for one in ("one", "one two", text)]
    assert found == [0.998, 0.996, pytest.approx(0.998**10, abs=1e-4)] and found[-1] > 0.95


def test_value_beside_its_label_is_more_certain() -> None:
    for page, value, confidence in (
        ("Total  9.50", 9.5, 0.99),
        ("Total  1,250", 1250, 0.99),
        ("Total        A-17", "A-17", 1),
    ):
        labelled, alone = (document_index(page).ground({name: value})[name] for name in ("total", "amount"))
        assert (labelled.supports, labelled.confidence) == (("label",), confidence)
        assert alone.supports == () and 0.95 < alone.confidence < confidence


@pytest.mark.parametrize(
    ("page", "printed", "scaled"),
    [
        ("Item     Revenue (TEUR)\nBox      1.234,5", 1234.5, 1_234_500),
        ("Item     £m\nBox      50", 50, 50_000_000),
        ("Item     £'000\nBox      50", 50, 50_000),
        ("Item     万円\nBox      50", 50, 500_000),
        ("(in thousands of EUR)\nBox      900", 900, 900_000),
        ("Angaben in Mio. EUR\nBox      1,5", 1.5, 1_500_000),
        ("$ in billions\nBox      2.25", 2.25, 2_250_000_000),
        ("Box      900\nAll amounts in thousands of EUR", 900, 900_000),
        ("(in millions)\nCar      700\n(in thousands)\nBox      900", 900, 900_000),
        ("(in millions)\nCar      700\n(in thousands)\nBox      900", 700, 700_000_000),
        ("(in thousands)\nShare capital   1,250", 1250, 1_250_000),
        ("(in thousands)\nNotes payable   125", 125, 125_000),
        ("(in thousands)\nCash 125 EUR", 125, 125_000),
        ("(in thousands)\nCash     125\n         375", 375, 375_000),
        ("(in thousands)\nCash     125 total", 125, 125_000),
        ("                  Page 2\n(in thousands)\nCash              512", 512, 512_000),
        ("Box      900\n(in thousands of EUR)", 900, 900_000),
    ],
)
def test_numbers_below_a_scale_are_found_as_printed_and_scaled_and_both_are_doubted(
    page: str, printed: float, scaled: int
) -> None:
    for value in (printed, scaled):
        found = document_index(page).ground({"revenue": value})["revenue"]
        assert (found.state, found.doubts, found.reason) == ("found", ("scale",), "scale")
    assert document_index(page).ground({"revenue": 10 * scaled})["revenue"].state == "not_found"


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        ("Item     Revenue (TEUR)\nBox      1.234,5", {"revenue_teur": 1234.5}),
        ("Item     £m       Year\nBox      50       2023", {"year": 2023}),
        ("Item     £m       Share\nBox      50       12 %", {"share": 12}),
        ("Item     £m\nBox      1.5 million", {"revenue": 1_500_000}),
        ("Millions of boxes were sold in all of the years\nBox      50", {"revenue": 50}),
        ("(in thousands)\nBox      900      12.5 %", {"margin": 12.5}),
        ("(in thousands)\nBox      900\nStaff    1,250 employees", {"staff": 1250}),
        ("Number 4711\nRevenue (in thousands)\nBox      900", {"number": 4711}),
        ("(in thousands)\nSee note 123   for more", {"note": 123}),
        ("(in thousands)\nEarnings per ordinary share   2.15", {"earnings": 2.15}),
        ("(in thousands)\nBox      900" + 30 * "\n" + "123", {"page": 123}),
    ],
)
def test_numbers_whose_scale_is_known_are_not_doubted(page: str, fields: dict[str, float]) -> None:
    assert doubts(document_index(page), fields) == {}
