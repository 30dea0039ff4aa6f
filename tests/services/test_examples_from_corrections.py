"""Corrections that people made in documents of the same schema: which are chosen as examples for the next reading."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from extraction_case import ExtractionCase, document_with_pages
from fieldmark.services import examples
from fieldmark.stores import runs

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}}}
PAGE = "Vendor: Acme GmbH\nTotal: 10.00 EUR\n"


@asynccontextmanager
async def corrected_document(
    case: ExtractionCase,
    before: dict[str, Any],
    after: dict[str, Any],
    schema: dict[str, Any] | None = None,
    **others: Any,
) -> AsyncIterator[ExtractionCase]:
    """Another document of the case's user: what an agent has read there, and what a person has made of it."""
    async with document_with_pages(others.get("database", case.database), case.owner_url, case.scope, [PAGE]) as other:
        set_schema(other, schema or SCHEMA)
        context = await other.context()
        said = await other.call(context, "extract_fields", fields=before, confidences=dict.fromkeys(before, 0.9))
        assert not said.is_error, said
        await put_right(other, after)
        yield other


def set_schema(case: ExtractionCase, schema: dict[str, Any]) -> None:
    case.sql("update public.extractions set schema = %s where id = %s", Jsonb(schema), case.extraction_id)


async def put_right(case: ExtractionCase, fields: dict[str, Any]) -> None:
    async with case.database.as_user(case.scope) as conn:
        for name, value in fields.items():
            await conn.execute(
                "select public.update_extraction_field(%s, %s, %s)", (case.extraction_id, [name], Jsonb(value))
            )


def enable_examples(case: ExtractionCase, on: bool = True) -> None:
    case.sql("update public.organisations set examples = %s where id = %s", on, case.scope.org_id)


async def chosen(case: ExtractionCase, schema: dict[str, Any] = SCHEMA) -> list[dict[str, str]]:
    """The examples of a new run."""
    context = await case.context()
    found = await chosen_again(case, context.run_id, schema)
    case.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", context.run_id)
    return found


async def chosen_again(case: ExtractionCase, run_id: Any, schema: dict[str, Any] = SCHEMA) -> list[dict[str, str]]:
    async with case.database.as_user(case.scope) as conn:
        run = await runs.get(conn, run_id)
        assert run is not None
        found = await examples.choose(conn, case.scope, run, case.document_id, schema)
    return [one.reference for one in found]


def reference(case: ExtractionCase, path: str) -> dict[str, str]:
    return {"extraction_id": str(case.extraction_id), "path": path}


async def test_only_of_the_same_schema_and_of_another_document(case):
    set_schema(case, SCHEMA)
    enable_examples(case)
    another = {**SCHEMA, "title": "Another"}
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}, schema=another):
        # An evaluation reads a document again whose corrections are what is right.
        again = await case.another_extraction()
        set_schema(again, SCHEMA)
        context = await again.context()
        await again.call(context, "extract_fields", fields={"vendor": "A"}, confidences={"vendor": 0.9})
        await put_right(again, {"vendor": "Acme Worldwide"})
        assert await chosen(case) == []
    # Nor of the same file that was uploaded again: a folder that is evaluated may stand in the organisation already.
    same = "update public.documents set content_sha256 = %s where id = %s"
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}) as other:
        case.sql(same, "a" * 64, other.document_id)
        assert await chosen(case) == [reference(other, "vendor")]
        case.sql(same, "a" * 64, case.document_id)
        assert await chosen(case) == []


async def test_none_of_another_organisation(case, make_user):
    set_schema(case, SCHEMA)
    enable_examples(case)
    async with document_with_pages(case.database, case.owner_url, await make_user(), [PAGE]) as stranger:
        async with corrected_document(stranger, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}):
            assert await chosen(case) == []
        set_schema(stranger, SCHEMA)
        enable_examples(stranger)
        assert len(await chosen(stranger)) == 1  # it is there for whom it is


async def test_what_a_person_took_out_is_shown_no_more_to_a_run_that_had_it_either(case):
    set_schema(case, SCHEMA)
    enable_examples(case)
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}) as other:
        context = await case.context()

        before = [await chosen_again(case, context.run_id) for _ in range(2)]
        assert before == [[reference(other, "vendor")]] * 2
        async with case.database.as_user(case.scope) as conn:
            for _ in range(2):
                await examples.withdraw(conn, case.scope, other.extraction_id, ("vendor",))
        assert await chosen_again(case, context.run_id) == []
        assert await chosen(await case.another_extraction()) == []


async def test_there_are_three_at_most_each_of_another_field_and_none_is_long(case):
    names = ["a", "b", "c", "d", "e"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    set_schema(case, schema)
    enable_examples(case)
    read, right = dict.fromkeys(names, "x"), {name: f"right {name}" for name in names} | {"e": "long" * 100}
    async with (
        corrected_document(case, read, right, schema=schema),
        corrected_document(case, read, right, schema=schema) as newest,
    ):
        kept = await chosen(case, schema)
    assert kept == [reference(newest, name) for name in ("d", "c", "b")]


async def test_what_a_person_has_only_confirmed_or_written_alone_is_none(case):
    set_schema(case, SCHEMA)
    enable_examples(case)
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "ACME", "total": 12}):
        assert await chosen(case) == []


LISTED = {"type": "object", "properties": {"vendor": {"type": "string"}, "items": {"type": "array"}}}


@pytest.mark.parametrize(
    ("change", "value", "expected"),
    [
        ("select public.remove_extraction_field(%s, %s)", None, ["vendor"]),
        ("select public.update_extraction_field(%s, %s, %s)", [{"n": "Zero"}, {"n": "Ghost"}, {"n": "B"}], ["vendor"]),
        ("select public.update_extraction_field(%s, %s, %s)", [{"n": "Geist"}, {"n": "B"}], ["items[0].n", "vendor"]),
    ],
    ids=["a row goes", "a row comes", "the same rows"],
)
async def test_a_row_that_moves_up_or_down_is_no_correction(case, change, value, expected):
    """What an agent read stands in another row then: nobody has said that it was wrong."""
    set_schema(case, LISTED)
    enable_examples(case)
    read = {"vendor": "ACME", "items": [{"n": "Ghost"}, {"n": "B"}]}
    async with corrected_document(case, read, {"vendor": "Acme Worldwide"}, schema=LISTED) as other:
        path, given = (["items", "0"], ()) if value is None else (["items"], (Jsonb(value),))
        async with case.database.as_user(case.scope) as conn:
            await conn.execute(change.encode(), (other.extraction_id, path, *given))
        assert await chosen(case, LISTED) == [reference(other, one) for one in expected]
