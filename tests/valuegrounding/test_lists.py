"""A list can have a row too many or too few: each doubt of a row or a list, and what supports a list."""

from __future__ import annotations

from typing import Any

import pytest

from page_words import document_index
from valuegrounding import DocumentIndex

TABLE = """\
No   Item           Quantity    Price     Total
1    Nut M8         10          1.20      12.00
2    Bolt M6        25          0.40      10.00
3    Washer         70          0.10       7.00
4    Ring           11          7.00      77.00
"""
ROWS: list[dict[str, Any]] = [
    {"no": 1, "item": "Nut M8", "quantity": 10, "price": 1.2, "total": 12},
    {"no": 2, "item": "Bolt M6", "quantity": 25, "price": 0.4, "total": 10},
    {"no": 3, "item": "Washer", "quantity": 70, "price": 0.1, "total": 7},
    {"no": 4, "item": "Ring", "quantity": 11, "price": 7, "total": 77},
]
STATEMENT = """\
Day           In        Out       Balance
2024-05-01    50.00               150.00
2024-05-02              30.00     120.00
2024-05-03    200.00              320.00
2024-05-04    10.00               330.00
2024-05-05    70.00               400.00
2024-05-06              25.00     375.00
"""
BOOKINGS = [
    {"day": f"2024-05-0{day}", "in": paid_in, "out": paid_out, "balance": balance}
    for day, paid_in, paid_out, balance in (
        (1, 50, None, 150), (2, None, 30, 120), (3, 200, None, 320),
        (4, 10, None, 330), (5, 70, None, 400), (6, None, 25, 375),
    )
]  # fmt: skip


def of_lists(index: DocumentIndex, fields: Any) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the doubts and supports of each list and list item that has any."""
    found = index.ground(fields)
    return {
        name: (one.doubts, one.supports) for name, one in found.items() if one.state == "found" and not one.location
    }


def doubts(index: DocumentIndex, fields: Any) -> dict[str, tuple[str, ...]]:
    return {name: found for name, (found, _) in of_lists(index, fields).items() if found}


@pytest.mark.parametrize("label", ["Total", "Zwischensumme", "小計"])
def test_row_that_is_called_a_total_and_is_one_is_doubted(label: str) -> None:
    index = document_index(TABLE + f"     {label}                                106.00\n")
    rows = [*ROWS, {"no": None, "item": label, "quantity": None, "price": None, "total": 106}]
    assert doubts(index, {"rows": rows}) == {"rows[4]": ("subtotal",)}


def test_row_without_a_label_that_sums_the_rows_above_is_doubted() -> None:
    index = document_index(TABLE + "                                         106.00\n")
    assert doubts(index, {"rows": [*ROWS, {"item": None, "total": 106}]}) == {"rows[4]": ("subtotal",)}


def test_row_with_a_label_whose_only_number_is_a_sum_of_two_is_not_doubted() -> None:
    index = document_index("Screw    10.00\nNail     12.00\nDowel    22.00\n")
    rows = [{"item": name, "total": total} for name, total in (("Screw", 10), ("Nail", 12), ("Dowel", 22))]
    assert doubts(index, {"rows": rows}) == {}


def test_total_above_two_subtotals_sums_the_rows_and_not_the_subtotals() -> None:
    page = "Nut    10.00\nBolt   20.00\nSum A  30.00\nRing    5.00\nPin     6.00\nSum B  11.00\nTotal  41.00\n"
    lines = [line.rsplit(maxsplit=1) for line in page.splitlines()]
    found = doubts(document_index(page), {"rows": [{"item": item, "total": float(total)} for item, total in lines]})
    assert found == {f"rows[{at}]": ("subtotal",) for at in (2, 5, 6)}


def test_row_that_is_printed_once_and_extracted_twice_is_doubted() -> None:
    assert doubts(document_index(TABLE), {"rows": [*ROWS, ROWS[3]]}) == {"rows[4]": ("duplicate_row",)}
    twice = TABLE + TABLE.splitlines()[-1]
    assert doubts(document_index(twice), {"rows": [*ROWS, ROWS[3]]}) == {}


def test_row_with_the_label_of_another_row_is_doubted() -> None:
    index = document_index("Health      3.00    40.00\n            5.00    60.00\nPension     7.00    80.00\n")
    rows = [{"item": "Health", "rate": 3, "base": 40}, {"item": "Health", "rate": 5, "base": 60}]
    rest = {"item": "Pension", "rate": 7, "base": 80}
    assert doubts(index, {"rows": [*rows, rest]}) == {"rows[1]": ("borrowed_label",)}


def test_row_whose_label_is_not_printed_is_doubted_and_left_to_the_review_of_the_label() -> None:
    rows = [*ROWS[:3], {**ROWS[3], "item": "Ring (continued)"}]
    found = document_index(TABLE).ground({"rows": rows})
    assert (found["rows[3]"].doubts, found["rows[3]"].reason) == (("unlabelled_row",), None)
    assert found["rows[3].item"].state == "not_found"


def test_row_that_lacks_what_all_others_have_is_doubted() -> None:
    index = document_index(TABLE + "     As agreed by phone                      19.00\n")
    note: dict[str, Any] = {"no": None, "item": "As agreed by phone", "quantity": None, "price": None, "total": 19}
    assert doubts(index, {"rows": [*ROWS, note]}) == {"rows[4]": ("incomplete_row",)}
    some = [{**row, "price": None if at else row["price"]} for at, row in enumerate(ROWS)]
    assert doubts(index, {"rows": some}) == {}  # several lack it
    assert doubts(index, {"rows": [*ROWS[:2], note]}) == {}  # of too few rows


def test_row_that_lacks_a_value_counts_in_sums() -> None:
    index = document_index(TABLE + "     Delivery                                19.00\nDue 125.00\n")
    found = index.ground({"rows": [*ROWS, {"item": "Delivery", "total": 19}], "due": 125})
    assert found["rows[4]"].doubts == ("incomplete_row",) and "sum" in found["due"].supports


def test_doubted_row_is_one_to_review_and_lowers_the_confidence_of_its_values() -> None:
    found = document_index(TABLE).ground({"rows": [*ROWS, ROWS[3]]})
    row, value, other = found["rows[4]"], found["rows[4].total"], found["rows[3].total"]
    assert (row.reason, row.confidence < 0.5, row.as_json()["page"]) == ("duplicate_row", True, None)
    assert (value.doubts, value.reason) == (("row",), None)
    assert 0.5 < value.confidence < other.confidence


def test_numbers_without_a_gap_support_a_list_and_a_printed_number_in_a_gap_is_a_doubt() -> None:
    index = document_index(TABLE + "5    Pin            10          2.00      20.00\n6    Cap   1   1.5   1.5\n")
    rest = [{"no": 5, "item": "Pin"}, {"no": 6, "item": "Cap"}]
    assert of_lists(index, {"rows": [*ROWS, *rest]}) == {"rows": ((), ("numbering",))}
    assert doubts(index, {"rows": [*ROWS[:3], *rest]}) == {"rows": ("numbering",)}
    without = document_index("".join(TABLE.splitlines(keepends=True)[:-1]) + "5    Pin\n6    Cap\n")
    assert of_lists(without, {"rows": [*ROWS[:3], *rest]}) == {}


def test_running_balances_support_a_list_and_one_that_does_not_follow_is_a_doubt() -> None:
    index = document_index(STATEMENT)
    assert of_lists(index, {"rows": BOOKINGS}) == {"rows": ((), ("balance",))}
    assert doubts(index, {"rows": [*BOOKINGS[:2], *BOOKINGS[3:]]}) == {"rows[2]": ("balance",)}


def test_total_that_is_the_sum_of_a_column_supports_the_list_and_the_total() -> None:
    index = document_index(TABLE + "Total                                  106.00\n")
    found = index.ground({"rows": ROWS, "total": 106})
    assert "sum" in found["rows"].supports
    assert found["total"].supports == ("label", "sum")
    assert of_lists(index, {"rows": ROWS[:3], "total": 106}) == {}


def test_total_of_two_other_numbers_supports_all_three() -> None:
    found = document_index("Net 200.00\nTax  38.00\nDue 238.00\n").ground({"a": 200, "b": 38, "c": 238})
    assert {name: one.supports for name, one in found.items()} == dict.fromkeys("abc", ("sum",))


@pytest.mark.parametrize(
    ("count", "expected"), [(4, ((), ("item_count",))), (116, ((), ("item_count", "sum"))), (7, (("item_count",), ()))]
)
def test_stated_number_of_items_is_that_of_the_rows_or_the_sum_of_their_quantities(
    count: int, expected: object
) -> None:
    rows = [{key: value for key, value in row.items() if key != "no"} for row in ROWS]
    found = of_lists(document_index(TABLE + f"Items  {count}\n"), {"rows": rows, "item_count": count})
    assert found["rows"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Number of items: 4", ((), ("item_count",))),
        ("ITEM(S) : 4", ((), ("item_count",))),
        ("4 items", ((), ("item_count",))),
        ("Total items  116", ((), ("item_count",))),  # pieces
        ("Item count 3", (("item_count",), ())),
        ("Anzahl Positionen: 6", (("item_count",), ())),
        ("Items: 117", (("item_count",), ())),
    ],
)
def test_number_of_items_that_is_only_printed_counts_as_well(text: str, expected: object) -> None:
    rows = [{key: value for key, value in row.items() if key != "no"} for row in ROWS]
    assert of_lists(document_index(f"{TABLE}{text}\n"), {"rows": rows})["rows"] == expected


@pytest.mark.parametrize(
    "text", ["Item no. 3", "Article: 4711", "Buy 3 items, pay 2", "3 items\n5 items", "Items: 1,200"]
)
def test_other_numbers_beside_items_state_no_count(text: str) -> None:
    rows = [{key: value for key, value in row.items() if key != "no"} for row in ROWS]
    assert "rows" not in of_lists(document_index(f"{TABLE}{text}\n"), {"rows": rows})


def test_more_items_than_rows_may_be_pieces() -> None:
    rows = [{"item": row["item"], "total": row["total"] + 0.5} for row in ROWS]
    assert "rows" not in of_lists(document_index(f"{TABLE}Items: 7\n"), {"rows": rows})


@pytest.mark.parametrize(
    ("text", "is_doubted"),
    [("Page 1 of 3", True), ("Seite 1 von 2", True), ("Page 1 of 1", False), ("Page 3 of 2", False)],
)
def test_list_of_a_document_without_some_pages_is_doubted(text: str, is_doubted: bool) -> None:
    found = doubts(document_index(TABLE + text + "\n"), {"rows": ROWS})
    assert found == ({"rows": ("pages_missing",)} if is_doubted else {})
