"""The functions of the field: what each writes and answers, and every trap that it must not step into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import Doors, House, become
from psycopg.types.json import Jsonb

from fieldmark.errors import Invalid
from fieldmark.files import parse_stored_path

FIELDS = {
    "vendor": {"name": "Acme", "a.b": {"c": 1}, "": "empty", "Größe": "50 µm", "0": "key"},
    "items": [{"price": 1, "name": "bolt"}, {"price": 2}, {"price": 3}],
    "none": None,
    "empty_list": [],
    "empty_object": {},
    "total": 12.50,
}


class Caller:
    """One member at work on one extraction, in one transaction. `changed`: what the last call told of single leaves."""

    changed: list[dict[str, Any]] | None

    def __init__(self, connection: psycopg.Connection, extraction: UUID) -> None:
        self.connection = connection
        self.extraction = extraction

    def call(self, function: str, *arguments: Any) -> dict[str, Any]:
        # A float would arrive as double precision, which Postgres takes for no numeric.
        given = [str(argument) if isinstance(argument, float) else argument for argument in arguments]
        places = ", ".join(["%s"] * (len(given) + 1))
        row = self.connection.execute(f"select {function}({places})", [self.extraction, *given]).fetchone()
        assert row is not None
        self.changed = row[0].pop("changed", None)
        return row[0]

    def save(self, fields: Any, confidences: Any = None, evidence: Any = None) -> dict[str, Any]:
        given = [None if value is None else Jsonb(value) for value in (confidences, evidence)]
        return self.call("save_extraction_fields", Jsonb(fields), *given)

    def update(self, path: list[str], value: Any, confidence: Any = None, evidence: Any = None) -> dict[str, Any]:
        proofs = None if evidence is None else Jsonb(evidence)
        return self.call("update_extraction_field", path, Jsonb(value), confidence, None, proofs)

    def remove(self, path: list[str]) -> dict[str, Any]:
        return self.call("remove_extraction_field", path)

    def row(self) -> dict[str, Any]:
        cursor = self.connection.execute("select * from extractions where id = %s", [self.extraction])
        assert cursor.description is not None
        row = cursor.fetchone()
        assert row is not None
        return {column.name: value for column, value in zip(cursor.description, row, strict=True)}

    def fields(self) -> Any:
        return self.row()["extracted_fields"]

    def journal(self, version: int) -> list[tuple[Any, ...]]:
        return self.connection.execute(
            "select path, steps, old, new from extraction_journal "
            "where extraction_id = %s and version = %s order by id",
            [self.extraction, version],
        ).fetchall()

    def refused(self, function: str, *arguments: Any, code: str = "PT422") -> str:
        """The call fails with this code, and nothing has changed. Answers what the sentence says."""
        before = self.row()
        with pytest.raises(psycopg.DatabaseError) as error, self.connection.transaction():
            self.call(function, *arguments)
        assert error.value.sqlstate == code and self.row() == before
        return str(error.value.diag.message_primary)


@pytest.fixture
def caller(doors: Doors, house: House) -> Iterator[Caller]:
    """At a new, empty extraction, at a front end's door."""
    with doors.as_front_end(house.member) as connection:
        extraction = uuid4()
        connection.execute(
            "insert into extractions (id, org_id, document_id) values (%s, %s, %s)",
            [extraction, house.org, house.document],
        )
        yield Caller(connection, extraction)


@pytest.fixture
def filled(caller: Caller) -> Caller:
    assert caller.save(FIELDS) == {"value": FIELDS, "version": 1}
    return caller


# update_extraction_field ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (["vendor", "name"], "Acme Ltd", "vendor.name"),
        (["vendor", "address", "street", "number"], 7, "vendor.address.street.number"),  # missing parents
        (["items", "1", "price"], 9, "items[1].price"),
        (["items", "3"], {"price": 4}, "items[3]"),  # exactly at the end
        (["items", "3", "price"], 4, "items[3].price"),
        (["empty_list", "0"], "first", "empty_list[0]"),
        (["new_list", "0", "price"], 1, "new_list[0].price"),
        (["vendor", "a.b", "c"], 2, 'vendor["a.b"].c'),
        (["a.b", "c"], 2, '["a.b"].c'),
        (["vendor", ""], "filled", 'vendor[""]'),
        (["vendor", "0"], "a key, no index", "vendor.0"),
        (["empty_object", "0"], "a key, no index", "empty_object.0"),
        (["vendor", "Größe"], "51 µm", "vendor.Größe"),
        (["单价", "😀"], "€", "单价.😀"),
        (["say \"hi\" \\ 'x'\n\t\x01"], 1, '["say \\"hi\\" \\\\ \'x\'\\n\\t\\u0001"]'),
        (["items"], "no list any more", "items"),
        (["vendor", "name"], None, "vendor.name"),  # JSON null is a value
        (["none"], 1, "none"),
        (["vendor", "name"], [[]], "vendor.name"),
    ],
    ids=str,
)
def test_updates_one_field_and_answers_what_now_stands(filled: Caller, path: list[str], value: Any, name: str) -> None:
    expected = json.loads(json.dumps(FIELDS))
    at: Any = expected
    for step, following in zip(path, [*path[1:], None], strict=True):
        key: Any = int(step) if isinstance(at, list) else step
        if following is None:
            replaced = value
        elif isinstance(at, dict) and key in at:
            replaced = at[key]
        else:
            replaced = at[key] if isinstance(at, list) and key < len(at) else ([] if following == "0" else {})
        if isinstance(at, list) and key == len(at):
            at.append(replaced)
        else:
            at[key] = replaced
        at = at[key]
    assert filled.update(path, value, 0.75, {name: {"quote": "x"}}) == {"path": name, "value": value, "version": 2}
    row = filled.row()
    assert (row["extracted_fields"], row["version"]) == (expected, 2)
    assert row["confidence_scores"] == {name: 0.75}
    assert row["evidence"] == {name: {"quote": "x"}}


@pytest.mark.parametrize(
    ("path", "named"),
    [
        # Through a value.
        (["total", "net"], "total.net"),
        (["vendor", "name", "first", "x"], "vendor.name.first"),
        (["none", "x"], "none.x"),
        (["total", "0"], "total.0"),
        # Past the end of a list.
        (["items", "999999999"], "items[999999999]"),
        (["items", "4", "price"], "items[4]"),
        (["empty_list", "1"], "empty_list[1]"),
        # No index of a list.
        *((["items", step], f"items[{step}]") for step in ("-999", "-1", "01", "1 ", "", "price", "9" * 40)),
        # A list that is not there begins with 0; else it would be an object with the key "5", which nobody asked for.
        (["fresh", "5"], "fresh[5]"),
        (["fresh", "0", "5"], "fresh[0][5]"),
        (["items", "3", "5"], "items[3][5]"),
        # No path.
        *((path, "path") for path in ([], None, ["a"] * 33, [["a", "b"], ["c", "d"]], ["a", None], ["k" * 1001])),
        (["total", "k" * 500, "k" * 500], "path"),
        (["k" * 990, '"' * 10], "path"),  # quoted, it is longer
    ],
    ids=lambda value: str(value)[:60],
)
def test_refuses_a_path_where_nothing_can_stand(filled: Caller, path: list[str], named: str) -> None:
    assert named in filled.refused("update_extraction_field", path, Jsonb(1), 0.5)


def test_a_path_may_count_from_any_index(filled: Caller) -> None:
    """To Postgres '[0:1]={vendor,name}' is an array as well; its first element is not at [1]."""
    row = filled.connection.execute(
        "select update_extraction_field(%s, '[0:1]={vendor,name}', '1') - 'changed'", [filled.extraction]
    ).fetchone()
    assert row == ({"path": "vendor.name", "value": 1, "version": 2},)


def test_refuses_a_value_of_sql_null(filled: Caller) -> None:
    filled.refused("update_extraction_field", ["vendor", "name"], None, 0.5)


@pytest.mark.parametrize(
    "confidence", ["NaN", "-0.01", "1.01", "7", "Infinity", "-Infinity", "1e-400", "0." + "3" * 101]
)
def test_refuses_a_confidence_that_is_none(filled: Caller, confidence: str) -> None:
    filled.refused("update_extraction_field", ["total"], Jsonb(1), confidence)


@pytest.mark.parametrize("confidence", ["0", "1", "0.0", "1.0", "0.123456789"])
def test_takes_every_confidence_from_0_to_1(filled: Caller, confidence: str) -> None:
    filled.update(["total"], 1, confidence)
    assert filled.row()["confidence_scores"] == {"total": float(confidence)}


# save_extraction_fields ----------------------------------------------------------------------------------------------


def test_saving_merges_objects_and_replaces_everything_else(filled: Caller) -> None:
    answer = filled.save(
        {"vendor": {"name": None, "vat": "DE1"}, "items": [{"price": 5}], "total": {"net": 1}, "empty_object": {}}
    )
    expected = {
        **FIELDS,
        "vendor": {**FIELDS["vendor"], "name": None, "vat": "DE1"},
        "items": [{"price": 5}],
        "total": {"net": 1},
    }
    assert answer == {"value": expected, "version": 2}
    assert filled.fields() == expected


def test_saving_what_stands_already_is_no_change(filled: Caller) -> None:
    filled.save({}, {"total": 0.5}, {"total": {"page": 1}})
    assert filled.save({"total": 12.50, "vendor": {}}) == {"value": FIELDS, "version": 1}
    assert filled.journal(2) == []
    # It is the same value, so what scored and proved it still does.
    assert filled.row()["confidence_scores"] == {"total": 0.5}
    assert filled.row()["evidence"] == {"total": {"page": 1}}


def test_keeps_scores_and_evidence_by_the_name_of_the_path(caller: Caller) -> None:
    confidences = {"vendor.name": 0.5, 'vendor["a.b"].c': 1, "items[1].price": 0, "vendor": 0.25, 'vendor[""]': 0.125}
    evidence = {"vendor.name": {"page": 1, "quote": "Acme"}, "items": [1, 2]}
    caller.save(FIELDS, confidences, evidence)
    assert caller.row()["confidence_scores"] == confidences
    assert caller.row()["evidence"] == evidence


def test_what_is_written_anew_loses_the_score_and_proof_of_the_value_before(caller: Caller) -> None:
    caller.save(
        {"vendor": {"name": "Acme", "vat": "1"}, "items": [1, 2]},
        {"vendor.name": 0.5, "vendor.vat": 0.6, "items": 0.7, "items[0]": 0.8, "items[1]": 0.9},
        {"vendor.name": {"quote": "Acme"}, "vendor.vat": {"quote": "1"}},
    )
    caller.save({"vendor": {"name": "Acme Ltd"}, "items": [1, 3]}, {"vendor.name": 0.5})
    row = caller.row()
    assert row["confidence_scores"] == {"vendor.name": 0.5, "vendor.vat": 0.6, "items[0]": 0.8}
    assert row["evidence"] == {"vendor.vat": {"quote": "1"}}
    caller.update(["vendor"], "Acme")
    assert caller.row()["evidence"] == {}


@pytest.mark.parametrize(
    "confidences",
    [
        *({name: 0.5} for name in ("totall", "items.0", "items[3]", "")),
        *({"total": score} for score in (1.01, -0.1, "high", None, True, {"score": 1})),
    ],
    ids=str,
)
def test_refuses_scores_of_nothing_and_scores_that_are_none(filled: Caller, confidences: Any) -> None:
    filled.refused("save_extraction_fields", Jsonb({"total": 1}), Jsonb(confidences))


def test_needs_no_scores_and_refuses_evidence_of_nothing(filled: Caller) -> None:
    assert filled.save({"total": 1}, None, None)["version"] == 2
    filled.refused("save_extraction_fields", Jsonb({"total": 1}), Jsonb({}), Jsonb({"other": {}}))


@pytest.mark.parametrize("fields", [*map(Jsonb, ([1], "x", 1, None, True)), None], ids=str)
def test_fields_are_an_object(filled: Caller, fields: Any) -> None:
    filled.refused("save_extraction_fields", fields)


# Bounds --------------------------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_nests_32_deep_and_not_33(caller: Caller) -> None:
    assert caller.save(nested(32))["version"] == 1
    caller.refused("save_extraction_fields", Jsonb({"b": nested(32)}))
    caller.refused("update_extraction_field", ["b", "c"], Jsonb(nested(31)))
    lists: Any = 1
    for _ in range(33):
        lists = [lists]
    caller.refused("update_extraction_field", ["b"], Jsonb(lists))
    path = ["p"] * 32
    assert caller.update(path, 1)["path"] == ".".join(path)


@pytest.mark.parametrize(
    "fields",
    [
        '{{"a": "{long}"}}',
        '{{"{long}": 1}}',
        '{{"a": [{many}]}}',
        '{{"a": 1e100}}',
        '{{"a": [-1e131071]}}',
        '{{"a": {{"b": 1e-101}}}}',
    ],
)
def test_refuses_what_is_ruinous_to_keep(filled: Caller, fields: str) -> None:
    text = fields.format(long="x" * 4_194_304, many="1," * 100_000 + "1")
    before = filled.row()
    with pytest.raises(psycopg.DatabaseError) as error, filled.connection.transaction():
        filled.connection.execute("select save_extraction_fields(%s, %s::text::jsonb)", [filled.extraction, text])
    assert error.value.sqlstate == "PT422" and filled.row() == before


def test_keeps_what_is_large_and_within_bounds(caller: Caller) -> None:
    fields = {"text": "x" * 2_000_000, "number": 10**99, "small": 1e-99, "list": list(range(500))}
    assert caller.save(fields)["version"] == 1
    # Two that fit alone do not fit together.
    caller.refused("update_extraction_field", ["more"], Jsonb("x" * 2_300_000))


def test_a_long_key_is_not_repeated_for_each_of_its_children(caller: Caller) -> None:
    """90,000 names of 1 MB each would be 90 GB."""
    caller.refused("save_extraction_fields", Jsonb({"k" * 1_000_000: [True] * 90_000}))


@pytest.mark.parametrize("column", ["confidence_scores", "evidence"])
def test_bounds_scores_and_evidence_too(filled: Caller, column: str) -> None:
    with pytest.raises(psycopg.DatabaseError) as error:
        filled.connection.execute(
            f"update extractions set {column} = %s where id = %s", [Jsonb({"x" * 4_200_000: 1}), filled.extraction]
        )
    assert error.value.sqlstate == "PT422"


def test_bounds_a_schema(caller: Caller, house: House) -> None:
    with pytest.raises(psycopg.DatabaseError) as error:
        caller.connection.execute(
            "insert into extractions (org_id, document_id, schema) values (%s, %s, %s)",
            [house.org, house.document, Jsonb(nested(33))],
        )
    assert error.value.sqlstate == "PT422"


@pytest.mark.parametrize("text", ['{"a": "\\u0000"}', '{"\\u0000": 1}', '{"a": "\\ud800"}', '{"a": NaN}', '{"a": 1'])
def test_json_that_is_none_never_arrives(filled: Caller, text: str) -> None:
    before = filled.row()
    with pytest.raises(psycopg.DataError), filled.connection.transaction():
        filled.connection.execute("select save_extraction_fields(%s, %s::text::jsonb)", [filled.extraction, text])
    assert filled.row() == before


# remove_extraction_field ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "removed"),
    [
        (["vendor", "name"], "vendor.name", "Acme"),
        (["vendor", "a.b", "c"], 'vendor["a.b"].c', 1),
        (["vendor", ""], 'vendor[""]', "empty"),
        (["vendor", "0"], "vendor.0", "key"),
        (["items", "1"], "items[1]", {"price": 2}),
        (["items", "0", "price"], "items[0].price", 1),
        (["items"], "items", FIELDS["items"]),
        (["none"], "none", None),
        (["empty_list"], "empty_list", []),
    ],
    ids=str,
)
def test_removes_one_field_and_answers_what_stood_there(
    filled: Caller, path: list[str], name: str, removed: Any
) -> None:
    expected = json.loads(json.dumps(FIELDS))
    at: Any = expected
    for step in path[:-1]:
        at = at[int(step) if isinstance(at, list) else step]
    del at[int(path[-1]) if isinstance(at, list) else path[-1]]
    assert filled.remove(path) == {"path": name, "removed": removed, "version": 2}
    assert filled.fields() == expected


@pytest.mark.parametrize(
    "path",
    [
        *(["nothing"], ["vendor", "nothing"], ["total", "net"], ["none", "x"]),
        *(["items", step] for step in ("3", "-1", "00", "price", "999999999")),
        *([], None, ["a", None], ["a"] * 33),
    ],
    ids=str,
)
def test_removes_nothing_where_nothing_stands(filled: Caller, path: list[str]) -> None:
    filled.refused("remove_extraction_field", path)


def test_scores_move_up_with_the_items_behind_a_removed_one(caller: Caller) -> None:
    # Equal values on both sides of the gap: what is looked at is the place, not the value.
    caller.save(
        {"items": [{"p": 1}, {"p": 1}, {"p": 1}, {"p": 4}], "items2": [1, 2], "x": {"items": [1, 2]}},
        {"items[0].p": 0, "items[1].p": 0.1, "items[3].p": 0.3, "items[3]": 0.35, "items": 0.5}
        | {"items2[1]": 0.6, "x.items[1]": 0.7},
        {"items[1]": {"n": 1}, "items[2].p": {"n": 2}},
    )
    caller.remove(["items", "1"])
    row = caller.row()
    assert row["confidence_scores"] == {
        "items[0].p": 0,
        "items[2].p": 0.3,
        "items[2]": 0.35,
        "items2[1]": 0.6,
        "x.items[1]": 0.7,
    }
    assert row["evidence"] == {"items[1].p": {"n": 2}}
    caller.remove(["items", "0"])
    assert caller.row()["confidence_scores"] == {
        "items[1].p": 0.3,
        "items[1]": 0.35,
        "items2[1]": 0.6,
        "x.items[1]": 0.7,
    }


# identify, complete, restore -----------------------------------------------------------------------------------------


def test_identifies_and_completes_without_a_new_version(filled: Caller) -> None:
    assert filled.call("identify_document", "invoice") == {"value": "invoice", "version": 1}
    assert filled.call("complete_extraction") == {"value": "completed", "version": 1}
    row = filled.row()
    assert (row["document_type"], row["status"], row["version"]) == ("invoice", "completed", 1)


@pytest.mark.parametrize("kind", [None, "", "x" * 201], ids=["null", "empty", "long"])
def test_a_document_type_has_1_to_200_characters(filled: Caller, kind: str | None) -> None:
    filled.refused("identify_document", kind)


def test_restores_a_version_as_a_new_one(filled: Caller) -> None:
    filled.save({}, {"vendor.name": 0.5, "total": 0.25})
    filled.update(["total"], 99, 1)
    filled.remove(["items"])
    assert filled.call("restore_extraction", 1) == {"value": FIELDS, "version": 4}
    row = filled.row()
    assert (row["extracted_fields"], row["version"]) == (FIELDS, 4)
    # The score of 99 goes with it, that of a value which stayed remains.
    assert row["confidence_scores"] == {"vendor.name": 0.5}
    assert filled.call("restore_extraction", 0) == {"value": {}, "version": 5}
    assert filled.call("restore_extraction", 5) == {"value": {}, "version": 5}


def test_restores_a_long_list_in_its_order(caller: Caller) -> None:
    """As text, 10 comes before 2."""
    fields = {"items": [[number, {"n": number}] for number in range(12)]}
    caller.save(fields)
    caller.save({"items": None})
    assert caller.call("restore_extraction", 1) == {"value": fields, "version": 3}


@pytest.mark.parametrize("wrong", [([0.5], {}), ({}, [0.5]), ("x", {}), ({}, "x")], ids=str)
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("save_extraction_fields", [Jsonb({"total": 1})]),
        ("update_extraction_field", [["total"], Jsonb(1), None]),
        ("update_extraction_fields", [Jsonb([{"path": ["total"], "value": 1}])]),
        ("restore_extraction", [0]),
    ],
    ids=str,
)
def test_scores_and_evidence_are_objects(
    filled: Caller, function: str, arguments: list[Any], wrong: tuple[Any, Any]
) -> None:
    filled.refused(function, *arguments, *map(Jsonb, wrong))


@pytest.mark.parametrize("version", [-1, 2, 2_147_483_647, None])
def test_restores_no_version_that_never_was(filled: Caller, version: int | None) -> None:
    filled.refused("restore_extraction", version)


# Whose ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("save_extraction_fields", [Jsonb({"a": 1})]),
        ("save_extraction_fields", [Jsonb("wrong too")]),
        ("update_extraction_field", [["a"], Jsonb(1)]),
        ("update_extraction_field", [[], None]),
        ("remove_extraction_field", [["vendor"]]),
        ("identify_document", ["invoice"]),
        ("complete_extraction", []),
        ("restore_extraction", [0]),
    ],
    ids=str,
)
def test_anothers_extraction_does_not_exist(
    doors: Doors, house: House, caller: Caller, function: str, arguments: list[Any]
) -> None:
    said = set()
    for extraction in (house.other_extraction, uuid4(), None):
        caller.extraction = extraction  # pyright: ignore
        with pytest.raises(psycopg.DatabaseError) as error, caller.connection.transaction():
            caller.call(function, *arguments)
        diag = error.value.diag
        said.add((diag.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint))
    assert len(said) == 1 and {code for code, *_ in said} == {"PT404"}


# The journal ---------------------------------------------------------------------------------------------------------


def test_the_journal_says_what_changed_and_from_what(filled: Caller) -> None:
    filled.update(["vendor", "name"], "Acme Ltd")
    assert filled.journal(2) == [(["vendor", "name"], "kk", "Acme", "Acme Ltd")]
    filled.remove(["none"])
    (entry,) = filled.connection.execute(
        "select old = 'null', new is null from extraction_journal where extraction_id = %s and version = 3",
        [filled.extraction],
    ).fetchall()
    assert entry == (True, True)
    filled.remove(["items", "0"])
    assert filled.journal(4) == [
        (["items", "0", "name"], "kik", "bolt", None),
        (["items", "0", "price"], "kik", 1, 2),
        (["items", "1", "price"], "kik", 2, 3),
        (["items", "2", "price"], "kik", 3, None),
    ]
    filled.update(["empty_list", "0"], {"0": 1})
    assert filled.journal(5) == [(["empty_list"], "k", [], None), (["empty_list", "0", "0"], "kik", None, 1)]


def test_an_index_and_a_key_of_the_same_name_are_two_paths(caller: Caller) -> None:
    caller.save({"a": ["x"]})
    caller.update(["a"], {"0": "x"})
    assert sorted(caller.journal(2), key=str) == [(["a", "0"], "ki", "x", None), (["a", "0"], "kk", None, "x")]
    assert caller.call("restore_extraction", 1)["value"] == {"a": ["x"]}
    assert caller.call("restore_extraction", 2)["value"] == {"a": {"0": "x"}}


def test_a_change_that_is_only_seen_by_readers_is_one(caller: Caller) -> None:
    """To jsonb 12.5 equals 12.50; the document does not print them alike."""
    caller.connection.execute("select save_extraction_fields(%s, '{\"a\": 12.5}')", [caller.extraction])
    row = caller.connection.execute(
        "select update_extraction_field(%s, '{a}', '12.50')", [caller.extraction]
    ).fetchone()
    assert row is not None and row[0]["version"] == 2
    shown = caller.connection.execute(
        "select extracted_fields::text, (select old::text || new::text from extraction_journal "
        "where extraction_id = e.id and version = 2) from extractions e where id = %s",
        [caller.extraction],
    ).fetchone()
    assert shown == ('{"a": 12.50}', "12.512.50")


def test_a_plain_update_may_take_scores_and_evidence_away(filled: Caller) -> None:
    filled.save({}, {"total": 0.5, "vendor.name": 0.5}, {"total": {"quote": "12.50"}})
    filled.connection.execute(
        "update extractions set confidence_scores = confidence_scores - 'total', evidence = '{}' where id = %s",
        [filled.extraction],
    )
    row = filled.row()
    assert (row["confidence_scores"], row["evidence"]) == ({"vendor.name": 0.5}, {})


def test_no_plain_update_escapes_the_journal(filled: Caller, house: House) -> None:
    """A front end may write the column itself."""
    filled.save({}, {"total": 0.5, "vendor.name": 0.5}, {"total": {"quote": "12.50"}})
    changed = filled.connection.execute(
        "update extractions set extracted_fields = jsonb_set(extracted_fields, '{total}', '13') where id = %s",
        [filled.extraction],
    )
    assert changed.rowcount == 1
    row = filled.row()
    assert row["version"] == 2
    assert filled.journal(2) == [(["total"], "k", 12.5, 13)]
    # The quote proved another value.
    assert (row["confidence_scores"], row["evidence"]) == ({"vendor.name": 0.5}, {})
    who = filled.connection.execute(
        "select actor, created_by, run_id, call_id, created_at = now() from extraction_journal "
        "where extraction_id = %s and version = 2",
        [filled.extraction],
    ).fetchall()
    assert who == [("user", house.member, None, None, True)]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (Jsonb([1]), psycopg.errors.CheckViolation),
        (Jsonb(None), psycopg.errors.CheckViolation),
        (None, psycopg.errors.NotNullViolation),
        (Jsonb(nested(33)), psycopg.DatabaseError),
    ],
)
def test_no_plain_update_escapes_the_bounds(filled: Caller, fields: Any, error: type[Exception]) -> None:
    with pytest.raises(error), filled.connection.transaction():
        filled.connection.execute(
            "update extractions set extracted_fields = %s where id = %s", [fields, filled.extraction]
        )
    assert filled.fields() == FIELDS


def test_the_version_cannot_be_set_even_by_the_owner(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection, pytest.raises(psycopg.DatabaseError) as error:
        connection.execute("update extractions set version = 7 where id = %s", [house.extraction])
    assert error.value.sqlstate == "PT422"


def test_what_is_inserted_with_fields_is_journalled_at_version_0(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        row = connection.execute(
            "insert into extractions (org_id, document_id, extracted_fields, confidence_scores) "
            'values (%s, %s, \'{"a": {"b": 1}}\', \'{"a.b": 0.5, "c": 0.5}\') returning id, confidence_scores',
            [house.org, house.document],
        ).fetchone()
        assert row is not None and row[1] == {"a.b": 0.5}
        entries = connection.execute(
            "select version, path, steps, old, new from extraction_journal where extraction_id = %s", [row[0]]
        ).fetchall()
        assert entries == [(0, ["a", "b"], "kk", None, 1)]
        assert connection.execute("select private.fields_at(%s, 0)", [row[0]]).fetchone() == ({"a": {"b": 1}},)


def written(connection: psycopg.Connection, extraction: UUID) -> tuple[Any, ...]:
    """Who the journal names after a write."""
    Caller(connection, extraction).update(["total"], str(uuid4()))
    row = connection.execute(
        "select actor, run_id, call_id, created_by from extraction_journal where extraction_id = %s "
        "order by id desc limit 1",
        [extraction],
    ).fetchone()
    assert row is not None
    return row


def announce(connection: psycopg.Connection, run: UUID, call: str) -> None:
    connection.execute(
        "select set_config('fieldmark.run_id', %s, true), set_config('fieldmark.call_id', %s, true)", [str(run), call]
    )


def test_only_the_service_at_a_call_is_the_agent(doors: Doors, house: House) -> None:
    user = ("user", None, None, house.owner)
    with doors.as_service(house.owner, house.org) as connection:
        announce(connection, house.run, "call_1")
        assert written(connection, house.extraction) == ("agent", house.run, "call_1", house.owner)
        announce(connection, house.run, "")
        assert written(connection, house.extraction) == user
    with doors.as_front_end(house.owner) as connection:
        announce(connection, house.run, "call_1")
        assert written(connection, house.extraction) == user


# Other rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        *((name, True) for name in ("a.pdf", "…häßlich 名前.pdf", ".hidden", "..pdf", "x" * 255, "ü" * 127)),
        *((name, False) for name in ("", ".", "..", "...", "../x", "a/b", "../../etc/passwd", "a\\b", "a%2Fb")),
        *((f"a{char}b", False) for char in "\n\x7f\u0085\u2028\u202e\u2066"),
        *((name, False) for name in ("a\n", "x" * 256, "ü" * 128)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_document_lies_in_its_own_folder(doors: Doors, house: House, name: str, fits: bool) -> None:
    document = uuid4()
    # The service says the same: what it could not delete would hold up all that it is to delete.
    with nullcontext() if fits else pytest.raises(Invalid):
        parse_stored_path(f"{house.org}/{document}/{name}")
    with doors.as_front_end(house.member) as connection:
        statement = "insert into documents (id, org_id, filename, storage_path) values (%s, %s, 'a', %s)"
        if fits:
            connection.execute(statement, [document, house.org, f"{house.org}/{document}/{name}"])
            return
        with pytest.raises(psycopg.errors.CheckViolation, match="lies_in_its_own_folder"):
            connection.execute(statement, [document, house.org, f"{house.org}/{document}/{name}"])


def test_a_document_lies_in_no_other_folder(doors: Doors, house: House) -> None:
    document = uuid4()
    for path in (
        f"{house.org}/{house.document}/a.pdf",
        f"{house.other_org}/{document}/a.pdf",
        f"{house.other_org}/{house.other_document}/a.pdf",
        f"/{house.org}/{document}/a.pdf",
        f"x{house.org}/{document}/a.pdf",
        "a.pdf",
    ):
        with doors.as_front_end(house.member) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(
                "insert into documents (id, org_id, filename, storage_path) values (%s, %s, 'a', %s)",
                [document, house.org, path],
            )


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"total": "12"}, True),
        ({"total": "a\u200bb"}, False),
        ({"total\u200b": "12"}, False),
        ({"a": [{"b": "\u202e21"}]}, False),
        ({"a": "12\U000e0031"}, False),
        ({"a": "\u0645\u06cc\u200c\u062e"}, True),
    ],
    ids=ascii,
)
def test_no_field_holds_what_nobody_sees(doors: Doors, house: House, fields: dict[str, Any], stored: bool) -> None:
    save = "select save_extraction_fields(%(id)s, %(fields)s)"
    for statement in (save, "update extractions set extracted_fields = %(fields)s where id = %(id)s"):
        with doors.as_front_end(house.member) as connection:
            values = {"id": house.extraction, "fields": Jsonb(fields)}
            if stored:
                connection.execute(statement, values)
                continue
            with pytest.raises(psycopg.errors.CheckViolation, match="has_no_invisible_characters"):
                connection.execute(statement, values)


def test_the_files_of_documents_that_go_are_queued_whoever_deletes_them(doors: Doors, house: House) -> None:
    path = f"{house.org}/{house.document}/a.pdf"
    for who, statement, what in (
        ("authenticated", "select public.delete_document(%s)", house.document),
        (None, "delete from organisations where id = %s", house.org),
    ):
        with doors.as_owner() as connection:
            if who is not None:
                become(connection, who, {"sub": str(house.owner)})
            connection.execute(statement, [what])
            connection.execute("select set_config('role', 'none', true)")
            assert (path,) in connection.execute("select private.files_to_delete(100)").fetchall()
            connection.execute("select private.files_deleted(%s)", [[path]])
            assert (path,) not in connection.execute("select private.files_to_delete(100)").fetchall()


def test_a_file_that_is_about_to_be_stored_is_deleted_a_day_later_unless_it_is_a_documents(
    doors: Doors, house: House
) -> None:
    mine, nobodys = f"{house.org}/{house.document}/a.pdf", f"{house.org}/{uuid4()}/b.pdf"
    with doors.as_owner() as connection:
        connection.execute("select private.expect_files(%s)", [[mine, nobodys]])
        connection.execute("select private.expect_files(%s)", [[mine, nobodys]])  # as it is said again
        assert connection.execute("select private.files_to_delete(100)").fetchall() == []
        assert connection.execute("select storage_path from private.files_to_delete").fetchall() == [(nobodys,)]
        connection.execute("update private.files_to_delete set due_at = due_at - interval '1 day'")
        assert connection.execute("select private.files_to_delete(100)").fetchall() == [(nobodys,)]


def test_nothing_hangs_on_another_organisations_rows(doors: Doors, house: House) -> None:
    """The same answer as for a row that does not exist: the keys carry the organisation along."""
    tries = [
        ("insert into extractions (org_id, document_id) values (%(org)s, %(id)s)", house.other_document),
        (
            "insert into runs (org_id, agent, task, document_id, extraction_id) "
            "values (%(org)s, 'extraction', 'extract', %(document)s, %(id)s)",
            house.other_extraction,
        ),
        # An extraction of theirs, but of another document.
        (
            "insert into runs (org_id, agent, task, document_id, extraction_id) "
            "values (%(org)s, 'extraction', 'extract', %(document)s, %(id)s)",
            house.member_extraction,
        ),
    ]
    for statement, other in tries:
        said = set()
        for row in (other, uuid4()):
            with doors.as_front_end(house.member) as connection:
                with pytest.raises(psycopg.errors.ForeignKeyViolation) as error:
                    connection.execute(statement, {**vars(house), "id": row})
                said.add((error.value.diag.message_primary, error.value.diag.constraint_name))
        assert len(said) == 1


@pytest.mark.parametrize("column", ["width", "height"])
@pytest.mark.parametrize("size", ["NaN", "Infinity", "0", "-1"])
def test_a_page_has_a_size(doors: Doors, house: House, column: str, size: str) -> None:
    sizes = {"width": "1", "height": "1", column: size}
    with doors.as_owner() as connection, pytest.raises(psycopg.errors.CheckViolation, match=column):
        connection.execute(
            "insert into document_pages (document_id, org_id, number, width, height, text, words, engine) "
            "values (%s, %s, 2, %s, %s, '', '[]', 'pdf')",
            [house.document, house.org, sizes["width"], sizes["height"]],
        )


_NO_BUDGET = (psycopg.errors.CheckViolation, psycopg.errors.NumericValueOutOfRange)


@pytest.mark.parametrize("budget", ["NaN", "0", "-1", "1000000"])
def test_a_budget_is_a_number(doors: Doors, house: House, budget: str) -> None:
    """NaN passes every check for being greater, and no cost ever exceeds it."""
    with doors.as_front_end(house.member) as connection, pytest.raises(_NO_BUDGET):
        connection.execute(
            "insert into runs (org_id, agent, task, document_id, extraction_id, max_cost_usd) "
            "values (%s, 'extraction', 'extract', %s, %s, %s)",
            [house.org, house.document, house.extraction, budget],
        )


def test_events_are_numbered_without_a_gap_and_called_out(doors: Doors, house: House) -> None:
    with doors.as_service(house.owner, house.org) as connection:
        numbers = [
            connection.execute("select private.append_event(%s, '{}')", [house.run]).fetchone() for _ in range(3)
        ]
        assert numbers == [(2,), (3,), (4,)]  # the house has one
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("select private.append_event(%s, '[]')", [house.run])
    for run in (house.run, uuid4()):  # another's, and none
        with doors.as_service(house.stranger, house.other_org) as connection:
            with pytest.raises(psycopg.DatabaseError) as error:
                connection.execute("select private.append_event(%s, '{}')", [run])
            assert error.value.sqlstate == "PT404"


def test_a_failed_run_says_so_once(doors: Doors, house: House) -> None:
    with doors.as_owner() as connection:
        for _ in range(2):
            connection.execute("select private.fail_run(%s, 'Its document is gone.', 'document_failed')", [house.run])
        row = connection.execute(
            "select status, error, error_code, finished_at is not null from runs where id = %s", [house.run]
        ).fetchone()
        assert row == ("failed", "Its document is gone.", "document_failed", True)
        events = connection.execute(
            "select body from run_events where run_id = %s and number > 1", [house.run]
        ).fetchall()
        error = {"type": "error", "error": "Its document is gone.", "code": "document_failed", "run_id": str(house.run)}
        assert events == [(error,)]


def test_entering_makes_a_personal_organisation_once(doors: Doors) -> None:
    user, other = uuid4(), uuid4()
    with doors.as_service(user) as connection:
        first = connection.execute("select private.enter()").fetchone()
        assert connection.execute("select private.enter()").fetchone() == first
        rows = connection.execute("select org_id, user_id, role, created_by from memberships").fetchall()
        assert first is not None
        assert rows == [(first[0], user, "owner", user)]
        assert connection.execute("select private.enter(%s)", [first[0]]).fetchone() == first
        assert connection.execute("select private.enter(%s)", [uuid4()]).fetchone() == (None,)
        become(connection, "authenticated", {"sub": str(other)})
        assert connection.execute("select private.enter(%s)", [first[0]]).fetchone() == (None,)
        become(connection, "authenticated", {})
        with pytest.raises(psycopg.DatabaseError) as error:
            connection.execute("select private.enter()")
        assert error.value.sqlstate == "PT401"


def test_whoever_has_left_their_personal_organisation_is_not_let_in_by_entering(doors: Doors, house: House) -> None:
    """It may have become others' meanwhile: an owner of it would be made without their word."""
    with doors.as_owner() as connection:
        grant = "insert into memberships (org_id, user_id, role) values (%s, %s, 'owner')"
        connection.execute(grant, [house.other_org, house.owner])
        leave = "delete from memberships where org_id = %s and user_id = %s"
        connection.execute(leave, [house.other_org, house.stranger])
        become(connection, "authenticated", {"sub": str(house.stranger)})
        assert connection.execute("select private.enter()").fetchone() == (house.other_org,)
        assert connection.execute("select private.enter(%s)", [house.other_org]).fetchone() == (None,)
        connection.execute("reset role")
        members = "select user_id from memberships where org_id = %s"
        assert connection.execute(members, [house.other_org]).fetchall() == [(house.owner,)]


def test_pages_make_up_the_whole_text(doors: Doors, house: House) -> None:
    with doors.as_service(house.owner, house.org) as connection:
        for number, text, engine in ((3, "third", "rapidocr"), (2, "second", "pdf")):
            connection.execute(
                "insert into document_pages (document_id, org_id, number, width, height, text, words, engine) "
                "values (%s, %s, %s, 1, 1, %s, '[]', %s)",
                [house.document, house.org, number, text, engine],
            )
        row = connection.execute(
            "select raw_text, page_count, engine from ocr_results where document_id = %s", [house.document]
        ).fetchone()
        assert row == ("Total 12\n\nsecond\n\nthird", 3, "pdf+rapidocr")
