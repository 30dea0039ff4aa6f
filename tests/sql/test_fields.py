"""The rows of `fields` match the extraction after each change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from edited_extraction import EditedExtraction
from field_status import field_status
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample

from fieldmark.domain import paths
from fieldmark.domain.field_problems import field_problems
from fieldmark.domain.paths import EACH
from fieldmark.domain.statuses import FieldProblem
from fieldmark.domain.violations import Violation

KEYS = st.sampled_from(["a", "b", "0", "a[1]", "total", "currency", "total_currency"])
SCALARS = st.sampled_from([None, True, "", "x", "€", "usd", "2024-02-29", "2024-02-31", "2024-03-01T10:00", 7, 1.5])
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3), max_leaves=6
)
FIELDS = st.dictionaries(KEYS, VALUES, max_size=3)
PATHS = st.lists(KEYS | st.just("1"), min_size=1, max_size=3)
PROBLEMS = st.sampled_from(FieldProblem)
CHANGES = st.one_of(
    st.tuples(st.just("save_extraction_fields"), FIELDS),
    st.tuples(st.just("update_extraction_field"), PATHS, VALUES),
    st.tuples(st.just("remove_extraction_field"), PATHS),
    st.tuples(st.just("restore_extraction"), st.integers(0, 3)),
    st.tuples(st.just("mark"), st.integers(0, 5), st.sampled_from(["found", "not_found", "blank", "message"])),
    st.tuples(st.just("check"), st.dictionaries(st.sampled_from(["a", "b[0].a", 'total["a[1]"]', "x.y"]), PROBLEMS)),
    st.tuples(st.sampled_from(["complete_extraction", "reject"])),
)


def _nodes(value: Any, path: paths.Path = ()) -> Iterator[tuple[paths.Path, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield (*path, step), child
        yield from _nodes(child, (*path, step))


def _currency(fields: Any, path: paths.Path) -> str | None:
    around = [fields]
    for step in path[:-1]:
        around.append(around[-1][step])
    for depth, container in enumerate(reversed(around)):
        if not isinstance(container, dict):
            continue
        own = [f"{path[-1]}_currency"] if depth == 0 else []
        for key in (*own, "currency", "currency_code", "currencyCode"):
            value = container.get(key)
            if isinstance(value, str) and value:
                return {"€": "EUR"}.get(value, value.upper())
    return None


def _expected(fields: Any, evidence: Any, confidences: Any) -> Iterator[tuple[Any, ...]]:
    for path, value in _nodes(fields):
        name = paths.name(path)
        pattern = paths.name([step if isinstance(step, str) else EACH for step in path])
        indexes = [step for step in path if isinstance(step, int)]
        day = None
        kind = {bool: "boolean", str: "text", dict: "container", list: "container"}.get(type(value), "number")
        if value in ("", {}, []) or value is None:
            kind = "blank"
        elif isinstance(value, str) and value[:4] == "2024" and value != "2024-02-31":
            kind, day = "day", date.fromisoformat(value[:10])
        state = evidence.get(name, {}).get("state")
        yield (
            *(name, pattern, indexes, kind),
            None if kind in ("container", "blank") else str(value).replace("True", "true"),
            *(value if kind == "number" else None, day, _currency(fields, path) if kind == "number" else None, state),
            confidences.get(name),
        )


def _status(row: dict[str, Any], name: str, kind: str) -> tuple[str, str | None]:
    """Return what `test_field_status.py` says of a field, from the columns of its extraction."""
    around = any(name == one or name.startswith((f"{one}.", f"{one}[")) for one in row["proposed"])
    evidence = row["evidence"].get(name, {})
    return field_status(
        kind,
        evidence.get("state"),
        row["confidences"].get(name),
        evidence.get("reason"),
        name in row["locks"],
        around,
        row["problems"].get(name),
        0.5,
        False,
        row["accepted"].get(name),
    )


def _is_verified(row: dict[str, Any], name: str, kind: str) -> bool:
    """Return whether the document or a person vouches for a field."""
    by_document = row["evidence"].get(name, {}).get("state") in ("found", "message")
    by_person = name in row["locks"] or _status(row, name, kind)[0] == "accepted"
    return kind == "container" or by_document or by_person


def _check_rows(edited: EditedExtraction) -> list[str]:
    """Compare the rows with the extraction. Return the paths of its values."""
    cursor = edited.connection.cursor(row_factory=dict_row)
    row: dict[str, Any] = cursor.execute(
        "select extracted_fields::text, evidence, confidences, locks, problems, accepted, review_count, array("
        "select name from extraction_proposals as p where p.extraction_id = e.id and p.status = 'pending') as proposed "
        "from extractions as e where id = %s",
        [edited.id],
    ).fetchall()[0]
    fields = json.loads(row["extracted_fields"], parse_float=Decimal)
    expected = list(_expected(fields, row["evidence"], row["confidences"]))
    rows = edited.connection.execute(
        "select path, pattern, indexes, kind, case when kind <> 'container' then text end, number, day, currency, "
        "state, confidence::float8 from fields where extraction_id = %s and not is_absent",
        [edited.id],
    ).fetchall()
    assert sorted(rows, key=str) == sorted(expected, key=str)
    kinds = dict.fromkeys(row["problems"], "blank") | {path: kind for path, _, _, kind, *_ in expected}
    statuses = {path: _status(row, path, kind) for path, kind in kinds.items()}
    stored = edited.connection.execute(
        "select path, status, reason, is_verified from fields where extraction_id = %s", [edited.id]
    ).fetchall()
    assert sorted(stored, key=str) == sorted(
        ((path, *status, _is_verified(row, path, kinds[path])) for path, status in statuses.items()), key=str
    )
    assert row["review_count"] == sum(one in ("needs_review", "unclear") for one, _ in statuses.values())
    return [path for path, *_ in expected]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([None, "extract"]), CHANGES), min_size=1, max_size=8))
def test_rows_match_extraction_after_each_change(
    roles: Roles, sample: Sample, changes: list[tuple[str | None, tuple[Any, ...]]]
) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample)
        for task, (function, *arguments) in changes:
            edited.act_as("member", task)
            if function == "check":
                query = "select private.record_problems(id, version, %s, false) from extractions where id = %s"
                connection.execute(query, [Jsonb(arguments[0]), edited.id])
            elif function == "reject":
                pending = (
                    "select array_agg(id) from extraction_proposals where extraction_id = %s and status = 'pending'"
                )
                if task is None and (proposals := edited.fetch(pending, edited.id)):
                    connection.execute("select decide_extraction_proposals(%s, '{}', %s)", [edited.id, proposals])
            elif function == "mark":
                names = _check_rows(edited)
                if not names:
                    continue
                name = names[arguments[0] % len(names)]
                connection.execute(
                    "update extractions set evidence = evidence || %s, confidences = confidences || %s where id = %s",
                    [Jsonb({name: {"state": arguments[1]}}), Jsonb({name: 0.25}), edited.id],
                )
            else:
                path = arguments.pop(0) if function in ("update_extraction_field", "remove_extraction_field") else None
                values = [Jsonb(value) if function != "restore_extraction" else value for value in arguments]
                given_values = values if path is None else [path, *values]
                placeholders = ", ".join(["%s"] * (len(given_values) + 1))
                try:
                    with connection.transaction():
                        connection.execute(f"select {function}({placeholders})".encode(), [edited.id, *given_values])
                except Exception as error:
                    if getattr(error, "sqlstate", None) not in ("PT422", "PT409"):
                        raise
            _check_rows(edited)


def _statuses(edited: EditedExtraction) -> dict[str, tuple[str, str | None]]:
    _check_rows(edited)
    query = "select path, status, reason from fields where extraction_id = %s"
    return {path: (status, reason) for path, status, reason in edited.connection.execute(query, [edited.id])}


def test_proposal_for_a_list_is_one_for_each_value_in_it(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member", "extract")
        items = [{"name": "A", "price": 1}, {"name": "B", "price": 2}]
        names = [f"items[{index}].{name}" for index in (0, 1) for name in ("name", "price")]
        found = {"state": "found", "page": 1}
        edited.save({"items": items, "total": 3}, evidence=dict.fromkeys([*names, "total"], found))
        edited.act_as("member").update(["items", "0", "price"], 1)
        edited.act_as("colleague", "extract").save({"items": items[::-1]})
        assert [name for name, *_ in edited.proposals()] == ["items"]
        statuses = _statuses(edited)
        assert {statuses[name] for name in names} == {("needs_review", "proposal")}
        assert (statuses["total"], edited.column("review_count")) == (("found", None), 4)


def test_person_who_confirms_a_list_accepts_what_is_wrong_with_it(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member")
        edited.save({"items": [1, 2]})
        problems = "select private.record_problems(id, version, %s, false) from extractions where id = %s"
        connection.execute(problems, [Jsonb({"items": "breaks_rule"}), edited.id])
        assert _statuses(edited)["items"] == ("needs_review", "breaks_rule")
        edited.update("items", [1, 2])
        connection.execute(problems, [Jsonb({"items": "breaks_rule"}), edited.id])
        assert (_statuses(edited)["items"], edited.column("review_count")) == (("accepted", "breaks_rule"), 0)
        edited.update(["items", "0"], 3)
        connection.execute(problems, [Jsonb({"items": "breaks_rule"}), edited.id])
        assert _statuses(edited)["items"] == ("needs_review", "breaks_rule")


DOUBTED = {
    "items": {"state": "found", "reason": "item_count", "doubts": ["item_count"], "supports": ["sum"]},
    "items[1]": {"state": "found", "reason": "subtotal", "doubts": ["subtotal"]},
}


@pytest.fixture
def doubted(roles: Roles, sample: Sample) -> Iterator[EditedExtraction]:
    """An extraction whose list and second list item are doubted by the checks of lists, or by a second reading."""
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).agent()
        found = {f"items[{n}].price": {"state": "found"} for n in range(3)}
        edited.save(
            {"items": [{"price": 1}, {"price": 2}, {"price": 3}], "notes": [{"text": "A"}]},
            dict.fromkeys(DOUBTED, 0.4) | dict.fromkeys(found, 1),
            found | DOUBTED | {"notes[0].text": {"state": "found"}},
        )
        connection.execute(
            "select private.record_second_reading(%s, %s)", [edited.id, Jsonb({"notes": "second_reading"})]
        )
        assert _open_doubts(edited) == {"items": "item_count", "items[1]": "subtotal", "notes": "second_reading"}
        yield edited.member()


def _open_doubts(edited: EditedExtraction) -> dict[str, str | None]:
    statuses = _statuses(edited)
    return {path: reason for path, (status, reason) in statuses.items() if status in ("needs_review", "unclear")}


@pytest.mark.parametrize("author", ["member", "agent"])
def test_write_of_a_cell_answers_no_doubt_about_its_row_and_list(doubted: EditedExtraction, author: str) -> None:
    getattr(doubted, author)().update(["items", "1", "price"], 7, 1, {"items[1].price": {"state": "found"}})
    doubted.update(["notes", "0", "text"], "B", 1, {"notes[0].text": {"state": "found"}})
    assert _open_doubts(doubted) == {"items": "item_count", "items[1]": "subtotal", "notes": "second_reading"}
    # The sum was one of the values as they were.
    assert "supports" not in doubted.evidence["items"]


def test_accepted_proposal_for_a_cell_answers_no_doubt_about_its_row(doubted: EditedExtraction) -> None:
    doubted.update(["items", "1", "price"], 2)
    doubted.act_as("colleague", "extract").update(["items", "1", "price"], 7)
    ((proposal, *_),) = doubted.proposals_with_ids()
    doubted.member().decide(proposal, True)
    assert _open_doubts(doubted) == {"items": "item_count", "items[1]": "subtotal", "notes": "second_reading"}


def test_row_that_a_person_keeps_is_not_asked_about_again_after_a_write_of_its_cell(doubted: EditedExtraction) -> None:
    doubted.update(["items", "1"], {"price": 2})
    doubted.update(["items", "1", "price"], 7)
    assert _open_doubts(doubted) == {"items": "item_count", "notes": "second_reading"}
    assert _statuses(doubted)["items[1]"] == ("accepted", "subtotal")


def test_row_that_a_person_keeps_is_asked_about_again_once_it_is_unlocked(doubted: EditedExtraction) -> None:
    doubted.update(["items", "1"], {"price": 2})
    doubted.unlock(["items", "1"])
    assert _open_doubts(doubted) == {"items": "item_count", "items[1]": "subtotal", "notes": "second_reading"}


def test_doubt_of_a_row_goes_with_the_row_and_that_of_the_list_stays(doubted: EditedExtraction) -> None:
    doubted.remove(["items", "0"])
    assert _open_doubts(doubted) == {"items": "item_count", "items[0]": "subtotal", "notes": "second_reading"}
    doubted.remove(["items", "0"])
    assert _open_doubts(doubted) == {"items": "item_count", "notes": "second_reading"}


def test_write_of_a_whole_list_replaces_its_doubts(doubted: EditedExtraction) -> None:
    doubted.agent().save(
        {"items": [{"price": 7}, {"price": 8}]}, {}, {f"items[{n}].price": {"state": "found"} for n in (0, 1)}
    )
    assert _open_doubts(doubted) == {"notes": "second_reading"}


QUANTITIES = "quantity qty orderedQty quantity_ordered pages weight taxRate vat_rate percent no Position anzahl hours2"
AMOUNTS = "total price unit_price hourly_rate discount account amount net quantity_price cost_per_day weight_charge"


def test_only_amounts_have_the_currency_around_them(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member")
        names = [*QUANTITIES.split(), *AMOUNTS.split()]
        item = dict.fromkeys(names, 1) | {"qty_currency": "USD"}
        edited.save({"currency": "EUR", "items": [item], **dict.fromkeys(names, 2)})
        rows = connection.execute(
            "select pattern, currency from fields where extraction_id = %s and kind = 'number'", [edited.id]
        ).fetchall()
        expected = dict.fromkeys(QUANTITIES.split()) | dict.fromkeys(AMOUNTS.split(), "EUR")
        in_items = {f"items[].{name}": currency for name, currency in expected.items()} | {"items[].qty": "USD"}
        assert dict(rows) == expected | in_items


def test_long_path_and_long_text_have_rows(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member")
        key, text = "".join(chr(0x4E00 + number) for number in range(990)), "word " * 20_000
        edited.save({key: text})
        assert _check_rows(edited) == [key]


def test_rows_go_with_their_extraction(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member")
        edited.save({"total": 12})
        count = "select count(*) from fields where extraction_id = %s"
        assert edited.fetch(count, edited.id) == 1
        connection.execute("select delete_extraction(%s)", [edited.id])
        assert edited.fetch(count, edited.id) == 0


def test_rows_of_different_extractions_have_different_keys(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        for _ in range(2):
            EditedExtraction(connection, sample).act_as("member").save({"total": 1, "items": [{"price": 2}]})
        keys = connection.execute(
            "select extraction_id, indexes, array_agg(distinct row_key) from fields group by 1, 2"
        ).fetchall()
        of_row = [key for *_, (key,) in keys]
        assert len(of_row) == len(set(of_row)) > 4


def test_values_that_break_a_rule_are_kept_one_by_one_without_being_asked_about_twice(
    roles: Roles, sample: Sample
) -> None:
    values = {"net": 10, "tax": 2, "total": 13}

    def find_problems() -> None:
        broken = [Violation((), "sum", "", about=tuple((name,) for name in values))]
        found = field_problems(broken, edited.column("locks"))
        problems = "select private.record_problems(id, version, %s, false) from extractions where id = %s"
        connection.execute(problems, [Jsonb(found), edited.id])

    def asked() -> set[str]:
        return {path for path, (status, _) in _statuses(edited).items() if status == "needs_review"}

    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member", "extract")
        edited.save(values, evidence={key: {"state": "found", "page": 1} for key in values})
        left = set(values)
        for name, value in values.items():
            find_problems()
            assert asked() == left
            edited.act_as("member").update(name, value)
            left.remove(name)
        find_problems()
        assert _statuses(edited) == dict.fromkeys(values, ("accepted", "breaks_rule"))
        # Another value is another problem.
        edited.update("tax", 4)
        find_problems()
        assert asked() == {"tax"}
