"""The journal: after any operations, every version of an extraction can be rebuilt exactly."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import psycopg
from edited_extraction import EditedExtraction
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample

# Few keys and small lists, so that operations often touch the same paths. Some keys look like indexes.
KEYS = st.sampled_from(["a", "b", "0", "1", "a.b", ""])
NUMBERS = st.sampled_from(["1", "1.0", "1.00", "-0.5", "100", "1e2"]).map(lambda text: f"number {text}")
SCALARS = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "x", "é"])
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3), max_leaves=6
)
FIELDS = st.dictionaries(KEYS, VALUES, max_size=3)
PATHS = st.lists(KEYS, min_size=1, max_size=4)
OPERATIONS = st.one_of(
    st.tuples(st.just("save"), FIELDS),
    st.tuples(st.just("update"), PATHS, VALUES),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("restore"), st.integers(0, 6)),
    st.tuples(st.just("overwrite"), FIELDS),
)
STATEMENTS = {
    "save": "select save_extraction_fields(%(id)s, %(0)s)",
    "update": "select update_extraction_field(%(id)s, %(0)s, %(1)s)",
    "remove": "select remove_extraction_field(%(id)s, %(0)s)",
    "restore": "select restore_extraction(%(id)s, %(0)s)",
    "overwrite": "update extractions set extracted_fields = %(0)s where id = %(id)s returning null",
}

# The author: a user, or a run of the user with a task and the leaves that the user's message names.
NAMES = st.sampled_from(["a", "b", '["a.b"]', '[""]', "0", "1", "a.a", "a.b", "a[0]", "a[1]", "b.a", "b[0]", "b[0].a"])
AUTHORS = st.tuples(
    st.sampled_from(["member", "colleague"]),
    st.sampled_from([None, "extract", "extract", "correct", "correct"]),
    st.lists(NAMES, max_size=6),
)


def to_json(value: Any) -> str:
    """Format JSON with numbers as generated: `json.dumps` would write 1.0 and 1.00 alike."""
    return re.sub(r'"number ([^"]+)"', r"\1", json.dumps(value))


def perform(connection: psycopg.Connection, extraction: UUID, operation: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return the result of an operation, or None if it was rejected."""
    operation_name, *arguments = operation
    given_ = {
        str(n): Jsonb(value, dumps=to_json)
        if not (n == 0 and operation_name in ("update", "remove", "restore"))
        else value
        for n, value in enumerate(arguments)
    }
    try:
        with connection.transaction():
            row = connection.execute(STATEMENTS[operation_name], {"id": extraction, **given_}).fetchone()
    except psycopg.DatabaseError as error:
        if error.sqlstate != "PT422":
            raise
        return None
    assert row is not None
    return row[0] or {}


@settings(max_examples=50)
@given(st.lists(st.tuples(AUTHORS, OPERATIONS), min_size=1, max_size=10))
def test_every_version_can_be_rebuilt_exactly(
    roles: Roles, sample: Sample, operations: list[tuple[tuple[str, str | None, list[str]], tuple[Any, ...]]]
) -> None:
    query = "select version, extracted_fields::text, extracted_fields from extractions where id = %s"
    with roles.as_service(sample.member, sample.org) as connection:
        edited = EditedExtraction(connection, sample)
        extraction = edited.id
        versions = {0: "{}"}
        actors = {0: "none"}
        for (name, task, named_fields), operation in operations:
            edited.act_as(name, task, named_fields)
            result = perform(connection, extraction, operation)
            row = connection.execute(query, [extraction]).fetchone()
            assert row is not None
            version, text, fields = row
            latest = max(versions)
            if text == versions[latest]:
                assert version == latest
            else:
                assert version == latest + 1
                assert result is not None, "a refused operation has changed something"
                versions[version] = text
                actors[version] = "agent" if task else "user"
            if result:
                assert result["version"] == version
                if "path" not in result:
                    assert result["value"] == fields
        rebuilt = connection.execute(
            "select v, private.fields_at(%s, v)::text from generate_series(0, %s) as v", [extraction, max(versions)]
        ).fetchall()
        assert dict(rebuilt) == versions
        journal_rows = connection.execute(
            "select distinct version, actor from extraction_journal where extraction_id = %s", [extraction]
        ).fetchall()
        assert {0: "none", **dict(journal_rows)} == actors
        # Each entry has the old value: the leaf at its path in the version before.
        assert connection.execute(
            "select count(*) from extraction_journal j where extraction_id = %s and old is distinct from ("
            "  select n.value from private.nodes(private.fields_at(extraction_id, version - 1)) n "
            "  where n.path = j.path and n.steps = j.steps and private.is_leaf(n.value))",
            [extraction],
        ).fetchone() == (0,)
