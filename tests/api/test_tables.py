"""/api/tables: the documents of a schema or a stack as a table, and its exports."""

from __future__ import annotations

import csv
import io
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec
from typing import Any
from uuid import UUID, uuid4

import httpx
import openpyxl
import psycopg
import pytest
from answers import assert_problem
from psycopg.sql import SQL, Identifier

from extraction_case import sql
from fieldmark.services.extractions import check_changed
from fieldmark.stores import extractions
from library_rows import LibraryDocument, insert_documents

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["vendor", "total"],
    "properties": {
        "total": {"type": "number", "title": "Amount"},
        "vendor": {"$ref": "#/$defs/vendor"},
        "date": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "currency": {"type": "string"},
        "paid": {"type": ["boolean", "null"]},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}},
        },
        "others": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
    },
    "$defs": {"vendor": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def document(day: int, fields: dict[str, Any], revid: UUID | None, **more: Any) -> LibraryDocument:
    created_at = datetime(2026, 1, day, tzinfo=UTC)
    return LibraryDocument(fields, filename=f"{day}.pdf", created_at=created_at, schema_revid=revid, **more)


def library(revid: UUID, newer: UUID) -> list[LibraryDocument]:
    items = [{"name": "A", "price": 5}, {"name": "=B", "price": 7}]
    return [
        document(1, {"total": 12.5, "vendor": {"name": "Acme"}, "currency": "EUR", "items": items}, revid),
        document(2, {"total": 100, "vendor": {"name": "=Beta"}, "date": "2026-01-02", "paid": True}, newer),
        document(
            3, {"total": 7, "currency": "EUR", "items": items[:1], "others": [{"price": 99}]}, newer,
            unverified=frozenset(("total",)),
        ),
        document(4, {"total": 1000}, None),
        document(5, {"total": 1000}, newer, is_completed=False),
    ]  # fmt: skip


async def table_path(server, owner_url: str) -> str:
    """Create a schema with two versions and documents. Return the path of its table."""
    made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA | {"title": "a"}})).json()
    newer = (await server.http.patch(f"/api/schemas/{made['id']}", json={"schema": SCHEMA})).json()
    insert_documents(owner_url, server.scope, library(UUID(made["schema_revid"]), UUID(newer["schema_revid"])))
    return f"/api/tables/{made['id']}"


async def test_each_document_with_an_extraction_under_the_schema_is_a_row(serve, clone):
    async with serve(with_worker=False) as server:
        path = await table_path(server, clone.owner_url)
        table = (await server.http.get(f"{path}/rows", params={"totals": True})).json()
        assert [(one["path"], one["type"], one["title"]) for one in table["columns"]] == [
            ("total", "number", "Amount"),
            ("vendor.name", "text", None),
            ("date", "date", None),
            ("currency", "text", None),
            ("paid", "boolean", None),
        ]
        # Only the title of the schema has changed: no row is stale.
        assert [(row["filename"], row["path"], row["status"]) for row in table["items"]] == [
            ("5.pdf", None, "incomplete"),
            ("3.pdf", None, "done"),
            ("2.pdf", None, "done"),
            ("1.pdf", None, "done"),
        ]
        assert table["total"] == 4
        cells = table["items"][2]["cells"]
        assert {name for name, cell in cells.items() if cell["value"] is not None} == {
            *("total", "vendor.name", "date", "paid")
        }
        assert (cells["currency"]["path"], cells["currency"]["status"]) == ("currency", "not_written")
        assert (cells["paid"]["value"], cells["date"]["value"], cells["total"]["value"]) == (True, "2026-01-02", 100)
        unverified = table["items"][1]["cells"]["total"]
        assert (unverified["is_verified"], unverified["state"], unverified["currency"]) == (False, "not_found", "EUR")
        totals = {(one["column"], one["currency"]): (float(one["sum"]), one["count"]) for one in table["totals"]}
        assert totals == {("total", "EUR"): (19.5, 2), ("total", None): (1100, 2)}
        assert table["lists"] == ["items", "others"]
        await server.http.post("/api/schemas", json={"name": "Contract", "schema": SCHEMA})
        tables = (await server.http.get("/api/tables")).json()["items"]
        assert [(one["name"], one["records"]) for one in tables] == [("Invoice", 4), ("Contract", 0)]
        assert (tables[0]["to_review"], tables[0]["stack_id"]) == (1, None)
        # The table of a stack is one table, also once it has a schema.
        named = {"name": "Receipts", "columns": [{"name": "total"}], "document_ids": []}
        stack = (await server.http.post("/api/stacks", json=named)).json()
        first = (await server.http.get("/api/tables")).json()["items"][0]
        assert [first[key] for key in ("id", "stack_id", "schema_id", "records")] == [
            stack["id"],
            stack["id"],
            stack["schema_id"],
            0,
        ]
        async with server.client() as stranger:
            assert_problem(await stranger.get(f"{path}/rows"), 404)
            assert (await stranger.get("/api/tables")).json() == {"items": []}


async def test_a_table_was_changed_with_its_last_value_or_column(serve, clone):
    async def changed_at() -> dict[str, str]:
        return {one["name"]: one["changed_at"] for one in (await server.http.get("/api/tables")).json()["items"]}

    async with serve(with_worker=False) as server:
        await table_path(server, clone.owner_url)
        named = {"name": "Receipts", "columns": [{"name": "total"}], "document_ids": []}
        stack = (await server.http.post("/api/stacks", json=named)).json()
        with psycopg.connect(clone.owner_url, autocommit=True) as conn:
            for total in ("7", "12.5"):  # the oldest document is changed last
                (last,) = conn.execute(
                    """update public.extractions set extracted_fields = extracted_fields || '{"paid": null}'
                       where extracted_fields ->> 'total' = %s returning updated_at""",
                    (total,),
                ).fetchone()
        before = await changed_at()
        assert datetime.fromisoformat(before["Invoice"]) == last
        path = f"/api/schemas/{stack['schema_id']}"
        await server.http.patch(path, json={"schema": SCHEMA})
        after = await changed_at()
        assert (after["Invoice"], after["Receipts"] > before["Receipts"]) == (before["Invoice"], True)


async def test_malformed_evidence_of_a_front_end_has_no_page(serve, clone):
    async with serve(with_worker=False) as server:
        path = await table_path(server, clone.owner_url)
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute("set session_replication_role = replica")
            conn.execute("""update extractions set evidence = '{"total": {"state": "not_found", "page": "1.5x"}}'""")
        rows = (await server.http.get(f"{path}/rows")).json()["items"]
        assert [row["cells"]["total"]["page"] for row in rows] == [None] * 4
        assert (await server.http.get(f"{path}/export", params={"format": "xlsx"})).status_code == 200


async def test_items_of_a_list_are_rows(serve, clone):
    async with serve(with_worker=False) as server:
        path = await table_path(server, clone.owner_url)
        table = (await server.http.get(f"{path}/rows", params={"list": "items", "totals": True})).json()
        assert [one["path"] for one in table["columns"]][-2:] == ["items[].name", "items[].price"]
        rows = [
            (row["filename"], row["path"], row["cells"]["items[].price"]["value"], row["cells"]["total"]["value"])
            for row in table["items"]
        ]
        assert rows == [("3.pdf", "items[0]", 5, 7), ("1.pdf", "items[0]", 5, 12.5), ("1.pdf", "items[1]", 7, 12.5)]
        assert table["items"][2]["cells"]["items[].name"]["path"] == "items[1].name"
        # A field of the document counts once, no matter how many items it has.
        totals = {one["column"]: (float(one["sum"]), one["count"]) for one in table["totals"]}
        assert totals == {"items[].price": (17, 3), "total": (19.5, 2)}
        # A condition on a field of the items is one on this item.
        over = (await server.http.get(f"{path}/rows", params={"list": "items", "filter": "items[].price > 6"})).json()
        assert [row["path"] for row in over["items"]] == ["items[1]"]


STATUSES = {
    # document: its cells that are not `found`
    "1.pdf": {"total": "stale", "date": "stale", "paid": "not_written"},
    "2.pdf": {"vendor.name": "unclear", "date": "confirmed", "paid": "needs_review", "currency": "not_written"},
    "3.pdf": {"total": "needs_review", "vendor.name": "needs_review", "date": "not_written", "paid": "confirmed"},
    "4.pdf": {"total": "confirmed", "date": "stale", "paid": "not_written", "currency": "not_written"},
    "5.pdf": {"total": "needs_review", "date": "needs_review", "paid": "needs_review"},
}
REASONS = {
    ("2.pdf", "vendor.name"): "low_confidence",
    ("2.pdf", "paid"): "proposal",
    ("2.pdf", "date"): "person",
    ("3.pdf", "total"): "not_found",
    ("3.pdf", "vendor.name"): "missing",
    ("5.pdf", "total"): "breaks_schema",
    ("5.pdf", "date"): "breaks_schema",
    ("5.pdf", "paid"): "breaks_schema",
}


async def test_cells_have_a_status_by_which_rows_are_filtered(serve, clone):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        properties = SCHEMA["properties"] | {"total": {"type": "number", "description": "With tax."}}
        newer = SCHEMA | {"properties": properties | {"date": {"type": "string", "format": "date"}}}
        latest = (await server.http.patch(f"/api/schemas/{made['id']}", json={"schema": newer})).json()
        old, new = UUID(made["schema_revid"]), UUID(latest["schema_revid"])
        vendor, items = {"name": "Acme"}, [{"name": "A"}, {"name": "B", "price": 7}]
        first = {"total": 1, "currency": "EUR", "vendor": vendor, "items": items}
        second = {"total": 2, "vendor": vendor, "date": "2026-01-02", "paid": True}
        documents = [
            document(1, first, old),
            document(2, second, new, locked=frozenset(("date", "paid")), unverified=frozenset(("date", "paid"))),
            document(
                *(3, {"total": 3, "currency": "EUR", "paid": False}, new), locked=frozenset(("paid",)),
                unverified=frozenset(("total",)),
            ),
            document(4, {"total": 4, "vendor": vendor}, old, locked=frozenset(("total",))),
            # Values of other types than their columns.
            document(
                *(5, {"total": "4 kg", "currency": "EUR", "vendor": vendor, "date": "May", "paid": "?"}, new),
                locked=frozenset(("paid",)),
            ),
        ]  # fmt: skip
        insert_documents(clone.owner_url, server.scope, documents)
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute(
                """insert into extraction_proposals
                     (org_id, extraction_id, path, name, old, new, confidence_scores, evidence)
                   values (%s, %s, '{paid}', 'paid', 'true', 'false', '{}', '{}')""",
                (server.scope.org_id, documents[1].extraction_id),
            )
            conn.execute(
                """update extractions set confidence_scores = '{"vendor": {"name": 0.49}}' where id = %s""",
                (documents[1].extraction_id,),
            )
        await check_changed(server.runtime.database)
        path = f"/api/tables/{made['id']}"
        rows = (await server.http.get(f"{path}/rows")).json()["items"]
        assert {
            row["filename"]: {name: cell["status"] for name, cell in row["cells"].items() if cell["status"] != "found"}
            for row in rows
        } == STATUSES
        reasons = {(row["filename"], name): cell["reason"] for row in rows for name, cell in row["cells"].items()}
        assert {cell: reason for cell, reason in reasons.items() if reason is not None} == REASONS
        assert {row["filename"]: row["status"] for row in rows} == {
            name: "stale" if "stale" in cells.values() else "done" for name, cells in STATUSES.items()
        }
        each = ("found", "unclear", "needs_review", "stale", "confirmed", "not_written")
        for column in ("", "total", "date", "paid", "vendor.name"):
            for status in (*zip(each), ("unclear", "needs_review", "stale")):
                query = {"cell_status": status, "sort": "total"} | ({"column": column} if column else {})
                found = (await server.http.get(f"{path}/rows", params=query)).json()["items"]
                assert (query, [row["filename"] for row in found]) == (
                    query,
                    [
                        row["filename"]
                        for row in rows[::-1]
                        if any(cell["status"] in status for name, cell in row["cells"].items() if column in ("", name))
                    ],
                )
        urgent_first = ("needs_review", "unclear", "stale", "not_written", "confirmed", "found")
        for column in ("", "total", "paid", "vendor.name"):
            urgency = {
                row["filename"]: min(
                    urgent_first.index(cell["status"]) for name, cell in row["cells"].items() if column in ("", name)
                )
                for row in rows
            }
            assert len(set(urgency.values())) > 1
            for descending in (False, True):
                query = {"by_status": True, "descending": descending} | ({"sort": column} if column else {})
                found = (await server.http.get(f"{path}/rows", params=query)).json()["items"]
                assert (query, [row["filename"] for row in found]) == (
                    query,
                    sorted(urgency, key=lambda name: urgency[name], reverse=descending),
                )
        # In a table of items the cells are those of the item.
        query = {"list": "items", "cell_status": "not_written", "column": "items[].price"}
        (row,) = (await server.http.get(f"{path}/rows", params=query)).json()["items"]
        assert row["cells"]["items[].price"] == {
            **dict.fromkeys(("reason", "value", "kind", "currency", "state", "confidence", "page", "quote")),
            "path": "items[0].price",
            "status": "not_written",
            "is_verified": False,
        }
        answer = await server.http.get(f"{path}/export", params={"format": "json", "cell_status": "unclear"})
        assert [one["cells"]["vendor.name"]["status"] for one in answer.json()] == ["unclear"]


BREAKABLE = {
    "type": "object",
    "required": ["vendor"],
    "properties": {
        "vendor": {"type": "string"},
        "buyer": {"type": "object", "properties": {"name": {"type": "string"}}},
        "total": {"type": "number", "minimum": 0},
        "paid": {"type": "number"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["price"],
                "properties": {"n": {"type": "number"}, "price": {"type": "number"}},
            },
        },
    },
    "x-fieldmark": {"rules": [{"equals": ["total", "paid"]}]},
}
UNBROKEN = {
    "vendor": "Acme",
    "buyer": {"name": "B"},
    "total": 7,
    "paid": 7,
    "items": [{"n": 1, "price": 1}, {"n": 2, "price": 2}],
}
BREAKING_CHANGES: list[tuple[str, Any, set[str]]] = [
    # a person's change (None: the value is removed), and the cells that need review after it
    ("total", "seven", {"total", "paid"}),
    ("total", -7, {"total", "paid"}),
    ("total", 8, {"total", "paid"}),
    ("vendor", None, {"vendor"}),
    ("buyer", "B", {"buyer.name"}),
    ("items[1].price", None, {"items[].price"}),
]


async def test_change_that_breaks_the_schema_keeps_the_row_and_marks_its_cells(serve, clone):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": BREAKABLE})).json()
        one = document(1, {}, None)
        insert_documents(clone.owner_url, server.scope, [one])
        async with server.runtime.database.as_user(server.scope) as conn:
            revid = UUID(made["schema_revid"])
            extraction = await extractions.add(conn, org_id=server.scope.org_id, document_id=one.id, schema_revid=revid)
        url, path = f"/api/extractions/{extraction}", f"/api/tables/{made['id']}"
        unbroken = [{"path": name, "value": value} for name, value in UNBROKEN.items()]
        assert (await server.http.patch(f"{url}/fields", json=unbroken)).json()["valid"] is True
        await server.http.post(f"{url}/complete")

        async def marked_cells() -> set[str]:
            """Return the cells that need review, which also select their row."""
            found: set[str] = set()
            for query in ({}, {"list": "items"}):
                table = (await server.http.get(f"{path}/rows", params=query)).json()
                assert len(table["items"]) == (2 if query else 1)
                marked = {
                    row["path"]: {name for name, cell in row["cells"].items() if cell["status"] == "needs_review"}
                    for row in table["items"]
                }
                selected = (
                    await server.http.get(f"{path}/rows", params=query | {"cell_status": "needs_review"})
                ).json()["items"]
                assert {row["path"] for row in selected} == {row for row, cells in marked.items() if cells}
                found |= set[str]().union(*marked.values())
            return found

        async def stage() -> str:
            return (await server.get(f"documents/{one.id}"))["stage"]

        async def change(name: str, value: Any) -> httpx.Response:
            if value is None:
                return await server.http.delete(f"{url}/fields", params={"path": name})
            return await server.http.patch(f"{url}/fields", json=[{"path": name, "value": value}])

        for name, value, marked in BREAKING_CHANGES:
            answer = await change(name, value)
            assert (answer.json()["valid"], answer.json()["status"]) == (False, "completed"), (name, answer.text)
            assert (name, value, await marked_cells(), await stage()) == (name, value, marked, "needs_review")
            (exported,) = (await server.http.get(f"{path}/export", params={"format": "json"})).json()
            assert exported["values"]["total"] == (value if name == "total" else 7)
            listed = await server.http.get("/api/extractions", params={"to_check": True})
            assert [item["id"] for item in listed.json()["items"]] == [str(extraction)]
            # Figures count the document, and its value as far as it is a number.
            asked = {"aggregates": [{"op": "sum", "path": "total"}]}
            figures = (await server.http.post("/api/fields/query", json=asked)).json()
            assert figures["coverage"]["needs_review"] == 0, figures["coverage"]
            # A correction ends the review; so does completing the extraction as it is.
            await server.http.patch(f"{url}/fields", json=unbroken)
            assert (name, await marked_cells(), await stage()) == (name, set(), "reviewed")
            await change(name, value)
            await server.http.post(f"{url}/complete")
            await server.http.post(f"{url}/locks", params={"path": "paid"})
            assert (name, await marked_cells(), await stage()) == (name, set(), "reviewed")
            await server.http.patch(f"{url}/fields", json=unbroken)


SELECTIONS: list[tuple[dict[str, Any], str]] = [
    ({"sort": "total"}, "3 1 2 5"),
    ({"sort": "total", "descending": True}, "5 2 1 3"),
    ({"sort": "vendor.name"}, "2 1 5 3"),
    ({"sort": "date"}, "2 5 3 1"),
    ({"sort": "total", "limit": 1, "offset": 1}, "1"),
    ({"offset": 4}, ""),
    ({"filter": ["total >= 12.5", "currency exists"]}, "1"),
    ({"filter": "vendor.name missing"}, "5 3"),
    ({"filter": "total != 7"}, "5 2 1"),
]


async def test_rows_are_sorted_filtered_and_paged(serve, clone):
    async with serve(with_worker=False) as server:
        path = await table_path(server, clone.owner_url)
        for query, filenames in SELECTIONS:
            table = (await server.http.get(f"{path}/rows", params=query)).json()
            assert (query, [row["filename"] for row in table["items"]]) == (
                query,
                [f"{name}.pdf" for name in filenames.split()],
            )


async def test_document_has_one_row_of_its_newest_extraction(serve, clone):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        one = document(1, {"total": 1}, UUID(made["schema_revid"]))
        insert_documents(clone.owner_url, server.scope, [one])
        async with server.runtime.database.as_user(server.scope) as conn:
            await conn.execute(
                "insert into extractions (org_id, document_id, schema_revid) values (%s, %s, %s)",
                (server.scope.org_id, one.id, UUID(made["schema_revid"])),
            )
            await conn.execute(
                "update extractions set extracted_fields = '{\"total\": 2}', status = 'completed' where id <> %s",
                (one.extraction_id,),
            )
        table = await server.get(f"tables/{made['id']}/rows")
        assert [row["cells"]["total"]["value"] for row in table["items"]] == [2]


async def test_rows_are_exported_in_each_format(serve, clone):
    async with serve(with_worker=False) as server:
        path = f"{await table_path(server, clone.owner_url)}/export"
        rows = (await server.http.get(path, params={"format": "json"})).json()
        assert [row["values"]["total"] for row in rows] == [1000, 7, 100, 12.5]
        answer = await server.http.get(path, params={"format": "csv", "sort": "total"})
        lines = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
        assert lines[0] == [
            "document_id",
            "filename",
            "row",
            "status",
            "reviewed",
            "to_review",
            "accepted",
            "external_id",
            "metadata",
            "total",
            "vendor.name",
            "date",
            "currency",
            "paid",
        ]
        assert [line[1] for line in lines[1:]] == ["3.pdf", "1.pdf", "2.pdf", "5.pdf"]
        assert lines[3][9:] == ["100", "'=Beta", "2026-01-02", "", "true"]
        answer = await server.http.get(path, params={"format": "xlsx", "sort": "total", "descending": True})
        sheet = openpyxl.load_workbook(io.BytesIO(answer.content))["Invoice"]
        names = [cell.value for cell in sheet[1]]
        last = ["external_id", "metadata", "document_id"]
        assert names == [*(name for name in lines[0] if name not in ("row", *last)), *last]
        assert sheet.cell(3, names.index("date") + 1).value == datetime(2026, 1, 2)
        answer = await server.http.get(path, params={"format": "xlsx", "list": "items"})
        book = openpyxl.load_workbook(io.BytesIO(answer.content), data_only=True)
        values, locations = book["Invoice"], book["Locations"]
        names = [cell.value for cell in values[1]]
        assert names[:3] == ["filename", "row", "status"]
        assert [cell.value for cell in values[4]][names.index("items[].name") : -3] == ["=B", 7]
        assert values.cell(4, names.index("items[].name") + 1).data_type == "s"
        assert values.auto_filter.ref == f"A1:{values.cell(1, len(names)).column_letter}{values.max_row}"
        # Each value links to its field in the document, also without a page; what has no value does not.
        ids = {
            row["document_id"]: row["extraction_id"]
            for row in (await server.http.get(f"{path[:-7]}/rows")).json()["items"]
        }
        total = names.index("total") + 1
        for row, text in ((2, "not found"), (3, "found, page ")):
            link = locations.cell(row, total)
            assert (row, link.value.startswith(text)) == (row, True)
            document = values.cell(row, len(names)).value
            field = f"?extraction={ids[document]}&field=total"
            assert link.hyperlink.target == f"{server.base_url}/documents/{document}{field}"
            item = locations.cell(row, names.index("items[].name") + 1)
            assert item.hyperlink.target.endswith("&field=items%5B0%5D.name")
        assert locations.cell(2, names.index("vendor.name") + 1).hyperlink is None
        for shown in (values, locations):
            widths = [shown.column_dimensions[cell.column_letter].width for cell in shown[1]]
            assert all(6 <= width <= 63 for width in widths) and widths[-1] > 36, widths


async def test_files_show_what_is_missing_and_what_was_accepted_as_missing(serve, clone):
    async with serve(with_worker=False) as server:
        schema = SCHEMA | {"required": ["total"]}
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": schema})).json()
        one = document(1, {"currency": "EUR"}, UUID(made["schema_revid"]))
        insert_documents(clone.owner_url, server.scope, [one])
        await server.get(f"extractions/{one.extraction_id}")  # reading an extraction checks it
        path = f"/api/tables/{made['id']}/export"

        async def exported() -> tuple[list[str], str]:
            csv_file = await server.http.get(path, params={"format": "csv"})
            line = list(csv.reader(io.StringIO(csv_file.content.decode("utf-8-sig"))))[1]
            xlsx_file = await server.http.get(path, params={"format": "xlsx"})
            locations = openpyxl.load_workbook(io.BytesIO(xlsx_file.content))["Locations"]
            names = [cell.value for cell in locations[1]]
            return line[4:8], locations.cell(2, names.index("total") + 1).value

        before = int((await exported())[0][1])
        assert await exported() == (["false", str(before), "", ""], "missing")
        await server.http.post(f"/api/extractions/{one.extraction_id}/complete")
        line, location = await exported()
        assert (line[:2], line[3], location) == (["true", "0"], "", "accepted: missing")
        assert "total: missing" in line[2].split("; ")


async def test_only_chosen_rows_are_exported_in_the_order_of_the_table(serve, clone):
    async with serve(with_worker=False) as server:
        path = await table_path(server, clone.owner_url)
        ids = {row["filename"]: row["document_id"] for row in (await server.http.get(f"{path}/rows")).json()["items"]}

        async def export(*rows: tuple[str, str | None], **query: Any) -> list[tuple[str, str | None]]:
            body = {"rows": [{"document_id": ids.get(name, name), "path": item} for name, item in rows]}
            answer = await server.http.post(f"{path}/export", json=body, params={"format": "json", **query})
            assert answer.status_code == 200, answer.text
            return [(row["filename"], row["row"]) for row in answer.json()]

        assert await export(("1.pdf", None), ("3.pdf", None)) == [("3.pdf", None), ("1.pdf", None)]
        assert await export(("3.pdf", None), ("1.pdf", None), sort="total", descending=True) == [
            ("1.pdf", None),
            ("3.pdf", None),
        ]
        items = [("1.pdf", "items[1]"), ("3.pdf", "items[0]"), ("3.pdf", "items[0]")]
        assert await export(*items, list="items") == [("3.pdf", "items[0]"), ("1.pdf", "items[1]")]
        # A file with fewer rows than were chosen would hide that some are gone.
        present = {"document_id": ids["3.pdf"]}
        for row, query in (
            ({"document_id": str(uuid4())}, {}),
            ({"document_id": ids["1.pdf"]}, {"filter": "total < 10"}),
            ({"document_id": ids["1.pdf"], "path": "items[1]"}, {}),
        ):
            answer = await server.http.post(f"{path}/export", json={"rows": [present, row]}, params=query)
            assert_problem(answer, 404)
        for rows in ([], [{"document_id": ids["1.pdf"]}] * 501, [{"document_id": ids["1.pdf"], "path": "a["}]):
            assert_problem(await server.http.post(f"{path}/export", json={"rows": rows}), 422)


BILL = {
    "type": "object",
    "properties": {
        "seller": {"type": "object", "properties": {"name": {"type": "string"}}},
        "invoiceNumber": {"type": "string"},
        "order_number": {"type": "string"},
        "invoice": {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}},
        "due_date": {"type": "string", "format": "date"},
        "totals": {"type": "object", "properties": {"total": {"type": "number"}, "tax": {"type": "number"}}},
        "currency": {"type": "string"},
    },
}


def bill(seller: str | None, number: str | None, day: str | None, total: float | None, **others: Any) -> dict[str, Any]:
    fields = {"seller": {"name": seller}, "invoiceNumber": number, "order_number": "7", "currency": "EUR"}
    return fields | {"invoice": {"date": day}, "totals": {"total": total}} | others


async def test_likely_duplicates_are_marked_with_the_earliest_document(serve, clone):
    day = "2026-01-02"
    # number of the document: its fields, and the number of the document that it duplicates
    bills = {
        1: (bill("Acme GmbH", "RE-1", day, 10), None),
        2: (bill("ACME  GmbH", "re 1", day, 10.0), 1),
        3: (bill("Acme", "RE-1", day, 10), 1),  # the vendor differs
        4: (bill("Acme GmbH", "RE-1", None, 10), 1),
        5: (bill("Acme GmbH", "RE-2", day, 10), None),  # another number
        6: (bill("Acme GmbH", "RE-1", day, 10, currency="USD"), 1),  # the total differs
        7: (bill("Acme GmbH", "RE-1", None, 11), None),  # only vendor and number agree
        8: (bill("Beta", None, day, 99), None),
        9: (bill("Beta", None, day, 99), 8),  # without a number
        10: (bill("Beta", "B9", day, 99), 8),
    }
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Bill", "schema": BILL})).json()
        documents = {number: document(number, bills[number][0], UUID(made["schema_revid"])) for number in bills}
        insert_documents(clone.owner_url, server.scope, documents.values())
        path = f"/api/tables/{made['id']}"
        assert (await server.http.get(f"{path}/rows")).json()["marks"] == []
        # Rows that the filter hides are compared too.
        query = {"marks": True, "filter": "totals.total exists", "limit": 9}
        found = {
            mark["extraction_id"]: mark
            for mark in (await server.http.get(f"{path}/rows", params=query)).json()["marks"]
        }
        numbers = {str(one.extraction_id): number for number, one in documents.items()}
        assert {numbers[key]: mark["of"]["document_id"] for key, mark in found.items()} == {
            number: str(documents[first].id) for number, (_, first) in bills.items() if first is not None
        }
        assert {numbers[key]: set(mark["columns"]) for key, mark in found.items() if numbers[key] in (3, 9)} == {
            3: {"invoiceNumber", "invoice.date", "totals.total"},
            9: {"seller.name", "invoice.date", "totals.total"},
        }
        third = found[str(documents[3].extraction_id)]
        assert (third["code"], third["path"], third["of"]["filename"]) == ("duplicate", None, "1.pdf")


async def test_values_far_outside_the_range_of_their_column_are_marked(serve, clone):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Bill", "schema": BILL})).json()
        usual = [10, 12.5, 20, 25, 31, 40, -44, 50]
        totals = [1950, 0, -0.1, 1700, *usual, *usual]
        documents = [
            document(1 + at, bill(None, str(at), f"2026-01-{1 + at:02}", total), UUID(made["schema_revid"]))
            for at, total in enumerate(totals)
        ]
        # Another currency, with too few values for a range, a value that a person confirmed, and a wrong century.
        documents.append(
            document(30, bill(None, "20", "2016-02-02", 99_000, currency="JPY"), UUID(made["schema_revid"]))
        )
        locked = frozenset(("totals.total",))
        documents.append(
            document(31, bill(None, "21", "1926-01-02", 99_000), UUID(made["schema_revid"]), locked=locked)
        )
        insert_documents(clone.owner_url, server.scope, documents)
        path = f"/api/tables/{made['id']}"
        marks = (await server.http.get(f"{path}/rows", params={"marks": True})).json()["marks"]
        numbers = {str(one.extraction_id): one.filename for one in documents}
        found = {(numbers[mark["extraction_id"]], mark["path"]): (mark["low"], mark["high"]) for mark in marks}
        assert found.keys() == {("1.pdf", "totals.total"), ("3.pdf", "totals.total"), ("4.pdf", "totals.total"),
                                ("31.pdf", "invoice.date")}  # fmt: skip
        low, high = found["1.pdf", "totals.total"]
        assert 0.1 < low < 10 and 50 < high < 1700
        assert found["3.pdf", "totals.total"] == (-high, -low)
        first, last = found["31.pdf", "invoice.date"]
        assert (first[:7], last[:7]) == ("2016-01", "2036-01")
        assert {(mark["code"], mark["currency"]) for mark in marks} == {("outlier", "EUR"), ("outlier", None)}
        # A filter does not change the range.
        query = {"marks": True, "filter": "totals.total = 1950"}
        (mark,) = (await server.http.get(f"{path}/rows", params=query)).json()["marks"]
        assert (mark["low"], mark["high"]) == (low, high)


async def test_row_of_a_stack_without_an_extraction_has_no_cells_and_is_exported(serve, clone):
    async with serve(with_worker=False) as server:
        body = {"name": "Bills", "columns": [{"name": "vendor"}, {"name": "total", "type": "number"}]}
        stack = (await server.http.post("/api/stacks", json=body)).json()
        read = document(1, {"total": 7}, UUID(stack["schema_revid"]))
        unread = LibraryDocument(None, filename="2.pdf")
        insert_documents(clone.owner_url, server.scope, [read, unread])
        path = f"/api/stacks/{stack['id']}"
        await server.http.post(f"{path}/documents", json={"document_ids": [str(read.id), str(unread.id)]})
        path = f"/api/tables/{stack['id']}"
        page = (await server.http.get(f"{path}/rows", params={"marks": True})).json()
        assert {row["filename"]: bool(row["cells"]) for row in page["items"]} == {"1.pdf": True, "2.pdf": False}
        assert page["marks"] == []
        found = (await server.http.get(f"{path}/rows", params={"cell_status": "not_written"})).json()
        assert [row["filename"] for row in found["items"]] == ["1.pdf"]
        for file_format in ("csv", "json", "xlsx", *(["parquet"] if find_spec("pyarrow") else [])):
            answer = await server.http.get(f"{path}/export", params={"format": file_format})
            assert (file_format, answer.status_code) == (file_format, 200)
        view = (await server.http.get(f"{path}/view")).json()
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute(view["sql"])
        rows = await _rows_of(server, server.scope, view["name"])
        assert sorted((row["filename"], row["total"]) for row in rows) == [("1.pdf", 7), ("2.pdf", None)]
        assert_problem(await server.http.get(f"{path}/rows", params={"list": "items"}), 422, "invalid")


async def test_copy_in_a_stack_has_no_values_and_a_row_that_is_filled_is_never_a_copy(serve, clone):
    async with serve(with_worker=False) as server:
        body = {"name": "Bills", "columns": [{"name": "total", "type": "number"}]}
        stack = (await server.http.post("/api/stacks", json=body)).json()
        revid, path, table = UUID(stack["schema_revid"]), f"/api/stacks/{stack['id']}", f"/api/tables/{stack['id']}"
        documents = {
            day: document(day, {"total": total}, revid, sha256=f"{number:064}", is_completed=day != 12)
            for day, (number, total) in enumerate([(1, 5), (1, 5), *((n, n) for n in range(2, 11)), (11, 9000)], 1)
        }
        insert_documents(clone.owner_url, server.scope, documents.values())

        async def rows(**query: Any) -> dict[str, Any]:
            page = (await server.http.get(f"{table}/rows", params={"totals": True, **query})).json()
            states = {row["filename"]: (row["status"], bool(row["cells"])) for row in page["items"]}
            return {"states": states, "sum": sum(float(one["sum"]) for one in page["totals"]), **page}

        # The copy that was uploaded later is added, and read, first.
        for days in ([2], [*range(3, 13)], [1]):
            ids = [str(documents[day].id) for day in days]
            await server.http.post(f"{path}/documents", json={"document_ids": ids})
            page = await rows()
            assert page["states"]["2.pdf"] == ("done", True)
            assert page["sum"] == (5 if days == [2] else 5 + sum(range(2, 11)) + 9000)
        assert page["states"]["1.pdf"] == ("duplicate", False)
        (copy,) = (await rows(row_status="duplicate"))["items"]
        exported = (await server.http.get(f"{table}/export", params={"format": "json"})).json()
        assert {copy["duplicate_of"], exported[-1]["duplicate_of"]} == {str(documents[2].id)}
        lines = (await server.http.get(f"{table}/export", params={"row_status": "duplicate"})).text.splitlines()
        assert lines[1].split(",")[:4] == [str(documents[1].id), "1.pdf", "", "duplicate of 2.pdf"]
        await server.http.delete(f"{path}/documents/{documents[2].id}")
        assert (await rows())["states"]["1.pdf"] == ("done", True)
        # Neither a page past the end nor a filter by state changes what the table has.
        assert [(await rows(offset=offset, limit=1))["total"] for offset in (0, 10, 11, 500)] == [11] * 4
        for query in ({}, {"row_status": "incomplete"}):
            assert [mark["code"] for mark in (await rows(marks=True, **query))["marks"]] == ["outlier"]


async def test_parquet_has_the_names_of_the_view_and_exact_typed_values(serve, clone):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    async with serve(with_worker=False) as server:
        keys = {"exact": "number", "long": "number", "mixed": "number", "paid": "boolean", "filename": "string"}
        properties = {key: {"type": kind} for key, kind in keys.items()}
        properties |= {key: {"type": "string", "format": "date"} for key in ("day", "time")}
        schema = {"type": "object", "properties": properties | {"items": SCHEMA["properties"]["items"]}}
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": schema})).json()
        values = {"exact": 0.1, "long": 1, "mixed": 1.5, "paid": True, "filename": "=x", "day": "2026-01-31"}
        documents = [
            document(1, values | {"time": "2026-01-31T10:00", "items": [{"price": 7}]}, UUID(made["schema_revid"])),
            document(2, {"mixed": "2", "time": "2026-01-31"}, UUID(made["schema_revid"])),
        ]
        insert_documents(clone.owner_url, server.scope, documents)
        digits = {"exact": "12345678901234567890.123456789", "long": "0.1234567891"}
        with psycopg.connect(clone.owner_url) as conn:
            conn.execute("set session_replication_role = replica")
            for key, text in digits.items():
                conn.execute("update fields set text = %s, number = %s where pattern = %s", (text, Decimal(text), key))
            own = ("order-1", '{"cost_centre": "4711"}', documents[0].id)
            conn.execute("update documents set external_id = %s, metadata = %s where id = %s", own)

        async def export(**query: Any) -> Any:
            path = f"/api/tables/{made['id']}/export"
            answer = await server.http.get(path, params={"format": "parquet", "sort": "exact", **query})
            assert answer.headers["content-type"] == "application/vnd.apache.parquet"
            return parquet.read_table(pyarrow.BufferReader(answer.content))

        table = await export()
        types = {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}
        assert types == {
            **dict.fromkeys(("document_id", "extraction_id", "filename", "path", "filename_2"), "string"),
            "extraction_status": "string",
            "to_review": "int32",
            "exact": "decimal128(38, 9)",
            "long": "string",
            "mixed": "string",
            "paid": "bool",
            "day": "date32[day]",
            "time": "string",
            "external_id": "string",
            "metadata": "string",
        }
        first, second = table.to_pylist()
        assert first == {
            "document_id": str(documents[0].id),
            "extraction_id": str(documents[0].extraction_id),
            "filename": "1.pdf",
            "extraction_status": "completed",
            "to_review": 0,
            "path": None,
            "exact": Decimal(digits["exact"]),
            "long": digits["long"],
            "mixed": "1.5",
            "paid": True,
            "filename_2": "=x",
            "day": date(2026, 1, 31),
            "time": "2026-01-31T10:00",
            "external_id": "order-1",
            "metadata": '{"cost_centre": "4711"}',
        }
        assert (second["mixed"], second["exact"], second["time"]) == ("2", None, "2026-01-31")
        (line,) = (await export(list="items")).to_pylist()
        assert (line["path"], line["items_price"]) == ("items[0]", 7)
        assert (await export(filter="exact = 3")).num_rows == 0


async def test_parquet_without_its_package_is_refused(serve, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        answer = await server.http.get(f"/api/tables/{made['id']}/export", params={"format": "parquet"})
        assert_problem(answer, 501, "not_installed")


VIEWED = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "Total": {"type": "string"},
        "issueDate": {"type": "string", "format": "date"},
        "paid": {"type": "boolean"},
        "filename": {"type": "string"},
        'it\'s "odd"; drop table documents; --\n': {"type": "string"},
        "long " * 30: {"type": "string"},
        "long " * 29 + "er": {"type": "string"},
        "items": {
            "type": "array",
            "items": {
                "properties": {
                    "price": {"type": "number"},
                    "taxes": {"type": "array", "items": {"properties": {"rate": {"type": "number"}}}},
                }
            },
        },
    },
}


async def test_view_of_a_table_is_typed_and_follows_the_policies_of_its_reader(serve, clone, make_user):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": 'Über; "bills"', "schema": VIEWED})).json()
        *_, odd, long, longer, _ = VIEWED["properties"]
        items = [{"price": 0.1, "taxes": [{"rate": 19}, {"rate": 7}]}, {"price": 7}]
        values = {"total": 12.50, "Total": "twelve", "issueDate": "2026-01-31", "paid": False, "filename": "x"}
        documents = [
            document(1, values | {odd: "O", long: "L", longer: "M", "items": items}, UUID(made["schema_revid"])),
            document(2, {"total": "12.50", "issueDate": "soon", "paid": "true"}, UUID(made["schema_revid"])),
        ]
        insert_documents(clone.owner_url, server.scope, documents)
        path = f"/api/tables/{made['id']}/view"
        views = [
            (await server.http.get(path, params={"list": name} if name else {})).json()
            for name in (None, "items", "items[].taxes")
        ]
        assert [view["name"] for view in views] == [
            "records_über_bills", "records_über_bills_items", "records_über_bills_items_taxes",
        ]  # fmt: skip
        same = (await server.http.post("/api/schemas", json={"name": "über-bills", "schema": SCHEMA})).json()
        path = f"/api/tables/{same['id']}/view"
        other, renamed = [(await server.http.get(path, params=query)).json() for query in ({}, {"name": "bills_2"})]
        assert (other["name"], renamed["name"]) == ("records_über_bills", "bills_2")
        for name in ('b"; drop table documents', "B", "ü", "9", "b" * 64):
            assert_problem(await server.http.get(path, params={"name": name}), 422, "invalid")
        with psycopg.connect(clone.owner_url) as conn:
            for view in [*views, renamed]:
                conn.execute(view["sql"])
            # The view of another schema is not replaced.
            with pytest.raises(psycopg.errors.DuplicateTable), conn.transaction():
                conn.execute(other["sql"])
            kinds = conn.execute(
                "select column_name, data_type from information_schema.columns where table_name = 'records_über_bills'"
            ).fetchall()
        long_name = ("long_" * 13)[:63]
        assert dict(kinds) == {
            "document_id": "uuid",
            "extraction_id": "uuid",
            "filename": "text",
            "extraction_status": "text",
            "to_review": "integer",
            "filename_2": "text",
            "total": "numeric",
            "total_2": "text",
            "issue_date": "date",
            "paid": "boolean",
            "it_s_odd_drop_table_documents_n": "text",
            long_name: "text",
            f"{long_name[:61]}_2": "text",
        }
        stranger = await make_user()
        read = {
            scope: [await _rows_of(server, scope, view["name"]) for view in views] for scope in (server.scope, stranger)
        }
        assert read[stranger] == [[], [], []]
        bills, lines, taxes = read[server.scope]
        first, second = sorted(bills, key=lambda row: row["filename"])
        assert {name: value for name, value in first.items() if not name.endswith("_id")} == {
            "filename": "1.pdf",
            "extraction_status": "completed",
            "to_review": 0,
            "total": Decimal("12.5"),
            "total_2": "twelve",
            "issue_date": date(2026, 1, 31),
            "paid": False,
            "filename_2": "x",
            "it_s_odd_drop_table_documents_n": "O",
            long_name: "L",
            f"{long_name[:61]}_2": "M",
        }
        assert (first["document_id"], first["extraction_id"]) == (documents[0].id, documents[0].extraction_id)
        # Texts are not in columns of other types.
        assert {name for name, value in second.items() if value is not None} == {
            *("document_id", "extraction_id", "filename", "extraction_status", "to_review")
        }
        assert sorted((row["path"], row["items_price"], row["total"]) for row in lines) == [
            ("items[0]", Decimal("0.1"), Decimal("12.5")),
            ("items[1]", 7, Decimal("12.5")),
        ]
        assert sorted((row["path"], row["items_taxes_rate"], row["items_price"], row["total"]) for row in taxes) == [
            ("items[0].taxes[0]", 19, Decimal("0.1"), Decimal("12.5")),
            ("items[0].taxes[1]", 7, Decimal("0.1"), Decimal("12.5")),
        ]


async def _rows_of(server, scope, view: str) -> list[dict[str, Any]]:
    async with server.runtime.database.as_user(scope) as conn:
        return await (await conn.execute(SQL("select * from {}").format(Identifier(view)))).fetchall()


async def test_rows_are_filtered_by_their_status_and_by_properties_of_their_documents(serve, clone):
    async with serve(with_worker=False) as server:
        path = await table_path(server, clone.owner_url)
        changed = SCHEMA | {"properties": SCHEMA["properties"] | {"total": {"type": "string"}}}
        newest = (await server.http.patch(path.replace("tables", "schemas"), json={"schema": changed})).json()
        read = document(6, {"total": "9"}, UUID(newest["schema_revid"]), tags=("Paid", "2026"))
        insert_documents(clone.owner_url, server.scope, [read])

        async def statuses(**query: Any) -> dict[str, str]:
            rows = (await server.http.get(f"{path}/rows", params=query)).json()["items"]
            return {row["filename"]: row["status"] for row in rows}

        found = await statuses()
        assert set(found.values()) == {"done", "stale", "incomplete"}
        for status in ("done", "stale", "incomplete", "failed"):
            assert await statuses(row_status=status) == {name: one for name, one in found.items() if one == status}
        assert await statuses(row_status=["done", "stale", "incomplete"]) == found
        assert await statuses(filename="6.P") == await statuses(tag=["paid", "2026"]) == {"6.pdf": "done"}
        assert await statuses(tag=["paid", "other"]) == await statuses(filename="6", row_status="stale") == {}


async def test_unknown_schema_list_and_column_are_refused(serve):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        path = f"/api/tables/{made['id']}"
        assert_problem(await server.http.get(f"/api/tables/{uuid4()}/rows"), 404)
        for query in ({"list": "vendor"}, {"filter": "total >"}, {"limit": 501}, {"column": "total"}):
            assert_problem(await server.http.get(f"{path}/rows", params=query), 422)
        for query in ({"sort": "items[].price"}, {"filter": "totl > 1"}, {"filter": "items[].prise > 1"},
                      {"cell_status": "found", "column": "items"}):  # fmt: skip
            assert_problem(await server.http.get(f"{path}/rows", params=query), 422, "unknown_field")
        empty = (await server.http.get(f"{path}/rows", params={"filter": ["items[].price > 1", "total > 1"]})).json()
        assert (empty["items"], empty["total"]) == ([], 0)


async def test_rows_are_grouped_with_sums(serve, clone):
    async with serve(with_worker=False) as server:
        table = await table_path(server, clone.owner_url)
        path = f"{table}/groups"
        groups = (await server.http.get(path, params={"group_by": "currency"})).json()
        named = [(one["value"], one["rows"], one["to_review"]) for one in groups["items"]]
        assert (groups["total"], named) == (2, [("EUR", 2, 1), (None, 2, 0)])
        sums = [
            [(one["column"], one["currency"], float(one["sum"])) for one in group["totals"]]
            for group in groups["items"]
        ]
        assert sums == [[("total", "EUR", 19.5)], [("total", None, 1100)]]
        # The filter counts, and so do items as rows.
        few = (await server.http.get(path, params={"group_by": "currency", "filter": "total > 10"})).json()["items"]
        assert [(one["value"], one["rows"]) for one in few] == [("EUR", 1), (None, 2)]
        items = (await server.http.get(path, params={"group_by": "items[].name", "list": "items"})).json()["items"]
        assert [(one["value"], one["rows"], one["totals"][0]["column"]) for one in items] == [
            ("=B", 1, "items[].price"),
            ("A", 2, "items[].price"),
        ]
        assert_problem(await server.http.get(path, params={"group_by": "nothing"}), 422, "unknown_field")
        assert_problem(await server.http.get(path), 422)
        async with server.client() as stranger:
            assert_problem(await stranger.get(path, params={"group_by": "currency"}), 404)

        # The rows follow their groups, whatever the order within them.
        async def values(column, **query):
            rows = (await server.http.get(f"{table}/rows", params=query)).json()["items"]
            return [one["cells"][column]["value"] for one in rows]

        for query in (
            {"sort": "total"},
            {"sort": "total", "descending": True},
            {"sort": "currency", "descending": True},
        ):
            by_currency = {"group_by": "currency", **query}
            listed = (await server.http.get(path, params=by_currency)).json()["items"]
            in_groups = [one["value"] for one in listed for _ in range(one["rows"])]
            assert await values("currency", **by_currency) == in_groups
            inside = [(await values("total", **by_currency))[at] for at in (slice(0, 2), slice(2, 4))]
            if query["sort"] == "total":
                assert inside == [sorted(one, reverse=query.get("descending", False)) for one in inside]
        by_total = {"group_by": "total", "descending": True, "sort": "total"}
        assert [one["value"] for one in (await server.http.get(path, params=by_total)).json()["items"]] == [
            str(value) for value in await values("total", **by_total)
        ]


async def test_chosen_rows_are_returned_as_they_are_now_and_missing_ones_are_left_out(serve, clone):
    async with serve(with_worker=False) as server:
        path = f"{await table_path(server, clone.owner_url)}/rows"
        for query in ({}, {"list": "items"}):
            listed = (await server.http.get(path, params=query)).json()["items"]
            wanted = [{"document_id": one["document_id"], "path": one["path"]} for one in listed[1:]]
            gone = [{"document_id": str(uuid4())}, {"document_id": wanted[0]["document_id"], "path": "items[99]"}]
            found = (await server.http.post(path, params=query, json={"rows": wanted + gone})).json()["items"]
            key = lambda one: (one["document_id"], one["path"] or "")  # noqa: E731
            assert sorted(found, key=key) == sorted(listed[1:], key=key)
        assert_problem(await server.http.post(path, json={"rows": []}), 422)


async def test_views_are_saved_for_all_members(serve, clone):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        path = f"/api/tables/{made['id']}/views"
        settings = {"filter": [{"path": "total", "op": ">", "value": "100"}], "hidden": ["paid"]}
        view = (await server.http.post(path, json={"name": "Large", "settings": settings})).json()
        assert_problem(await server.http.post(path, json={"name": "large", "settings": {}}), 409, "name_taken")
        assert_problem(await server.http.post(path, json={"name": " x", "settings": {}}), 422)
        assert (await server.http.get(path)).json()["items"] == [view]
        renamed = (await server.http.patch(f"{path}/{view['id']}", json={"name": "Largest"})).json()
        assert (renamed["name"], renamed["settings"]) == ("Largest", settings)
        async with server.client() as stranger:
            for answer in (
                await stranger.get(path),
                await stranger.post(path, json={"name": "Mine", "settings": {}}),
                await stranger.patch(f"{path}/{view['id']}", json={"name": "Mine"}),
                await stranger.delete(f"{path}/{view['id']}"),
            ):
                assert_problem(answer, 404)
        assert (await server.http.delete(f"{path}/{view['id']}")).status_code == 204
        assert (await server.http.get(path)).json()["items"] == []


async def test_what_a_view_stores_and_how_many_a_table_has_is_limited(serve, clone):
    async with serve(with_worker=False) as server:
        made = (await server.http.post("/api/schemas", json={"name": "Invoice", "schema": SCHEMA})).json()
        path = f"/api/tables/{made['id']}/views"
        large = await server.http.post(path, json={"name": "Large", "settings": {"a": "x" * 19_900}})
        assert large.status_code == 201
        for value in ("x" * 20_000, "\0", {"\0": 1}, [1e300] * 100):
            refused = {"settings": {"a": value}}
            assert_problem(await server.http.post(path, json={"name": "No", **refused}), 422, "invalid")
            assert_problem(await server.http.patch(f"{path}/{large.json()['id']}", json=refused), 422, "invalid")
        sql(
            clone.owner_url,
            """insert into saved_views (org_id, schema_id, name, settings)
               select org_id, id, 'View ' || n, '{}' from schemas, generate_series(1, 199) as n where id = %s""",
            made["id"],
        )
        assert_problem(await server.http.post(path, json={"name": "One more", "settings": {}}), 409, "too_many")
