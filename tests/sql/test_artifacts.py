"""Schemas, prompts and tags in SQL: their versions, what is refused, what is hidden; and two who change one at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from doors import Doors, House
from pairs import Pair
from psycopg.types.json import Jsonb

KINDS = ("schema", "prompt", "tag")
NEW = {
    "schema": "select create_schema(%(org)s, %(name)s, '{}')",
    "prompt": "select create_prompt(%(org)s, %(name)s, 'Read it.')",
    "tag": "select create_tag(%(org)s, %(name)s)",
}
CHANGED = {
    "schema": "select update_schema(%(id)s, %(name)s)",
    "prompt": "select update_prompt(%(id)s, %(name)s, 'Read it.', null, null, '{}')",
    "tag": "select update_tag(%(id)s, %(name)s)",
}


def one(connection: psycopg.Connection, statement: str, **given: Any) -> Any:
    row = connection.execute(statement.encode(), given).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def refusal(connection: psycopg.Connection, statement: str, **given: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as refused, connection.transaction():
        connection.execute(statement.encode(), given)
    return refused.value.sqlstate, refused.value.diag.message_detail


def of_house(house: House, kind: str, whose: str = "") -> UUID:
    return getattr(house, f"{whose}{kind}")


def test_each_change_adds_a_version_and_keeps_old_ones(doors: Doors, house: House) -> None:
    with doors.as_front_end(house.member) as connection:
        first = one(connection, "select create_schema(%(org)s, 'Bill', '{\"title\": \"1\"}')", org=house.org)
        schema_id = one(connection, "select schema_id from schema_versions where id = %(id)s", id=first)
        change = "select update_schema(%(id)s, %(name)s, %(schema)s)"
        second = one(connection, change, id=schema_id, name=None, schema=Jsonb({"title": "2"}))
        third = one(connection, change, id=schema_id, name="Bills", schema=None)
        assert one(connection, change, id=schema_id, name="Bills", schema=Jsonb({"title": "2"})) == third  # as it was
        rows = connection.execute(
            "select id, number, name, schema, created_by, run_id from schema_versions where schema_id = %s "
            "order by number",
            [schema_id],
        ).fetchall()
        assert rows == [
            (first, 1, "Bill", {"title": "1"}, house.member, None),
            (second, 2, "Bill", {"title": "2"}, house.member, None),
            (third, 3, "Bills", {"title": "2"}, house.member, None),
        ]

        first = one(connection, NEW["prompt"], org=house.org, name="Bills")
        prompt_id = one(connection, "select prompt_id from prompt_versions where id = %(id)s", id=first)
        change = "select update_prompt(%(id)s, 'Bills', %(words)s, %(schema)s, 'm', array[%(tag)s]::uuid[])"
        given = {"id": prompt_id, "words": "Read all.", "schema": schema_id, "tag": house.tag}
        second = one(connection, change, **given)
        assert second != first and one(connection, change, **given) == second
        rows = connection.execute(
            "select number, content, schema_id, model, tag_ids from prompt_versions where prompt_id = %s "
            "order by number",
            [prompt_id],
        ).fetchall()
        assert rows == [(1, "Read it.", None, None, []), (2, "Read all.", schema_id, "m", [house.tag])]

        connection.execute("select update_tag(%s, p_color => '#1E90FF')", [house.tag])
        assert one(connection, "select name, color from tags where id = %(id)s", id=house.tag) == ("paid", "#1e90ff")


@pytest.mark.parametrize("kind", KINDS)
def test_name_is_unique_ignoring_case_until_deleted(doors: Doors, house: House, kind: str) -> None:
    with doors.as_front_end(house.owner) as connection:
        connection.execute(NEW[kind].encode(), {"org": house.org, "name": "Nóta"})
        taken = ("PT409", "name_taken")
        assert refusal(connection, NEW[kind], org=house.org, name="NÓTA") == taken
        mine = of_house(house, kind)
        assert refusal(connection, CHANGED[kind], id=mine, name="nóta") == taken
        connection.execute(CHANGED[kind].encode(), {"id": mine, "name": "Other"})
        assert one(connection, NEW[kind], org=house.second_org, name="Nóta") is not None  # another organisation's
        theirs = one(connection, f"select id from {kind}s where org_id = %(org)s and name = 'Nóta'", org=house.org)
        connection.execute(f"select delete_{kind}(%s)".encode(), [theirs])
        connection.execute(NEW[kind].encode(), {"org": house.org, "name": "NÓTA"})


@pytest.mark.parametrize("kind", [*KINDS, "document"])
def test_name_is_one_line_of_visible_characters(doors: Doors, house: House, kind: str) -> None:
    """What it says is only shown: markup in it is letters."""
    change = CHANGED.get(kind, "select rename_document(%(id)s, %(name)s)")
    with doors.as_front_end(house.member) as connection:
        for name in ("", "n" * 201, " padded", "padded ", "two\nlines", "nul\x01", "\u202egnp.exe", "pa\u200bid"):
            assert refusal(connection, change, id=of_house(house, kind), name=name)[0] == "PT422", name
        for name in ("Invoices 2026 – <b>all</b> ✓", "n" * 200):
            one(connection, change, id=of_house(house, kind), name=name)
        if kind in NEW:
            for name in (None, "\u202egnp.exe"):
                assert refusal(connection, NEW[kind], org=house.org, name=name)[0] == "PT422"


@pytest.mark.parametrize(
    "statement",
    [
        "select create_schema(%(org)s, 'New', '[]')",
        "select create_schema(%(org)s, 'New', jsonb_build_object('title', repeat('x', 262145)))",
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
def test_out_of_bounds_values_are_rejected(doors: Doors, house: House, statement: str) -> None:
    with doors.as_front_end(house.member) as connection:
        assert refusal(connection, statement, **vars(house))[0] == "PT422"


def test_document_has_at_most_100_tags(doors: Doors, house: House) -> None:
    with doors.as_front_end(house.member) as connection:
        connection.execute("select create_tag(%s, 'No. ' || n) from generate_series(1, 100) as n", [house.org])
        put = "select tag_document(%(id)s, array(select id from tags where name like %(which)s))"
        one(connection, put, id=house.member_document, which="No. %")
        assert refusal(connection, put, id=house.member_document, which="paid")[0] == "PT422"
        swap = "select tag_document(%(id)s, array[%(tag)s]::uuid[], array(select id from tags where name = 'No. 1'))"
        one(connection, swap, id=house.member_document, tag=house.tag)


def test_item_of_another_organisation_is_rejected_as_missing(doors: Doors, house: House) -> None:
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
    with doors.as_front_end(house.member) as connection:
        for statement, name in statements.items():
            with connection.transaction(force_rollback=True):
                assert connection.execute(statement.encode(), vars(house)).rowcount == 1
            theirs = {**vars(house), name: getattr(house, f"other_{name}")}
            nobodys = {**vars(house), name: uuid4()}
            assert refusal(connection, statement, **theirs) == refusal(connection, statement, **nobodys)
            assert refusal(connection, statement, **theirs)[0] == "PT404"
        for statement in (
            *(f"select update_{kind}(%({kind})s, 'New')" for kind in ("schema", "tag")),
            "select update_prompt(%(prompt)s, 'New', 'Read.', null, null, '{}')",
            *(f"select delete_{kind}(%({kind})s)" for kind in KINDS),
        ):
            theirs = {kind: of_house(house, kind, "other_") for kind in KINDS}
            assert refusal(connection, statement, **theirs)[0] == "PT404", statement
        for statement in NEW.values():
            assert refusal(connection, statement, org=house.other_org, name="New")[0] == "PT404"
        assert refusal(connection, "select tag_document(%(id)s)", id=house.other_document)[0] == "PT404"
        assert refusal(connection, "select rename_document(%(id)s, 'b')", id=house.other_document)[0] == "PT404"


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_item_cannot_be_changed_or_used(doors: Doors, house: House, kind: str) -> None:
    with doors.as_front_end(house.owner) as connection:
        connection.execute(f"select delete_{kind}(%s)".encode(), [of_house(house, kind)])
        look = f"select deleted_at is not null from {kind}s where id = %(id)s"
        assert one(connection, look, id=of_house(house, kind)) is True
        assert refusal(connection, CHANGED[kind], id=of_house(house, kind), name="New")[0] == "PT404"
        assert refusal(connection, f"select delete_{kind}(%(id)s)", id=of_house(house, kind))[0] == "PT404"
        # For no new use:
        uses = {
            "schema": [
                "select create_prompt(%(org)s, 'New', 'Read.', %(schema)s)",
                "select update_prompt(%(member_prompt)s, 'Receipts', 'Read.', %(schema)s, null, '{}')",
                "insert into extractions (org_id, document_id, schema_revid) "
                "values (%(org)s, %(document)s, %(schema_revid)s)",
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
            assert refusal(connection, statement, **vars(house))[0] == "PT404", statement
        # What had it before keeps it, and can be changed in spite of it.
        keep = "select update_prompt(%(prompt)s, 'Other', 'Read.', %(schema)s, null, array[%(tag)s]::uuid[])"
        if kind != "prompt":
            one(connection, keep, **vars(house))


def test_extraction_has_the_schema_of_the_version_it_names(doors: Doors, house: House) -> None:
    new = (
        "insert into extractions (org_id, document_id, schema, schema_revid, prompt_revid) "
        "values (%(org)s, %(document)s, %(schema)s, %(schema_revid)s, %(prompt_revid)s) returning schema, schema_revid"
    )
    given: dict[str, Any] = {**vars(house), "schema": None, "schema_revid": None, "prompt_revid": None}
    text = {"type": "object"}
    with doors.as_front_end(house.member) as connection:
        assert one(connection, new, **{**given, "schema_revid": house.schema_revid}) == (text, house.schema_revid)
        # A prompt's schema in its latest version, where no other is given.
        latest = one(connection, 'select update_schema(%(id)s, p_schema => \'{"title": "2"}\')', id=house.schema)
        prompted = {**given, "prompt_revid": house.prompt_revid}
        assert one(connection, new, **prompted) == ({"title": "2"}, latest)
        assert one(connection, new, **{**prompted, "schema_revid": house.schema_revid}) == (text, house.schema_revid)
        assert one(connection, new, **{**prompted, "schema": Jsonb({"title": "3"})}) == ({"title": "3"}, None)
        # What is said twice says the same.
        both = {**given, "schema_revid": house.schema_revid}
        assert one(connection, new, **{**both, "schema": Jsonb(text)}) == (text, house.schema_revid)
        assert refusal(connection, new, **{**both, "schema": Jsonb({"title": "3"})})[0] == "PT422"


def test_concurrent_changes_of_one_version_store_only_one(pair: Pair) -> None:
    house = pair.house
    for change, look in (
        ("select update_schema(%(schema)s, %(name)s, p_revid => %(schema_revid)s)", "select name from schemas"),
        (
            "select update_prompt(%(prompt)s, %(name)s, 'Read.', null, null, '{}', %(prompt_revid)s)",
            "select name from prompts",
        ),
    ):

        def by(name: str, statement: str = change) -> Any:
            return lambda connection: connection.execute(statement, {**vars(house), "name": name})

        with pytest.raises(psycopg.Error) as refused:
            pair.meanwhile(by("First"), by("Second"))
        assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "version_changed")
        names = {name for (name,) in pair.watch.execute(look.encode()).fetchall()}
        assert "First" in names and "Second" not in names


def test_concurrent_creates_with_one_name_store_only_one(pair: Pair) -> None:
    for kind in KINDS:
        for first, second in (("new", "one"), ("changed", "ONE")):
            values = {"org": pair.house.org, "id": of_house(pair.house, kind), "name": second}
            statement = (NEW if first == "new" else CHANGED)[kind]

            def create(connection: psycopg.Connection, kind: str = kind) -> None:
                connection.execute(NEW[kind].encode(), {"org": pair.house.org, "name": "One"})

            def take(connection: psycopg.Connection, statement: str = statement, values: Any = values) -> None:
                connection.execute(statement.encode(), values)

            with pytest.raises(psycopg.Error) as refused:
                pair.meanwhile(create, take)
            assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("PT409", "name_taken")
            pair.watch.execute(f"update {kind}s set deleted_at = now() where name = 'One'".encode())


def test_item_deleted_concurrently_cannot_be_changed_or_used(pair: Pair) -> None:
    use = "select create_prompt(%(org)s, 'New', 'Read.', %(id)s)"
    for kind, statement in (*CHANGED.items(), ("schema", use)):
        values = {"id": of_house(pair.house, kind), "name": "New", "org": pair.house.org}
        pair.watch.execute(f"update {kind}s set deleted_at = null".encode())

        def delete(connection: psycopg.Connection, kind: str = kind, values: Any = values) -> None:
            connection.execute(f"select delete_{kind}(%(id)s)".encode(), values)

        def change(connection: psycopg.Connection, statement: str = statement, values: Any = values) -> None:
            connection.execute(statement.encode(), values)

        with pytest.raises(psycopg.Error) as refused:
            pair.meanwhile(delete, change)
        assert refused.value.sqlstate == "PT404"


def test_concurrent_tagging_cannot_exceed_the_limit(pair: Pair) -> None:
    with pair.acting(pair.first) as connection:
        connection.execute("select create_tag(%s, 'No. ' || n) from generate_series(1, 101) as n", [pair.house.org])

    def put(pattern: str) -> Any:
        return lambda connection: connection.execute(
            "select tag_document(%s, array(select id from public.tags where name ~ %s))",
            [pair.house.member_document, pattern],
        )

    with pytest.raises(psycopg.Error) as refused:
        pair.meanwhile(put(r"^No\. ..?$"), put(r"^No\. 10[01]$"))
    assert refused.value.sqlstate == "PT422"
