"""Locks and proposals: what a person set stays, whoever's agent writes, until a person accepts or unlocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from doors import Doors, House, become
from editing import Editing
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from test_journal import OPERATIONS, WHO, perform

FIELDS = {
    "vendor": {"name": "Acme", "vat": "DE1"},
    "items": [{"name": "bolt", "price": 1}, {"name": "nut", "price": 2}, {"name": "nut", "price": 2}],
    "tags": ["a", "b"],
    "total": 5,
}
VENDOR, ITEMS = {"name": "Acme", "vat": "DE1"}, FIELDS["items"]


@pytest.fixture
def table(doors: Doors, house: House) -> Iterator[Editing]:
    """An extraction with fields that an agent wrote, so that none is locked; its member acts."""
    with doors.as_service(house.member, house.org) as connection:
        editing = Editing(connection, house)
        editing.agent().save(FIELDS)
        yield editing.member()


# Who reviews ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "is_kept"),
    [
        (lambda table: table.agent().update("total", 5), True),
        (lambda table: table.agent().update("total", 6), False),
        (lambda table: table.agent("correct", spoken=["total"]).update("total", 6), True),
        (lambda table: table.colleague().update("total", 6), True),
        (
            lambda table: table.one("select private.follow_schema(%s, %s)", table.extraction, table.house.schema_revid),
            False,
        ),
    ],
    ids=["nothing", "an agent", "an agent with a person's word", "a person", "a new schema"],
)
def test_review_is_a_persons_and_ends_with_what_nobody_has_seen(table: Editing, write: Any, is_kept: bool) -> None:
    def complete() -> Any:
        table.one("select complete_extraction(%s)", table.extraction)
        return table.column("reviewed_by")

    table.agent()
    assert complete() is None
    table.member()
    assert complete() == table.house.member
    write(table)
    assert table.column("reviewed_by") == (table.house.member if is_kept else None)
    table.agent()
    assert complete() == (table.house.member if is_kept else None)


# Who locks -----------------------------------------------------------------------------------------------------------


def test_user_write_locks_the_value_even_if_unchanged(table: Editing) -> None:
    table.update("total", 5)
    assert table.locks == {"total": "member"} and table.version == 1
    table.colleague().update("total", 5)  # it is the member's already
    table.update("items.1", FIELDS["items"][1])
    table.update("tags", FIELDS["tags"])
    names = ["items[1].name", "items[1].price", "tags[0]", "tags[1]"]
    assert table.locks == {"total": "member", **dict.fromkeys(names, "colleague")}
    table.agent().update("vendor.name", "Acme")  # an agent locks nothing
    table.agent("correct", spoken=["vendor.name"]).update("vendor.name", "Acme")
    table.member().save({"vendor": {"vat": "DE1"}})  # nor does a form that is sent as a whole
    assert len(table.locks) == 5 and table.version == 1


def test_changed_leaf_is_locked_by_its_author_and_unlocked_when_removed(table: Editing) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.colleague().save({"total": 6, "vendor": {"vat": "DE1"}, "new": {"a": [1], "b": []}})
    new = {"new.a[0]": "colleague", "new.b": "colleague"}
    assert table.locks == {"vendor.name": "member", "total": "colleague", **new}
    table.update("vendor.name", "Acme Limited")
    assert table.locks["vendor.name"] == "colleague"
    table.remove("vendor")
    table.update("total", {"net": 6})
    assert table.locks == {"total.net": "colleague", **new}
    table.member().restore(1)
    assert table.fields == FIELDS
    assert table.locks == dict.fromkeys(("vendor.name", "vendor.vat", "total"), "member")


def test_correction_locks_only_fields_named_in_the_message(table: Editing) -> None:
    table.agent("correct", of="colleague", spoken=["total", "new[1]"])
    table.save({"total": 7, "vendor": {"vat": "DE2"}, "new": [1, 2]})
    assert table.locks == {"total": "colleague", "new[1]": "colleague"}
    assert table.fields == {**FIELDS, "total": 7, "vendor": {"name": "Acme", "vat": "DE2"}, "new": [1, 2]}
    # Another task carries out no words.
    table.agent("extract", of="colleague", spoken=["vendor.name"]).update("vendor.name", "Acme Ltd")
    assert "vendor.name" not in table.locks and table.fields["vendor"]["name"] == "Acme Ltd"
    # A front end that sets the transaction's setting itself has said nothing by it.
    table.member()
    table.announce(None, "", ["total"])
    assert table.one("select (private.paths_allowed_by_message(), private.author_of('total'))::text") == "({},)"


def test_front_end_update_locks_and_service_update_does_not(doors: Doors, house: House) -> None:
    with doors.as_front_end(house.member) as connection:
        editing = Editing(connection, house, house.extraction)
        editing.announce(house.run, "c")  # counts for the service alone
        connection.execute(
            "update extractions set extracted_fields = jsonb_set(extracted_fields, '{total}', '13') where id = %s",
            [house.extraction],
        )
        assert editing.fields["total"] == 13 and editing.locks["total"] == "member"
    with doors.as_owner() as connection:  # a migration, or the owner at the console
        connection.execute(
            'update extractions set extracted_fields = \'{"vendor": {"name": "Acme Ltd"}, "b": 1}\' where id = %s',
            [house.extraction],
        )
        assert Editing(connection, house, house.extraction).locks == {"vendor.name": "owner"}


def test_no_sql_statement_can_write_locks(table: Editing) -> None:
    table.update("total", 6)
    forged = {name: {"by": str(table.house.colleague), "at": "2020-01-01"} for name in ("total", "vendor.name")}
    table.connection.execute("update extractions set locks = %s where id = %s", [Jsonb(forged), table.extraction])
    assert table.locks == {"total": "member"}
    table.agent()
    table.connection.execute("update extractions set locks = '{}' where id = %s", [table.extraction])
    assert table.locks == {"total": "member"}


# Whom a lock binds ---------------------------------------------------------------------------------------------------


def test_agent_write_to_locked_value_becomes_a_proposal_and_the_rest_is_written(table: Editing) -> None:
    table.update("vendor.name", "Acme Ltd", 0.5, {"quote": "Acme Ltd"})
    answer = table.agent().save(
        {"vendor": {"name": "Acne", "vat": "DE2"}, "total": 6},
        {"vendor.name": 0.9, "vendor.vat": 0.8},
        {"vendor.name": {"quote": "Acne"}},
    )
    assert answer["proposed"] == ["vendor.name"] and table.changed is not None
    changed = [(change["path"], change["value"], change["confidence"]) for change in table.changed]
    assert changed == [("total", 6, None), ("vendor.vat", "DE2", 0.8)]
    assert answer["value"] == table.fields == {**FIELDS, "vendor": {"name": "Acme Ltd", "vat": "DE2"}, "total": 6}
    assert table.scores == {"vendor.name": 0.5, "vendor.vat": 0.8}
    assert table.evidence == {"vendor.name": {"quote": "Acme Ltd"}}
    assert table.proposals() == [("vendor.name", "Acme Ltd", "Acne")]
    kept = table.connection.execute(
        "select confidence_scores, evidence, run_id::text = current_setting('fieldmark.run_id'), call_id, created_by "
        "from extraction_proposals where extraction_id = %s",
        [table.extraction],
    ).fetchone()
    assert kept == ({"vendor.name": 0.9}, {"vendor.name": {"quote": "Acne"}}, True, "call", table.house.member)


@pytest.mark.parametrize(
    ("approved_by", "decided_by", "can"),
    [("person", "member", True), ("person", "colleague", False), ("policy", "member", False)],
)
def test_approved_call_writes_as_its_approver(table: Editing, approved_by: str, decided_by: str, can: bool) -> None:
    table.update("total", 6)
    table.agent()
    table.connection.execute(
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by) "
        "values (current_setting('fieldmark.run_id')::uuid, 'call', %s, 'update_field', '{}', repeat('0', 64), "
        "'approved', %s)",
        [table.house.org, approved_by],
    )
    table.connection.execute(
        "update tool_calls set decided_by = %s where id = 'call'", [getattr(table.house, decided_by)]
    )
    answer = table.update("total", 7)
    assert ("proposed" not in answer) == can
    assert table.fields["total"] == (7 if can else 6)
    table.update("vendor.name", "Acme Ltd")
    assert table.locks.get("vendor.name") == (decided_by if approved_by == "person" else None)


@pytest.mark.parametrize(
    ("task", "of", "spoken", "can"),
    [
        ("correct", "member", ["total"], True),
        ("correct", "member", ["vendor.name", "total.net", "Total", ""], False),  # said of something else
        ("correct", "colleague", ["total"], False),
        ("extract", "member", ["total"], False),
    ],
)
def test_only_the_lock_owners_correction_may_change_a_named_locked_value(
    table: Editing, task: str, of: str, spoken: list[str], can: bool
) -> None:
    table.update("total", 6)
    table.agent(task, of, spoken).update("total", 7)
    assert table.fields["total"] == (7 if can else 6)
    assert table.locks == {"total": "member"}
    assert table.proposals() == ([] if can else [("total", 6, 7)])
    table.remove("total")
    assert ("total" not in table.fields) == can


def test_agent_cannot_bypass_a_lock(table: Editing) -> None:
    table.update("total", 6, 0.5, {"page": 1})
    table.agent()
    clear = "update extractions set extracted_fields = '{}' where id = %s"
    table.connection.execute(clear, [table.extraction])
    assert table.fields == {"total": 6}
    table.restore(1)
    assert table.fields == {**FIELDS, "total": 6}
    table.refused("decide_extraction_proposals", [table.whole_proposals()[-1][0]])
    table.refused("unlock_extraction_field", ["total"])
    # Nor by a removal that is none.
    table.connection.execute("select set_config('fieldmark.change', %s, true)", ['{"removed": ["items", "0"]}'])
    table.connection.execute(clear, [table.extraction])
    table.connection.execute("select set_config('fieldmark.change', '', true)")
    assert table.fields == {"total": 6}
    # Nor by a run that there is not.
    table.announce(uuid4(), "call", ["total"])
    table.update("total", 9)
    # Nor does it score or prove the value again.
    answer = table.save({"total": 6}, {"total": 0.9}, {"total": {"page": 2}})
    assert table.fields == {"total": 6} and "proposed" not in answer
    assert (table.scores, table.evidence, table.locks) == ({"total": 0.5}, {"total": {"page": 1}}, {"total": "member"})


def test_agent_can_write_after_a_member_unlocks(table: Editing) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.update("vendor.vat", "DE2")
    assert table.colleague().unlock("vendor.name") == {"path": "vendor.name", "unlocked": ["vendor.name"], "version": 3}
    table.agent().save({"vendor": {"name": "Acne", "vat": "DE3"}})
    assert table.fields["vendor"] == {"name": "Acne", "vat": "DE2"}
    table.member().unlock("vendor")
    table.agent().save({"vendor": {"vat": "DE3"}}, {"vendor.vat": 0.9})
    assert table.fields["vendor"]["vat"] == "DE3" and table.scores == {"vendor.vat": 0.9}
    for path in (["vendor", "vat"], ["nothing"]):
        table.member().refused("unlock_extraction_field", path)


# Lists and containers ------------------------------------------------------------------------------------------------

BOLT, NUT = {"name": "bolt", "price": 3, "unit": None, "weight": 1}, {"name": "nut", "price": 2}


@pytest.fixture
def rows(table: Editing) -> Editing:
    """A list of two rows, the first of which has a price that the member set."""
    table.agent().save({"items": [BOLT | {"price": 1}, NUT]})
    table.member().update("items.0.price", 3)
    return table.agent()


@pytest.mark.parametrize(
    "items",
    [
        [BOLT | {"unit": "kg", "vat": 7}, NUT, NUT],  # empty cells of its row, and more of the list
        [BOLT | {"name": "screw"}, NUT],  # another cell of its row
        [BOLT],  # rows behind it less
    ],
)
def test_list_is_written_if_its_locked_leaf_stays_in_its_row(rows: Editing, items: Any) -> None:
    assert "proposed" not in rows.save({"items": items})
    assert rows.fields["items"] == items and rows.locks == {"items[0].price": "member"}


@pytest.mark.parametrize(
    "items",
    [
        [{"name": "screw", "price": 3}, BOLT | {"price": 9}, NUT],  # a row before it
        [NUT | {"price": 3}, BOLT | {"price": 9}],  # another order
        [{"price": 3}, NUT | {"price": 4}],  # its name gone
        [],
    ],
    ids=str,
)
def test_list_is_proposed_whole_if_a_locked_leaf_would_change_rows(rows: Editing, items: Any) -> None:
    """As when the agent finds one row more, whose price is what the person set for another."""
    answer = rows.save({"items": items, "total": 6}, {"total": 0.5, "items": 0.6}, {"items": {"page": 1}})
    assert answer["proposed"] == ["items"] and rows.proposals() == [("items", [BOLT, NUT], items)]
    assert rows.fields == {**FIELDS, "items": [BOLT, NUT], "total": 6}
    assert rows.evidence == {} and rows.scores == {"total": 0.5}
    # A correction by its own person writes it.
    correction = rows.agent("correct", spoken=["items[0].price"]).save({"items": items})
    assert "proposed" not in correction and rows.fields["items"] == items


def test_only_locked_leaves_are_proposed_if_nothing_else_changes(table: Editing) -> None:
    table.update("items.0", {"name": "screw", "price": 3})
    table.update("items.1.price", 3)
    table.agent().save({"items": [{"name": "bolt", "price": 3}, *ITEMS[1:]], "total": 6})
    assert table.proposals() == [("items[0].name", "screw", "bolt"), ("items[1].price", 3, 2)]
    assert table.fields["items"][1] == {"name": "nut", "price": 3} and table.fields["total"] == 6
    for path, value in [("items.1.name", "pin"), ("items.3", {"name": "nail"})]:
        assert "proposed" not in table.update(path, value)
    # Rows with locked leaves do not change places either.
    first, second, *others = table.fields["items"]
    assert table.save({"items": [second, first, *others]})["proposed"] == ["items"]
    assert table.fields["items"] == [first, second, *others]


@pytest.mark.parametrize(("path", "name"), [("vendor", "vendor"), ("items.1", "items[1]"), ("tags", "tags")])
def test_removing_a_container_with_a_locked_leaf_becomes_a_proposal(table: Editing, path: str, name: str) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.update("items.1.price", 3)
    table.update("tags", [])
    before = table.fields
    answer = table.agent().remove(path)
    assert answer["proposed"] == [name] and answer["version"] == 4 and table.fields == before
    ((proposal, *row),) = table.whole_proposals()
    assert (row[0], row[2]) == (name, None)
    table.member().decide(proposal, True)
    assert table.proposals() == []


@pytest.mark.parametrize(("leaves", "names"), [(500, 500), (501, 1)])
def test_many_locked_leaves_are_proposed_as_one_container(table: Editing, leaves: int, names: int) -> None:
    """Else an agent could make one statement take the time of many: each is put back by itself."""
    notes = {"notes": {"all": dict.fromkeys(map(str, range(leaves)), 1)}}
    table.save(notes)
    answer = table.agent().save({"notes": {"all": dict.fromkeys(map(str, range(leaves)), 2)}, "total": 6})
    assert len(answer["proposed"]) == names and ("notes" in answer["proposed"]) == (names == 1)
    assert table.fields == {**FIELDS, **notes, "total": 6}


@pytest.mark.parametrize("who", ["agent", "colleague"])
def test_locks_scores_and_proposals_move_with_items_after_a_removed_item(table: Editing, who: str) -> None:
    """Equal values on both sides of the gap: the position counts, not the value."""
    table.save({"items": [{"name": "x"}, {"name": "pin"}, {"name": "pin"}]}, {"items[2].name": 0.5})
    table.unlock("items.0.name")
    table.unlock("items.1.name")
    table.agent().update("items.2.name", "hex nut", 0.75)
    if who == "colleague":
        table.colleague()
    assert "proposed" not in table.remove("items.0")
    assert table.locks == {"items[1].name": "member"} and table.scores == {"items[1].name": 0.5}
    ((proposal, *row),) = table.whole_proposals()
    assert row == ["items[1].name", "pin", "hex nut"]
    table.member().decide(proposal, True)
    assert table.fields["items"] == [{"name": "pin"}, {"name": "hex nut"}] and table.scores == {"items[1].name": 0.75}


# Proposals -----------------------------------------------------------------------------------------------------------


def test_accepted_proposal_is_written_as_the_users_value_with_evidence(table: Editing) -> None:
    table.update("total", 6)
    table.agent().update("total", 7, 0.75, {"quote": "7.00"})
    ((proposal, *_),) = table.whole_proposals()
    table.colleague()
    for another in (uuid4(), table.house.proposal):
        table.refused("decide_extraction_proposals", [proposal, another], code="PT404")
    table.refused("decide_extraction_proposals", [])
    table.refused("decide_extraction_proposals", [proposal], [proposal], code="PT409")
    assert table.decide(proposal, True) == {"version": 3}
    assert table.fields["total"] == 7 and table.locks == {"total": "colleague"}
    assert (table.scores, table.evidence) == ({"total": 0.75}, {"total": {"quote": "7.00"}})
    who = "select (actor, created_by, run_id)::text from extraction_journal where extraction_id = %s and version = 3"
    assert table.one(who, table.extraction) == f"(user,{table.house.colleague},)"
    decided = "select (status, decided_by, decided_at is not null)::text from extraction_proposals where id = %s"
    assert table.one(decided, proposal) == f"(accepted,{table.house.colleague},t)"
    for accepted in (True, False):
        table.refused("decide_extraction_proposals", *([[proposal]] if accepted else [[], [proposal]]), code="PT409")


def test_front_end_cannot_write_evidence(doors: Doors, house: House) -> None:
    printed = {"state": "found", "page": 1, "quote": "13"}
    with doors.as_service(house.member, house.org) as connection:
        service = Editing(connection, house, house.extraction)
        service.update("total", 13, None, printed)
        assert service.evidence == {"total": printed}
    with doors.as_front_end(house.member) as connection:
        page = Editing(connection, house, house.extraction)
        # What an agent has proposed, with the place that the service has found.
        connection.execute("set local session authorization default")
        proof = "update extraction_proposals set evidence = %s where id = %s"
        connection.execute(proof, [Jsonb({"total": printed}), house.proposal])
        connection.execute("set local session authorization authenticator")
        become(connection, "authenticated", {"sub": str(house.member)})

        def forge() -> None:
            forged = "update extractions set evidence = %s where id = %s"
            connection.execute(forged, [Jsonb({"total": printed}), house.extraction])

        # An accepted proposal has its proof, which goes with its value.
        page.decide(house.proposal, True)
        assert page.evidence == {"total": printed} and page.fields["total"] == 13
        for value in (12, 987_654):
            page.update("total", value, None, {"page": 1})
            page.unlock("total")
            page.unchanged(forge, "PT403")
        proven = Jsonb({"total": printed})
        page.refused("update_extraction_field", ["total"], Jsonb(14), None, None, proven, code="PT403")
        page.refused("save_extraction_fields", Jsonb({"total": 14}), Jsonb({}), proven, code="PT403")
        page.refused("restore_extraction", 1, Jsonb({}), proven, code="PT403")
        assert "state" not in page.evidence["total"] and page.locks.keys() == {"vendor.name"}


def test_several_proposals_are_decided_in_one_version(table: Editing) -> None:
    table.save(
        {"items": [{"name": "a", "unit": "kg", "n": 1}, {"name": "b"}, {"name": "c"}], "total": 1, "vendor": {"x": 1}}
    )
    table.agent().remove("items.1")
    for path, value in (
        ("items.0.name", "A"),
        ("items.0.unit", "t"),
        ("items.0.n", 2),
        ("items.2.name", "C"),
        ("total", 2),
    ):
        table.update(path, value, 0.75)
    table.remove("vendor.x")
    ids = {name: proposal for proposal, name, *_ in table.whole_proposals()}
    version = table.member().version
    accepted = [ids[name] for name in ("items[0].name", "items[0].unit", "items[2].name", "vendor.x")]
    assert table.decide_all(accepted, [ids["total"]]) == {"version": version + 1}
    items = [{"name": "A", "unit": "t", "n": 1}, {"name": "b"}, {"name": "C"}]
    assert table.fields["items"] == items and table.fields["total"] == 1 and "x" not in table.fields["vendor"]
    assert table.scores == dict.fromkeys(("items[0].name", "items[0].unit", "items[2].name"), 0.75)
    assert [name for name, *_ in table.proposals()] == ["items[1]", "items[0].n"]
    # An item that leaves its list has a version of its own, so that what is behind it keeps its place and its lock.
    assert table.decide_all([ids["items[0].n"], ids["items[1]"]], []) == {"version": version + 3}
    assert [item["name"] for item in table.fields["items"]] == ["A", "C"] and table.fields["items"][0]["n"] == 2
    assert "items[1].name" in table.locks and table.scores["items[1].name"] == 0.75


def test_conflicting_decisions_about_one_value_are_rejected_together(table: Editing) -> None:
    table.save({"notes": {"a": 1, "b": 2}})
    table.agent().save({"notes": "none"})
    table.update("notes.a", 5)
    whole, leaf = (proposal for proposal, *_ in table.whole_proposals())
    table.member()
    for accepted in ([whole, leaf], [leaf, whole], [leaf, leaf]):
        table.refused("decide_extraction_proposals", accepted, code="PT409")
    table.decide(leaf, True)
    assert table.fields["notes"]["a"] == 5 and table.proposals() == []


def test_rejected_value_is_proposed_again_only_if_the_current_value_changed(table: Editing) -> None:
    table.update("total", 6)
    table.agent().update("total", 7)
    ((proposal, *_),) = table.whole_proposals()
    table.member().decide(proposal, False)
    assert table.fields["total"] == 6 and table.version == 2
    assert table.agent().update("total", 7)["proposed"] == ["total"]
    assert table.proposals() == []
    table.update("total", 8)
    assert table.proposals() == [("total", 6, 8)]
    table.member().update("total", 9)
    assert table.proposals() == []
    table.agent().update("total", 7)
    assert table.proposals() == [("total", 9, 7)]


def test_newer_proposal_replaces_an_older_one_of_the_same_extraction(table: Editing) -> None:
    elsewhere = "select count(*) from extraction_proposals where extraction_id <> %s and status = 'pending'"
    others = table.one(elsewhere, table.extraction)
    assert others > 0
    table.update("total", 6)
    for _ in range(2):
        table.agent().update("total", 13)  # as the house's other extractions have it
    assert table.proposals() == [("total", 6, 13)]
    table.update("total", 6)  # an equal value is no proposal, and withdraws none
    table.update("total", None)
    assert table.proposals() == [("total", 6, None)] and table.proposals("superseded") == [("total", 6, 13)]
    table.remove("total")
    assert len(table.proposals()) == 1 and len(table.proposals("superseded")) == 2
    # One for a whole replaces those for its parts.
    table.member().update("items.1.price", 3)
    table.agent().update("items.1.price", 4)
    table.save({"items": []})
    assert [name for name, *_ in table.proposals()] == ["total", "items"]
    assert table.one(elsewhere, table.extraction) == others


UNITS = [{"name": "bolt", "unit": "kg"}, {"name": "nut", "unit": "kg"}, {"name": "pin", "unit": "m"}]


@pytest.mark.parametrize("decided", [False, True])
def test_proposals_are_deleted_with_their_list_item(table: Editing, decided: bool) -> None:
    """Also where the next row has the same value."""
    table.save({"items": UNITS})
    table.agent().update("items.0.unit", "t")
    table.update("items.2.unit", "cm")
    table.member()
    for proposal, *_ in table.whole_proposals() if decided else ():
        table.decide(proposal, False)
    table.remove("items.0")
    if not decided:
        assert table.proposals("superseded") == [("items[0].unit", "kg", "t")]
        assert table.proposals() == [("items[1].unit", "m", "cm")]
        return
    table.agent().update("items.1.unit", "cm")
    assert table.proposals() == []
    # Another row, with the value of the one of which it was rejected.
    table.update("items.0.unit", "t")
    assert table.proposals() == [("items[0].unit", "kg", "t")]


@pytest.mark.parametrize(
    ("items", "waits"),
    [
        ([{"name": "nut", "unit": "kg"}, {"name": "bolt", "unit": "kg"}], False),  # another order
        ([{"name": "nut", "unit": "kg"}], False),  # the row less
        ([{"name": "bolts", "unit": "kg"}, {"name": "nut", "unit": "kg"}], True),  # another cell of its row
        ([{"name": "bolt", "unit": "kg", "price": 4}, {"name": "pin"}], True),  # another row
    ],
)
def test_proposal_stays_pending_while_its_row_exists(table: Editing, items: Any, waits: bool) -> None:
    table.save({"items": UNITS[:2]})
    table.agent().update("items.0.unit", "t")
    table.member().save({"items": items})
    assert table.proposals() == ([("items[0].unit", "kg", "t")] if waits else [])
    assert table.proposals("superseded") == ([] if waits else [("items[0].unit", "kg", "t")])


# Whatever happens ----------------------------------------------------------------------------------------------------

DECISIONS = st.tuples(st.just("decide"), st.integers(0, 3), st.booleans())


def entries(table: Editing) -> tuple[dict[str, tuple[str, Any, Any]], dict[str, Any]]:
    """(by name: whose lock, value as text, score) of each locked leaf, and all leaves."""
    nodes = table.connection.execute(
        "select name, value::text from extractions, private.nodes(extracted_fields) "
        "where id = %s and private.is_leaf(value)",
        [table.extraction],
    ).fetchall()
    leaves, scores = dict(nodes), table.scores
    return {name: (who, leaves.get(name), scores.get(name)) for name, who in table.locks.items()}, leaves


@settings(max_examples=50)
@given(st.lists(st.tuples(WHO, OPERATIONS | DECISIONS), min_size=2, max_size=12))
def test_no_agent_changes_a_locked_leaf_and_every_proposal_can_be_accepted(
    doors: Doors, house: House, operations: list[tuple[tuple[str, str | None, list[str]], tuple[Any, ...]]]
) -> None:
    with doors.as_service(house.member, house.org) as connection:
        table = Editing(connection, house)
        for (name, task, spoken), operation in operations:
            before, _ = entries(table)
            table.act(name, task, spoken)
            answer: Any = None
            if operation[0] != "decide":
                answer = perform(connection, table.extraction, operation)
            elif task is None and (waiting := table.whole_proposals()):
                proposal, _, _, new = waiting[operation[1] % len(waiting)]
                table.decide(proposal, operation[2])
                leaf = (
                    "select extracted_fields #> path from extractions as e, extraction_proposals as p where p.id = %s"
                )
                accepted = operation[2] and new is not None
                assert not accepted or table.one(f"{leaf} and e.id = p.extraction_id", proposal) == new
            after, leaves = entries(table)
            assert all(name in leaves for name in after)
            # A person's own locks do not bind a correction where they have said so.
            said = set(spoken) if task == "correct" else set[str]()
            bound = {
                path: lock
                for path, lock in before.items()
                if task is not None and not (lock[0] == name and path in said)
            }
            if operation[0] == "remove" and answer and "proposed" not in answer:
                # Items may have moved up, with their locks.
                assert Counter(map(str, bound.values())) <= Counter(map(str, after.values()))
            else:
                assert {path: after.get(path) for path in bound} == bound
                if task is not None:
                    # It locks again only what the person has said.
                    anew = {path: lock[0] for path, lock in after.items() if lock[:2] != before.get(path, lock[1:])[:2]}
                    assert set(anew) <= said and set(anew.values()) <= {name}
            assert (
                table.one(
                    "select count(*) from extraction_proposals p join extractions e on e.id = p.extraction_id "
                    "where e.id = %s and p.status = 'pending' and (private.name_at(extracted_fields, path) is distinct "
                    "from name or (extracted_fields #> path)::text <> old::text or old::text = new::text)",
                    table.extraction,
                )
                == 0
            )


# What kind of document it is, and whether it is complete -------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "of", "spoken", "can"),
    [
        ("correct", "member", ["document_type"], True),
        ("correct", "member", ["total"], False),
        ("correct", "colleague", ["document_type"], False),
        ("extract", "member", ["document_type"], False),
    ],
)
def test_document_type_set_by_a_user_changes_only_by_their_message(
    table: Editing, task: str, of: str, spoken: list[str], can: bool
) -> None:
    table.agent().call("identify_document", "letter")
    assert table.agent().call("identify_document", "order")["value"] == "order"  # what an agent said binds none
    table.member().call("identify_document", "invoice")
    said = table.agent(task, of, spoken).call("identify_document", "receipt")
    assert said["value"] == table.column("document_type") == ("receipt" if can else "invoice")
    # Said in a correction, it binds agents too.
    assert table.agent().call("identify_document", "memo")["value"] == said["value"]
    assert table.colleague().call("identify_document", "contract")["value"] == "contract"


@pytest.mark.parametrize(
    ("schema", "who", "status"),
    [({}, "agent", "in_progress"), ({}, "member", "completed"), (None, "agent", "completed")],
)
def test_agent_write_after_completion_reopens_the_extraction(
    table: Editing, schema: Any, who: str, status: str
) -> None:
    table.extraction = table.one(
        "insert into extractions (org_id, document_id, schema) values (%s, %s, %s) returning id",
        *(table.house.org, table.house.document, None if schema is None else Jsonb(schema)),
    )
    table.agent().save({"total": 5})
    table.call("complete_extraction")
    table.save({"total": 5})  # which changes nothing
    assert table.column("status") == "completed"
    getattr(table, who)().update("total", 6)
    assert table.column("status") == status
