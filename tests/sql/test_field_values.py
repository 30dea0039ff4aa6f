"""The rows of `field_values` match the extraction after each change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from edited_extraction import EditedExtraction
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample

from fieldmark.domain import paths
from fieldmark.domain.paths import EACH

KEYS = st.sampled_from(["a", "b", "0", "a[1]", "total", "currency", "total_currency"])
SCALARS = st.sampled_from([None, True, "", "x", "€", "usd", "2024-02-29", "2024-02-31", "2024-03-01T10:00", 7, 1.5])
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3), max_leaves=6
)
FIELDS = st.dictionaries(KEYS, VALUES, max_size=3)
PATHS = st.lists(KEYS | st.just("1"), min_size=1, max_size=3)
CHANGES = st.one_of(
    st.tuples(st.just("save_extraction_fields"), FIELDS),
    st.tuples(st.just("update_extraction_field"), PATHS, VALUES),
    st.tuples(st.just("remove_extraction_field"), PATHS),
    st.tuples(st.just("restore_extraction"), st.integers(0, 3)),
    st.tuples(st.just("mark"), st.integers(0, 5), st.sampled_from(["found", "not_found"])),
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


def _expected(fields: Any, evidence: Any, confidences: Any, locks: Any) -> Iterator[tuple[Any, ...]]:
    for path, value in _nodes(fields):
        if value in ("", {}, []) or value is None:
            continue
        name = paths.name(path)
        pattern = paths.name([step if isinstance(step, str) else EACH for step in path])
        indexes = [step for step in path if isinstance(step, int)]
        day = None
        kind = {bool: "boolean", str: "text", dict: "container", list: "container"}.get(type(value), "number")
        if isinstance(value, str) and value[:4] == "2024" and value != "2024-02-31":
            kind, day = "day", date.fromisoformat(value[:10])
        state = evidence.get(name, {}).get("state")
        yield (
            *(name, pattern, indexes, kind, None if kind == "container" else str(value).replace("True", "true")),
            *(value if kind == "number" else None, day, _currency(fields, path) if kind == "number" else None, state),
            *(confidences.get(name), kind == "container" or state == "found" or name in locks),
        )


def _check_rows(edited: EditedExtraction) -> list[str]:
    """Compare the rows with the extraction. Return the paths of its values."""
    (row,) = edited.connection.execute(
        "select extracted_fields::text, evidence, confidences, locks from extractions where id = %s",
        [edited.id],
    ).fetchall()
    expected = list(_expected(json.loads(row[0], parse_float=Decimal), *row[1:]))
    rows = edited.connection.execute(
        "select path, pattern, indexes, kind, case when kind <> 'container' then text end, number, day, currency, "
        "state, confidence::float8, is_verified from field_values where extraction_id = %s",
        [edited.id],
    ).fetchall()
    assert sorted(rows) == sorted(expected)
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
            if function == "mark":
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
                    if getattr(error, "sqlstate", None) != "PT422":
                        raise
            _check_rows(edited)


QUANTITIES = "quantity qty orderedQty quantity_ordered pages weight taxRate vat_rate percent no Position anzahl hours2"
AMOUNTS = "total price unit_price hourly_rate discount account amount net quantity_price cost_per_day weight_charge"


def test_only_amounts_have_the_currency_around_them(roles: Roles, sample: Sample) -> None:
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample).act_as("member")
        names = [*QUANTITIES.split(), *AMOUNTS.split()]
        item = dict.fromkeys(names, 1) | {"qty_currency": "USD"}
        edited.save({"currency": "EUR", "items": [item], **dict.fromkeys(names, 2)})
        rows = connection.execute(
            "select pattern, currency from field_values where extraction_id = %s and kind = 'number'", [edited.id]
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
        count = "select count(*) from field_values where extraction_id = %s"
        assert edited.fetch(count, edited.id) == 1
        connection.execute("select delete_extraction(%s)", [edited.id])
        assert edited.fetch(count, edited.id) == 0
