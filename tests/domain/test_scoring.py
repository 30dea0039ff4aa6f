from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.domain.fields import MISSING
from fieldmark.domain.scoring import ComparedValue, Tally, score, total

FOUND = {"state": "found", "page": 1, "boxes": [[0.1, 0.1, 0.2, 0.2]]}


@pytest.mark.parametrize(
    ("gold", "got", "exact", "normalised"),
    [
        (963.12, 963.12, True, True),
        (1, 1.0, True, True),
        ("Acme Ltd.", "ACME LTD", False, True),
        ("Société\nGénérale", "Societe Generale", False, True),
        ("007", "7", False, False),
        ("-5", 5, False, False),
        (True, 1, False, False),
        (None, None, True, True),
        (None, MISSING, True, True),
        (None, "", False, False),
        ("€", "$", False, False),
        ("2024-03-12", "20240312", False, True),
        ([], "x", False, False),
    ],
)
def test_exact_and_normalised_matches(gold, got, exact, normalised):
    leaf = ComparedValue(("a",), ("a",), gold, got)
    assert (leaf.exact, leaf.normalised) == (exact, normalised)


def item(name, price):
    return {"name": name, "price": price}


def test_list_items_are_matched_in_any_order():
    gold = {"items": [item("Chair", 70), item("Case", 420), item("Lamp", 12)]}
    got = {"items": [item("Lamp", 12), item("Carpet", 5), item("chair", 70), item("Case", 400)]}
    result = score(gold, got)
    assert result.fields == {
        "items[*].name": Tally(gold=3, exact=2, normalised=3, extra=1),
        "items[*].price": Tally(gold=3, exact=2, normalised=2, extra=1),
    }
    assert [(leaf.gold_path, leaf.gold, leaf.got) for leaf in result.faults] == [
        (("items", 1, "price"), 420, 400),
        (("items", 1, "name"), MISSING, "Carpet"),
        (("items", 1, "price"), MISSING, 5),
    ]


def test_missing_extra_or_mistyped_value_is_counted_once():
    result = score({"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 5}, {"a": 7, "d": {"x": 1}, "f": 1})
    whole = total(result.fields.values())
    assert (whole.gold, whole.exact, whole.extra) == (5, 0, 3)
    assert len(result.faults) == 8
    assert Tally().rate("exact") is None


@pytest.mark.parametrize(
    ("evidence", "gold_evidence", "located"),
    [
        ({}, {}, False),
        ({"a": FOUND}, {"a": FOUND}, True),
        ({"a": {**FOUND, "page": 2}}, {"a": FOUND}, False),
        ({"a": {**FOUND, "boxes": [[0.5, 0.5, 0.6, 0.6]]}}, {"a": FOUND}, False),
        ({"a": {**FOUND, "boxes": [[0.5, 0.5, 0.6, 0.6], [0.15, 0.15, 0.3, 0.3]]}}, {"a": FOUND}, True),
    ],
)
def test_located_value_overlaps_the_gold_location(evidence, gold_evidence, located):
    tally = score({"a": 1}, {"a": 1}, gold_evidence=gold_evidence, evidence=evidence).fields["a"]
    assert tally.located == located
    # A wrong value is not located, wherever it is.
    assert score({"a": 1}, {"a": 2}, gold_evidence=gold_evidence, evidence=evidence).fields["a"].located == 0


def test_blank_is_located_unless_evidence_was_found():
    assert score({"a": None}, {"a": None}, evidence={"a": {"state": "blank"}}).fields["a"].located == 1
    assert score({"a": None}, {"a": None}, evidence={"a": FOUND}).fields["a"].located == 0


def test_evidence_is_looked_up_at_the_index_of_the_item():
    gold = {"items": [item("Chair", 70)]}
    got = {"items": [item("Lamp", 12), item("Chair", 70)]}
    evidence = {"items[1].name": FOUND, "items[1].price": FOUND, "items[0].name": {"state": "not_found"}}
    assert score(gold, got, evidence=evidence).fields["items[*].name"].located == 1


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(st.text(max_size=5), values, max_size=5)


@given(documents, documents)
def test_every_gold_value_is_counted_once_and_equal_documents_score_fully(gold, got):
    result = score(gold, gold)
    whole = total(result.fields.values())
    assert whole.gold == whole.exact == whole.normalised and whole.extra == 0 and not result.faults
    assert total(score(gold, got).fields.values()).gold == whole.gold
