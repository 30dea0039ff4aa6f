"""Users' corrections in documents of the same schema, chosen as examples for later extractions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from extraction_case import ExtractionCase, document_with_pages
from fieldmark.services import examples
from fieldmark.stores import extractions, runs

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}}}
PAGE = "Vendor: Acme GmbH\nTotal: 10.00 EUR\n"


@asynccontextmanager
async def corrected_document(
    case: ExtractionCase,
    read: dict[str, Any],
    corrected: dict[str, Any],
    schema: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[ExtractionCase]:
    """Yield another document of the user, with fields read by an agent and then corrected by the user."""
    async with document_with_pages(options.get("database", case.database), case.owner_url, case.scope, [PAGE]) as other:
        set_schema(other, schema or SCHEMA)
        context = await other.context()
        outcome = await other.call(context, "extract_fields", fields=read, confidences=dict.fromkeys(read, 0.9))
        assert not outcome.is_error, outcome
        await save_as_user(other, corrected)
        yield other


def set_schema(case: ExtractionCase, schema: dict[str, Any]) -> None:
    case.sql("update public.extractions set schema = %s where id = %s", Jsonb(schema), case.extraction_id)


async def save_as_user(case: ExtractionCase, fields: dict[str, Any]) -> None:
    async with case.database.as_user(case.scope) as conn:
        for name, value in fields.items():
            await conn.execute(
                "select public.update_extraction_field(%s, %s, %s)", (case.extraction_id, [name], Jsonb(value))
            )


def enable_examples(case: ExtractionCase, enabled: bool = True) -> None:
    case.sql("update public.organisations set examples = %s where id = %s", enabled, case.scope.org_id)


async def choose_for_new_run(case: ExtractionCase, schema: dict[str, Any] = SCHEMA) -> list[dict[str, str]]:
    context = await case.context()
    found = await choose_for_run(case, context.run_id, schema)
    case.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", context.run_id)
    return found


async def choose_for_run(case: ExtractionCase, run_id: Any, schema: dict[str, Any] = SCHEMA) -> list[dict[str, str]]:
    async with case.database.as_user(case.scope) as conn:
        run = await runs.find(conn, run_id)
        assert run is not None
        found = await examples.choose(conn, case.scope, run, case.document_id, schema)
    return [one.reference for one in found]


def reference(case: ExtractionCase, path: str) -> dict[str, str]:
    return {"extraction_id": str(case.extraction_id), "path": path}


async def test_examples_have_the_same_schema_and_another_document(case):
    set_schema(case, SCHEMA)
    enable_examples(case)
    another = {**SCHEMA, "title": "Another"}
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}, schema=another):
        # Nor corrections of the same document: an evaluation extracts it again.
        again = await case.another_extraction()
        set_schema(again, SCHEMA)
        context = await again.context()
        await again.call(context, "extract_fields", fields={"vendor": "A"}, confidences={"vendor": 0.9})
        await save_as_user(again, {"vendor": "Acme Worldwide"})
        assert await choose_for_new_run(case) == []
    # Nor of a byte-identical duplicate: the folder of an evaluation may already be uploaded.
    same = "update public.documents set content_sha256 = %s where id = %s"
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}) as other:
        case.sql(same, "a" * 64, other.document_id)
        assert await choose_for_new_run(case) == [reference(other, "vendor")]
        case.sql(same, "a" * 64, case.document_id)
        assert await choose_for_new_run(case) == []


async def test_examples_of_other_organisations_are_excluded(case, make_user):
    set_schema(case, SCHEMA)
    enable_examples(case)
    async with document_with_pages(case.database, case.owner_url, await make_user(), [PAGE]) as stranger:
        async with corrected_document(stranger, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}):
            assert await choose_for_new_run(case) == []
        set_schema(stranger, SCHEMA)
        enable_examples(stranger)
        assert len(await choose_for_new_run(stranger)) == 1


async def test_unlocked_example_is_excluded_from_running_runs_too(case):
    set_schema(case, SCHEMA)
    enable_examples(case)
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "Acme Worldwide"}) as other:
        context = await case.context()

        before = [await choose_for_run(case, context.run_id) for _ in range(2)]
        assert before == [[reference(other, "vendor")]] * 2
        async with case.database.as_user(case.scope) as conn:
            await extractions.unlock(conn, other.extraction_id, ("vendor",))
        assert await choose_for_run(case, context.run_id) == []
        assert await choose_for_new_run(await case.another_extraction()) == []


async def test_at_most_three_short_examples_of_different_fields_are_chosen(case):
    names = ["a", "b", "c", "d", "e"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    set_schema(case, schema)
    enable_examples(case)
    read, corrected = dict.fromkeys(names, "x"), {name: f"right {name}" for name in names} | {"e": "long" * 100}
    async with (
        corrected_document(case, read, corrected, schema=schema),
        corrected_document(case, read, corrected, schema=schema) as newest,
    ):
        references = await choose_for_new_run(case, schema)
    assert references == [reference(newest, name) for name in ("d", "c", "b")]


async def test_confirmed_and_added_values_are_no_examples(case):
    set_schema(case, SCHEMA)
    enable_examples(case)
    async with corrected_document(case, {"vendor": "ACME"}, {"vendor": "ACME", "total": 12}):
        assert await choose_for_new_run(case) == []


LIST_SCHEMA = {"type": "object", "properties": {"vendor": {"type": "string"}, "items": {"type": "array"}}}


@pytest.mark.parametrize(
    ("change", "value", "expected"),
    [
        ("select public.remove_extraction_field(%s, %s)", None, ["vendor"]),
        ("select public.update_extraction_field(%s, %s, %s)", [{"n": "Zero"}, {"n": "Ghost"}, {"n": "B"}], ["vendor"]),
        ("select public.update_extraction_field(%s, %s, %s)", [{"n": "Geist"}, {"n": "B"}], ["items[0].n", "vendor"]),
    ],
    ids=["row removed", "row added", "same rows"],
)
async def test_shifted_rows_are_no_corrections(case, change, value, expected):
    set_schema(case, LIST_SCHEMA)
    enable_examples(case)
    read = {"vendor": "ACME", "items": [{"n": "Ghost"}, {"n": "B"}]}
    async with corrected_document(case, read, {"vendor": "Acme Worldwide"}, schema=LIST_SCHEMA) as other:
        path, given = (["items", "0"], ()) if value is None else (["items"], (Jsonb(value),))
        async with case.database.as_user(case.scope) as conn:
            await conn.execute(change.encode(), (other.extraction_id, path, *given))
        assert await choose_for_new_run(case, LIST_SCHEMA) == [reference(other, one) for one in expected]
