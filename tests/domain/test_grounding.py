"""Where values stand on a page: the kinds of match, whole tokens, and which of several places."""

from __future__ import annotations

import pytest

from fieldmark.domain.grounding import WEIGHTS, Claim, Grounds, PageWords
from printed import grounds

INVOICE = """\
Acme Corp.,          Invoice No:123
Date: 25/12/2018
Total       EUR 9.00    19.00
Discount    (1,250)
VAT    """


def test_what_is_printed_is_found_with_its_box_and_nothing_else_is() -> None:
    place = grounds(INVOICE).find("Acme Corp.")
    assert place is not None
    assert (place.page, place.quote, place.match, place.places) == (1, "Acme Corp.", "exact", 1)
    assert place.boxes == ((0.01, 0.02, 0.11, 0.04),)
    assert grounds(INVOICE).find("Apex Corp.") is None


@pytest.mark.parametrize(("value", "quote"), [("Acme", "Acme"), (9.0, "9.00"), (123, "123"), ("123", "123")])
def test_punctuation_and_currency_glued_to_a_token_can_be_parted_from_it(value: str | float, quote: str) -> None:
    place = grounds(INVOICE).find(value)
    assert place is not None
    assert place.quote == quote


@pytest.mark.parametrize("value", ["Acm", "Corporation", 0.0, "12", 12, 25, 2018, 1, 250, "oice"])
def test_no_token_is_cut(value: str | float) -> None:
    assert grounds(INVOICE).find(value) is None


def test_leaves_are_found_blank_or_not_found() -> None:
    fields = {"total": 9, "vat": None, "iban": "", "date": "2018-12-26", "items": []}
    findings = grounds(INVOICE).ground(fields, {"total": Claim(confidence=0.9)})
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
        "places": 1,
        "claim": {"confidence": 0.9, "quote": None, "page": None},
    }
    assert findings["date"].as_json() == {
        "state": "not_found",
        "match": None,
        "page": None,
        "boxes": [],
        "quote": None,
        "places": 0,
        "claim": None,
    }


def test_confidence_is_that_of_the_match_times_that_of_the_least_sure_word() -> None:
    words = [["Acme", 0.1, 0.1, 0.2, 0.12, 0.9], ["Corp", 0.21, 0.1, 0.3, 0.12, 0.5]]
    place = Grounds([PageWords(1, words)]).find("ACME CORP")
    assert place is not None
    assert place.match == "normalised"
    assert place.confidence == pytest.approx(WEIGHTS["normalised"] * 0.5)


def test_nothing_is_found_where_there_is_nothing() -> None:
    for empty in (Grounds([]), Grounds([PageWords(1, [])]), grounds("", "")):
        assert empty.find("Acme") is None
        assert empty.find(9.0) is None
        assert empty.find("2018-12-25") is None
        assert empty.nearest("Acme") is None
        assert empty.ground({"a": {"b": [1, "x", None]}}, {})["a.b[0]"].state == "not_found"
