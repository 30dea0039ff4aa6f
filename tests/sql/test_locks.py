"""Locks and proposals: a value set by a user stays until a user accepts a proposal or unlocks it."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from edited_extraction import EditedExtraction
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample, set_role
from test_journal import AUTHORS, OPERATIONS, perform

FIELDS = {
    "vendor": {"name": "Acme", "vat": "DE1"},
    "items": [{"name": "bolt", "price": 1}, {"name": "nut", "price": 2}, {"name": "nut", "price": 2}],
    "tags": ["a", "b"],
    "total": 5,
}
VENDOR, ITEMS = {"name": "Acme", "vat": "DE1"}, FIELDS["items"]


# Reviewed by ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "keeps_review"),
    [
        (lambda edited: edited.agent().update("total", 5), True),
        (lambda edited: edited.agent().update("total", 6), False),
        (lambda edited: edited.agent("correct", named_fields=["total"]).update("total", 6), True),
        (lambda edited: edited.colleague().update("total", 6), True),
        (
            lambda edited: edited.fetch("select private.follow_schema(%s, %s)", edited.id, edited.sample.schema_revid),
            False,
        ),
    ],
    ids=["nothing", "an agent", "an agent with a person's word", "a person", "a new schema"],
)
def test_review_belongs_to_a_user_and_ends_when_unreviewed_values_are_written(
    edited: EditedExtraction, write: Any, keeps_review: bool
) -> None:
    def complete() -> Any:
        edited.fetch("select complete_extraction(%s)", edited.id)
        return edited.column("reviewed_by")

    edited.agent()
    assert complete() is None
    edited.member()
    assert complete() == edited.sample.member
    write(edited)
    assert edited.column("reviewed_by") == (edited.sample.member if keeps_review else None)
    edited.agent()
    assert complete() == (edited.sample.member if keeps_review else None)


# What locks a value --------------------------------------------------------------------------------------------------


def test_user_write_locks_the_value_even_if_unchanged(edited: EditedExtraction) -> None:
    edited.update("total", 5)
    assert edited.locks == {"total": "member"} and edited.version == 1
    edited.colleague().update("total", 5)  # locked by the member already
    edited.update("items.1", FIELDS["items"][1])
    edited.update("tags", FIELDS["tags"])
    names = ["items[1].name", "items[1].price", "tags[0]", "tags[1]"]
    assert edited.locks == {"total": "member", **dict.fromkeys(names, "colleague")}
    edited.agent().update("vendor.name", "Acme")  # an agent locks nothing
    edited.agent("correct", named_fields=["vendor.name"]).update("vendor.name", "Acme")
    edited.member().save({"vendor": {"vat": "DE1"}})  # nor do unchanged values of a form
    assert len(edited.locks) == 5 and edited.version == 1


def test_changed_leaf_is_locked_by_its_author_and_unlocked_when_removed(edited: EditedExtraction) -> None:
    edited.update("vendor.name", "Acme Ltd")
    edited.colleague().save({"total": 6, "vendor": {"vat": "DE1"}, "new": {"a": [1], "b": []}})
    new = {"new.a[0]": "colleague", "new.b": "colleague"}
    assert edited.locks == {"vendor.name": "member", "total": "colleague", **new}
    edited.update("vendor.name", "Acme Limited")
    assert edited.locks["vendor.name"] == "colleague"
    edited.remove("vendor")
    edited.update("total", {"net": 6})
    assert edited.locks == {"total.net": "colleague", **new}
    edited.member().restore(1)
    assert edited.fields == FIELDS
    assert edited.locks == dict.fromkeys(("vendor.name", "vendor.vat", "total"), "member")


def test_correction_locks_only_fields_named_in_the_message(edited: EditedExtraction) -> None:
    edited.agent("correct", user="colleague", named_fields=["total", "new[1]"])
    edited.save({"total": 7, "vendor": {"vat": "DE2"}, "new": [1, 2]})
    assert edited.locks == {"total": "colleague", "new[1]": "colleague"}
    dictated = "select jsonb_agg(path order by path) from extraction_journal where dictated_by = %s"
    assert edited.fetch(dictated, edited.sample.colleague) == [["new", "1"], ["total"]]
    assert edited.fields == {**FIELDS, "total": 7, "vendor": {"name": "Acme", "vat": "DE2"}, "new": [1, 2]}
    # Only the task "correct" may write named fields.
    edited.agent("extract", user="colleague", named_fields=["vendor.name"]).update("vendor.name", "Acme Ltd")
    assert "vendor.name" not in edited.locks and edited.fields["vendor"]["name"] == "Acme Ltd"
    # The setting has no effect in a front end's transaction.
    edited.member()
    edited.set_call(None, "", ["total"])
    allowed = "select (private.paths_allowed_by_message(), private.message_author(), private.approving_user())::text"
    assert edited.fetch(allowed) == "({},,)"


def test_front_end_update_locks_and_service_update_does_not(roles: Roles, sample: Sample) -> None:
    with roles.as_front_end(sample.member) as connection:
        edited = EditedExtraction(connection, sample, sample.extraction)
        edited.set_call(sample.run, "c")  # has an effect for the service only
        connection.execute(
            "update extractions set extracted_fields = jsonb_set(extracted_fields, '{total}', '13') where id = %s",
            [sample.extraction],
        )
        assert edited.fields["total"] == 13 and edited.locks["total"] == "member"
    with roles.as_owner() as connection:  # a migration, or the owner at the console
        connection.execute(
            'update extractions set extracted_fields = \'{"vendor": {"name": "Acme Ltd"}, "b": 1}\' where id = %s',
            [sample.extraction],
        )
        assert EditedExtraction(connection, sample, sample.extraction).locks == {"vendor.name": "owner"}


def test_no_sql_statement_can_write_locks(edited: EditedExtraction) -> None:
    edited.update("total", 6)
    forged_locks = {name: {"by": str(edited.sample.colleague), "at": "2020-01-01"} for name in ("total", "vendor.name")}
    edited.connection.execute("update extractions set locks = %s where id = %s", [Jsonb(forged_locks), edited.id])
    assert edited.locks == {"total": "member"}
    edited.agent()
    edited.connection.execute("update extractions set locks = '{}' where id = %s", [edited.id])
    assert edited.locks == {"total": "member"}


# What a lock prevents ------------------------------------------------------------------------------------------------


def test_agent_write_to_locked_value_becomes_a_proposal_and_the_rest_is_written(edited: EditedExtraction) -> None:
    edited.update("vendor.name", "Acme Ltd", 0.5, {"quote": "Acme Ltd"})
    answer = edited.agent().save(
        {"vendor": {"name": "Acne", "vat": "DE2"}, "total": 6},
        {"vendor.name": 0.9, "vendor.vat": 0.8},
        {"vendor.name": {"quote": "Acne"}},
    )
    assert answer["proposed"] == ["vendor.name"] and edited.changed is not None
    changed = [(change["path"], change["value"], change["confidence"]) for change in edited.changed]
    assert changed == [("total", 6, None), ("vendor.vat", "DE2", 0.8)]
    assert answer["value"] == edited.fields == {**FIELDS, "vendor": {"name": "Acme Ltd", "vat": "DE2"}, "total": 6}
    assert edited.scores == {"vendor.name": 0.5, "vendor.vat": 0.8}
    assert edited.evidence == {"vendor.name": {"quote": "Acme Ltd"}}
    assert edited.proposals() == [("vendor.name", "Acme Ltd", "Acne")]
    kept = edited.connection.execute(
        "select confidence_scores, evidence, run_id::text = current_setting('fieldmark.run_id'), call_id, created_by "
        "from extraction_proposals where extraction_id = %s",
        [edited.id],
    ).fetchone()
    assert kept == ({"vendor.name": 0.9}, {"vendor.name": {"quote": "Acne"}}, True, "call", edited.sample.member)


@pytest.mark.parametrize(
    ("approved_by", "decided_by", "can"),
    [("person", "member", True), ("person", "colleague", False), ("policy", "member", False)],
)
def test_approved_call_writes_as_its_approver(
    edited: EditedExtraction, approved_by: str, decided_by: str, can: bool
) -> None:
    edited.update("total", 6)
    edited.agent()
    edited.connection.execute(
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by) "
        "values (current_setting('fieldmark.run_id')::uuid, 'call', %s, 'update_field', '{}', repeat('0', 64), "
        "'approved', %s)",
        [edited.sample.org, approved_by],
    )
    edited.connection.execute(
        "update tool_calls set decided_by = %s where id = 'call'", [getattr(edited.sample, decided_by)]
    )
    answer = edited.update("total", 7)
    assert ("proposed" not in answer) == can
    assert edited.fields["total"] == (7 if can else 6)
    edited.update("vendor.name", "Acme Ltd")
    assert edited.locks.get("vendor.name") == (decided_by if approved_by == "person" else None)
    # Who approves a call with several values has not looked at each of them.
    edited.save({"buyer": {"name": "Zed", "city": "Ulm"}})
    outcomes = dict(
        edited.connection.execute("select path, outcome from fields where extraction_id = %s", [edited.id]).fetchall()
    )
    by_person = {"vendor.name": "confirmed", "buyer.name": "reviewed", "buyer.city": "reviewed"}
    assert {path: outcomes[path] for path in by_person} == {
        path: outcome if approved_by == "person" else None for path, outcome in by_person.items()
    }


@pytest.mark.parametrize(
    ("task", "user", "named_fields", "can"),
    [
        ("correct", "member", ["total"], True),
        ("correct", "member", ["vendor.name", "total.net", "Total", ""], False),  # names other fields
        ("correct", "colleague", ["total"], False),
        ("extract", "member", ["total"], False),
    ],
)
def test_only_the_lock_owners_correction_may_change_a_named_locked_value(
    edited: EditedExtraction, task: str, user: str, named_fields: list[str], can: bool
) -> None:
    edited.update("total", 6)
    edited.agent(task, user, named_fields).update("total", 7)
    assert edited.fields["total"] == (7 if can else 6)
    assert edited.locks == {"total": "member"}
    assert edited.proposals() == ([] if can else [("total", 6, 7)])
    edited.remove("total")
    assert ("total" not in edited.fields) == can


def test_agent_cannot_bypass_a_lock(edited: EditedExtraction) -> None:
    edited.update("total", 6, 0.5, {"page": 1})
    edited.agent()
    clear_statement = "update extractions set extracted_fields = '{}' where id = %s"
    edited.connection.execute(clear_statement, [edited.id])
    assert edited.fields == {"total": 6}
    edited.restore(1)
    assert edited.fields == {**FIELDS, "total": 6}
    edited.assert_rejected("decide_extraction_proposals", [edited.proposals_with_ids()[-1][0]])
    edited.assert_rejected("unlock_extraction_field", ["total"])
    # Nor by a forged removal.
    edited.connection.execute("select set_config('fieldmark.change', %s, true)", ['{"removed": ["items", "0"]}'])
    edited.connection.execute(clear_statement, [edited.id])
    edited.connection.execute("select set_config('fieldmark.change', '', true)")
    assert edited.fields == {"total": 6}
    # Nor by a run that does not exist.
    edited.set_call(uuid4(), "call", ["total"])
    edited.update("total", 9)
    # Scores and evidence stay, too.
    answer = edited.save({"total": 6}, {"total": 0.9}, {"total": {"page": 2}})
    assert edited.fields == {"total": 6} and "proposed" not in answer
    assert (edited.scores, edited.evidence, edited.locks) == (
        {"total": 0.5},
        {"total": {"page": 1}},
        {"total": "member"},
    )


def test_agent_can_write_after_a_member_unlocks(edited: EditedExtraction) -> None:
    edited.update("vendor.name", "Acme Ltd")
    edited.update("vendor.vat", "DE2")
    assert edited.colleague().unlock("vendor.name") == {
        "path": "vendor.name",
        "unlocked": ["vendor.name"],
        "version": 3,
    }
    edited.agent().save({"vendor": {"name": "Acne", "vat": "DE3"}})
    assert edited.fields["vendor"] == {"name": "Acne", "vat": "DE2"}
    edited.member().unlock("vendor")
    edited.agent().save({"vendor": {"vat": "DE3"}}, {"vendor.vat": 0.9})
    assert edited.fields["vendor"]["vat"] == "DE3" and edited.scores == {"vendor.vat": 0.9}
    for path in (["vendor", "vat"], ["nothing"]):
        edited.member().assert_rejected("unlock_extraction_field", path)


# Lists and containers ------------------------------------------------------------------------------------------------

BOLT, NUT = {"name": "bolt", "price": 3, "unit": None, "weight": 1}, {"name": "nut", "price": 2}


@pytest.fixture
def rows(edited: EditedExtraction) -> EditedExtraction:
    """A list of two rows; the member set the price of the first."""
    edited.agent().save({"items": [BOLT | {"price": 1}, NUT]})
    edited.member().update("items.0.price", 3)
    return edited.agent()


@pytest.mark.parametrize(
    "items",
    [
        [BOLT | {"unit": "kg", "vat": 7}, NUT, NUT],  # empty cells of its row, and another row
        [BOLT | {"name": "screw"}, NUT],  # another cell of its row
        [BOLT],  # a later row removed
    ],
)
def test_list_is_written_if_its_locked_leaf_stays_in_its_row(rows: EditedExtraction, items: Any) -> None:
    assert "proposed" not in rows.save({"items": items})
    assert rows.fields["items"] == items and rows.locks == {"items[0].price": "member"}


@pytest.mark.parametrize(
    "items",
    [
        [{"name": "screw", "price": 3}, BOLT | {"price": 9}, NUT],  # a row before it
        [NUT | {"price": 3}, BOLT | {"price": 9}],  # another order
        [{"price": 3}, NUT | {"price": 4}],  # its name removed
        [],
    ],
    ids=str,
)
def test_list_is_proposed_whole_if_a_locked_leaf_would_change_rows(rows: EditedExtraction, items: Any) -> None:
    """For example if the agent finds one more row, whose price equals the price that a user set for another row."""
    answer = rows.save({"items": items, "total": 6}, {"total": 0.5, "items": 0.6}, {"items": {"page": 1}})
    assert answer["proposed"] == ["items"] and rows.proposals() == [("items", [BOLT, NUT], items)]
    assert rows.fields == {**FIELDS, "items": [BOLT, NUT], "total": 6}
    assert rows.evidence == {} and rows.scores == {"total": 0.5}
    # A correction by the lock's owner writes it.
    correction = rows.agent("correct", named_fields=["items[0].price"]).save({"items": items})
    assert "proposed" not in correction and rows.fields["items"] == items


def test_only_locked_leaves_are_proposed_if_nothing_else_changes(edited: EditedExtraction) -> None:
    edited.update("items.0", {"name": "screw", "price": 3})
    edited.update("items.1.price", 3)
    edited.agent().save({"items": [{"name": "bolt", "price": 3}, *ITEMS[1:]], "total": 6})
    assert edited.proposals() == [("items[0].name", "screw", "bolt"), ("items[1].price", 3, 2)]
    assert edited.fields["items"][1] == {"name": "nut", "price": 3} and edited.fields["total"] == 6
    for path, value in [("items.1.name", "pin"), ("items.3", {"name": "nail"})]:
        assert "proposed" not in edited.update(path, value)
    # Rows with locked leaves cannot be reordered.
    first, second, *others = edited.fields["items"]
    assert edited.save({"items": [second, first, *others]})["proposed"] == ["items"]
    assert edited.fields["items"] == [first, second, *others]


@pytest.mark.parametrize(("path", "name"), [("vendor", "vendor"), ("items.1", "items[1]"), ("tags", "tags")])
def test_removing_a_container_with_a_locked_leaf_becomes_a_proposal(
    edited: EditedExtraction, path: str, name: str
) -> None:
    edited.update("vendor.name", "Acme Ltd")
    edited.update("items.1.price", 3)
    edited.update("tags", [])
    before = edited.fields
    answer = edited.agent().remove(path)
    assert answer["proposed"] == [name] and answer["version"] == 4 and edited.fields == before
    ((proposal, *row),) = edited.proposals_with_ids()
    assert (row[0], row[2]) == (name, None)
    edited.member().decide(proposal, True)
    assert edited.proposals() == []


@pytest.mark.parametrize(("leaves", "names"), [(500, 500), (501, 1)])
def test_many_locked_leaves_are_proposed_as_one_container(edited: EditedExtraction, leaves: int, names: int) -> None:
    notes = {"notes": {"all": dict.fromkeys(map(str, range(leaves)), 1)}}
    edited.save(notes)
    answer = edited.agent().save({"notes": {"all": dict.fromkeys(map(str, range(leaves)), 2)}, "total": 6})
    assert len(answer["proposed"]) == names and ("notes" in answer["proposed"]) == (names == 1)
    assert edited.fields == {**FIELDS, **notes, "total": 6}


@pytest.mark.parametrize("who", ["agent", "colleague"])
def test_locks_scores_and_proposals_move_with_items_after_a_removed_item(edited: EditedExtraction, who: str) -> None:
    edited.save({"items": [{"name": "x"}, {"name": "pin"}, {"name": "pin"}]}, {"items[2].name": 0.5})
    edited.unlock("items.0.name")
    edited.unlock("items.1.name")
    edited.agent().update("items.2.name", "hex nut", 0.75)
    if who == "colleague":
        edited.colleague()
    assert "proposed" not in edited.remove("items.0")
    assert edited.locks == {"items[1].name": "member"} and edited.scores == {"items[1].name": 0.5}
    ((proposal, *row),) = edited.proposals_with_ids()
    assert row == ["items[1].name", "pin", "hex nut"]
    if who == "colleague":
        edited.restore(edited.version - 1)
        assert edited.locks == {"items[2].name": "member"} and edited.scores == {"items[2].name": 0.5}
        assert edited.proposals() == [("items[2].name", "pin", "hex nut")]
        edited.remove("items.0")
    edited.member().decide(proposal, True)
    assert edited.fields["items"] == [{"name": "pin"}, {"name": "hex nut"}] and edited.scores == {"items[1].name": 0.75}


# Proposals -----------------------------------------------------------------------------------------------------------


def test_accepted_proposal_is_written_as_the_users_value_with_evidence(edited: EditedExtraction) -> None:
    edited.update("total", 6)
    edited.agent().update("total", 7, 0.75, {"quote": "7.00"})
    ((proposal, *_),) = edited.proposals_with_ids()
    edited.colleague()
    for another in (uuid4(), edited.sample.proposal):
        edited.assert_rejected("decide_extraction_proposals", [proposal, another], code="PT404")
    edited.assert_rejected("decide_extraction_proposals", [])
    edited.assert_rejected("decide_extraction_proposals", [proposal], [proposal], code="PT409")
    assert edited.decide(proposal, True) == {"version": 3}
    assert edited.fields["total"] == 7 and edited.locks == {"total": "colleague"}
    assert (edited.scores, edited.evidence) == ({"total": 0.75}, {"total": {"quote": "7.00"}})
    who = "select (actor, created_by, run_id)::text from extraction_journal where extraction_id = %s and version = 3"
    assert edited.fetch(who, edited.id) == f"(user,{edited.sample.colleague},)"
    decided = "select (status, decided_by, decided_at is not null)::text from extraction_proposals where id = %s"
    assert edited.fetch(decided, proposal) == f"(accepted,{edited.sample.colleague},t)"
    for accepted in (True, False):
        edited.assert_rejected(
            "decide_extraction_proposals", *([[proposal]] if accepted else [[], [proposal]]), code="PT409"
        )


def test_front_end_cannot_write_evidence(roles: Roles, sample: Sample) -> None:
    printed = {"state": "found", "page": 1, "quote": "13"}
    with roles.as_service(sample.member, sample.org) as connection:
        service = EditedExtraction(connection, sample, sample.extraction)
        service.update("total", 13, None, printed)
        assert service.evidence == {"total": printed}
    with roles.as_front_end(sample.member) as connection:
        page = EditedExtraction(connection, sample, sample.extraction)
        # A proposal of an agent, with the location that the service found.
        connection.execute("set local session authorization default")
        proof = "update extraction_proposals set evidence = %s where id = %s"
        connection.execute(proof, [Jsonb({"total": printed}), sample.proposal])
        connection.execute("set local session authorization authenticator")
        set_role(connection, "authenticated", {"sub": str(sample.member)})

        def forge() -> None:
            statement = "update extractions set evidence = %s where id = %s"
            connection.execute(statement, [Jsonb({"total": printed}), sample.extraction])

        # Accepting a proposal stores its evidence; a changed value loses it.
        page.decide(sample.proposal, True)
        assert page.evidence == {"total": printed} and page.fields["total"] == 13
        for value in (12, 987_654):
            page.update("total", value, None, {"page": 1})
            page.unlock("total")
            page.assert_action_rejected(forge, "PT403")
        proven = Jsonb({"total": printed})
        page.assert_rejected("update_extraction_field", ["total"], Jsonb(14), None, None, proven, code="PT403")
        page.assert_rejected("save_extraction_fields", Jsonb({"total": 14}), Jsonb({}), proven, code="PT403")
        page.assert_rejected("restore_extraction", 1, Jsonb({}), proven, code="PT403")
        assert "state" not in page.evidence["total"] and page.locks.keys() == {"vendor.name"}


def test_several_proposals_are_decided_in_one_version(edited: EditedExtraction) -> None:
    edited.save(
        {"items": [{"name": "a", "unit": "kg", "n": 1}, {"name": "b"}, {"name": "c"}], "total": 1, "vendor": {"x": 1}}
    )
    edited.agent().remove("items.1")
    for path, value in (
        ("items.0.name", "A"),
        ("items.0.unit", "t"),
        ("items.0.n", 2),
        ("items.2.name", "C"),
        ("total", 2),
    ):
        edited.update(path, value, 0.75)
    edited.remove("vendor.x")
    ids = {name: proposal for proposal, name, *_ in edited.proposals_with_ids()}
    version = edited.member().version
    accepted = [ids[name] for name in ("items[0].name", "items[0].unit", "items[2].name", "vendor.x")]
    assert edited.decide_all(accepted, [ids["total"]]) == {"version": version + 1}
    items = [{"name": "A", "unit": "t", "n": 1}, {"name": "b"}, {"name": "C"}]
    assert edited.fields["items"] == items and edited.fields["total"] == 1 and "x" not in edited.fields["vendor"]
    assert edited.scores == dict.fromkeys(("items[0].name", "items[0].unit", "items[2].name"), 0.75)
    assert [name for name, *_ in edited.proposals()] == ["items[1]", "items[0].n"]
    # Removing a list item is a version of its own, so that later items keep their position and lock.
    assert edited.decide_all([ids["items[0].n"], ids["items[1]"]], []) == {"version": version + 3}
    assert [item["name"] for item in edited.fields["items"]] == ["A", "C"] and edited.fields["items"][0]["n"] == 2
    assert "items[1].name" in edited.locks and edited.scores["items[1].name"] == 0.75


def test_conflicting_decisions_about_one_value_are_rejected_together(edited: EditedExtraction) -> None:
    edited.save({"notes": {"a": 1, "b": 2}})
    edited.agent().save({"notes": "none"})
    edited.update("notes.a", 5)
    whole, leaf = (proposal for proposal, *_ in edited.proposals_with_ids())
    edited.member()
    for accepted in ([whole, leaf], [leaf, whole], [leaf, leaf]):
        edited.assert_rejected("decide_extraction_proposals", accepted, code="PT409")
    edited.decide(leaf, True)
    assert edited.fields["notes"]["a"] == 5 and edited.proposals() == []


def test_rejected_value_is_proposed_again_only_if_the_current_value_changed(edited: EditedExtraction) -> None:
    edited.update("total", 6)
    edited.agent().update("total", 7)
    ((proposal, *_),) = edited.proposals_with_ids()
    edited.member().decide(proposal, False)
    assert edited.fields["total"] == 6 and edited.version == 2
    assert edited.agent().update("total", 7)["proposed"] == ["total"]
    assert edited.proposals() == []
    edited.update("total", 8)
    assert edited.proposals() == [("total", 6, 8)]
    edited.member().update("total", 9)
    assert edited.proposals() == []
    edited.agent().update("total", 7)
    assert edited.proposals() == [("total", 9, 7)]


def test_newer_proposal_replaces_an_older_one_of_the_same_extraction(edited: EditedExtraction) -> None:
    elsewhere = "select count(*) from extraction_proposals where extraction_id <> %s and status = 'pending'"
    others = edited.fetch(elsewhere, edited.id)
    assert others > 0
    edited.update("total", 6)
    for _ in range(2):
        edited.agent().update("total", 13)  # proposals of the sample's other extractions
    assert edited.proposals() == [("total", 6, 13)]
    edited.update("total", 6)  # an equal value creates and withdraws no proposal
    edited.update("total", None)
    assert edited.proposals() == [("total", 6, None)] and edited.proposals("superseded") == [("total", 6, 13)]
    edited.remove("total")
    assert len(edited.proposals()) == 1 and len(edited.proposals("superseded")) == 2
    # A proposal for a container replaces those for its leaves.
    edited.member().update("items.1.price", 3)
    edited.agent().update("items.1.price", 4)
    edited.save({"items": []})
    assert [name for name, *_ in edited.proposals()] == ["total", "items"]
    assert edited.fetch(elsewhere, edited.id) == others


UNITS = [{"name": "bolt", "unit": "kg"}, {"name": "nut", "unit": "kg"}, {"name": "pin", "unit": "m"}]


@pytest.mark.parametrize("decided", [False, True])
def test_proposals_are_deleted_with_their_list_item(edited: EditedExtraction, decided: bool) -> None:
    edited.save({"items": UNITS})
    edited.agent().update("items.0.unit", "t")
    edited.update("items.2.unit", "cm")
    edited.member()
    for proposal, *_ in edited.proposals_with_ids() if decided else ():
        edited.decide(proposal, False)
    edited.remove("items.0")
    if not decided:
        assert edited.proposals("superseded") == [("items[0].unit", "kg", "t")]
        assert edited.proposals() == [("items[1].unit", "m", "cm")]
        return
    edited.agent().update("items.1.unit", "cm")
    assert edited.proposals() == []
    # Another row with the same value is proposed.
    edited.update("items.0.unit", "t")
    assert edited.proposals() == [("items[0].unit", "kg", "t")]


@pytest.mark.parametrize(
    ("items", "stays_pending"),
    [
        ([{"name": "nut", "unit": "kg"}, {"name": "bolt", "unit": "kg"}], False),  # another order
        ([{"name": "nut", "unit": "kg"}], False),  # the row removed
        ([{"name": "bolts", "unit": "kg"}, {"name": "nut", "unit": "kg"}], True),  # another cell of its row
        ([{"name": "bolt", "unit": "kg", "price": 4}, {"name": "pin"}], True),  # another row
    ],
)
def test_proposal_stays_pending_while_its_row_exists(edited: EditedExtraction, items: Any, stays_pending: bool) -> None:
    edited.save({"items": UNITS[:2]})
    edited.agent().update("items.0.unit", "t")
    edited.member().save({"items": items})
    assert edited.proposals() == ([("items[0].unit", "kg", "t")] if stays_pending else [])
    assert edited.proposals("superseded") == ([] if stays_pending else [("items[0].unit", "kg", "t")])


# Any sequence of operations ------------------------------------------------------------------------------------------

DECISIONS = st.tuples(st.just("decide"), st.integers(0, 3), st.booleans())


def locked_leaves(edited: EditedExtraction) -> tuple[dict[str, tuple[str, Any, Any]], dict[str, Any]]:
    """Return (lock holder, value as text, score) of each locked leaf by name, and the values of all leaves."""
    nodes = edited.connection.execute(
        "select name, value::text from extractions, private.nodes(extracted_fields) "
        "where id = %s and private.is_leaf(value)",
        [edited.id],
    ).fetchall()
    leaves, scores = dict(nodes), edited.scores
    return {name: (who, leaves.get(name), scores.get(name)) for name, who in edited.locks.items()}, leaves


@settings(max_examples=30)
@given(st.lists(st.tuples(AUTHORS, OPERATIONS | DECISIONS), min_size=2, max_size=12))
def test_no_agent_changes_a_locked_leaf_and_every_proposal_can_be_accepted(
    roles: Roles, sample: Sample, operations: list[tuple[tuple[str, str | None, list[str]], tuple[Any, ...]]]
) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample)
        for (name, task, named_fields), operation in operations:
            before, _ = locked_leaves(edited)
            edited.act_as(name, task, named_fields)
            answer: Any = None
            if operation[0] != "decide":
                answer = perform(connection, edited.id, operation)
            elif task is None and (waiting := edited.proposals_with_ids()):
                proposal, _, _, new = waiting[operation[1] % len(waiting)]
                edited.decide(proposal, operation[2])
                leaf = (
                    "select extracted_fields #> path from extractions as e, extraction_proposals as p where p.id = %s"
                )
                accepted = operation[2] and new is not None
                assert not accepted or edited.fetch(f"{leaf} and e.id = p.extraction_id", proposal) == new
            after, leaves = locked_leaves(edited)
            assert all(name in leaves for name in after)
            # A user's own locks allow a correction that the user's message names.
            said = set(named_fields) if task == "correct" else set[str]()
            bound = {
                path: lock
                for path, lock in before.items()
                if task is not None and not (lock[0] == name and path in said)
            }
            if operation[0] == "remove" and answer and "proposed" not in answer:
                # Items may have moved, with their locks.
                assert Counter(map(str, bound.values())) <= Counter(map(str, after.values()))
            else:
                assert {path: after.get(path) for path in bound} == bound
                if task is not None:
                    # It locks only fields that the user's message names.
                    new_locks = {
                        path: lock[0] for path, lock in after.items() if lock[:2] != before.get(path, lock[1:])[:2]
                    }
                    assert set(new_locks) <= said and set(new_locks.values()) <= {name}
            assert (
                edited.fetch(
                    "select count(*) from extraction_proposals p join extractions e on e.id = p.extraction_id "
                    "where e.id = %s and p.status = 'pending' and (private.path_name(extracted_fields, path) is "
                    "distinct from name or (extracted_fields #> path)::text <> old::text or old::text = new::text)",
                    edited.id,
                )
                == 0
            )


# Document type and completion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "user", "named_fields", "can"),
    [
        ("correct", "member", ["document_type"], True),
        ("correct", "member", ["total"], False),
        ("correct", "colleague", ["document_type"], False),
        ("extract", "member", ["document_type"], False),
    ],
)
def test_document_type_set_by_a_user_changes_only_by_their_message(
    edited: EditedExtraction, task: str, user: str, named_fields: list[str], can: bool
) -> None:
    edited.agent().call("identify_document", "letter")
    assert (
        edited.agent().call("identify_document", "order")["value"] == "order"
    )  # a type set by an agent can be replaced
    edited.member().call("identify_document", "invoice")
    said = edited.agent(task, user, named_fields).call("identify_document", "receipt")
    assert said["value"] == edited.column("document_type") == ("receipt" if can else "invoice")
    # A type set by a correction cannot be replaced by agents.
    assert edited.agent().call("identify_document", "memo")["value"] == said["value"]
    assert edited.colleague().call("identify_document", "contract")["value"] == "contract"


@pytest.mark.parametrize(
    ("schema", "who", "status"),
    [({}, "agent", "in_progress"), ({}, "member", "completed"), (None, "agent", "completed")],
)
def test_agent_write_after_completion_reopens_the_extraction(
    edited: EditedExtraction, schema: Any, who: str, status: str
) -> None:
    edited.id = edited.fetch(
        "insert into extractions (org_id, document_id, schema) values (%s, %s, %s) returning id",
        *(edited.sample.org, edited.sample.document, None if schema is None else Jsonb(schema)),
    )
    edited.agent().save({"total": 5})
    edited.call("complete_extraction")
    edited.save({"total": 5})  # a save without changes
    assert edited.column("status") == "completed"
    getattr(edited, who)().update("total", 6)
    assert edited.column("status") == status
