"""Audits are drawn when an agent completes an extraction, and a person's look at the value decides each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, LiteralString
from uuid import uuid4

import pytest
from edited_extraction import EditedExtraction
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample

FOUND = {"state": "found", "match": "exact", "page": 1, "boxes": []}
ROWS = 300


@pytest.fixture
def edited(roles: Roles, sample: Sample) -> Iterator[EditedExtraction]:
    """An extraction with a stored schema, in an organisation that wants at most 1 % wrong values."""
    with roles.as_service(sample.member, sample.org) as connection:
        extraction = uuid4()
        connection.execute(
            "insert into extractions (id, org_id, document_id, schema_revid) values (%s, %s, %s, %s)",
            [extraction, sample.org, sample.document, sample.schema_revid],
        )
        edited = EditedExtraction(connection, sample, extraction)
        _set_goal(edited, 0.01)
        yield edited


def _set_goal(edited: EditedExtraction, max_error: float) -> None:
    edited.act_as("owner")
    edited.connection.execute(
        "update organisations set max_error = %s where id = %s", [str(max_error), edited.sample.org]
    )
    edited.member()


def _read(edited: EditedExtraction, confidence: float = 1, doubts: Any = (), rows: int = ROWS) -> None:
    """Write a list of values as an agent, and complete the extraction."""
    edited.agent()
    names = [f"items[{n}].price" for n in range(rows)]
    evidence = FOUND | ({"doubts": list(doubts)} if doubts else {})
    edited.save(
        {"items": [{"price": n} for n in range(rows)]}, dict.fromkeys(names, confidence), dict.fromkeys(names, evidence)
    )
    edited.call("complete_extraction")


def _audits(edited: EditedExtraction) -> dict[str | None, dict[str, Any]]:
    cursor = edited.connection.cursor(row_factory=dict_row)
    query = "select path, outcome, is_accepted, draw, confidence from audits where extraction_id = %s order by draw"
    return {row["path"]: row for row in cursor.execute(query, [edited.id])}


def _asked(edited: EditedExtraction, reason: str) -> set[str]:
    query = "select path from fields where extraction_id = %s and status = 'unclear' and reason = %s"
    return {path for (path,) in edited.connection.execute(query, [edited.id, reason])}


def test_a_tenth_of_the_values_is_drawn_and_asked(edited: EditedExtraction) -> None:
    _read(edited)
    audits = _audits(edited)
    assert 5 < len(audits) < 80
    assert _asked(edited, "audit") == audits.keys()
    assert edited.column("review_count") == len(audits)
    assert edited.column("unseen_count") == ROWS - len(audits)
    assert all(one["is_accepted"] and one["draw"] < 0.1 for one in audits.values())


def test_nothing_is_drawn_without_a_goal(edited: EditedExtraction) -> None:
    _set_goal(edited, 1)
    _read(edited, confidence=0.6)
    assert (_audits(edited), edited.column("review_count"), edited.column("unseen_count")) == ({}, 0, ROWS)


def test_value_below_the_starting_confidence_is_asked_with_its_doubt(edited: EditedExtraction) -> None:
    _read(edited, 0.9, ["other_column"])
    assert len(_asked(edited, "other_column")) == edited.column("review_count") == ROWS
    # They are drawn too: their looks are counted for a lower threshold, not among the accepted values.
    audits = _audits(edited)
    assert len(audits) > 5
    assert not any(one["is_accepted"] for one in audits.values())


@pytest.mark.parametrize(("confidence", "expected"), [(0.7, {None, "audit"}), (0.4, {"low_confidence"})])
def test_yes_or_no_is_accepted_with_its_highest_confidence(
    edited: EditedExtraction, confidence: float, expected: set[str | None]
) -> None:
    edited.agent().save({"is_paid": True}, {"is_paid": confidence}, {"is_paid": FOUND})
    edited.call("complete_extraction")
    assert (
        edited.fetch("select reason from fields where extraction_id = %s and path = 'is_paid'", edited.id) in expected
    )


def test_value_has_one_chance_to_be_drawn(edited: EditedExtraction) -> None:
    _read(edited)
    before = _audits(edited).keys()
    edited.agent().call("complete_extraction")
    assert _audits(edited).keys() == before


def test_confirmed_audit_is_right_and_corrected_one_wrong(edited: EditedExtraction) -> None:
    _read(edited)
    first, second, third, *_ = _audits(edited)
    assert first and second and third
    edited.member()
    index = [path.split("[")[1].split("]")[0] for path in (first, second, third)]
    edited.update(["items", index[0], "price"], int(index[0]))
    edited.update(["items", index[1], "price"], -1)
    edited.update(["items", index[2], "price"], None)
    outcomes = {path: one["outcome"] for path, one in _audits(edited).items()}
    assert (outcomes.pop(first), outcomes.pop(second), outcomes.pop(third)) == ("right", "wrong", "wrong")
    assert {*outcomes.values()} == {None}
    assert all(one["is_accepted"] for one in _audits(edited).values())
    # A lock that is removed withdraws the look.
    edited.unlock(["items", index[0], "price"])
    assert _audits(edited)[first]["outcome"] is None
    assert first in _asked(edited, "audit")


def test_audit_in_a_removed_row_is_wrong_and_the_others_move_with_their_rows(edited: EditedExtraction) -> None:
    _read(edited)
    before = _audits(edited)
    first = min(int(path.split("[")[1].split("]")[0]) for path in before if path)
    edited.member().remove(["items", str(first)])
    after = _audits(edited)
    assert after.pop(None)["outcome"] == "wrong"
    moved = {one["draw"]: path for path, one in after.items()}
    for path, one in before.items():
        number = int(str(path).split("[")[1].split("]")[0])
        if number != first:
            assert moved[one["draw"]] == f"items[{number - 1}].price"
    assert _asked(edited, "audit") == after.keys()
    # Taking the removal back withdraws the look.
    edited.restore(edited.version - 1)
    assert _audits(edited) == before
    assert _asked(edited, "audit") == before.keys()


def test_review_of_the_whole_extraction_is_no_look_at_its_audits(edited: EditedExtraction) -> None:
    _read(edited)
    edited.member().call("complete_extraction")
    assert edited.column("review_count") == 0
    assert {one["outcome"] for one in _audits(edited).values()} == {None}


def test_whole_list_that_is_kept_is_no_look_at_each_of_its_values(edited: EditedExtraction) -> None:
    _read(edited, rows=200)
    first = next(iter(_audits(edited)))
    assert first
    edited.member().update("items", edited.fields["items"])
    assert {one["outcome"] for one in _audits(edited).values()} == {None}
    outcomes = "select array_agg(distinct outcome) from fields where extraction_id = %s and kind = 'number'"
    assert edited.fetch(outcomes, edited.id) == ["reviewed"]
    # They are no longer among the values that no one checked.
    assert (edited.column("review_count"), edited.column("unseen_count"), _waiting(edited)) == (0, 0, (0, 0))
    # A look at one of them still counts.
    index = first.split("[")[1].split("]")[0]
    edited.update(["items", index, "price"], int(index))
    assert _audits(edited)[first]["outcome"] == "right"


def test_agents_own_change_ends_an_audit(edited: EditedExtraction) -> None:
    _read(edited)
    first = next(iter(_audits(edited)))
    assert first
    edited.agent().update(["items", first.split("[")[1].split("]")[0], "price"], 5000)
    assert first not in _audits(edited)


INVOICE = "ACME Ltd Invoice number Due date Net amount Total Please pay within thirty days"
RECEIPT = "Corner shop Receipt Cash Change Served by Thank you come again"


def _printed(edited: EditedExtraction, page: str) -> EditedExtraction:
    """Return an extraction of the same schema, of another document with this page."""
    document, extraction, org = uuid4(), uuid4(), edited.sample.org
    connection = edited.member().connection
    connection.execute(
        "insert into documents (id, org_id, filename, storage_path) values (%s, %s, 'a.txt', %s)",
        [document, org, f"{org}/{document}/a.txt"],
    )
    connection.execute(
        "insert into document_pages (document_id, org_id, number, width, height, text, words, engine) "
        "values (%s, %s, 1, 1, 1, %s, '[]', 'text')",
        [document, org, page],
    )
    connection.execute(
        "insert into extractions (id, org_id, document_id, schema_revid) values (%s, %s, %s, %s)",
        [extraction, org, document, edited.sample.schema_revid],
    )
    return EditedExtraction(connection, replace(edited.sample, document=document), extraction)


def _confirm(edited: EditedExtraction, count: int) -> None:
    edited.member()
    for path in [path for path in _audits(edited) if path][:count]:
        index = path.split("[")[1].split("]")[0]
        edited.update(["items", index, "price"], int(index))


def _waiting(edited: EditedExtraction) -> tuple[int, int]:
    """Return how many drawn values of the table wait for a look, and of these those in layouts that are not covered."""
    audits: list[Any] = _figures(edited, "audits")[0]
    return sum(one[5] for one in audits), sum(one[5] for one in audits if not one[2])


def _uncovered(edited: EditedExtraction) -> tuple[Any, ...]:
    """Return how many values of the table the claim does not cover, and in how many layouts."""
    return _figures(edited, "uncovered_values, uncovered_layouts")


def _figures(edited: EditedExtraction, columns: LiteralString) -> tuple[Any, ...]:
    query: LiteralString = f"select {columns} from private.review_figures(%s)"
    return edited.member().connection.execute(query, [edited.sample.schema]).fetchone() or ()


def test_layout_is_covered_once_half_of_its_drawn_values_or_twenty_were_looked_at(edited: EditedExtraction) -> None:
    first = _printed(edited, f"{INVOICE} for Miller, screws and nails")
    _read(first)
    drawn = len(_audits(first))
    assert _waiting(first) == (drawn, drawn)
    assert _uncovered(first) == (ROWS - drawn, 1)
    enough = min(20, -(-drawn // 2))
    _confirm(first, enough - 1)
    assert _waiting(first) == (drawn - enough + 1, drawn - enough + 1)
    _confirm(first, enough)
    assert _waiting(first) == (drawn - enough, 0)
    assert _uncovered(first) == (0, 0)
    _confirm(first, drawn)
    same = _printed(edited, f"{INVOICE} for Jones and Partners, paint")
    _read(same, rows=20)
    assert _waiting(same) == (len(_audits(same)), 0)
    new = [_printed(edited, RECEIPT) for _ in range(2)]
    for one in new:
        _read(one)
    unseen = sum(one.column("unseen_count") for one in new)
    assert _uncovered(edited) == (unseen, 1)
    assert _waiting(edited)[1] == sum(len(_audits(one)) for one in new) > 5
    # Nothing waits in a document that was reviewed as a whole, and it has no value without a look.
    for one in new:
        one.member().call("complete_extraction")
    assert (_waiting(edited)[1], _uncovered(edited)[0]) == (0, 0)


def test_documents_that_look_like_no_other_are_covered_together(edited: EditedExtraction) -> None:
    first, second = _printed(edited, INVOICE), _printed(edited, RECEIPT)
    for one in (first, second):
        _read(one)
    assert _uncovered(edited) == (sum(one.column("unseen_count") for one in (first, second)), 1)
    _confirm(first, 40)
    _confirm(second, 40)
    lone = _printed(edited, "Delivery note Carrier Pallets Gross weight Signature of the driver")
    _read(lone, rows=9)
    assert _uncovered(edited) == (0, 0)
    # With a second document that looks like it, it has a layout that no one has looked at.
    another = _printed(edited, "Delivery note Carrier Pallets Gross weight Signature of the driver")
    _read(another, rows=9)
    if not any(one["outcome"] for one in _audits(lone).values()):
        assert _uncovered(edited) == (lone.column("unseen_count") + another.column("unseen_count"), 1)


def test_value_of_each_layout_is_drawn_whatever_the_rate(edited: EditedExtraction) -> None:
    known = {"model": "", "schema_revid": str(edited.sample.schema_revid), "max_error": "0.01", "values": 100_000_000}
    policy = Jsonb(known | {"min_confidences": {"*": 0.95}})
    edited.connection.execute("reset role")
    edited.connection.execute("select private.store_review_policy(%s, %s)", [edited.sample.schema, policy])
    documents = [_printed(edited, INVOICE) for _ in range(3)]
    for one in documents:
        _read(one, rows=5)
    rate = documents[0].column("audit_rate")
    assert rate < 0.0001
    drawn = [list(_audits(one).values()) for one in documents]
    # (The rate draws one of 15 values once in a thousand times.)
    assert [len(audits) for audits in drawn] == [0, 1, 0]
    # It is above the rate, so that the claim does not count it; but it shows that someone looked at the layout.
    assert drawn[1][0]["draw"] > rate and drawn[1][0]["is_accepted"]
    assert (_uncovered(edited), _waiting(edited)) == ((14, 1), (1, 1))
    _confirm(documents[1], 1)
    assert (_uncovered(edited), _waiting(edited)) == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("page", "is_same"),
    [(INVOICE.upper(), True), (INVOICE[:50], True), (INVOICE[:20], False), (RECEIPT, False), ("12 7.50", False)],
)
def test_pages_with_most_words_in_common_have_the_same_layout(
    edited: EditedExtraction, page: str, is_same: bool
) -> None:
    documents = [_printed(edited, text) for text in (INVOICE, page)]
    for one in documents:
        _read(one, rows=1)
    assert (documents[0].column("layout") == documents[1].column("layout")) is is_same


def test_values_say_nothing_about_the_layout(edited: EditedExtraction) -> None:
    texts = [f"{INVOICE} {' '.join(text + end for end in 'abcdefghijklmno')}" for text in ("hammer", "yellow")]
    for has_value in (False, True):
        documents = [_printed(edited, text) for text in texts]
        for one, text in zip(documents, texts, strict=True):
            one.agent().save({"note": text.removeprefix(INVOICE) if has_value else "-"})
            one.call("complete_extraction")
        assert (documents[0].column("layout") == documents[1].column("layout")) is has_value


def test_draws_are_uniform_and_independent_of_each_other(roles: Roles) -> None:
    with roles.as_owner() as connection:
        mean, low, correlation = connection.execute(
            "select avg(a), avg((a < 0.1)::integer)::float8, corr(a, b) from ("
            "select private.draw() as a, private.draw() as b from generate_series(1, 20000)) as one"
        ).fetchone() or (0, 0, 0)
    assert abs(mean - 0.5) < 0.02 and abs(low - 0.1) < 0.02 and abs(correlation) < 0.05
