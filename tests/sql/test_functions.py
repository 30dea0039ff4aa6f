"""The SQL functions that edit extracted fields: what they write, return and reject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from edited_extraction import EditedExtraction
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample, set_role

FIELDS = {
    "vendor": {"name": "Acme", "a.b": {"c": 1}, "": "empty", "Größe": "50 µm", "0": "key"},
    "items": [{"price": 1, "name": "bolt"}, {"price": 2}, {"price": 3}],
    "none": None,
    "empty_list": [],
    "empty_object": {},
    "total": 12.50,
}


@pytest.fixture
def empty(roles: Roles, sample: Sample) -> Iterator[EditedExtraction]:
    with roles.as_front_end(sample.member) as connection:
        yield EditedExtraction(connection, sample)


@pytest.fixture
def filled(empty: EditedExtraction) -> EditedExtraction:
    assert empty.save(FIELDS) == {"value": FIELDS, "version": 1}
    return empty


def value_at(value: Any, path: list[str]) -> Any:
    for step in path:
        value = value[int(step) if isinstance(value, list) else step]
    return value


# Update --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (["vendor", "name"], "Acme Ltd", "vendor.name"),
        (["vendor", "address", "street", "number"], 7, "vendor.address.street.number"),  # missing parents
        (["items", "1", "price"], 9, "items[1].price"),
        (["items", "3", "price"], 4, "items[3].price"),  # exactly at the end
        (["new_list", "0", "price"], 1, "new_list[0].price"),
        (["vendor", "a.b", "c"], 2, 'vendor["a.b"].c'),
        (["empty_object", "0"], "a key, no index", "empty_object.0"),
        (["say \"hi\" \\ 'x'\n\t\x01"], 1, '["say \\"hi\\" \\\\ \'x\'\\n\\t\\u0001"]'),
        (["items"], "no list any more", "items"),
        (["vendor", "name"], None, "vendor.name"),  # JSON null is a value
    ],
    ids=str,
)
def test_update_changes_one_field(filled: EditedExtraction, path: list[str], value: Any, name: str) -> None:
    answer = filled.update(path, value, 0.75, {name: {"quote": "x"}})
    assert answer == {"path": name, "value": value, "version": 2}
    fields = filled.fields
    assert value_at(fields, path) == value and filled.version == 2
    assert {key: fields[key] for key in fields if key != path[0]} == {
        key: FIELDS[key] for key in FIELDS if key != path[0]
    }
    assert filled.scores == {name: 0.75} and filled.evidence == {name: {"quote": "x"}}


@pytest.mark.parametrize(
    "path",
    [
        ["total", "net"],  # through a value
        ["items", "4", "price"],  # past the end of a list
        ["items", "-1"],
        ["items", "01"],
        ["items", "9" * 40],
        ["fresh", "5"],  # a list that does not exist starts with 0
        ["fresh", "0", "5"],
        [],
        None,
        ["a"] * 33,
        [["a", "b"], ["c", "d"]],
        ["a", None],
        ["k" * 1001],
        ["k" * 990, '"' * 10],  # quoted, it is longer
    ],
    ids=lambda path: str(path)[:60],
)
def test_unwritable_path_is_rejected(filled: EditedExtraction, path: Any) -> None:
    filled.assert_rejected("update_extraction_field", path, Jsonb(1), 0.5)


@pytest.mark.parametrize(
    ("path", "created"), [("none.x", {"x": 1}), ("none.x.0", {"x": [1]}), ("none.0.y", [{"y": 1}])]
)
def test_null_counts_as_a_missing_object_or_list(filled: EditedExtraction, path: str, created: object) -> None:
    filled.update(path, 1)
    assert filled.fields == {**FIELDS, "none": created}


def test_confidence_out_of_range_is_rejected(filled: EditedExtraction) -> None:
    for confidence in ("NaN", "-0.01", "1.01", "1e-400"):
        filled.assert_rejected("update_extraction_field", ["total"], Jsonb(1), confidence)
    for confidence in ("0", "1.0", "0.123456789"):
        filled.update("total", 1, confidence)
        assert filled.scores == {"total": float(confidence)}


def test_confidence_scores_have_the_shape_of_the_fields(filled: EditedExtraction) -> None:
    filled.save({}, {"total": 0.5, "vendor.name": 0.25, "items[1].price": 1, "none": 0})
    nested = filled.column("confidence_scores")
    assert nested["vendor"]["name"] == 0.25 and nested["items"][1]["price"] == 1
    assert (nested["total"], nested["none"]) == (0.5, 0)
    # A write in this shape is stored by path. Scores of missing values are dropped.
    filled.connection.execute(
        "update extractions set confidence_scores = %s where id = %s",
        [Jsonb({"vendor": {"name": 0.75}, "items": [None, {"price": 0.5}], "x": 1}), filled.id],
    )
    assert filled.scores == {"vendor.name": 0.75, "items[1].price": 0.5}
    # A change of the value, or of the list, changes both.
    filled.update("vendor.name", "Bolt")
    filled.remove("items.0")
    assert filled.scores == {"items[0].price": 0.5}
    assert filled.column("confidence_scores")["items"][0] == {"price": 0.5}


def test_null_empties_a_field(filled: EditedExtraction) -> None:
    filled.fetch("select update_extraction_field(%s, '{total}', null)", filled.id)
    assert filled.fields["total"] is None and "total" in filled.fields


# Save ----------------------------------------------------------------------------------------------------------------


def test_save_merges_objects_and_replaces_everything_else(filled: EditedExtraction) -> None:
    filled.save({}, {"none": 0.5}, {"none": {"page": 1}})
    answer = filled.save({"vendor": {"name": None, "vat": "DE1"}, "items": [{"price": 5}], "total": {"net": 1}})
    vendor = {**value_at(FIELDS, ["vendor"]), "name": None, "vat": "DE1"}
    expected = {**FIELDS, "vendor": vendor, "items": [{"price": 5}], "total": {"net": 1}}
    assert answer == {"value": expected, "version": 2} and filled.fields == expected
    # Saving equal values changes nothing and keeps scores and evidence.
    assert filled.save({"total": {"net": 1}, "vendor": {}}) == {"value": expected, "version": 2}
    assert filled.journal(3) == [] and filled.scores == {"none": 0.5} and filled.evidence == {"none": {"page": 1}}


def test_changed_value_loses_its_score_and_evidence(empty: EditedExtraction) -> None:
    empty.save(
        {"vendor": {"name": "Acme", "a.b": {"c": 1}}, "items": [1, 2]},
        {"vendor.name": 0.5, 'vendor["a.b"].c': 0, "items": 0.7, "items[0]": 0.8, "items[1]": 0.9},
        {"vendor.name": {"quote": "Acme"}, 'vendor["a.b"].c': {"quote": "1"}},
    )
    empty.save({"vendor": {"name": "Acme Ltd"}, "items": [1, 3]}, {"vendor.name": 0.5})
    assert empty.scores == {"vendor.name": 0.5, 'vendor["a.b"].c': 0, "items[0]": 0.8}
    assert empty.evidence == {'vendor["a.b"].c': {"quote": "1"}}
    empty.update("vendor", "Acme")
    assert empty.evidence == {}


@pytest.mark.parametrize(
    ("scores", "evidence"),
    [
        ({"totall": 0.5}, {}),
        ({"items[3]": 0.5}, {}),
        ({"total": 1.01}, {}),
        ({"total": "high"}, {}),
        ({"total": None}, {}),
        ([0.5], {}),
        ({}, {"other": {}}),
        ({}, [0.5]),
    ],
    ids=str,
)
def test_invalid_scores_and_evidence_are_refused(filled: EditedExtraction, scores: Any, evidence: Any) -> None:
    filled.assert_rejected("save_extraction_fields", Jsonb({"total": 1}), Jsonb(scores), Jsonb(evidence))


# Bounds --------------------------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_fields_are_bounded_in_depth_and_size(empty: EditedExtraction) -> None:
    assert empty.save(nested(32))["version"] == 1
    for fields in (
        *([1], None, {"b": nested(32)}),
        *({"a": "x" * 4_194_304}, {"x" * 4_194_304: 1}, {"a": [1] * 100_001}),
        {"k" * 1_000_000: [True] * 90_000},  # as names they would be 90 GB
    ):
        empty.assert_rejected("save_extraction_fields", Jsonb(fields))
    save = "select save_extraction_fields(%s, %s::text::jsonb)"
    empty.fetch(
        save, empty.id, '{"a": [0.1, 1e-7, 1e22, 12345678901234567890, 123456789012345.50, 0.30000000000000004]}'
    )
    # A program that reads JSON would lose digits of the last two.
    for number in ("1e100", "[-1e131071]", '{"b": 1e-101}', "12345678901234567.89", "[0.12345678901234567890]"):
        empty.assert_action_rejected(lambda number=number: empty.fetch(save, empty.id, f'{{"a": {number}}}'), "PT422")
    empty.assert_rejected("update_extraction_field", ["b", "c"], Jsonb(nested(31)))
    assert empty.update(["p"] * 32, 1)["path"] == ".".join(["p"] * 32)
    empty.save({"text": "x" * 2_000_000, "number": 10**99, "small": 1e-99, "list": list(range(500))})
    # Two values that fit alone exceed the limit together.
    empty.assert_rejected("update_extraction_field", ["more"], Jsonb("x" * 2_300_000))
    large = {"q": {"quote": "x" * 4_200_000}}
    empty.assert_rejected("save_extraction_fields", Jsonb({"q": 1}), Jsonb({}), Jsonb(large))


# Remove --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (["vendor", "a.b", "c"], 'vendor["a.b"].c'),
        (["items", "1"], "items[1]"),
        (["items", "0", "price"], "items[0].price"),
        (["none"], "none"),
        (["empty_list"], "empty_list"),
    ],
    ids=str,
)
def test_remove_returns_the_removed_value(filled: EditedExtraction, path: list[str], name: str) -> None:
    *above, last = path
    parent: Any = value_at(FIELDS, above)
    left: Any = (
        [item for number, item in enumerate(parent) if number != int(last)]
        if isinstance(parent, list)
        else {key: value for key, value in parent.items() if key != last}
    )
    assert filled.remove(path) == {"path": name, "removed": value_at(FIELDS, path), "version": 2}
    assert value_at(filled.fields, above) == left


@pytest.mark.parametrize(
    "path", [["nothing"], ["total", "net"], ["items", "3"], ["items", "-1"], ["items", "price"], [], None], ids=str
)
def test_removing_a_missing_value_is_rejected(filled: EditedExtraction, path: Any) -> None:
    filled.assert_rejected("remove_extraction_field", path)


def test_scores_move_with_items_after_a_removed_item(empty: EditedExtraction) -> None:
    # Equal values around the removed item: positions decide, not values.
    empty.save(
        {"items": [{"p": 1}, {"p": 1}, {"p": 1}, {"p": 4}], "items2": [1, 2], "x": {"items": [1, 2]}},
        {"items[0].p": 0, "items[1].p": 0.1, "items[3].p": 0.3, "items[3]": 0.35, "items": 0.5}
        | {"items2[1]": 0.6, "x.items[1]": 0.7},
        {"items[1]": {"n": 1}, "items[2].p": {"n": 2}},
    )
    empty.remove("items.1")
    unaffected = {"items2[1]": 0.6, "x.items[1]": 0.7}
    assert empty.scores == {"items[0].p": 0, "items[2].p": 0.3, "items[2]": 0.35, **unaffected}
    assert empty.evidence == {"items[1].p": {"n": 2}}
    empty.remove("items.0")
    assert empty.scores == {"items[1].p": 0.3, "items[1]": 0.35, **unaffected}


# Identify, complete, restore -----------------------------------------------------------------------------------------


def test_identify_and_complete_add_no_version(filled: EditedExtraction) -> None:
    assert filled.call("identify_document", "invoice") == {"value": "invoice", "version": 1}
    assert filled.call("complete_extraction") == {"value": "completed", "version": 1}
    assert (filled.column("document_type"), filled.column("status"), filled.version) == ("invoice", "completed", 1)
    for kind in (None, "", "x" * 201):
        filled.assert_rejected("identify_document", kind)


def test_restore_adds_a_version_equal_to_the_old_one(filled: EditedExtraction) -> None:
    fields = {**FIELDS, "long": [[number, {"n": number}] for number in range(12)]}  # as text, 10 comes before 2
    filled.save({"long": fields["long"]}, {"vendor.name": 0.5, "total": 0.25})
    filled.update("total", 99, 1)
    filled.remove("items")
    filled.update("long", None)
    assert filled.restore(2) == {"value": fields, "version": 6}
    assert (filled.fields, filled.version) == (fields, 6)
    # The score of 99 is removed, that of an unchanged value is kept.
    assert filled.scores == {"vendor.name": 0.5}
    assert filled.restore(0) == {"value": {}, "version": 7} == filled.restore(7)
    for version in (-1, 8, None):
        filled.assert_rejected("restore_extraction", version)


def test_restored_item_comes_back_with_what_was_stored_about_it(filled: EditedExtraction) -> None:
    fields = {"items": [{"p": 1}, {"p": 1}, {"p": 1}, {"p": 4}], "total": 7}
    filled.save(
        fields,
        {"items[0].p": 0, "items[1].p": 0.1, "items[3].p": 0.3, "items[1]": 0.35, "items": 0.5, "total": 1},
        {"items[1]": {"n": 1}, "items[2].p": {"n": 2}, "items": {"doubts": ["other_column"]}},
    )
    filled.update("items.1.p", 1)
    stored = "extracted_fields, confidences, evidence, locks, accepted, problems"
    before = filled.fetch(f"select row({stored})::text from extractions where id = %s", filled.id)
    asked = "select array_agg(row(path, status, outcome)::text order by path) from fields where extraction_id = %s"
    statuses = filled.fetch(asked, filled.id)
    version = filled.version
    for path in ("items.1", "items.0", "items.0"):
        filled.remove(path)
    assert len(filled.column("removed_items")) == 3
    for step in (2, 1, 0):
        filled.restore(version + step)
    assert filled.fetch(f"select row({stored})::text from extractions where id = %s", filled.id) == before
    assert filled.fetch(asked, filled.id) == statuses
    assert filled.column("removed_items") == []


def test_item_that_is_restored_with_other_changes_has_new_entries(filled: EditedExtraction) -> None:
    filled.save({"items": [{"p": 1}, {"p": 2}]}, {"items[0].p": 0.1, "items[1].p": 0.2})
    version = filled.version
    filled.remove("items.0")
    filled.update("vendor.name", "Other")
    filled.restore(version)
    assert filled.fields["items"] == [{"p": 1}, {"p": 2}]
    assert filled.scores == {} and {"items[0].p", "items[1].p"} <= filled.locks.keys()


# The journal ---------------------------------------------------------------------------------------------------------


def test_journal_records_old_and_new_value_of_each_changed_leaf(filled: EditedExtraction) -> None:
    filled.update("vendor.name", "Acme Ltd")
    assert filled.journal(2) == [(["vendor", "name"], "kk", "Acme", "Acme Ltd")]
    filled.remove("items.0")
    assert filled.journal(3) == [
        (["items", "0", "name"], "kik", "bolt", None),
        (["items", "0", "price"], "kik", 1, 2),
        (["items", "1", "price"], "kik", 2, 3),
        (["items", "2", "price"], "kik", 3, None),
    ]
    filled.update("empty_list.0", {"0": 1})
    assert filled.journal(4) == [(["empty_list"], "k", [], None), (["empty_list", "0", "0"], "kik", None, 1)]
    # An index and a key with the same name are different paths.
    filled.update("empty_list", {"0": {"0": 1}})
    assert {steps for _, steps, _, _ in filled.journal(5)} == {"kik", "kkk"}
    # 12.5 and 12.50 are equal as jsonb, but shown differently.
    assert filled.fetch("select update_extraction_field(%s, '{total}', '12.50') -> 'version'", filled.id) == 6


def test_plain_update_is_journaled_and_may_remove_scores(filled: EditedExtraction, sample: Sample) -> None:
    filled.save({}, {"total": 0.5, "vendor.name": 0.5, "none": 0.5}, {"total": {"quote": "12.50"}})
    filled.connection.execute(
        "update extractions set extracted_fields = jsonb_set(extracted_fields, '{total}', '13'), "
        "confidences = confidences - 'none' where id = %s",
        [filled.id],
    )
    assert filled.version == 2 and filled.journal(2) == [(["total"], "k", 12.5, 13)]
    # The quote was evidence for the old value.
    assert (filled.scores, filled.evidence) == ({"vendor.name": 0.5}, {})
    query = "select (actor, created_by, run_id, call_id)::text from extraction_journal where extraction_id = %s and "
    assert filled.fetch(query + "version = 2", filled.id) == f"(user,{sample.member},,)"


def test_version_is_set_by_the_database(roles: Roles, sample: Sample) -> None:
    with roles.as_owner() as connection:
        with pytest.raises(psycopg.DatabaseError) as error, connection.transaction():
            connection.execute("update extractions set version = 7 where id = %s", [sample.extraction])
        assert error.value.sqlstate == "PT422"
        row = connection.execute(
            "insert into extractions (org_id, document_id, extracted_fields, confidences) "
            'values (%s, %s, \'{"a": {"b": 1}}\', \'{"a.b": 0.5, "c": 0.5}\') returning id, confidences',
            [sample.org, sample.document],
        ).fetchone()
        assert row is not None and row[1] == {"a.b": 0.5}
        inserted = EditedExtraction(connection, sample, row[0])
        assert inserted.journal(0) == [(["a", "b"], "kk", None, 1)]
        assert inserted.fetch("select private.fields_at(%s, 0)", row[0]) == {"a": {"b": 1}}


def test_only_the_service_in_a_call_writes_as_the_agent(roles: Roles, sample: Sample) -> None:
    def journal_entry(connection: psycopg.Connection, call: str) -> str:
        edited = EditedExtraction(connection, sample, sample.extraction)
        edited.set_call(sample.run, call)
        edited.update("total", str(uuid4()))
        return edited.fetch(
            "select (actor, run_id, call_id, created_by)::text from extraction_journal where extraction_id = %s "
            "order by id desc limit 1",
            sample.extraction,
        )

    with roles.as_service(sample.owner, sample.org) as connection:
        assert journal_entry(connection, "call_1") == f"(agent,{sample.run},call_1,{sample.owner})"
        assert journal_entry(connection, "") == f"(user,,,{sample.owner})"
    with roles.as_front_end(sample.owner) as connection:
        assert journal_entry(connection, "call_1") == f"(user,,,{sample.owner})"


# Other rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "is_accepted"),
    [
        *((f"{{org}}/{{new}}/{name}", True) for name in ("a.pdf", "…häßlich 名前.pdf", ".hidden", "ü" * 127)),
        *((f"{{org}}/{{new}}/{name}", False) for name in ("", "..", "../x", "a/b", "a\\b", "a%2Fb", "ü" * 128)),
        *((f"{{org}}/{{new}}/a{char}b", False) for char in "\n\x7f\u202e"),
        *((path, False) for path in ("{org}/{document}/a.pdf", "{other_org}/{new}/a.pdf", "/{org}/{new}/a", "a.pdf")),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_storage_path_must_be_the_documents_own_folder(
    roles: Roles, sample: Sample, path: str, is_accepted: bool
) -> None:
    document = uuid4()
    values = [document, sample.org, path.format(new=document, **vars(sample))]
    with roles.as_front_end(sample.member) as connection:
        statement = "insert into documents (id, org_id, filename, storage_path) values (%s, %s, 'a', %s)"
        if is_accepted:
            connection.execute(statement, values)
            return
        with pytest.raises(psycopg.errors.CheckViolation, match="lies_in_its_own_folder"):
            connection.execute(statement, values)


def test_first_request_creates_one_personal_organisation(roles: Roles, sample: Sample) -> None:
    def enter(connection: psycopg.Connection, user: UUID | None, org: UUID | None = None) -> Any:
        set_role(connection, "authenticated", {"sub": str(user)} if user else {})
        return (connection.execute("select private.resolve_organisation(%s)", [org]).fetchone() or (None,))[0]

    user = uuid4()
    with roles.as_owner() as connection:
        org = enter(connection, user)
        assert enter(connection, user) == enter(connection, user, org) == org
        rows = connection.execute("select org_id, user_id, role, created_by from memberships").fetchall()
        assert rows == [(org, user, "owner", user)]
        assert enter(connection, user, uuid4()) is None and enter(connection, uuid4(), org) is None
        with pytest.raises(psycopg.DatabaseError) as error, connection.transaction():
            enter(connection, None)
        assert error.value.sqlstate == "PT401"
        # A user who left their personal organisation does not become a member again: it may belong to others now.
        connection.execute("reset role")
        grant = "insert into memberships (org_id, user_id, role) values (%s, %s, 'owner')"
        connection.execute(grant, [sample.other_org, sample.owner])
        connection.execute(
            "delete from memberships where org_id = %s and user_id = %s", [sample.other_org, sample.stranger]
        )
        assert enter(connection, sample.stranger) == sample.other_org
        assert enter(connection, sample.stranger, sample.other_org) is None


def test_ocr_results_has_the_text_of_all_pages(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.owner, sample.org) as connection:
        for number, text, engine in ((3, "third", "rapidocr"), (2, "second", "pdf")):
            connection.execute(
                "insert into document_pages (document_id, org_id, number, width, height, text, words, engine) "
                "values (%s, %s, %s, 1, 1, %s, '[]', %s)",
                [sample.document, sample.org, number, text, engine],
            )
        row = connection.execute(
            "select raw_text, page_count, engine from ocr_results where document_id = %s", [sample.document]
        ).fetchone()
        assert row == ("Total 12\n\nsecond\n\nthird", 3, "pdf+rapidocr")


def test_too_many_changes_of_large_fields_are_rejected(empty: EditedExtraction) -> None:
    changes = [{"path": ["text"], "value": "a" * 1_000}] * 1_000
    empty.assert_rejected("update_extraction_fields", Jsonb(changes))
    assert empty.call("update_extraction_fields", Jsonb(changes[:200]))["version"] == 1
