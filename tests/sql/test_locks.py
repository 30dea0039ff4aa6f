"""Locks and proposals: what a person set stands, whoever's agent writes, until that person's word or an unlock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import Doors, House, become
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from test_journal import OPERATIONS, WHO, act, perform

FIELDS = {
    "vendor": {"name": "Acme", "vat": "DE1"},
    "items": [{"name": "bolt", "price": 1}, {"name": "nut", "price": 2}, {"name": "nut", "price": 2}],
    "tags": ["a", "b"],
    "total": 5,
}


class Table:
    """An extraction that people and their agents work on, in one transaction of the service that is rolled back."""

    def __init__(self, connection: psycopg.Connection, house: House) -> None:
        self.connection, self.house = connection, house
        self.extraction = uuid4()
        self.member()
        connection.execute(
            "insert into extractions (id, org_id, document_id) values (%s, %s, %s)",
            [self.extraction, house.org, house.document],
        )

    def member(self) -> Table:
        act(self.connection, self.house, self.extraction, "member", None)
        return self

    def colleague(self) -> Table:
        act(self.connection, self.house, self.extraction, "colleague", None)
        return self

    def agent(self, task: str = "extract", of: str = "member", spoken: Sequence[str] = ()) -> Table:
        """A run of the task; `spoken` are the names that its person's words are for."""
        act(self.connection, self.house, self.extraction, of, task, spoken)
        return self

    def call(self, function: str, *arguments: Any) -> dict[str, Any]:
        places = ", ".join(["%s"] * (len(arguments) + 1))
        row = self.connection.execute(f"select {function}({places})", [self.extraction, *arguments]).fetchone()
        assert row is not None
        return row[0]

    def save(self, fields: Any, scores: Any = None, evidence: Any = None) -> dict[str, Any]:
        return self.call("save_extraction_fields", Jsonb(fields), Jsonb(scores or {}), Jsonb(evidence or {}))

    def update(self, path: str, value: Any, score: float | None = None, evidence: Any = None) -> dict[str, Any]:
        proof = None if evidence is None else Jsonb({path: evidence})
        confidence = None if score is None else str(score)
        return self.call("update_extraction_field", path.split("."), Jsonb(value), confidence, None, proof)

    def remove(self, path: str) -> dict[str, Any]:
        return self.call("remove_extraction_field", path.split("."))

    def unlock(self, path: str) -> dict[str, Any]:
        return self.call("unlock_extraction_field", path.split("."))

    def decide(self, proposal: UUID, accepted: bool | None) -> dict[str, Any]:
        return self.call("decide_extraction_proposal", proposal, accepted)

    def filled(self) -> Table:
        """With fields that an agent wrote, so none of them locked."""
        self.agent().save(FIELDS)
        return self.member()

    @property
    def fields(self) -> Any:
        return self.row("extracted_fields")

    @property
    def locks(self) -> dict[str, str]:
        """Whose, by path."""
        names = {str(getattr(self.house, name)): name for name in ("member", "colleague")}
        return {path: names[lock["by"]] for path, lock in self.row("locks").items()}

    def row(self, column: str) -> Any:
        found = self.connection.execute(f"select {column} from extractions where id = %s", [self.extraction]).fetchone()
        assert found is not None
        return found[0]

    def proposals(self, status: str = "pending") -> list[tuple[Any, ...]]:
        """(name, old, new) in the order they came."""
        return [proposal[1:] for proposal in self.whole_proposals(status)]

    def whole_proposals(self, status: str = "pending") -> list[tuple[Any, ...]]:
        return self.connection.execute(
            "select id, name, old, new from extraction_proposals where extraction_id = %s and status = %s "
            "order by created_at, name",
            [self.extraction, status],
        ).fetchall()

    def refused(self, code: str, function: str, *arguments: Any) -> None:
        with pytest.raises(psycopg.DatabaseError) as error, self.connection.transaction():
            self.call(function, *arguments)
        assert error.value.sqlstate == code


@pytest.fixture
def table(doors: Doors, house: House) -> Iterator[Table]:
    with doors.as_service(house.member, house.org) as connection:
        yield Table(connection, house).filled()


# Who locks -----------------------------------------------------------------------------------------------------------


def test_a_person_locks_what_they_set_as_it_stands_too(table: Table) -> None:
    table.update("total", 5)
    assert table.locks == {"total": "member"} and table.row("version") == 1
    assert table.agent().update("total", 6)["proposed"] == ["total"]
    table.colleague().update("total", 5)  # it is the member's already
    table.update("items.1", FIELDS["items"][1])
    table.update("tags", FIELDS["tags"])
    names = ["items[1].name", "items[1].price", "tags[0]", "tags[1]"]
    assert table.locks == {"total": "member", **dict.fromkeys(names, "colleague")}
    table.agent().update("vendor.name", "Acme")  # an agent locks nothing
    table.agent("correct", spoken=["vendor.name"]).update("vendor.name", "Acme")
    table.member().save({"vendor": {"vat": "DE1"}})  # nor does a form that is sent as a whole
    assert len(table.locks) == 5 and table.row("version") == 1


def test_what_a_person_changes_is_locked_by_them_and_nothing_else_is(table: Table) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.colleague().save({"total": 6, "vendor": {"vat": "DE1"}, "new": {"a": [1], "b": []}})
    assert table.locks == {
        "vendor.name": "member",
        "total": "colleague",
        "new.a[0]": "colleague",
        "new.b": "colleague",
    }
    (at,) = table.connection.execute(
        "select (locks -> 'total' ->> 'at')::timestamptz = now() from extractions where id = %s", [table.extraction]
    ).fetchone() or (None,)
    assert at is True
    table.update("vendor.name", "Acme Limited")
    assert table.locks["vendor.name"] == "colleague"


def test_what_an_agent_extracts_is_not_locked(table: Table) -> None:
    table.agent().update("total", 7)
    assert table.locks == {} and table.fields["total"] == 7


def test_what_a_correction_writes_is_its_persons_as_far_as_they_said_so(table: Table) -> None:
    table.agent("correct", of="colleague", spoken=["total", "new[1]"])
    table.save({"total": 7, "vendor": {"vat": "DE2"}, "new": [1, 2]})
    assert table.locks == {"total": "colleague", "new[1]": "colleague"}
    assert table.fields == {**FIELDS, "total": 7, "vendor": {"name": "Acme", "vat": "DE2"}, "new": [1, 2]}
    # What was said for another task is said for none that carries words out.
    table.agent("extract", of="colleague", spoken=["vendor.name"]).update("vendor.name", "Acme Ltd")
    assert "vendor.name" not in table.locks and table.fields["vendor"]["name"] == "Acme Ltd"


def test_the_words_of_a_correction_end_with_its_transaction(table: Table) -> None:
    """They are a setting of the transaction, and a front end that sets it says nothing by it."""
    said = table.connection.execute("select private.spoken_for()").fetchone()
    assert said == ([],)
    table.agent("correct", spoken=["total"])
    assert table.connection.execute("select private.spoken_for()").fetchone() == (["total"],)
    table.member()
    table.connection.execute("select set_config('fieldmark.spoken', '[\"total\"]', true)")
    assert table.connection.execute("select private.spoken_for(), private.author_of('total')").fetchone() == ([], None)


def test_a_front_end_that_updates_the_row_itself_locks_too(doors: Doors, house: House) -> None:
    with doors.as_front_end(house.member) as connection:
        # What an agent would announce counts for the service alone.
        connection.execute(
            "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', 'c', true)",
            [str(house.run)],
        )
        row = connection.execute(
            "update extractions set extracted_fields = jsonb_set(extracted_fields, '{total}', '13') where id = %s "
            "returning extracted_fields -> 'total', locks -> 'total' ->> 'by'",
            [house.extraction],
        ).fetchone()
        assert row == (13, str(house.member))


def test_a_change_that_is_nobodys_locks_nothing(doors: Doors, house: House) -> None:
    """A migration, or the owner at the console: there is no person whose word it would be."""
    with doors.as_owner() as connection:
        row = connection.execute(
            'update extractions set extracted_fields = \'{"vendor": {"name": "Acme Ltd"}, "b": 1}\' where id = %s '
            "returning array(select jsonb_object_keys(locks)), locks -> 'vendor.name' ->> 'by'",
            [house.extraction],
        ).fetchone()
        assert row == (["vendor.name"], str(house.owner))


def test_restoring_locks_what_it_changes(table: Table) -> None:
    table.agent().update("total", 7)
    table.colleague().call("restore_extraction", 1)
    assert table.locks == {"total": "colleague"} and table.fields == FIELDS


def test_nobody_writes_a_lock(table: Table) -> None:
    """Neither adds one, nor moves it to another, nor keeps one that goes."""
    table.update("total", 6)
    forged = {name: {"by": str(table.house.colleague), "at": "2020-01-01"} for name in ("total", "vendor.name")}
    table.connection.execute("update extractions set locks = %s where id = %s", [Jsonb(forged), table.extraction])
    assert table.locks == {"total": "member"}
    table.agent()
    table.connection.execute("update extractions set locks = '{}' where id = %s", [table.extraction])
    assert table.locks == {"total": "member"}


def test_a_lock_goes_with_its_leaf(table: Table) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.update("total", 6)
    table.remove("vendor")
    assert table.locks == {"total": "member"}
    table.update("total", {"net": 6})
    assert table.locks == {"total.net": "member"}


# Whom a lock binds ----------------------------------------------------------------------------------------------------


def test_an_agent_cannot_change_what_a_person_set_and_the_rest_of_its_call_is_written(table: Table) -> None:
    table.update("vendor.name", "Acme Ltd", 0.5, {"quote": "Acme Ltd"})
    answer = table.agent().save(
        {"vendor": {"name": "Acne", "vat": "DE2"}, "total": 6},
        {"vendor.name": 0.9, "vendor.vat": 0.8},
        {"vendor.name": {"quote": "Acne"}},
    )
    assert answer["proposed"] == ["vendor.name"]
    assert [(change["path"], change["value"], change["confidence"]) for change in answer["changed"]] == [
        ("total", 6, None),
        ("vendor.vat", "DE2", 0.8),
    ]
    assert answer["value"] == table.fields == {**FIELDS, "vendor": {"name": "Acme Ltd", "vat": "DE2"}, "total": 6}
    assert table.row("confidence_scores") == {"vendor.name": 0.5, "vendor.vat": 0.8}
    assert table.row("evidence") == {"vendor.name": {"quote": "Acme Ltd"}}
    assert table.proposals() == [("vendor.name", "Acme Ltd", "Acne")]
    kept = table.connection.execute(
        "select confidence_scores, evidence, run_id::text = current_setting('fieldmark.run_id'), call_id, created_by "
        "from extraction_proposals where extraction_id = %s",
        [table.extraction],
    ).fetchone()
    assert kept == ({"vendor.name": 0.9}, {"vendor.name": {"quote": "Acne"}}, True, "call", table.house.member)


@pytest.mark.parametrize(
    ("admitted_by", "decided_by", "can"),
    [("person", "member", True), ("person", "colleague", False), ("policy", "member", False)],
)
def test_an_approved_call_is_the_word_of_who_approved_it(
    table: Table, admitted_by: str, decided_by: str, can: bool
) -> None:
    table.update("total", 6)
    table.agent()
    table.connection.execute(
        "insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, admitted_by) "
        "values (current_setting('fieldmark.run_id')::uuid, 'call', %s, 'update_field', '{}', repeat('0', 64), "
        "'admitted', %s)",
        [table.house.org, admitted_by],
    )
    table.connection.execute(
        "update tool_calls set decided_by = %s where id = 'call'", [getattr(table.house, decided_by)]
    )
    answer = table.update("total", 7)
    assert ("proposed" not in answer) == can
    assert table.fields["total"] == (7 if can else 6)
    table.update("vendor.name", "Acme Ltd")
    locked = table.row("locks").get("vendor.name", {}).get("by")
    assert locked == (str(getattr(table.house, decided_by)) if admitted_by == "person" else None)


@pytest.mark.parametrize(
    ("task", "of", "spoken", "can"),
    [
        ("correct", "member", ["total"], True),
        ("correct", "member", ["vendor.name", "total.net", "Total", ""], False),  # said of something else
        ("correct", "member", [], False),
        ("correct", "colleague", ["total"], False),
        ("extract", "member", ["total"], False),
    ],
)
def test_only_the_persons_own_correction_can_and_only_what_they_said(
    table: Table, task: str, of: str, spoken: list[str], can: bool
) -> None:
    table.update("total", 6)
    table.agent(task, of, spoken).update("total", 7)
    assert table.fields["total"] == (7 if can else 6)
    assert table.locks == {"total": "member"}
    assert table.proposals() == ([] if can else [("total", 6, 7)])
    removal = table.remove("total")
    assert ("total" not in table.fields) == can
    assert removal == {"path": "total", "version": 4 if can else 2} | (
        {"removed": 7} if can else {"proposed": ["total"]}
    )


def test_no_route_of_an_agents_leads_around_a_lock(table: Table) -> None:
    table.update("total", 6)
    table.agent()
    table.connection.execute("update extractions set extracted_fields = '{}' where id = %s", [table.extraction])
    assert table.fields == {"total": 6}
    table.call("restore_extraction", 1)
    assert table.fields == {**FIELDS, "total": 6}
    table.refused("PT422", "decide_extraction_proposal", table.whole_proposals()[-1][0], True)
    table.refused("PT422", "unlock_extraction_field", ["total"])
    assert table.proposals("pending") and table.locks == {"total": "member"}
    # Nor what it says of a removal that is none.
    table.connection.execute("select set_config('fieldmark.change', %s, true)", ['{"removed": ["items", "0"]}'])
    table.connection.execute("update extractions set extracted_fields = '{}' where id = %s", [table.extraction])
    table.connection.execute("select set_config('fieldmark.change', '', true)")
    assert table.fields == {"total": 6}
    table.call("restore_extraction", 1)
    # What an agent announces of itself beside the ledger makes no correction of an extraction.
    table.connection.execute("select set_config('fieldmark.run_id', %s, true)", [str(uuid4())])
    table.update("total", 9)
    assert table.fields["total"] == 6


def test_after_an_unlock_by_any_member_an_agent_can(table: Table) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.update("vendor.vat", "DE2")
    assert table.colleague().unlock("vendor.name") == {
        "path": "vendor.name",
        "unlocked": ["vendor.name"],
        "version": 3,
    }
    table.agent().save({"vendor": {"name": "Acne", "vat": "DE3"}})
    assert table.fields["vendor"] == {"name": "Acne", "vat": "DE2"}
    table.member().unlock("vendor")
    table.agent().save({"vendor": {"vat": "DE3"}})
    assert table.fields["vendor"] == {"name": "Acne", "vat": "DE3"}
    table.refused("PT422", "unlock_extraction_field", ["vendor", "vat"])
    table.refused("PT422", "unlock_extraction_field", ["nothing"])


def test_an_agent_does_not_score_or_prove_anew_what_a_person_set(table: Table) -> None:
    table.update("total", 6, 0.5, {"page": 1})
    answer = table.agent().save({"total": 6}, {"total": 0.9}, {"total": {"page": 2}})
    assert "proposed" not in answer and answer["changed"] == [] and table.proposals() == []
    assert (table.row("confidence_scores"), table.row("evidence")) == ({"total": 0.5}, {"total": {"page": 1}})
    table.member().unlock("total")
    table.agent().save({"total": 6}, {"total": 0.9}, {"total": {"page": 2}})
    assert (table.row("confidence_scores"), table.row("evidence")) == ({"total": 0.9}, {"total": {"page": 2}})


# Lists and containers ------------------------------------------------------------------------------------------------


def test_a_list_in_which_only_the_locked_leaf_would_change_is_proposed_by_leaf(table: Table) -> None:
    table.update("items.1.price", 3)
    items = json.loads(json.dumps(FIELDS["items"]))
    answer = table.agent().save({"items": items, "total": 6})
    assert answer["proposed"] == ["items[1].price"]
    assert table.proposals() == [("items[1].price", 3, 2)]
    assert table.fields["items"][1] == {"name": "nut", "price": 3} and table.fields["total"] == 6


@pytest.mark.parametrize(
    "items",
    [
        [{"name": "nut", "price": 2}],  # a row less
        [*FIELDS["items"], {"name": "washer", "price": 4}],  # a row more
        [{"name": "screw", "price": 1}, *FIELDS["items"][1:]],  # another cell too
        [],
    ],
    ids=len,
)
def test_a_list_of_which_more_would_change_is_proposed_as_a_whole(table: Table, items: Any) -> None:
    table.update("items.1.price", 3)
    stands = table.fields["items"]
    answer = table.agent().save({"items": items, "total": 6}, {"total": 0.5, "items": 0.6}, {"items": {"page": 1}})
    assert answer["proposed"] == ["items"] and [change["path"] for change in answer["changed"]] == ["total"]
    assert table.proposals() == [("items", stands, items)]
    assert table.fields == {**FIELDS, "items": stands, "total": 6}
    assert table.row("evidence") == {} and table.row("confidence_scores") == {"total": 0.5}


BOLT, NUT = {"name": "bolt", "price": 3, "unit": None, "weight": 1}, {"name": "nut", "price": 2}


@pytest.mark.parametrize(
    "items",
    [
        [BOLT],  # rows behind it less
        [BOLT, NUT, NUT, NUT],  # a row behind it more
        [BOLT | {"name": "screw"}, NUT],  # another cell of its row
        [BOLT | {"name": "screw", "unit": "kg"}, NUT],  # and more of that row
        [BOLT | {"unit": "kg", "vat": 7}, NUT, NUT],  # empty cells of its row, and more of the list
        [BOLT | {"weight": 1.0}, NUT, NUT],  # the same number
        [BOLT, NUT | {"price": 4}],  # another row
    ],
)
def test_a_list_whose_locked_leaf_stays_in_its_row_is_written(table: Table, items: Any) -> None:
    table.agent().save({"items": [BOLT | {"price": 1}, NUT]})
    table.member().update("items.0.price", 3)
    assert "proposed" not in table.agent().save({"items": items})
    assert table.fields["items"] == items and table.locks == {"items[0].price": "member"}


@pytest.mark.parametrize(
    "items",
    [
        [{"name": "screw", "price": 3}, BOLT | {"price": 9}, NUT],  # a row before it
        [{"name": "screw", "price": 3}],  # another row alone
        [NUT | {"price": 3}, BOLT | {"price": 9}],  # another order
        [{"name": None, "price": 3}, NUT | {"price": 4}],  # its name gone
        [{"price": 3}, NUT | {"price": 4}],
    ],
)
def test_a_locked_leaf_does_not_end_up_in_another_row_that_reads_alike(table: Table, items: Any) -> None:
    """As when the agent finds a row more, whose price is what the person set for the one that stood there."""
    stands = [BOLT, NUT]
    table.agent().save({"items": [BOLT | {"price": 1}, NUT], "order": {"items": [BOLT | {"price": 1}, NUT]}})
    table.member().update("items.0.price", 3)
    table.update("order.items.0.price", 3)
    answer = table.agent().save({"items": items, "order": {"items": items}, "total": 6})
    assert answer["proposed"] == ["items", "order.items"]
    assert table.proposals() == [("items", stands, items), ("order.items", stands, items)]
    assert table.fields == {**FIELDS, "items": stands, "order": {"items": stands}, "total": 6}
    # Its own person's correction may.
    spoken = ["items[0].price"]
    assert table.agent("correct", spoken=["items[0].name"]).save({"items": items})["proposed"] == ["items"]
    assert "proposed" not in table.agent("correct", spoken=spoken).save({"items": items})
    assert table.fields["items"] == items


def test_rows_of_which_each_has_a_locked_leaf_do_not_change_places_around_them(table: Table) -> None:
    table.update("items.0.price", 3)
    table.update("items.1.price", 3)
    bolt, nut, last = table.fields["items"]
    assert table.agent().save({"items": [nut, bolt, last]})["proposed"] == ["items"]
    assert table.fields["items"] == [bolt, nut, last]


def test_two_rows_of_which_only_locked_leaves_would_change_are_proposed_by_leaf(table: Table) -> None:
    """What a lock keeps gives way to nothing, so that the other locked leaf of its row stands in the same row."""
    table.update("items.0", {"name": "screw", "price": 3})
    table.update("items.1.price", 3)
    table.agent().save({"items": [FIELDS["items"][0] | {"price": 3}, *FIELDS["items"][1:]]})
    assert table.proposals() == [("items[0].name", "screw", "bolt"), ("items[1].price", 3, 2)]


def test_a_locked_leaf_whose_keys_are_odd_does_not_either(table: Table) -> None:
    """Rows that are lists, and keys that stand quoted in a name."""
    table.agent().save({"a[0].b": [["bolt", {"c.d": 1}], ["nut", {"c.d": 2}]]})
    table.member().call("update_extraction_field", ["a[0].b", "0", "1", "c.d"], Jsonb(3))
    wanted = [["screw", {"c.d": 3}], ["bolt", {"c.d": 9}], ["nut", {"c.d": 2}]]
    assert table.agent().save({"a[0].b": wanted})["proposed"] == ['["a[0].b"]']
    assert table.fields["a[0].b"] == [["bolt", {"c.d": 3}], ["nut", {"c.d": 2}]]


def test_cells_around_a_locked_one_are_written_one_by_one(table: Table) -> None:
    table.update("items.0.price", 3)
    table.agent()
    for path, value in [("items.0.name", "screw"), ("items.1.name", "pin"), ("items.3", {"name": "nail"})]:
        assert "proposed" not in table.update(path, value)
    assert [item["name"] for item in table.fields["items"]] == ["screw", "pin", "nut", "nail"]


@pytest.mark.parametrize(
    ("path", "place"),
    [("vendor", "vendor"), ("items.1", "items[1]"), ("items", "items"), ("items.1.price", "items[1].price")],
)
def test_an_agent_cannot_remove_what_holds_a_locked_leaf(table: Table, path: str, place: str) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.update("items.1.price", 3)
    before = table.fields
    answer = table.agent().remove(path)
    assert answer["proposed"] == [place] and answer["version"] == 3
    assert table.fields == before
    ((proposal, name, _, new),) = table.whole_proposals()
    assert (name, new) == (place, None)
    table.member().decide(proposal, True)
    table.agent()
    table.refused("PT422", "remove_extraction_field", [*path.split("."), "more"])
    assert table.proposals() == []


def test_an_object_that_an_agent_would_replace_is_proposed_as_a_whole(table: Table) -> None:
    table.update("vendor.name", "Acme Ltd")
    table.agent().update("vendor", "Acme")
    assert table.proposals() == [("vendor", {"name": "Acme Ltd", "vat": "DE1"}, "Acme")]
    assert table.fields["vendor"] == {"name": "Acme Ltd", "vat": "DE1"}


@pytest.mark.parametrize(("leaves", "names"), [(500, 500), (501, 1)])
def test_very_many_held_leaves_are_proposed_by_what_holds_them(table: Table, leaves: int, names: int) -> None:
    """Else an agent could make one statement take the time of many: each is put back by itself."""
    table.save({"notes": {"all": dict.fromkeys(map(str, range(leaves)), 1)}})
    answer = table.agent().save({"notes": {"all": dict.fromkeys(map(str, range(leaves)), 2)}, "total": 6})
    assert len(answer["proposed"]) == names and ("notes" in answer["proposed"]) == (names == 1)
    assert table.fields == {**FIELDS, "notes": {"all": dict.fromkeys(map(str, range(leaves)), 1)}, "total": 6}


def test_what_a_person_emptied_stays_empty(table: Table) -> None:
    table.update("tags", [])
    answer = table.agent().update("tags.0", "x")
    assert answer["proposed"] == ["tags"] and answer["value"] is None and table.fields["tags"] == []


@pytest.mark.parametrize("who", ["agent", "person"])
def test_locks_and_proposals_move_up_with_the_items_behind_a_removed_one(table: Table, who: str) -> None:
    """Equal values on both sides of the gap: what is looked at is the place, not the value."""
    table.save({"items": [{"name": "x"}, {"name": "pin"}, {"name": "pin"}]}, {"items[2].name": 0.5})
    table.unlock("items.0.name")
    table.unlock("items.1.name")
    table.agent().update("items.2.name", "hex nut", 0.75)
    assert table.proposals() == [("items[2].name", "pin", "hex nut")]
    if who == "person":
        table.colleague()
    answer = table.remove("items.0")
    assert "proposed" not in answer
    assert table.locks == {"items[1].name": "member"}
    assert table.row("confidence_scores") == {"items[1].name": 0.5}
    ((proposal, *told),) = table.whole_proposals()
    assert told == ["items[1].name", "pin", "hex nut"]
    table.member().decide(proposal, True)
    assert table.fields["items"] == [{"name": "pin"}, {"name": "hex nut"}]
    assert table.row("confidence_scores") == {"items[1].name": 0.75}


# Proposals ------------------------------------------------------------------------------------------------------------


def test_a_proposal_is_accepted_as_the_persons_own_with_its_proof(table: Table) -> None:
    table.update("total", 6)
    table.agent().update("total", 7, 0.75, {"quote": "7.00"})
    ((proposal, *_),) = table.whole_proposals()
    assert table.colleague().decide(proposal, True) == {"path": "total", "value": 7, "version": 3}
    assert table.fields["total"] == 7 and table.locks == {"total": "colleague"}
    assert (table.row("confidence_scores"), table.row("evidence")) == ({"total": 0.75}, {"total": {"quote": "7.00"}})
    assert table.connection.execute(
        "select actor, created_by, run_id from extraction_journal where extraction_id = %s and version = 3",
        [table.extraction],
    ).fetchall() == [("user", table.house.colleague, None)]
    assert table.connection.execute(
        "select status, decided_by, decided_at is not null from extraction_proposals where id = %s", [proposal]
    ).fetchone() == ("accepted", table.house.colleague, True)
    for accepted in (True, False):
        table.refused("PT409", "decide_extraction_proposal", proposal, accepted)


def test_a_list_is_accepted_as_a_whole(table: Table) -> None:
    table.update("items.1.price", 3)
    items = [{"name": "nut", "price": 2}]
    table.agent().save({"items": items}, {"items[0].price": 0.75}, {"items[0].name": {"page": 1}})
    ((proposal, *_),) = table.whole_proposals()
    table.member().decide(proposal, True)
    assert table.fields["items"] == items
    assert (table.row("confidence_scores"), table.row("evidence")) == (
        {"items[0].price": 0.75},
        {"items[0].name": {"page": 1}},
    )


def test_a_rejected_one_comes_again_only_when_another_value_stands(table: Table) -> None:
    table.update("total", 6)
    table.agent().update("total", 7)
    ((proposal, *_),) = table.whole_proposals()
    table.member().decide(proposal, False)
    assert table.fields["total"] == 6 and table.row("version") == 2
    assert table.agent().update("total", 7)["proposed"] == ["total"]
    assert table.proposals() == []
    table.update("total", 8)
    assert table.proposals() == [("total", 6, 8)]
    table.member().update("total", 9)
    assert table.proposals() == []
    table.agent().update("total", 7)
    assert table.proposals() == [("total", 9, 7)]


def test_the_same_is_proposed_once_and_a_newer_one_takes_its_place(table: Table) -> None:
    table.update("total", 6)
    table.agent().update("total", 7)
    table.agent().update("total", 7)
    assert len(table.proposals()) == 1
    table.update("total", 6)  # an equal value is no proposal, and takes none back
    assert table.proposals() == [("total", 6, 7)]
    table.update("total", None)
    assert table.proposals() == [("total", 6, None)] and table.proposals("superseded") == [("total", 6, 7)]
    assert table.connection.execute(
        "select new = 'null' from extraction_proposals where extraction_id = %s and status = 'pending'",
        [table.extraction],
    ).fetchone() == (True,)
    table.remove("total")
    assert len(table.proposals()) == 1 and len(table.proposals("superseded")) == 2


def test_what_is_proposed_for_another_extraction_is_neither_the_same_nor_taken_back(table: Table) -> None:
    """The house's other extractions wait for the same value at the same place."""
    elsewhere = "select count(*) from extraction_proposals where extraction_id <> %s and name = 'total' and status = %s"

    def others(status: str) -> Any:
        return table.connection.execute(elsewhere, [table.extraction, status]).fetchone()

    waiting = others("pending")
    assert waiting == (2,)
    table.update("total", 6)
    assert table.agent().update("total", 13)["proposed"] == ["total"]
    assert table.proposals() == [("total", 6, 13)]
    table.agent().update("total", 14)
    assert table.proposals() == [("total", 6, 14)]
    table.member().update("total", 15)
    assert table.proposals() == [] and others("pending") == waiting


def test_one_for_a_whole_takes_the_place_of_those_for_its_parts(table: Table) -> None:
    table.update("items.1.price", 3)
    table.agent().update("items.1.price", 4)
    table.save({"items": []})
    assert [name for name, *_ in table.proposals()] == ["items"]
    assert table.proposals("superseded") == [("items[1].price", 3, 4)]


@pytest.mark.parametrize("of", ["member", "agent"])
def test_a_proposal_goes_with_the_item_it_is_for_also_where_the_next_reads_alike(table: Table, of: str) -> None:
    table.save({"items": [{"name": "bolt", "unit": "kg"}, {"name": "nut", "unit": "kg"}, {"name": "pin", "unit": "m"}]})
    table.agent().update("items.0.unit", "t")
    table.update("items.2.unit", "cm")
    table.member()
    if of == "agent":
        table.unlock("items.0")
        table.agent()
    assert "proposed" not in table.remove("items.0")
    assert table.proposals("superseded") == [("items[0].unit", "kg", "t")]
    assert table.proposals() == [("items[1].unit", "m", "cm")]


def test_a_rejection_goes_with_its_row_too(table: Table) -> None:
    table.save({"items": [{"name": "bolt", "unit": "kg"}, {"name": "nut", "unit": "kg"}, {"name": "pin", "unit": "m"}]})
    table.agent().update("items.0.unit", "t")
    table.update("items.2.unit", "cm")
    table.member()
    for proposal, *_ in table.whole_proposals():
        table.decide(proposal, False)
    table.remove("items.0")
    table.agent().update("items.1.unit", "cm")
    assert table.proposals() == []
    # Another row, which reads like the one of which it was rejected.
    table.update("items.0.unit", "t")
    assert table.proposals() == [("items[0].unit", "kg", "t")]
    table.member().save({"items": [{"name": "pin", "unit": "m"}, {"name": "nut", "unit": "m"}]})
    table.agent().update("items.1.unit", "cm")
    assert table.proposals() == [("items[1].unit", "m", "cm")]


def test_one_to_remove_an_item_is_accepted_once(table: Table) -> None:
    """Then another item stands there, and reads alike."""
    table.save({"tags": ["x", "x"]})
    table.agent().remove("tags.0")
    ((proposal, *_),) = table.whole_proposals()
    table.member().decide(proposal, True)
    assert table.fields["tags"] == ["x"] and table.proposals() == []
    assert table.proposals("accepted") == [("tags[0]", "x", None)]


@pytest.mark.parametrize(
    ("items", "waits"),
    [
        ([{"name": "nut", "unit": "kg"}, {"name": "bolt", "unit": "kg"}], False),  # another order
        ([{"name": "nut", "unit": "kg"}], False),  # the row less
        ([{"name": "pin", "unit": "kg", "price": 4}, {"name": "nut", "unit": "kg"}], False),  # another row
        ([{"name": "bolts", "unit": "kg"}, {"name": "nut", "unit": "kg"}], True),  # another cell of its row
        ([{"name": "bolt", "unit": "kg"}, {"name": "pin", "unit": "g"}], True),  # another row
        ([{"name": "bolt", "unit": "kg"}], True),
        ([{"name": "bolt", "unit": "kg", "price": 4}, {"name": "nut", "unit": "kg"}, {"name": "pin"}], True),
    ],
)
def test_a_proposal_waits_while_its_row_stands(table: Table, items: Any, waits: bool) -> None:
    table.save({"items": [{"name": "bolt", "unit": "kg"}, {"name": "nut", "unit": "kg"}]})
    table.agent().update("items.0.unit", "t")
    table.member().save({"items": items})
    assert table.proposals() == ([("items[0].unit", "kg", "t")] if waits else [])
    assert table.proposals("superseded") == ([] if waits else [("items[0].unit", "kg", "t")])


def test_two_proposals_for_one_row_are_accepted_one_after_the_other(table: Table) -> None:
    table.save({"items": [{"name": "bolt", "unit": "kg"}]})
    table.agent().save({"items": [{"name": "bolts", "unit": "t"}]})
    table.member()
    for proposal, *_ in table.whole_proposals():
        table.decide(proposal, True)
    assert table.fields["items"] == [{"name": "bolts", "unit": "t"}]


def test_a_proposal_that_is_none_cannot_be_decided(table: Table) -> None:
    table.update("total", 6)
    table.agent().update("total", 7)
    ((proposal, *_),) = table.whole_proposals()
    table.member()
    for another in (uuid4(), table.house.proposal):
        table.refused("PT404", "decide_extraction_proposal", another, True)
    table.refused("PT422", "decide_extraction_proposal", proposal, None)
    become(table.connection, "authenticated", {"sub": str(table.house.stranger), "org_id": str(table.house.other_org)})
    table.refused("PT404", "decide_extraction_proposal", proposal, True)
    table.refused("PT404", "unlock_extraction_field", ["total"])


def test_each_change_is_one_update_of_the_row(table: Table) -> None:
    """Who follows the table sees it once, with fields, scores, evidence and locks together."""

    def updates() -> int:
        (count,) = table.connection.execute(
            "select n_tup_upd from pg_stat_xact_user_tables where relname = 'extractions'"
        ).fetchone() or (0,)
        return count

    for change in (
        lambda: table.update("total", 6, 0.5, {"page": 1}),
        lambda: table.save({"total": 7}, {"total": 0.5}, {"total": {"page": 1}}),
        lambda: table.remove("items.0"),
        lambda: table.agent().update("total", 8, 0.5),
    ):
        before = updates()
        change()
        assert updates() == before + 1


# Whatever happens -----------------------------------------------------------------------------------------------------

DECISIONS = st.tuples(st.just("decide"), st.integers(0, 3), st.booleans())


def entries(table: Table) -> tuple[dict[str, tuple[str, Any, Any]], dict[str, Any]]:
    """(by name: whose lock, value as text, score) of each locked leaf, and all leaves."""
    nodes = table.connection.execute(
        "select name, value::text from extractions, private.nodes(extracted_fields) "
        "where id = %s and private.is_leaf(value)",
        [table.extraction],
    ).fetchall()
    leaves = dict(nodes)
    scores = table.row("confidence_scores")
    return {name: (lock["by"], leaves.get(name), scores.get(name)) for name, lock in table.row("locks").items()}, leaves


@settings(max_examples=50)
@given(st.lists(st.tuples(WHO, OPERATIONS | DECISIONS), min_size=2, max_size=12))
def test_no_agent_changes_a_locked_leaf_and_every_proposal_can_be_accepted(
    doors: Doors, house: House, operations: list[tuple[tuple[str, str | None, list[str]], tuple[Any, ...]]]
) -> None:
    with doors.as_service(house.member, house.org) as connection:
        table = Table(connection, house)
        for (name, task, spoken), operation in operations:
            before, _ = entries(table)
            act(connection, house, table.extraction, name, task, spoken)
            answer: Any = None
            if operation[0] != "decide":
                answer = perform(connection, table.extraction, operation)
            elif task is None and (waiting := table.whole_proposals()):
                proposal, path, _, new = waiting[operation[1] % len(waiting)]
                told = table.decide(proposal, operation[2])
                assert told["path"] == path and (not operation[2] or new is None or told["value"] == new)
            after, leaves = entries(table)
            assert all(name in leaves for name in after)
            # Its own person's locks do not bind a correction where the person has said so.
            owner = str(getattr(house, name))
            said = set(spoken) if task == "correct" else set()
            bound = {
                path: lock
                for path, lock in before.items()
                if task is not None and not (lock[0] == owner and path in said)
            }
            if operation[0] == "remove" and answer and "proposed" not in answer:
                # Items may have moved up, with their locks.
                assert Counter(map(str, bound.values())) <= Counter(map(str, after.values()))
            else:
                assert {path: after.get(path) for path in bound} == bound
                if task is not None:
                    # What it locks anew is what the person has said.
                    anew = {path: lock[0] for path, lock in after.items() if lock[:2] != before.get(path, lock[1:])[:2]}
                    assert set(anew) <= said and set(anew.values()) <= {owner}
            stale = connection.execute(
                "select count(*) from extraction_proposals p join extractions e on e.id = p.extraction_id "
                "where e.id = %s and p.status = 'pending' and (private.name_at(extracted_fields, path) is distinct "
                "from name or (extracted_fields #> path)::text <> old::text or old::text = new::text)",
                [table.extraction],
            ).fetchone()
            assert stale == (0,)


# What kind of document it is, and whether it is complete --------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "of", "spoken", "can"),
    [
        ("correct", "member", ["document_type"], True),
        ("correct", "member", ["total"], False),
        ("correct", "colleague", ["document_type"], False),
        ("extract", "member", ["document_type"], False),
    ],
)
def test_what_a_person_says_of_the_document_stands(
    table: Table, task: str, of: str, spoken: list[str], can: bool
) -> None:
    table.agent().call("identify_document", "letter")
    assert table.agent().call("identify_document", "order")["value"] == "order"  # what an agent said binds none
    table.member().call("identify_document", "invoice")
    said = table.agent(task, of, spoken).call("identify_document", "receipt")
    assert said["value"] == table.row("document_type") == ("receipt" if can else "invoice")
    table.colleague().call("identify_document", "contract")
    assert table.row("document_type") == "contract"


def test_what_a_person_has_said_of_the_document_in_words_binds_agents_too(table: Table) -> None:
    table.agent("correct", spoken=["document_type"]).call("identify_document", "invoice")
    assert table.agent().call("identify_document", "receipt")["value"] == "invoice"
    assert table.agent("correct", spoken=["total"]).call("identify_document", "receipt")["value"] == "invoice"


@pytest.mark.parametrize(
    ("schema", "who", "status"),
    [({}, "agent", "in_progress"), ({}, "member", "completed"), (None, "agent", "completed")],
)
def test_what_an_agent_writes_anew_it_has_to_complete_anew(table: Table, schema: Any, who: str, status: str) -> None:
    table.member().extraction = uuid4()
    table.connection.execute(
        "insert into extractions (id, org_id, document_id, schema) values (%s, %s, %s, %s)",
        [table.extraction, table.house.org, table.house.document, None if schema is None else Jsonb(schema)],
    )
    table.agent().save({"total": 5})
    table.call("complete_extraction")
    table.save({"total": 5})  # which changes nothing
    assert table.row("status") == "completed"
    getattr(table, who)().update("total", 6)
    assert table.row("status") == status
    table.call("complete_extraction")
    getattr(table, who)().remove("total")
    assert table.row("status") == status
