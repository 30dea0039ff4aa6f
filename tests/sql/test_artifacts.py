"""Schemas, prompts and tags in SQL: versions, rejected values, and concurrent changes."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from connection_pair import Pair
from psycopg.types.json import Json
from role_connections import Roles, Sample

KINDS = ("schema", "prompt", "tag")
CREATE = {
    "schema": "select create_schema(%(org)s, %(name)s, '{}')",
    "prompt": "select create_prompt(%(org)s, %(name)s, 'Read it.')",
    "tag": "select create_tag(%(org)s, %(name)s)",
}
UPDATE = {
    "schema": "select update_schema(%(id)s, %(name)s)",
    "prompt": "select update_prompt(%(id)s, %(name)s, 'Read it.', null, null, '{}')",
    "tag": "select update_tag(%(id)s, %(name)s)",
}


def fetch(connection: psycopg.Connection, statement: str, **given: Any) -> Any:
    row = connection.execute(statement.encode(), given).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def rejection_of(connection: psycopg.Connection, statement: str, **given: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as refused, connection.transaction():
        connection.execute(statement.encode(), given)
    return refused.value.sqlstate, refused.value.diag.message_detail


def item_id(sample: Sample, kind: str, prefix: str = "") -> UUID:
    return getattr(sample, f"{prefix}{kind}")


def test_each_change_adds_a_version_and_keeps_old_ones(roles: Roles, sample: Sample) -> None:
    with roles.as_front_end(sample.member) as connection:
        first = fetch(connection, "select create_schema(%(org)s, 'Bill', '{\"title\": \"1\"}')", org=sample.org)
        schema_id = fetch(connection, "select schema_id from schema_versions where id = %(id)s", id=first)
        change = "select update_schema(%(id)s, %(name)s, %(schema)s)"
        second = fetch(connection, change, id=schema_id, name=None, schema=Json({"title": "2"}))
        third = fetch(connection, change, id=schema_id, name="Bills", schema=None)
        assert fetch(connection, change, id=schema_id, name="Bills", schema=Json({"title": "2"})) == third
        rows = connection.execute(
            "select id, number, name, schema, created_by, run_id from schema_versions where schema_id = %s "
            "order by number",
            [schema_id],
        ).fetchall()
        assert rows == [
            (first, 1, "Bill", {"title": "1"}, sample.member, None),
            (second, 2, "Bill", {"title": "2"}, sample.member, None),
            (third, 3, "Bills", {"title": "2"}, sample.member, None),
        ]

        first = fetch(connection, CREATE["prompt"], org=sample.org, name="Bills")
        prompt_id = fetch(connection, "select prompt_id from prompt_versions where id = %(id)s", id=first)
        change = "select update_prompt(%(id)s, 'Bills', %(words)s, %(schema)s, 'm', array[%(tag)s]::uuid[])"
        given = {"id": prompt_id, "words": "Read all.", "schema": schema_id, "tag": sample.tag}
        second = fetch(connection, change, **given)
        assert second != first and fetch(connection, change, **given) == second
        rows = connection.execute(
            "select number, content, schema_id, model, tag_ids from prompt_versions where prompt_id = %s "
            "order by number",
            [prompt_id],
        ).fetchall()
        assert rows == [(1, "Read it.", None, None, []), (2, "Read all.", schema_id, "m", [sample.tag])]

        connection.execute("select update_tag(%s, p_color => '#1E90FF')", [sample.tag])
        assert fetch(connection, "select name, color from tags where id = %(id)s", id=sample.tag) == ("paid", "#1e90ff")


@pytest.mark.parametrize("kind", KINDS)
def test_name_is_unique_ignoring_case_until_deleted(roles: Roles, sample: Sample, kind: str) -> None:
    with roles.as_front_end(sample.owner) as connection:
        connection.execute(CREATE[kind].encode(), {"org": sample.org, "name": "Nóta"})
        taken = ("PT409", "name_taken")
        assert rejection_of(connection, CREATE[kind], org=sample.org, name="NÓTA") == taken
        mine = item_id(sample, kind)
        assert rejection_of(connection, UPDATE[kind], id=mine, name="nóta") == taken
        connection.execute(UPDATE[kind].encode(), {"id": mine, "name": "Other"})
        assert fetch(connection, CREATE[kind], org=sample.second_org, name="Nóta") is not None  # another organisation's
        others = fetch(connection, f"select id from {kind}s where org_id = %(org)s and name = 'Nóta'", org=sample.org)
        connection.execute(f"select delete_{kind}(%s)".encode(), [others])
        connection.execute(CREATE[kind].encode(), {"org": sample.org, "name": "NÓTA"})


@pytest.mark.parametrize("kind", [*KINDS, "document"])
def test_name_is_one_line_of_visible_characters(roles: Roles, sample: Sample, kind: str) -> None:
    change = UPDATE.get(kind, "select rename_document(%(id)s, %(name)s)")
    with roles.as_front_end(sample.member) as connection:
        for name in ("", "n" * 201, " padded", "padded ", "two\nlines", "nul\x01", "\u202egnp.exe", "pa\u200bid"):
            assert rejection_of(connection, change, id=item_id(sample, kind), name=name)[0] == "PT422", name
        for name in ("Invoices 2026 – <b>all</b> ✓", "n" * 200):
            fetch(connection, change, id=item_id(sample, kind), name=name)
        if kind in CREATE:
            for name in (None, "\u202egnp.exe"):
                assert rejection_of(connection, CREATE[kind], org=sample.org, name=name)[0] == "PT422"


def test_schema_keeps_the_order_in_which_it_was_written(roles: Roles, sample: Sample) -> None:
    # jsonb would sort these by length.
    written = '{"type": "object", "properties": {"vendor": {"a b": "\\" c"}, "date": {}, "number": {}, "tax": {}}}'
    moved = (
        written.replace('"tax": {}', '"zip": {}').replace('"date": {}', '"tax": {}').replace('"zip": {}', '"date": {}')
    )
    with roles.as_front_end(sample.member) as connection:
        revid = fetch(connection, "select create_schema(%(org)s, 'Ordered', %(text)s)", org=sample.org, text=written)
        stored = "select schema::text from schema_versions where id = %(id)s"
        assert fetch(connection, stored, id=revid) == written
        new = "insert into extractions (org_id, document_id, schema, schema_revid) values (%(org)s, %(document)s, "
        for values in ("null, %(revid)s)", "%(text)s, null)"):
            given = {**vars(sample), "revid": revid, "text": written}
            assert fetch(connection, f"{new}{values} returning schema::text", **given) == written
        # Another order is a change; other white space is not.
        change = "select update_schema(v.schema_id, p_schema => %(text)s) from schema_versions as v where v.id = %(id)s"
        assert fetch(connection, change, id=revid, text=written.replace(": ", " :\n")) == revid
        assert fetch(connection, stored, id=fetch(connection, change, id=revid, text=moved)) == moved


@pytest.mark.parametrize(
    "statement",
    [
        "select create_schema(%(org)s, 'New', '[]')",
        "select create_schema(%(org)s, 'New', json_build_object('title', repeat('x', 262145)))",
        "select update_schema(%(schema)s, p_schema => '[]')",
        "select create_prompt(%(org)s, 'New', '')",
        "select create_prompt(%(org)s, 'New', repeat('x', 20001))",
        "select create_prompt(%(org)s, 'New', 'x', p_model => '')",
        "select create_prompt(%(org)s, 'New', 'x', p_tag_ids => array_fill(%(tag)s::uuid, '{51}'))",
        "select create_tag(%(org)s, 'New', 'red')",
        "select create_tag(%(org)s, 'New', null)",
        "select update_tag(%(tag)s, p_color => 'url(x)')",
        "select tag_document(%(document)s, array_fill(%(tag)s::uuid, '{101}'))",
        "select tag_document(%(document)s, p_remove => array_fill(%(tag)s::uuid, '{101}'))",
    ],
)
def test_out_of_bounds_values_are_rejected(roles: Roles, sample: Sample, statement: str) -> None:
    with roles.as_front_end(sample.member) as connection:
        assert rejection_of(connection, statement, **vars(sample))[0] == "PT422"


def test_document_has_at_most_100_tags(roles: Roles, sample: Sample) -> None:
    with roles.as_front_end(sample.member) as connection:
        connection.execute("select create_tag(%s, 'No. ' || n) from generate_series(1, 100) as n", [sample.org])
        add_tags = "select tag_document(%(id)s, array(select id from tags where name like %(which)s))"
        fetch(connection, add_tags, id=sample.member_document, which="No. %")
        assert rejection_of(connection, add_tags, id=sample.member_document, which="paid")[0] == "PT422"
        swap = "select tag_document(%(id)s, array[%(tag)s]::uuid[], array(select id from tags where name = 'No. 1'))"
        fetch(connection, swap, id=sample.member_document, tag=sample.tag)


def test_item_of_another_organisation_is_rejected_as_missing(roles: Roles, sample: Sample) -> None:
    new = "insert into extractions (org_id, document_id,"
    statements = {
        "select create_prompt(%(org)s, 'New', 'Read.', %(schema)s)": "schema",
        "select update_prompt(%(prompt)s, 'New', 'Read.', %(schema)s, null, '{}')": "schema",
        "select create_prompt(%(org)s, 'New', 'Read.', null, null, array[%(tag)s]::uuid[])": "tag",
        "select update_prompt(%(prompt)s, 'New', 'Read.', null, null, array[%(tag)s]::uuid[])": "tag",
        "select tag_document(%(document)s, array[%(tag)s]::uuid[])": "tag",
        f"{new} schema_revid) values (%(org)s, %(document)s, %(schema_revid)s)": "schema_revid",
        f"{new} prompt_revid) values (%(org)s, %(document)s, %(prompt_revid)s)": "prompt_revid",
    }
    with roles.as_front_end(sample.member) as connection:
        for statement, name in statements.items():
            with connection.transaction(force_rollback=True):
                assert connection.execute(statement.encode(), vars(sample)).rowcount == 1
            others = {**vars(sample), name: getattr(sample, f"other_{name}")}
            missing = {**vars(sample), name: uuid4()}
            assert rejection_of(connection, statement, **others) == rejection_of(connection, statement, **missing)
            assert rejection_of(connection, statement, **others)[0] == "PT404"
        for statement in (
            *(f"select update_{kind}(%({kind})s, 'New')" for kind in ("schema", "tag")),
            "select update_prompt(%(prompt)s, 'New', 'Read.', null, null, '{}')",
            *(f"select delete_{kind}(%({kind})s)" for kind in KINDS),
        ):
            others = {kind: item_id(sample, kind, "other_") for kind in KINDS}
            assert rejection_of(connection, statement, **others)[0] == "PT404", statement
        for statement in CREATE.values():
            assert rejection_of(connection, statement, org=sample.other_org, name="New")[0] == "PT404"
        assert rejection_of(connection, "select tag_document(%(id)s)", id=sample.other_document)[0] == "PT404"
        assert rejection_of(connection, "select rename_document(%(id)s, 'b')", id=sample.other_document)[0] == "PT404"


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_item_cannot_be_changed_or_used(roles: Roles, sample: Sample, kind: str) -> None:
    with roles.as_front_end(sample.owner) as connection:
        connection.execute(f"select delete_{kind}(%s)".encode(), [item_id(sample, kind)])
        query = f"select deleted_at is not null from {kind}s where id = %(id)s"
        assert fetch(connection, query, id=item_id(sample, kind)) is True
        assert rejection_of(connection, UPDATE[kind], id=item_id(sample, kind), name="New")[0] == "PT404"
        assert rejection_of(connection, f"select delete_{kind}(%(id)s)", id=item_id(sample, kind))[0] == "PT404"
        # It cannot be used, also not by a prompt for an extraction:
        uses = {
            "schema": [
                "select create_prompt(%(org)s, 'New', 'Read.', %(schema)s)",
                "select update_prompt(%(member_prompt)s, 'Receipts', 'Read.', %(schema)s, null, '{}')",
                "insert into extractions (org_id, document_id, schema_revid) "
                "values (%(org)s, %(document)s, %(schema_revid)s)",
                "insert into extractions (org_id, document_id, prompt_revid) "
                "values (%(org)s, %(document)s, %(prompt_revid)s)",
            ],
            "prompt": [
                "insert into extractions (org_id, document_id, prompt_revid) "
                "values (%(org)s, %(document)s, %(prompt_revid)s)"
            ],
            "tag": [
                "select create_prompt(%(org)s, 'New', 'Read.', null, null, array[%(tag)s]::uuid[])",
                "select update_prompt(%(member_prompt)s, 'Receipts', 'Read.', null, null, array[%(tag)s]::uuid[])",
                "select tag_document(%(member_document)s, array[%(tag)s]::uuid[])",
            ],
        }
        for statement in uses[kind]:
            expected = "PT409" if statement.startswith("insert") else "PT404"
            assert rejection_of(connection, statement, **vars(sample))[0] == expected, statement
        if kind != "tag":
            with pytest.raises(psycopg.Error) as refused, connection.transaction():
                connection.execute(uses[kind][-1].encode(), vars(sample))
            assert refused.value.diag.message_detail == "deleted"
        # Prompts that used it before still can be changed.
        keep = "select update_prompt(%(prompt)s, 'Other', 'Read.', %(schema)s, null, array[%(tag)s]::uuid[])"
        if kind != "prompt":
            fetch(connection, keep, **vars(sample))


def test_extraction_has_the_schema_of_the_version_it_names(roles: Roles, sample: Sample) -> None:
    new = (
        "insert into extractions (org_id, document_id, schema, schema_revid, prompt_revid) "
        "values (%(org)s, %(document)s, %(schema)s, %(schema_revid)s, %(prompt_revid)s) returning schema, schema_revid"
    )
    given: dict[str, Any] = {**vars(sample), "schema": None, "schema_revid": None, "prompt_revid": None}
    text = {"type": "object"}
    with roles.as_front_end(sample.member) as connection:
        assert fetch(connection, new, **{**given, "schema_revid": sample.schema_revid}) == (text, sample.schema_revid)
        # By default, the latest version of the prompt's schema.
        latest = fetch(connection, 'select update_schema(%(id)s, p_schema => \'{"title": "2"}\')', id=sample.schema)
        prompted = {**given, "prompt_revid": sample.prompt_revid}
        assert fetch(connection, new, **prompted) == ({"title": "2"}, latest)
        assert fetch(connection, new, **{**prompted, "schema_revid": sample.schema_revid}) == (
            text,
            sample.schema_revid,
        )
        assert fetch(connection, new, **{**prompted, "schema": Json({"title": "3"})}) == ({"title": "3"}, None)
        # A prompt may be pinned to an older version.
        pin = "select update_prompt(%(prompt)s, 'Read', 'Read.', %(schema)s, null, '{}', null, %(version)s)"
        pinned = {
            **prompted,
            "prompt_revid": fetch(connection, pin, **{**prompted, "schema": sample.schema, "version": 1}),
        }
        assert fetch(connection, new, **pinned) == (text, sample.schema_revid)
        for wrong in ({"schema": sample.schema, "version": 3}, {"schema": None, "version": 1}):
            assert rejection_of(connection, pin, **{**prompted, **wrong})[0] == "PT404"
        # A schema given together with its version must be equal to it.
        both = {**given, "schema_revid": sample.schema_revid}
        assert fetch(connection, new, **{**both, "schema": Json(text)}) == (text, sample.schema_revid)
        assert rejection_of(connection, new, **{**both, "schema": Json({"title": "3"})})[0] == "PT422"


def test_concurrent_changes_of_one_version_store_only_one(pair: Pair) -> None:
    sample = pair.sample
    for change, query in (
        ("select update_schema(%(schema)s, %(name)s, p_revid => %(schema_revid)s)", "select name from schemas"),
        (
            "select update_prompt(%(prompt)s, %(name)s, 'Read.', null, null, '{}', %(prompt_revid)s)",
            "select name from prompts",
        ),
    ):

        def update_name(name: str, statement: str = change) -> Any:
            return lambda connection: connection.execute(statement, {**vars(sample), "name": name})

        with pytest.raises(psycopg.Error) as refused:
            pair.run_overlapping(update_name("First"), update_name("Second"))
        assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "version_changed")
        names = {name for (name,) in pair.observer.execute(query.encode()).fetchall()}
        assert "First" in names and "Second" not in names


def test_concurrent_creates_with_one_name_store_only_one(pair: Pair) -> None:
    for kind in KINDS:
        for first, second in (("new", "one"), ("changed", "ONE")):
            values = {"org": pair.sample.org, "id": item_id(pair.sample, kind), "name": second}
            statement = (CREATE if first == "new" else UPDATE)[kind]

            def create(connection: psycopg.Connection, kind: str = kind) -> None:
                connection.execute(CREATE[kind].encode(), {"org": pair.sample.org, "name": "One"})

            def create_or_update(
                connection: psycopg.Connection, statement: str = statement, values: Any = values
            ) -> None:
                connection.execute(statement.encode(), values)

            with pytest.raises(psycopg.Error) as refused:
                pair.run_overlapping(create, create_or_update)
            assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "name_taken")
            pair.observer.execute(f"update {kind}s set deleted_at = now() where name = 'One'".encode())


def test_item_deleted_concurrently_cannot_be_changed_or_used(pair: Pair) -> None:
    use = "select create_prompt(%(org)s, 'New', 'Read.', %(id)s)"
    for kind, statement in (*UPDATE.items(), ("schema", use)):
        values = {"id": item_id(pair.sample, kind), "name": "New", "org": pair.sample.org}
        pair.observer.execute(f"update {kind}s set deleted_at = null".encode())

        def delete(connection: psycopg.Connection, kind: str = kind, values: Any = values) -> None:
            connection.execute(f"select delete_{kind}(%(id)s)".encode(), values)

        def change(connection: psycopg.Connection, statement: str = statement, values: Any = values) -> None:
            connection.execute(statement.encode(), values)

        with pytest.raises(psycopg.Error) as refused:
            pair.run_overlapping(delete, change)
        assert refused.value.sqlstate == "PT404"


def test_concurrent_tagging_cannot_exceed_the_limit(pair: Pair) -> None:
    with pair.transaction(pair.first) as connection:
        connection.execute("select create_tag(%s, 'No. ' || n) from generate_series(1, 101) as n", [pair.sample.org])

    def add_tags(pattern: str) -> Any:
        return lambda connection: connection.execute(
            "select tag_document(%s, array(select id from public.tags where name ~ %s))",
            [pair.sample.member_document, pattern],
        )

    with pytest.raises(psycopg.Error) as refused:
        pair.run_overlapping(add_tags(r"^No\. ..?$"), add_tags(r"^No\. 10[01]$"))
    assert refused.value.sqlstate == "PT422"
