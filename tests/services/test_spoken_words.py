"""For which fields a correction has its person's word: a table of messages, writes, and what they speak for."""

from __future__ import annotations

import time

import pytest

from fieldmark.domain import paths
from fieldmark.services.spoken_words import Speech

IBAN = "DE89370400440532013000"
FIELDS = {
    "vendor": {"name": "Acme", "iban": IBAN, "address": {"city": "Ulm", "street": "Hauptstr. 1"}},
    "buyer": {"name": "Globex", "vatId": "DE811"},
    "iban": "GB29NWBK60161331926819",
    "total": 119.0,
    "tax": 19.0,
    "tax_rate": 0.19,
    "due_date": "2026-03-12",
    "issueDate": "2026-02-12",
    "invoice_number": "4711",
    "paid": False,
    "tags": ["red", "green"],
    "items": [
        {"name": "Bolt M8", "price": 1.5, "total": 3.0},
        {"name": "Nut M8", "price": 2.5, "total": 5.0},
    ],
    "a.b": {"c d": 1},
    "合計": 119,
    "prénom": "Ada",
    "номер": "7",
}

SPOKEN_FOR = [
    # The message names the field.
    ("the total is 12", {"total": 12}, ["total"]),
    ("Total: 12", {"total": 13}, ["total"]),  # also for another value: the person named the field
    ("please fix the due date", {"due_date": "2026-04-01"}, ["due_date"]),
    ("due_date should be April 1st", {"due_date": "2026-04-01"}, ["due_date"]),
    ("the date of issue is wrong", {"issueDate": "2026-04-01"}, ["issueDate"]),
    ("issueDate is 2026-04-01", {"issueDate": "2026-04-01"}, ["issueDate"]),
    ("the issue date is 2026-04-01", {"issueDate": "2026-04-01", "due_date": "2026-04-01"}, ["issueDate"]),
    ("set vendor.name to Acme Ltd", {"vendor.name": "Acme Ltd"}, ["vendor.name"]),
    ("set vendor.name to Acme Ltd", {"buyer.name": "Acme Ltd"}, []),
    ("vendor.names is Ann", {"vendor.iban": "Ann B"}, []),
    ('["a.b"].c d is 2', {'["a.b"].c d': 2}, ['["a.b"].c d']),
    ("the vendor's name is Initech", {"vendor.name": "Initech", "buyer.name": "Initech"}, ["vendor.name"]),
    ("the name of the buyer is Initech", {"vendor.name": "Initech", "buyer.name": "Initech"}, ["buyer.name"]),
    ("the buyer's VAT id is DE812", {"buyer.vatId": "DE812"}, ["buyer.vatId"]),
    ("it was paid", {"paid": True}, ["paid"]),
    # Longer keys are meant as a whole.
    ("the tax rate is 7 %", {"tax": 7, "tax_rate": 0.07}, ["tax_rate"]),
    ("the tax is 7", {"tax": 7, "tax_rate": 0.07}, ["tax"]),
    # Of several of one name the one that is named best.
    ("the total is 12", {"items[0].total": 12, "total": 12}, ["total"]),
    (
        "the total of the second item is 12",
        {"items[0].total": 12, "items[1].total": 12, "total": 12},
        ["items[1].total"],
    ),
    # Rows: by path, by number, by what only they hold.
    ("items[1].price is 3", {"items[0].price": 3, "items[1].price": 3}, ["items[1].price"]),
    ("the price of item 1 is 3", {"items[0].price": 3, "items[1].price": 3}, ["items[0].price"]),
    ("price of the last row: 3", {"items[0].price": 3, "items[1].price": 3}, ["items[1].price"]),
    ("the price of the Nut M8 is 3", {"items[0].price": 3, "items[1].price": 3}, ["items[1].price"]),
    ("all prices are wrong", {"items[0].price": 3, "items[1].price": 4}, ["items[0].price", "items[1].price"]),
    ("der Preis der zweiten Zeile: price 3", {"items[0].price": 3, "items[1].price": 3}, ["items[1].price"]),
    ("the first tag is blue", {"tags[0]": "blue", "tags[1]": "blue"}, ["tags[0]"]),
    # The value stands in the message, with what it stands in.
    ("the vendor is Acme Ltd", {"vendor.name": "Acme Ltd"}, ["vendor.name"]),
    ("the vendor is Acme Ltd", {"vendor.iban": IBAN[::-1]}, []),
    ("the vendor is Acme Ltd", {"vendor.iban": "Acme Ltd"}, []),
    ("the vendor is Acme Ltd", {"iban": "Acme Ltd"}, []),
    ("the vendor is Acme Ltd", {"iban": IBAN}, []),
    ("the vendor is Acme Ltd", {"vendor.address.city": "Acme Ltd"}, ["vendor.address.city"]),
    ("the vendor is Acme Ltd", {"vendor.name": "Evil Ltd"}, []),
    ("the vendor is Acme Ltd", {"buyer.name": "Acme Ltd"}, []),
    ("the vendor is Acme Ltd", {"total": 5}, []),
    ("the address is Neue Gasse 5", {"vendor.address.street": "Neue Gasse 5"}, ["vendor.address.street"]),
    # It names no field: the value alone.
    ("no, it is Acme Ltd", {"vendor.name": "Acme Ltd", "total": 5}, ["vendor.name"]),
    ("no, it is 1.234,50 €", {"total": 1234.5}, ["total"]),
    ("no, it is March 12th 2027", {"due_date": "2027-03-12"}, ["due_date"]),
    ("no, it is Acme Ltd", {"iban": "Acme Ltd"}, []),
    ("no, it is Acme Limted Holdings", {"vendor.name": "Acme Limited Holdings"}, []),  # nearly is not said
    ("no, it is 12 $", {"vendor.name": "USD"}, []),  # nor is what a sign may stand for
    ("yes", {"total": 1, "paid": True, "vendor.name": None}, []),
    ("", {"total": 1}, []),
    # Punctuation and scripts of several languages.
    ("«vendor.name» → „Acme Ltd“", {"vendor.name": "Acme Ltd"}, ["vendor.name"]),
    ("¿el total? ¡12!", {"total": 12}, ["total"]),
    ("合計は120です。", {"合計": 120}, ["合計"]),
    ("합계 合計：120", {"合計": 120, "total": 120}, ["合計"]),
    ("le prenom est « Grace »", {"prénom": "Grace"}, ["prénom"]),
    ("НОМЕР — 8।", {"номер": "8"}, ["номер"]),
    ("المجموع total، 12", {"total": 12}, ["total"]),
    ("TOTAL\u200b\u00a0=\u00a012", {"total": 12}, ["total"]),
    # What is hostile, or only looks like a name.
    ("the subtotal is wrong", {"total": 5}, []),
    ("totally wrong", {"total": 5}, []),
    (".*", {"total": 5, "vendor.name": ".*"}, []),
    ("[\x00\ud800] (((", {"total": 5}, []),
    ('the vendor is "Acme" OR 1=1', {"iban": IBAN, "total": 7}, []),
]


@pytest.mark.parametrize(("message", "written", "spoken"), SPOKEN_FOR)
def test_what_a_message_speaks_for(message, written, spoken):
    leaves = {paths.parse(name): value for name, value in written.items()}
    assert sorted(Speech(message, FIELDS).speaks_for(leaves)) == sorted(spoken)


BESIDE = {
    "vendor": {"name": "Acme", "bank": {"name": "First", "branch": "Ulm"}, "contact": "Ada"},
    "address": {"city": "Ulm", "street": "Hauptstr. 1"},
}

MEANT = [
    # The message means one leaf; the same value beside it is not what it says.
    ("the city of the address is Bonn", {"address.street": "Bonn", "address.city": "Bonn"}, ["address.city"]),
    ("the vendor is Grace Ltd", {"vendor.contact": "Grace Ltd", "vendor.name": "Grace Ltd"}, ["vendor.name"]),
    (
        "the name of the vendor's bank is Second",
        {"vendor.name": "Second", "vendor.bank.name": "Second", "vendor.bank.branch": "Second"},
        ["vendor.bank.name"],
    ),
]


@pytest.mark.parametrize(("message", "written", "spoken"), MEANT)
def test_what_a_message_means_of_several_that_stand_together(message, written, spoken):
    leaves = {paths.parse(name): value for name, value in written.items()}
    assert sorted(Speech(message, BESIDE).speaks_for(leaves)) == sorted(spoken)


REMOVALS = [
    # A leaf goes where the message names it.
    ("remove the tax", "tax", [], ["tax"]),
    ("remove the tax", "total", [], []),
    ("119.0 is wrong", "total", [], []),  # a value that stands in the message is no word for its removal
    ("remove the tag red", "tags[0]", [], ["tags[0]"]),
    ("remove the tag red", "tags[1]", [], []),
    ("remove nothing", "nothing", [], []),
    # What holds several goes where it is named, and so is each locked leaf in it.
    ("drop items[1]", "items[1]", ["items[1].price"], []),
    ("drop items[1] with its price", "items[1]", ["items[1].price"], ["items[1].price"]),
    ("drop items[1] with its price", "items[0]", ["items[0].price"], []),
    ("drop items[1] with its price", "items[1]", ["items[1].price", "items[1].name"], []),
    ("drop items[1] with its price", "items[1]", ["items[0].price", "total"], ["items[1].price"]),
    ("remove the second item and its price", "items[1]", ["items[1].price"], ["items[1].price"]),
    ("remove the second item and its price", "items[0]", ["items[0].price"], []),
    ("remove the Bolt M8, also its price", "items[0]", ["items[0].price"], ["items[0].price"]),
    ("remove the vendor", "vendor", ["vendor.iban"], []),
    ("remove the vendor with name and iban", "vendor", ["vendor.iban"], ["vendor.iban", "vendor.name"]),
    ("remove the vendor with name and iban", "buyer", ["buyer.name"], []),
    ("the VAT id is wrong", "buyer", ["buyer.vatId"], []),  # the object itself must be named
]


@pytest.mark.parametrize(("message", "path", "locks", "spoken"), REMOVALS)
def test_what_a_message_lets_go(message, path, locks, spoken):
    assert sorted(Speech(message, FIELDS).speaks_for_removal(paths.parse(path), locks)) == sorted(spoken)


@pytest.mark.parametrize(
    ("message", "document_type", "speaks"),
    [
        ("the document type is receipt", "receipt", True),
        ("this document is a receipt", "receipt", True),
        ("it is a receipt", "receipt", True),
        ("it is a receipt", "invoice", False),
        ("the total on the receipt is 5", "receipt", False),
        ("document_type: memo", "letter", True),
    ],
)
def test_the_type_of_the_document(message, document_type, speaks):
    assert Speech(message, FIELDS).speaks_for_type(document_type) is speaks


def test_thousands_of_fields_and_a_long_message_end():
    rows = [{"name": f"Part {n}", "price": n, "note": f"row number {n}"} for n in range(3000)]
    message = ("the price of Part 7 is 5, " * 1000)[:20_000]
    written = {("items", n, "price"): 5 for n in range(3000)}
    began = time.process_time()
    assert Speech(message, {"items": rows}).speaks_for(written) == {"items[7].price"}
    assert time.process_time() - began < 20
